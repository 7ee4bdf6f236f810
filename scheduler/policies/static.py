"""Policies whose priorities change only with the statistics: HR, HNR, SRPT, Chain.

    HR     S/C̄          least mean response
    HNR    S/(C̄·T)      least mean slowdown (Sharaf eq. 3.4)
    SRPT   1/T
    Chain  slope of the lower envelope of the progress chart (`chain.py`): least memory

Operators are sorted once per `rank`; ready ones sit in a heap of ranks, so that a decision costs O(log n)
whatever the policy. An operator that went idle leaves the heap when it surfaces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush

from scheduler.network import NetworkEstimates
from scheduler.policies.protocol import NONE

Priorities = Callable[[NetworkEstimates], Sequence[float]]


class StaticPolicy:
    """Highest priority first, over ranks."""

    def __init__(self, priorities: Priorities, believed: NetworkEstimates) -> None:
        self._priorities = priorities
        self._is_ready = [False] * len(believed.estimates)
        self._in_heap = list(self._is_ready)
        self._heap: list[int] = []
        self.rank(believed)

    def rank(self, believed: NetworkEstimates) -> None:
        values = self._priorities(believed)
        self._order = sorted(range(len(values)), key=lambda operator: (-values[operator], operator))
        self._rank = [0] * len(values)
        for position, operator in enumerate(self._order):
            self._rank[operator] = position
        self._in_heap = list(self._is_ready)
        self._heap = [self._rank[operator] for operator, is_ready in enumerate(self._is_ready) if is_ready]
        heapify(self._heap)

    def ready(self, operator: int, head: float) -> None:
        self._is_ready[operator] = True
        if not self._in_heap[operator]:
            self._in_heap[operator] = True
            heappush(self._heap, self._rank[operator])

    def idle(self, operator: int) -> None:
        self._is_ready[operator] = False

    def pick(self, now: float) -> int:
        heap, order = self._heap, self._order
        while heap:
            operator = order[heap[0]]
            if self._is_ready[operator]:
                return operator
            heappop(heap)
            self._in_heap[operator] = False
        return NONE


def highest_rate(believed: NetworkEstimates) -> list[float]:
    """S/C̄; an operator that costs nothing comes before all others."""
    return [ratio(segment.selectivity, segment.cost_s) for segment in believed.segments]


def highest_normalized_rate(believed: NetworkEstimates) -> list[float]:
    return [ratio(segment.answers_per_ideal, segment.cost_s) for segment in believed.segments]


def shortest_ideal(believed: NetworkEstimates) -> list[float]:
    return [ratio(1.0, segment.ideal_s) for segment in believed.segments]


def ratio(over: float, under: float) -> float:
    return over / under if under > 0 else float("inf")
