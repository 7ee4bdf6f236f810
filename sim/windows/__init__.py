"""Periodic window queries in virtual time: Golab's schedules over shared synopses, with tables and a report.

Start with `periodic_run.py`. This package imports `scheduler.windows` and `sim.outcome`.
"""
