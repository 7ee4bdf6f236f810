"""Mirrors: which remote object is polled next, from change rates and uses.

Start with `poller.py`; `freshening.py` has the optimal frequencies. Imports `scheduler.ratios`.
"""
