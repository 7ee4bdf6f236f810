"""Waiting for what another process will bring about, instead of sleeping."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import ray

Found = TypeVar("Found")
# Long enough for a machine that does something else; a test that passes does not wait for it.
DEADLINE_S = 60.0
POLL_S = 0.02


def eventually(look: Callable[[], Found], what: str = "it") -> Found:
    """What `look` gives once it is true; who does not answer meanwhile, or is not there, counts as not yet."""
    until, last = time.monotonic() + DEADLINE_S, None
    while time.monotonic() < until:
        try:
            found = look()
            if found:
                return found
            last = repr(found)
        except (ray.exceptions.RayError, ValueError) as problem:
            last = repr(problem)
        time.sleep(POLL_S)
    raise AssertionError(f"{what} has not happened within {DEADLINE_S:g} s; last: {last}")
