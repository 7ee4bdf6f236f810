"""A clock that a test moves."""

from __future__ import annotations


class Clock:
    """A clock that moves when a test moves it."""

    now = 100.0

    def __call__(self) -> float:
        return self.now
