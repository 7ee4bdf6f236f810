"""Grafana dashboards as code: written as data (`boards`), rendered as Grafana's classic JSON (`render`), brought to a
Grafana (`push`, `grafana`)."""
