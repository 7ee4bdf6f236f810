"""What is left of a run when it is over, simulated or live: promises are checked and pages are made from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scheduler.capacity.core import ShareMove
from sim.series import ClassSeries


@dataclass(frozen=True)
class Outcome:
    """A result, and how the run came to it."""

    result: Mapping[str, Any]
    """What `sim.outcome.results` makes: the object that `-o json` prints."""
    description: str
    lanes: int
    series: Mapping[str, ClassSeries]
    moves: Sequence[ShareMove] = ()
    """Moves of shares, at times as in the series."""
    queries: Mapping[str, str] = field(default_factory=dict)
    """What each query computes, in words."""

    @property
    def classes(self) -> Sequence[Mapping[str, Any]]:
        classes: Sequence[Mapping[str, Any]] = self.result["classes"]
        return classes
