"""Simulated host of a class: cost models of operators, arrivals, queues and random generators.

Start with `simulated_host.py`. This package imports the decision makers (`scheduler`, `loadshed`) and `configs`.
"""
