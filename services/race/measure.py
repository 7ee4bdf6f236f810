"""Measuring on a shared machine: processor time of this thread, the best of several tries, ratios within one run."""

from __future__ import annotations

import gc
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

TRIES = 5
POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured figure beside what it is held against."""

    name: str
    value: float
    unit: str
    limit: float | None = None  # the most it should be; None: for orientation
    least: float | None = None  # the least it should be

    @property
    def met(self) -> bool:
        return (self.limit is None or self.value <= self.limit) and (
            self.least is None or self.value >= self.least
        )

    @property
    def ratio(self) -> float | None:
        """The figure over its bound: at most 1 for a limit, at least 1 for a least."""
        bound = self.limit if self.limit is not None else self.least
        return self.value / bound if bound else None


def seconds_each(work: Callable[[], object], times: int) -> float:
    """Processor-seconds of one call, the best of several tries of `times` calls: others can only slow it down."""
    best = float("inf")
    enabled = gc.isenabled()
    gc.disable()
    try:
        for _ in range(TRIES):
            began = time.thread_time()
            for _ in range(times):
                work()
            best = min(best, (time.thread_time() - began) / times)
    finally:
        if enabled:
            gc.enable()
    return best


def peak_rss_mb() -> float:
    """The most that this process had resident so far.

    getrusage counts what the parent had when it started this process as a peak of this one, so it is the last resort.
    """
    status = Path("/proc/self/status")
    if not status.is_file():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    lines = dict(line.split(":", 1) for line in status.read_text(encoding="utf-8").splitlines())
    return int(lines["VmHWM"].split()[0]) / 1024


def wait(look: Callable[[], bool], what: str, most_s: float) -> None:
    until = time.monotonic() + most_s
    while not look():
        if time.monotonic() > until:
            raise TimeoutError(f"no {what} within {most_s:g} s")
        time.sleep(POLL_S)
