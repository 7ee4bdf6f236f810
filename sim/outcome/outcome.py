"""Outcome of a finished run, simulated or live. Promises are checked on this outcome, and report pages are made from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scheduler.capacity.core import ShareMove
from sim.series import ClassSeries


@dataclass(frozen=True)
class Outcome:
    """Figures of a finished run, with its time series over load cycles and its moves of shares."""

    result: Mapping[str, Any]
    """Object that `-o json` prints, made by `sim.outcome.results`."""
    description: str
    lanes: int
    series: Mapping[str, ClassSeries]
    moves: Sequence[ShareMove] = ()
    """Moves of shares between classes; times are on the same clock as the time series."""
    queries: Mapping[str, str] = field(default_factory=dict)
    """Description of each query: what it computes, in words."""

    @property
    def classes(self) -> Sequence[Mapping[str, Any]]:
        classes: Sequence[Mapping[str, Any]] = self.result["classes"]
        return classes
