"""What is noticed of a unit whose class tunes itself: what `sim.lookahead` simulates it from, and what it is held against.

Everything is of the time since it was asked for last, so that what is measured and what is forecast are of the same input.
A unit of a class that says its policy notices nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from configs.policies import Automatic
from engine.explain import Line, explain
from engine.hosted import HostedClass
from loadshed.cycle import CycleEnded
from loadshed.responses import ResponseStatistics

# Load cycles whose arrivals are remembered.
CYCLES_KEPT = 64


@dataclass(frozen=True, slots=True)
class UnitNow:
    """A unit as it is."""

    lines: tuple[Line, ...]
    arrivals: Mapping[str, tuple[tuple[int, int], ...]]
    """By stream: tuples that were let in and batches in which they came, of the last load cycles, oldest first."""
    cycle_s: float
    capacity: float
    """Processors that it can spend."""
    train_max: int
    seen: ResponseStatistics
    """Of its answers."""
    queued: float
    """Tuples, on the mean."""


@dataclass
class Noticed:
    cycle_s: float
    train_max: int
    _arrivals: dict[str, deque[tuple[int, int]]] = field(init=False, default_factory=dict)
    _queued: int = field(init=False, default=0)
    _cycles: int = field(init=False, default=0)

    def follow(self, policy: object, hosted: HostedClass) -> None:
        """Answers are looked at from now on, or not any more."""
        if not isinstance(policy, Automatic):
            hosted.seen = None
        elif hosted.seen is None:
            hosted.notice()

    def cycle_ended(self, cycle: CycleEnded, keep: float, hosted: HostedClass) -> None:
        if hosted.seen is None:
            return
        for one in cycle.inputs:
            slots = self._arrivals.setdefault(one.stream, deque(maxlen=CYCLES_KEPT))
            slots.append((round(keep * one.offered), one.batches))
        self._queued += sum(node.tuples for node in hosted.runner.network.nodes)
        self._cycles += 1

    def now(self, hosted: HostedClass, capacity: float) -> UnitNow | None:
        """None of a class that says its policy."""
        if hosted.seen is None:
            return None
        found = UnitNow(
            tuple(explain(hosted.runner)),
            {stream: tuple(slots) for stream, slots in self._arrivals.items()},
            self.cycle_s,
            capacity,
            self.train_max,
            hosted.seen,
            self._queued / self._cycles if self._cycles else 0.0,
        )
        self._arrivals.clear()
        self._queued = self._cycles = 0
        hosted.notice()
        return found
