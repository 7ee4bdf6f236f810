"""Measurements on a machine that other programs use too: the processor time of this thread, from the best of several tries."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass

TRIES = 5
POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured figure, with the largest or smallest value that is accepted."""

    name: str
    value: float
    unit: str
    limit: float | None = None  # Largest accepted value; None if no value is too large.
    least: float | None = None  # Smallest accepted value; None if no value is too small.

    @property
    def met(self) -> bool:
        return (self.limit is None or self.value <= self.limit) and (
            self.least is None or self.value >= self.least
        )

    @property
    def ratio(self) -> float | None:
        """Value divided by `limit` if there is a limit, and otherwise divided by `least`.

        A figure is accepted if its ratio to `limit` is at most 1, or if its ratio to `least` is at least 1.
        """
        bound = self.limit if self.limit is not None else self.least
        return self.value / bound if bound else None


def seconds_each(work: Callable[[], object], times: int) -> float:
    """Return the processor-seconds of one call: the least of several tries, because other programs can slow a try down, never speed it up."""
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


def wait(look: Callable[[], bool], what: str, most_s: float) -> None:
    """Wait until `look` returns True; raise TimeoutError, which names `what`, after `most_s` seconds."""
    until = time.monotonic() + most_s
    while not look():
        if time.monotonic() > until:
            raise TimeoutError(f"the contestant sent no {what} within {most_s:g} s")
        time.sleep(POLL_S)
