"""Policies with priorities that change only when the statistics change: HR, HNR, SRPT, Chain.

Ready operators are in a heap by priority, so a decision costs O(log n). An entry of an operator that went idle or changed its
priority is removed when it reaches the top of the heap. Each row has a policy, its priority, and what the policy optimises:

    HR     S/C̄          least mean response
    HNR    S/(C̄·T)      least mean slowdown (Sharaf eq. 3.4)
    SRPT   1/T
    Chain  slope of the lower envelope of the progress chart (`chain.py`): least memory
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from heapq import heapify, heappop, heappush

from configs.classes.policies import Sharing
from scheduler.operators.network import Gain, NetworkEstimates
from scheduler.operators.policies.protocol import NONE

# Function that returns the priorities of the operators that it gets, in the same order.
Priorities = Callable[[NetworkEstimates, Collection[int]], Sequence[float]]


class StaticPolicy:
    """Policy that runs the operator with the highest priority."""

    def __init__(self, priorities: Priorities, believed: NetworkEstimates) -> None:
        self._priorities = priorities
        self._is_ready = [False] * len(believed.estimates)
        self.rank(believed)

    def rank(self, believed: NetworkEstimates) -> None:
        values = self._priorities(believed, range(len(believed.estimates)))
        # Valid heap entry of each operator; other entries in the heap are invalid.
        self._place = [(-value, operator) for operator, value in enumerate(values)]
        self._in_heap = list(self._is_ready)
        self._heap = [place for place, is_ready in zip(self._place, self._is_ready, strict=True) if is_ready]
        heapify(self._heap)

    def extend(self, believed: NetworkEstimates, changed: Collection[int]) -> None:
        more = range(len(self._is_ready), len(believed.estimates))
        self._is_ready += [False for _ in more]
        self._in_heap += [False for _ in more]
        self._place += [(0.0, operator) for operator in more]
        for operator, value in zip(changed, self._priorities(believed, changed), strict=True):
            self._place[operator] = (-value, operator)
            self._in_heap[operator] = self._is_ready[operator]
            if self._is_ready[operator]:
                heappush(self._heap, self._place[operator])

    def ready(self, operator: int, head: float) -> None:
        self._is_ready[operator] = True
        if not self._in_heap[operator]:
            self._in_heap[operator] = True
            heappush(self._heap, self._place[operator])

    def idle(self, operator: int) -> None:
        self._is_ready[operator] = False

    def pick(self, now: float) -> int:
        heap, places = self._heap, self._place
        while heap:
            place = heap[0]
            operator = place[1]
            if places[operator] is place:
                if self._is_ready[operator]:
                    return operator
                self._in_heap[operator] = False
            heappop(heap)
        return NONE


def gain_by_cost(gain: Gain, sharing: Sharing) -> Priorities:
    """Return priorities: gain divided by cost, as the policies HR, HNR and BSD use. An operator without cost has infinite priority.

    For a shared operator, gain and cost are taken from its priority-defining tree ("pdt"), from the sum of all segments behind
    it ("sum"), or from the best of these segments ("max").
    """

    def of_trees(believed: NetworkEstimates, operators: Collection[int]) -> list[float]:
        trees = believed.trees(gain)
        return [trees[operator].ratio for operator in operators]

    def of_sums(believed: NetworkEstimates, operators: Collection[int]) -> list[float]:
        segments = [believed.segments[operator] for operator in operators]
        return [ratio(getattr(segment, gain), segment.cost_s) for segment in segments]

    def of_best(believed: NetworkEstimates, operators: Collection[int]) -> list[float]:
        behind = paths_behind(believed, gain)
        return [max(ratio(*segment) for segment in behind[number]) for number in operators]

    by_sharing: dict[Sharing, Priorities] = {"pdt": of_trees, "sum": of_sums, "max": of_best}
    return by_sharing[sharing]


def paths_behind(believed: NetworkEstimates, gain: Gain) -> list[list[tuple[float, float]]]:
    """Return for each operator the gain and cost per input tuple of each path from the operator to a root."""
    boxes = believed.network.operators
    behind: list[list[tuple[float, float]]] = [[] for _ in boxes]
    for number in range(len(boxes) - 1, -1, -1):
        own = believed.estimates[number]
        behind[number] = [
            (own.selectivity * more, own.cost_s + own.selectivity * cost_s)
            for below in boxes[number].downstream
            for more, cost_s in behind[below]
        ] or [(getattr(believed.segments[number], gain), own.cost_s)]
    return behind


def shortest_ideal(believed: NetworkEstimates, operators: Collection[int]) -> list[float]:
    return [ratio(1.0, believed.segments[operator].ideal_s) for operator in operators]


def ratio(over: float, under: float) -> float:
    return over / under if under > 0 else float("inf")
