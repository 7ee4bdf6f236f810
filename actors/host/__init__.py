"""A class host: one process that runs units of classes, one at a time, and reads their input.

Start with `host.py` and `unit.py`; `host_actor.py` is the Ray actor, `ingest_thread.py` reads streams, `turn_client.py` runs granted slices.
"""
