"""Windows: panes that every window over one input shares, and the schedule of window ends.

Start with `panes.py`. Imports `engine.data`, `engine.plan` and `scheduler.windows`.
"""
