"""Shells around the pure ring: processes, sockets, threads, clocks; a few of them are Ray actors."""
