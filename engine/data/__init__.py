"""Tuples in memory: schemas, trains of columns, keys, sketches, event-time progress, and bounds on held state.

Start with `train.py`. Imports only `configs`.
"""
