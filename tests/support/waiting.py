"""Waits until another process has done something, instead of sleeping."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import ray

Found = TypeVar("Found")
# Longest wait in seconds, enough for a busy machine; a test that passes waits for less.
DEADLINE_S = 60.0
POLL_S = 0.02


def eventually(look: Callable[[], Found], what: str = "it", within_s: float = DEADLINE_S) -> Found:
    """Call `look` until its result is true, and return the result. If a process does not answer or is gone, try again."""
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
