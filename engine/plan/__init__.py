"""Logical plans of queries: what is computed, equivalent forms, pruning, and which streams a plan reads.

Start with `plan.py`. Imports `engine.data`.
"""
