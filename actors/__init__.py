"""Live shells around the pure ring: processes, sockets, threads and clocks; a few of them are Ray actors.

Start with `system.py`, which starts and finds a system; ARCHITECTURE.md names the actors. No other folder of the ring imports this one.
"""
