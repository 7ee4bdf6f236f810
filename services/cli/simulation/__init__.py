"""Parts of `weir sim`: periodic queries, and the recording and replay of runs.

The command is `commands/sim.py`.
"""
