"""Level 1: turns between query classes, as weighted round robin with slices and credit.

Start with `round_robin.py`. Imports nothing of the project.
"""
