"""The admission plan: whether a delay target can hold, and what other classes would lose.

Start with `planner.py`. Imports `sim` and `configs`.
"""
