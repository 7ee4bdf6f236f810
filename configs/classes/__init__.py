"""Settings of query classes: what is promised, and how a class runs, sheds and tunes itself.

Start with `priority_class.py`, which holds the one declaration behind every promise. Imports only `configs`.
"""
