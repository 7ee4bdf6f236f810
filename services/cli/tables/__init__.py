"""Tables, progress and log lines of the terminal.

Start with `sheet.py`, which lays out every table. Imports `services.watch` and `configs`.
"""
