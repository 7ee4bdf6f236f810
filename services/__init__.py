"""The outside world: command line, REST and console, ingest, results, metrics and dashboards.

Start with `cli/main.py` for commands and `api/app.py` for routes. Imports every other folder; none imports this one.
"""
