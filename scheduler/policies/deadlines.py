"""EDF/HR: deadlines while they can be met, rates when they cannot (Sharaf §3.5.2), over the operators of a class.

    D = head + deadline of the QoS graph      C = Σ c_k, k from the operator down to the root      (`outlook.py`)

Operators are in two lists: ListEDF has those that can still make it, t + C ≤ D, ListHR those that cannot. ListHR's head, the
one of the highest rate S/C̄, runs if ListEDF's, the one of the earliest deadline, can wait for it: t + C_HR < D_EDF. Else that
one runs. Earliest deadlines first is best as long as all can be met; once they cannot, it works on what is late already, and
highest rates get the most out before more are.

1. Who is in ListHR stays there until its head has changed, or what is believed of it.
2. A decision costs O(log n) of the operators that have input.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from heapq import heapify, heappop, heappush

from scheduler.network import NetworkEstimates
from scheduler.policies.outlook import outlooks
from scheduler.policies.protocol import NONE
from scheduler.policies.static import ratio

# A key, the operator, and the version of it that the key is of.
Entry = tuple[float, int, int]
# Entries a heap may have for each operator, most of which no longer count: those leave it when they surface.
STALE_MOST = 8


class DeadlineOrRatePolicy:
    def __init__(self, believed: NetworkEstimates) -> None:
        size = len(believed.estimates)
        self._head = [0.0] * size
        self._is_ready = [False] * size
        # An entry counts while its version is the operator's; each place in a heap is of one list.
        self._version = [0] * size
        self._is_late = [False] * size
        self.rank(believed)

    def rank(self, believed: NetworkEstimates) -> None:
        self._believe(believed)
        self._put_anew()

    def extend(self, believed: NetworkEstimates, changed: Collection[int]) -> None:
        more = len(believed.estimates) - len(self._head)
        self._head += [0.0] * more
        self._is_ready += [False] * more
        self._version += [0] * more
        self._is_late += [False] * more
        self._believe(believed)
        self._put(changed)

    def ready(self, operator: int, head: float) -> None:
        if not self._is_ready[operator] or self._head[operator] != head:
            self._is_ready[operator], self._head[operator] = True, head
            self._put((operator,))
            if len(self._by_deadline) > STALE_MOST * len(self._head):
                self._put_anew()

    def idle(self, operator: int) -> None:
        self._is_ready[operator] = False
        self._version[operator] += 1

    def pick(self, now: float) -> int:
        while (hurried := self._first(self._by_latest_start, late=False)) is not None:
            start, operator, version = hurried
            if now <= start:
                break
            self._is_late[operator] = True
            heappush(self._by_rate, (-self._rate[operator], operator, version))
        in_time = self._first(self._by_deadline, late=False)
        too_late = self._first(self._by_rate, late=True)
        if too_late is None:
            return NONE if in_time is None else in_time[1]
        if in_time is not None and now + self._cost_s[too_late[1]] >= in_time[0]:
            return in_time[1]
        return too_late[1]

    def _believe(self, believed: NetworkEstimates) -> None:
        found = outlooks(believed)
        self._deadline_s = [one.graph.deadline_s for one in found]
        self._cost_s = [one.graph.deadline_s - one.slack_s for one in found]
        self._rate = [ratio(one.selectivity, one.cost_s) for one in believed.segments]

    def _put_anew(self) -> None:
        self._by_deadline: list[Entry] = []
        self._by_latest_start: list[Entry] = []  # of the same operators
        self._by_rate: list[Entry] = []
        self._put(range(len(self._head)), list.append)
        heapify(self._by_deadline)
        heapify(self._by_latest_start)

    def _put(self, operators: Iterable[int], push: Callable[[list[Entry], Entry], object] = heappush) -> None:
        """Into ListEDF, those that have input; who cannot make it is found out when one is picked."""
        for operator in operators:
            self._version[operator] += 1
            self._is_late[operator] = False
            if self._is_ready[operator]:
                deadline, version = self._head[operator] + self._deadline_s[operator], self._version[operator]
                push(self._by_deadline, (deadline, operator, version))
                push(self._by_latest_start, (deadline - self._cost_s[operator], operator, version))

    def _first(self, heap: list[Entry], late: bool) -> Entry | None:
        while heap:
            _, operator, version = heap[0]
            if self._version[operator] == version and self._is_late[operator] == late:
                return heap[0]
            heappop(heap)
        return None
