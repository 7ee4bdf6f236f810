"""Results of a run: figures, checked promises, the verdict in words, and the HTML report.

Start with `outcome.py`. Imports `sim` and `configs`.
"""
