"""Logical plans of queries: their parts, equivalent plans, removal of unused columns, and the streams that a plan reads.

Start with `plan.py`. Imports `engine.data`.
"""
