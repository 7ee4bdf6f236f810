"""Basic services for all actors: names, folders, channels, wake-ups, processors of lanes, and the recorded event log.

Start with `names.py` and `run_dirs.py`. This package imports no other package of `actors`.
"""
