"""Two forms of `weir sim` beside the usual one: periodic queries, and the replay of a recorded run.

The command is `commands/sim.py`.
"""
