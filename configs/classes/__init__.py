"""Settings of query classes: what a class is promised, and how it runs, sheds load and tunes itself.

Start with `priority_class.py`, which declares what a class is promised. Imports only `configs`.
"""
