"""The demonstration: scenario, feeds, Prometheus, and the run on a live system.

Start with `live_run.py`; the command is `commands/demo.py`.
"""
