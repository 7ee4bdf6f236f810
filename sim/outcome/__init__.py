"""Results of a run: figures, checked promises, the verdict in words, and the HTML report.

Start with `outcome.py`. This package imports `sim` and `configs`.
"""
