"""Admission plan: forecast of which delay targets would hold after a change, and what other classes would lose.

Start with `planner.py`. This package imports `sim` and `configs`.
"""
