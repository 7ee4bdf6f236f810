"""EDF, and EDF/HR: deadlines while they can be met, rates when they cannot (Sharaf §3.5.2), over the operators of a class.

    D = head + deadline      C = Σ c_k, k from the operator down to the root      (`outlook.py`)

Results of windows have deadlines of their own, a pane after they fell due (`ScheduledOperator.slack_s`); other answers that of their QoS
graph. An operator with input is a task of `scheduler.windows.order`. EDF runs the one of the earliest deadline (Golab §4.1), late
or not. EDF/HR has two lists: ListEDF has those that can still make it, t + C ≤ D, ListHR
those that cannot. ListHR's head, the one of the highest rate S/C̄, runs if ListEDF's, the one of the earliest deadline, can wait
for it: t + C_HR < D_EDF. Else that one runs. Earliest deadlines first is best as long as all can be met; once they cannot, it works on what
is late already, and highest rates get the most out before more are.

1. Who is in ListHR stays there until its head has changed, or what is believed of it.
2. A decision costs O(log n) of the operators that have input.
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
    """What waits at an operator."""

    tie: int
    """Its number."""
    rate: float = 0.0
    cost: float = 0.0
    within_s: float = 0.0
    head: float = nan
    deadline_s: float = nan
    place: int = NOWHERE
    is_ready: bool = False


class DeadlinePolicy:
    """By one of the orders of tasks that go by deadlines."""

    def __init__(self, order: Literal["edf", "edf-hr"], believed: NetworkEstimates) -> None:
        self._by = order
        self._works = [Work(number) for number in range(len(believed.estimates))]
        self.rank(believed)

    def rank(self, believed: NetworkEstimates) -> None:
        self._believe(believed)
        self._order: TaskOrder[Work] = build_order(self._by)
        ready = [work for work in self._works if work.is_ready]
        for work in ready:
            work.deadline_s = work.head + work.within_s
        self._order.fill(ready)

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
