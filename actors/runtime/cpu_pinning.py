"""Which processor cores are lanes, and keeping threads on them or off them.

The last `lanes` cores that this process may use are lanes; everything else runs on the others. An exchange between
dispatcher and host is a serial chain, one of them always waits for the other: on one core the hand-over is a context
switch, on two it wakes a halted core, which takes longer, most of all in a virtual machine. So the dispatcher's loop and
the hosts' class threads stay on the lane's core, and all other threads stay off it.

A thread inherits the cores of the one that starts it: keep a process off the lanes first, and let a thread that is pinned
to a lane start no others. Where pinning cannot work, nothing is pinned and `why_not` says so.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_THREADS = Path("/proc/self/task")


@dataclass(frozen=True, slots=True)
class Cores:
    """Lane `n` is the core `lanes[n]`; both are empty if threads go where the system puts them."""

    lanes: tuple[int, ...] = ()
    others: tuple[int, ...] = ()
    why_not: str = ""


def cores_of_process() -> frozenset[int]:
    """The cores this thread may use; ask before anything is pinned."""
    return frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else frozenset()


def lane_cores(lanes: int, available: Collection[int]) -> Cores:
    if not available:
        return Cores(why_not="this system cannot pin threads")
    if lanes >= len(available):
        return Cores(why_not=f"{lanes} lanes leave nothing of {len(available)} cores for the rest")
    ordered = tuple(sorted(available))
    return Cores(lanes=ordered[-lanes:], others=ordered[:-lanes])


def keep_process_off(cores: Cores) -> Cores:
    """Every thread of this process off the lanes. What holds from now on: `cores`, or why nothing is pinned."""
    if not cores.lanes:
        return cores
    try:
        for thread in _THREADS.iterdir():
            with suppress(ProcessLookupError):  # it has ended
                os.sched_setaffinity(int(thread.name), cores.others)
    except OSError as problem:
        return _refused(problem)
    return cores


def pin_this_thread(cores: Cores, lane: int) -> Cores:
    """The calling thread onto the lane. What holds from now on, as above."""
    if not cores.lanes:
        return cores
    try:
        os.sched_setaffinity(0, cores.lanes[lane : lane + 1])
    except OSError as problem:
        return _refused(problem)
    return cores


def _refused(problem: OSError) -> Cores:
    return Cores(why_not=f"the system refuses to pin threads: {problem.strerror}")
