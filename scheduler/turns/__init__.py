"""Level 1: turns between query classes, as weighted round robin with slices and credit.

Start with `round_robin.py`. This package imports no other module of the project.
"""
