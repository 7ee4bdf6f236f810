"""LQF: longest queue first. The policy needs no estimates, so it works before any measurement.

1. The policy picks the ready operator with the most waiting tuples; among equals, the lowest number. The number of tuples is the
   one reported last, or 1 if none was reported.
2. A decision is O(log n) amortised, and the heap has at most twice as many entries as there are operators.
"""

from __future__ import annotations

from collections.abc import Collection
from heapq import heapify, heappop, heappush

from scheduler.operators.network import NetworkEstimates
from scheduler.operators.policies.protocol import NONE


class LongestQueuePolicy:
    """Policy that runs the operator with the most waiting tuples."""

    def __init__(self, operators: int) -> None:
        self._pending = [1] * operators
        self._is_ready = [False] * operators
        # Operators by falling queue length. An entry with an outdated length is skipped.
        self._heap: list[tuple[int, int]] = []

    def rank(self, believed: NetworkEstimates) -> None:
        """Do nothing: the policy uses no statistics."""

    def extend(self, believed: NetworkEstimates, changed: Collection[int]) -> None:
        more = len(believed.estimates) - len(self._pending)
        self._pending += [1] * more
        self._is_ready += [False] * more

    def pending(self, operator: int, tuples: int) -> None:
        if tuples != self._pending[operator]:
            self._pending[operator] = tuples
            if self._is_ready[operator]:
                self._put(operator)

    def ready(self, operator: int, head: float) -> None:
        if not self._is_ready[operator]:
            self._is_ready[operator] = True
            self._put(operator)

    def idle(self, operator: int) -> None:
        self._is_ready[operator] = False
        self._pending[operator] = 1

    def pick(self, now: float) -> int:
        while self._heap:
            tuples, operator = self._heap[0]
            if self._is_ready[operator] and -tuples == self._pending[operator]:
                return operator
            heappop(self._heap)
        return NONE

    def _put(self, operator: int) -> None:
        heappush(self._heap, (-self._pending[operator], operator))
        if len(self._heap) > 2 * len(self._pending):
            self._heap = [
                (-tuples, number) for number, tuples in enumerate(self._pending) if self._is_ready[number]
            ]
            heapify(self._heap)
