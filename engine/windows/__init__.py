"""Windows: panes that all windows over one input share, and the schedule of window ends.

Start with `panes.py`. Imports `engine.data`, `engine.plan` and `scheduler.windows`.
"""
