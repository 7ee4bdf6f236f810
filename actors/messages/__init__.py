"""Messages between actors: units and their reports, turns, and the messages that producers and readers exchange with gateways.

Start with `unit_messages.py`. This package imports only `actors.runtime` and `actors.log`.
"""
