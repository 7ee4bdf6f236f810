"""The dispatcher of a node: gives turns to hosts.

Start with `turn_loop.py`; `dispatcher_actor.py` is the Ray actor around it.
"""
