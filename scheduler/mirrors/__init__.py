"""Mirrors: choice of the remote object to poll next, from how often each object changes and how often queries use it.

Start with `poller.py`; `freshening.py` has the optimal frequencies. This package imports `scheduler.ratios`.
"""
