"""The policies that look at no statistics: round robin and first come, first served."""

from __future__ import annotations

from collections.abc import Collection
from heapq import heappop, heappush

from scheduler.operators.network import NetworkEstimates
from scheduler.operators.policies.protocol import NONE


class RoundRobinPolicy:
    """Cyclic order of operator numbers; each ready operator once a cycle.

    Two heaps, the numbers still to come in this cycle and those of the next, make a step O(log n).
    """

    def __init__(self, operators: int) -> None:
        self._is_ready = [False] * operators
        self._in_heap = [False] * operators
        self._this: list[int] = []
        self._next: list[int] = []
        self._last = NONE

    def rank(self, believed: NetworkEstimates) -> None:
        """Statistics do not matter here."""

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
                # It stays ready until the runner says otherwise: its next place is in the cycle to come.
                self._in_heap[operator] = True
                heappush(self._next, operator)
                return operator
        return NONE


class FirstComeFirstServedPolicy:
    """The operator with the oldest head tuple; ties to the lower operator number."""

    def __init__(self, operators: int) -> None:
        self._head: list[float | None] = [None] * operators
        self._heap: list[tuple[float, int]] = []

    def rank(self, believed: NetworkEstimates) -> None:
        """Statistics do not matter here."""

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
