"""Periodic queries in virtual time: Golab's schedules over shared synopses, with tables and report.

Start with `periodic_run.py`. Imports `scheduler.windows` and `sim.outcome`.
"""
