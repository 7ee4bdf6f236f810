"""The dispatcher of a node: grants turns on the node's lanes to class hosts.

Start with `turn_loop.py`; `dispatcher_actor.py` is the Ray actor around it.
"""
