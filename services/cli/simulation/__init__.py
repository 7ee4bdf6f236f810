"""Two more forms of `weir sim`: periodic queries, and the replay of a recorded run.

The command is `commands/sim.py`.
"""
