"""Simulator: runs the schedulers and load managers of Weir in virtual time, with cost models instead of operators.

Start with `simulation.py`: `Simulation.run` is the main loop. `replay.py` repeats the decisions of a recorded run of a live
system.
"""
