"""Everything that users and other programs call: command line, REST API, console, ingest, results, metrics and dashboards.

Start with `cli/main.py` for commands and `api/app.py` for routes. This package imports all others; only `bench` imports it.
"""
