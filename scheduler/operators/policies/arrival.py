"""Policies that use no statistics: round robin, and first come first served."""

from __future__ import annotations

from collections.abc import Collection
from heapq import heappop, heappush

from scheduler.operators.network import NetworkEstimates
from scheduler.operators.policies.protocol import NONE


class RoundRobinPolicy:
    """Policy that runs ready operators in the cyclic order of their numbers, each once per cycle.

    One heap has the operators of the current cycle, and another heap those of the next cycle. A decision takes O(log n).
    """

    def __init__(self, operators: int) -> None:
        self._is_ready = [False] * operators
        self._in_heap = [False] * operators
        self._this: list[int] = []
        self._next: list[int] = []
        self._last = NONE

    def rank(self, believed: NetworkEstimates) -> None:
        """Do nothing: the policy uses no statistics."""

    def extend(self, believed: NetworkEstimates, changed: Collection[int]) -> None:
        more = [False] * (len(believed.estimates) - len(self._is_ready))
        self._is_ready += more
        self._in_heap += more

    def ready(self, operator: int, head: float) -> None:
        self._is_ready[operator] = True
        if not self._in_heap[operator]:
            self._in_heap[operator] = True
            heappush(self._this if operator > self._last else self._next, operator)

    def idle(self, operator: int) -> None:
        self._is_ready[operator] = False

    def pick(self, now: float) -> int:
        while self._this or self._next:
            if not self._this:
                self._this, self._next = self._next, self._this
                self._last = NONE
            operator = heappop(self._this)
            self._in_heap[operator] = False
            if self._is_ready[operator]:
                self._last = operator
                # The operator stays ready until `idle` is called, so it is put into the next cycle.
                self._in_heap[operator] = True
                heappush(self._next, operator)
                return operator
        return NONE


class FirstComeFirstServedPolicy:
    """Policy that runs the operator with the oldest waiting tuple. If tuples are equally old, the lowest operator number wins."""

    def __init__(self, operators: int) -> None:
        self._head: list[float | None] = [None] * operators
        self._heap: list[tuple[float, int]] = []

    def rank(self, believed: NetworkEstimates) -> None:
        """Do nothing: the policy uses no statistics."""

    def extend(self, believed: NetworkEstimates, changed: Collection[int]) -> None:
        self._head += [None] * (len(believed.estimates) - len(self._head))

    def ready(self, operator: int, head: float) -> None:
        if self._head[operator] != head:
            self._head[operator] = head
            heappush(self._heap, (head, operator))

    def idle(self, operator: int) -> None:
        self._head[operator] = None

    def pick(self, now: float) -> int:
        heap = self._heap
        while heap:
            head, operator = heap[0]
            if self._head[operator] == head:
                return operator
            heappop(heap)
        return NONE
