"""What every actor needs of its machine: names, folders, channels, wake-ups, processor cores, and the recorded event log.

Start with `names.py` and `run_dirs.py`. Imports nothing else of `actors`.
"""
