"""Metrics of the running system for Prometheus: families, collector, exporter, and a Prometheus started for demos."""
