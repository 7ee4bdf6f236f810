"""Capacity of classes: shares that are lent, borrowed and reclaimed, and the placement of shards on nodes.

Start with `core.py`, the coordinator's core; `redistribution.py` has DILoS's rule. This package imports `scheduler.ratios`.
"""
