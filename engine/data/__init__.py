"""Tuples in memory: schemas, trains of columns, keys, sketches, the progress of event time, and limits of the state that operators hold.

Start with `train.py`. Imports only `configs`.
"""
