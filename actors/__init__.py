"""Live shells around the pure ring: processes, sockets, threads and clocks. A few of the processes are Ray actors.

Start with `system.py`, which starts and finds a system; ARCHITECTURE.md names the actors. `engine/`, `loadshed/` and `scheduler/` do not import `actors/`.
"""
