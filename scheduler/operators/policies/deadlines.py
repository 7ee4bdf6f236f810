"""Policies EDF and EDF/HR for the operators of a class: by deadline while deadlines can be met, otherwise by rate (Sharaf §3.5.2).
The deadline of a window's result is one pane after it became due (`ScheduledOperator.slack_s`); other answers have the deadline of
their QoS graph.

    D = head + deadline      C = Σ c_k, k from the operator down to the root      (`outlook.py`)

An operator with input is a task of `scheduler.windows.order`, which describes both orders; the rate of a task is S/C̄. EDF is
optimal while all deadlines can be met. Under overload EDF works on tasks that are late already, whereas the highest rates finish
most answers before others become late.

1. A late task stays ordered by its rate until its oldest tuple or its estimates change.
2. A decision costs O(log n) for n operators with input.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from math import nan
from typing import Literal

from scheduler.operators.network import NetworkEstimates, ScheduledOperator
from scheduler.operators.policies.outlook import by_graph, outlooks
from scheduler.operators.policies.protocol import NONE
from scheduler.operators.policies.static import ratio
from scheduler.windows.order import NOWHERE, TaskOrder, build_order


@dataclass(slots=True, eq=False)
class Work:
    """Task of an operator with its rate, cost and deadline."""

    tie: int
    """Number of the operator."""
    rate: float = 0.0
    cost: float = 0.0
    within_s: float = 0.0
    head: float = nan
    deadline_s: float = nan
    place: int = NOWHERE
    is_ready: bool = False


class DeadlinePolicy:
    """Policy that picks operators in the order EDF or EDF/HR, both of which use deadlines."""

    def __init__(self, order: Literal["edf", "edf-hr"], believed: NetworkEstimates) -> None:
        self._by = order
        self._works = [Work(number) for number in range(len(believed.estimates))]
        self.rank(believed)

    def rank(self, believed: NetworkEstimates) -> None:
        self._believe(believed)
        self._order: TaskOrder[Work] = build_order(self._by)
        self._put(self._works)

    def extend(self, believed: NetworkEstimates, changed: Collection[int]) -> None:
        self._works += [Work(number) for number in range(len(self._works), len(believed.estimates))]
        self._believe(believed)
        self._put(self._works[number] for number in changed)

    def ready(self, operator: int, head: float) -> None:
        work = self._works[operator]
        if not work.is_ready or work.head != head:
            work.is_ready, work.head = True, head
            self._put((work,))

    def idle(self, operator: int) -> None:
        work = self._works[operator]
        work.is_ready, work.place = False, NOWHERE

    def pick(self, now: float) -> int:
        work = self._order.head(now)
        return NONE if work is None else work.tie

    def _believe(self, believed: NetworkEstimates) -> None:
        every = outlooks(believed, due_within)
        for work, outlook, segment in zip(self._works, every, believed.segments, strict=True):
            work.within_s = outlook.deadline_s
            work.cost = outlook.deadline_s - outlook.slack_s
            work.rate = ratio(segment.selectivity, segment.cost_s)

    def _put(self, works: Iterable[Work]) -> None:
        for work in works:
            if work.is_ready:
                work.deadline_s = work.head + work.within_s
                self._order.put(work)


def due_within(root: ScheduledOperator) -> float:
    return by_graph(root) if root.slack_s is None else root.slack_s
