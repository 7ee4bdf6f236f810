"""Messages between actors: units and their reports, turns, and what producers and readers exchange with gateways.

Start with `unit_messages.py`. Imports `actors.runtime` and `actors.log`.
"""
