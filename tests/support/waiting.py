"""Functions that wait until another process has done its work, instead of sleeping for a fixed time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import ray

Found = TypeVar("Found")
# Maximum seconds of a wait, which is enough for a busy machine. A passing test waits for a shorter time.
DEADLINE_S = 60.0
POLL_S = 0.02


def eventually(look: Callable[[], Found], what: str = "it", within_s: float = DEADLINE_S) -> Found:
    """Call `look` until its result is true, and return the result. The call is repeated if a process does not answer or is gone."""
    until, last = time.monotonic() + within_s, None
    while time.monotonic() < until:
        try:
            found = look()
            if found:
                return found
            last = repr(found)
        except (ray.exceptions.RayError, ValueError) as problem:
            last = repr(problem)
        time.sleep(POLL_S)
    raise AssertionError(f"{what} has not happened within {within_s:g} s; last: {last}")
