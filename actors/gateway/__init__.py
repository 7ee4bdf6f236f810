"""The gateway of a node: accepts batches from producers, keeps them in the streams' logs, and informs readers.

Start with `gateway_loop.py` and `streams.py`; `gateway_actor.py` is the Ray actor, and `producer.py` the client of producers.
"""
