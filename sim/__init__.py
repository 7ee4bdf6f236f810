"""Virtual time: the schedulers and load managers of the pure ring, driven over cost models by an event heap.

Start with `simulation.py`: its `run` is the main loop. `replay.py` repeats the decisions of a recorded live run.
"""
