"""Assignment of processors to lanes, and pinning of threads to these processors.

The last `lanes` processors that this process may use are lanes; everything else runs on the other processors. While a dispatcher
and a host exchange messages, one of the two always waits for the other. On one processor, the hand-over is a context switch. On two
processors it wakes a halted processor, which takes longer, especially in a virtual machine. So the dispatcher's loop and the hosts'
class threads are pinned to the lane's processor, and all other threads are kept off this processor.

A thread inherits the processors of the thread that starts it. Therefore call `keep_process_off` first, and start no threads from a
thread that is pinned to a lane. If pinning does not work, nothing is pinned and `why_not` has the reason.
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
    """Processors of the lanes and of everything else: lane `n` runs on processor `lanes[n]`. Without pinning, both are empty."""

    lanes: tuple[int, ...] = ()
    others: tuple[int, ...] = ()
    why_not: str = ""


def cores_of_process() -> frozenset[int]:
    """Return the processors that this thread may use. Call this function before any thread is pinned."""
    return frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else frozenset()


def lane_cores(lanes: int, available: Collection[int]) -> Cores:
    if not available:
        return Cores(why_not="this system cannot pin threads")
    if lanes >= len(available):
        return Cores(why_not=f"{lanes} lanes leave no core for other work: there are {len(available)} cores")
    ordered = tuple(sorted(available))
    return Cores(lanes=ordered[-lanes:], others=ordered[:-lanes])


def keep_process_off(cores: Cores) -> Cores:
    """Keep all threads of this process off the lanes. Return `cores`, or an object with the reason why nothing is pinned."""
    if not cores.lanes:
        return cores
    try:
        for thread in _THREADS.iterdir():
            with suppress(ProcessLookupError):  # The thread has ended since the folder was listed.
                os.sched_setaffinity(int(thread.name), cores.others)
    except OSError as problem:
        return _refused(problem)
    return cores


def pin_this_thread(cores: Cores, lane: int) -> Cores:
    """Pin the calling thread to a lane. Return `cores`, or an object with the reason why nothing is pinned."""
    if not cores.lanes:
        return cores
    try:
        os.sched_setaffinity(0, cores.lanes[lane : lane + 1])
    except OSError as problem:
        return _refused(problem)
    return cores


def _refused(problem: OSError) -> Cores:
    return Cores(why_not=f"the system refuses to pin threads: {problem.strerror}")
