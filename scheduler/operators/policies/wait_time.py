"""Policies with priorities that grow with the waiting time of the oldest tuple: LSF, BRT, BSD.

The priority of an operator is a factor φ, which depends on costs and selectivities, times W, the waiting time of its oldest tuple. Each
row has a policy, its φ, and what the policy optimises:

    LSF  φ = 1/T           least maximum slowdown
    BRT  φ = S/C̄           least ℓ2 of response (Sharaf eq. 3.8)
    BSD  φ = S/(C̄·T²)      least ℓ2 of slowdown (Sharaf eq. 3.7)

`WaitingPolicy` evaluates every ready operator. `PrunedPolicy` finds the same operator by Fagin's method, which goes down two sorted
lists until no operator further down can have a higher priority. `ClusteredPolicy` is approximate: it puts operators with φ in
[ε^i, ε^(i+1)) into one cluster ordered by age, and compares one candidate per cluster (Sharaf §3.3.2). A decision then does not
depend on the number of operators; with 12 clusters this costs about 5% of the objective. Two options change it: with clustered
processing, all operators of the chosen cluster with the same oldest tuple run after one decision. With uniform clustering, the
baseline, clusters span equal differences of φ instead of equal ratios, so all small φ are in one cluster.

`looked` is the number of priorities that the last pick compared, which the simulator may charge as processor time.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Collection
from heapq import heapify, heappop, heappush

import numpy as np

from configs.classes.policies import PrioritySearch
from scheduler.operators.network import NetworkEstimates
from scheduler.operators.policies.arrival import FirstComeFirstServedPolicy
from scheduler.operators.policies.protocol import NONE
from scheduler.operators.policies.static import Priorities

# Seconds added to every waiting time. Without them, the priorities of all operators with tuples that have just arrived would be 0.
# LEAST_WAIT_S is added to a difference of times. If it were added to a time in seconds since 1970, rounding would remove it.
LEAST_WAIT_S = 1e-9
# Limits of the factor φ in a priority (φ · waiting time). Without limits, operators without cost or output could have the priority NaN.
SMALLEST_PHI, LARGEST_PHI = 1e-200, 1e200
NEVER = math.inf


class WaitingPolicy:
    """Policy that computes the priorities of all ready operators, and runs the operator with the highest priority."""

    def __init__(self, phi: Priorities, believed: NetworkEstimates) -> None:
        self._phi_of = phi
        size = len(believed.estimates)
        self._ready_count = 0
        # The arrival time of an operator without input is infinity. Its priority is thus −∞, which is never the highest.
        self._head = np.full(size, NEVER)
        self._value = np.empty(size)
        self._phi = np.empty(size)
        self.looked = 0
        self.rank(believed)

    def rank(self, believed: NetworkEstimates) -> None:
        self._set_phi(believed, range(len(believed.estimates)))

    def extend(self, believed: NetworkEstimates, changed: Collection[int]) -> None:
        more = len(believed.estimates) - len(self._head)
        self._head = np.concatenate([self._head, np.full(more, NEVER)])
        self._phi = np.concatenate([self._phi, np.empty(more)])
        self._value = np.empty(len(self._head))
        self._set_phi(believed, changed)

    def _set_phi(self, believed: NetworkEstimates, operators: Collection[int]) -> None:
        values = np.asarray(self._phi_of(believed, operators), dtype=float)
        self._phi[list(operators)] = np.clip(values, SMALLEST_PHI, LARGEST_PHI)

    def ready(self, operator: int, head: float) -> None:
        self._ready_count += self._head.item(operator) == NEVER
        self._head[operator] = head

    def idle(self, operator: int) -> None:
        self._ready_count -= self._head.item(operator) != NEVER
        self._head[operator] = NEVER

    def pick(self, now: float) -> int:
        self.looked = self._ready_count
        if not self._ready_count:
            return NONE
        value = self._value
        np.subtract(now, self._head, out=value)
        np.add(value, LEAST_WAIT_S, out=value)
        np.multiply(value, self._phi, out=value)
        return int(value.argmax())


class PrunedPolicy:
    """Policy that finds the operator with the highest priority without computing all priorities, by Fagin's method (Sharaf §3.3.2.2).

    The ready operators are in two lists: by the factor φ, and by the age of the oldest tuple. The next operator of each list is examined
    until no operator further down can have a higher priority. Among equals, the first operator found wins.
    """

    def __init__(self, phi: Priorities, believed: NetworkEstimates) -> None:
        self._phi_of = phi
        self._head = [NEVER] * len(believed.estimates)
        self._by_age: list[tuple[float, int]] = []
        self.looked = 0
        self.rank(believed)

    def rank(self, believed: NetworkEstimates) -> None:
        self._phi = [0.0] * len(believed.estimates)
        self._believe(believed, range(len(believed.estimates)))

    def extend(self, believed: NetworkEstimates, changed: Collection[int]) -> None:
        more = len(believed.estimates) - len(self._head)
        self._head += [NEVER] * more
        self._phi += [0.0] * more
        self._believe(believed, changed)

    def _believe(self, believed: NetworkEstimates, operators: Collection[int]) -> None:
        for operator, value in zip(operators, self._phi_of(believed, operators), strict=True):
            self._phi[operator] = min(max(value, SMALLEST_PHI), LARGEST_PHI)
        self._by_phi = sorted((-self._phi[operator], operator) for _, operator in self._by_age)

    def ready(self, operator: int, head: float) -> None:
        before = self._head[operator]
        if before == head:
            return
        if before == NEVER:
            insort(self._by_phi, (-self._phi[operator], operator))
        else:
            self._leave(self._by_age, (before, operator))
        self._head[operator] = head
        insort(self._by_age, (head, operator))

    def idle(self, operator: int) -> None:
        head = self._head[operator]
        if head != NEVER:
            self._leave(self._by_age, (head, operator))
            self._leave(self._by_phi, (-self._phi[operator], operator))
            self._head[operator] = NEVER

    def _leave(self, places: list[tuple[float, int]], place: tuple[float, int]) -> None:
        del places[bisect_left(places, place)]

    def pick(self, now: float) -> int:
        heads, phis = self._head, self._phi
        best, chosen, self.looked = -math.inf, NONE, 0
        waited = now + LEAST_WAIT_S  # `waited` minus the arrival time of a tuple is the tuple's waiting time.
        for (minus_phi, first), (head, other) in zip(self._by_phi, self._by_age, strict=True):
            self.looked += 2
            for operator in (first, other):
                value = phis[operator] * (now - heads[operator] + LEAST_WAIT_S)
                if value > best:
                    best, chosen = value, operator
            # If the clock has jumped back, waiting times may be negative. The search continues, because later priorities may be higher.
            if best >= 0 and best >= -minus_phi * (waited - head):
                break
        return chosen


class ClusteredPolicy:
    """Policy that divides operators into clusters of similar priority, and compares only the longest-waiting operators of the clusters."""

    def __init__(self, phi: Priorities, settings: PrioritySearch, believed: NetworkEstimates) -> None:
        self._phi_of = phi
        self._clusters = settings.clusters
        self._uniform = settings.clustering == "uniform"
        self._together = settings.processing == "clustered"
        # Operators that still have to run because of the last decision, and the arrival time of their common oldest tuple.
        self._batch: list[int] = []
        self._batch_head = NEVER
        self._oldest = (
            FirstComeFirstServedPolicy(len(believed.estimates)) if settings.search == "fagin" else None
        )
        self.looked = 0
        # Arrival time of each operator's oldest tuple, NEVER without input. A heap entry with another arrival time is invalid.
        self._head = [NEVER] * len(believed.estimates)
        self.rank(believed)

    def rank(self, believed: NetworkEstimates) -> None:
        # Unless clustering is uniform, clusters are equal parts of a logarithmic scale of φ, the factor of an operator's priority.
        phi = self._phi_of(believed, range(len(believed.estimates)))
        values = [min(max(value, SMALLEST_PHI), LARGEST_PHI) for value in phi]
        if not self._uniform:
            values = [math.log(value) for value in values]
        low, high = min(values), max(values)
        width = (high - low) / self._clusters if high > low else 1.0
        number = [min(int((value - low) / width), self._clusters - 1) for value in values]
        self._batch = []
        used = sorted(set(number), reverse=True)
        place = {cluster: position for position, cluster in enumerate(used)}
        self._queues: list[list[tuple[float, int]]] = [[] for _ in used]
        self._queue_of = [self._queues[place[cluster]] for cluster in number]
        self._by_pseudo = [
            (low + width * cluster if self._uniform else math.exp(low + width * cluster), queue)
            for cluster, queue in zip(used, self._queues, strict=True)
        ]
        for operator, head in enumerate(self._head):
            if head != NEVER:
                self._queue_of[operator].append((head, operator))
        for queue in self._queues:
            heapify(queue)

    def extend(self, believed: NetworkEstimates, changed: Collection[int]) -> None:
        # Clusters are parts of the range of all operators' figures, so a new operator may change the clusters of all operators.
        self._head += [NEVER] * (len(believed.estimates) - len(self._head))
        if self._oldest is not None:
            self._oldest.extend(believed, changed)
        self.rank(believed)

    def ready(self, operator: int, head: float) -> None:
        if self._head[operator] != head:
            self._head[operator] = head
            heappush(self._queue_of[operator], (head, operator))
            if self._oldest is not None:
                self._oldest.ready(operator, head)

    def idle(self, operator: int) -> None:
        self._head[operator] = NEVER
        if self._oldest is not None:
            self._oldest.idle(operator)

    def pick(self, now: float) -> int:
        self.looked = 0
        if self._batch:
            operator = self._next_of_batch()
            if operator != NONE:
                return operator
        heads, best, chosen, bound = self._head, -math.inf, NONE, math.inf
        if self._oldest is not None and (first := self._oldest.pick(now)) != NONE:
            bound = now - heads[first] + LEAST_WAIT_S
        for pseudo, queue in self._by_pseudo:
            # The search can stop: later clusters have lower priorities per second of waiting, and no tuple has waited longer than `bound`.
            if best >= 0 and best >= pseudo * bound:
                break
            self.looked += 1
            while queue:
                head, operator = queue[0]
                if heads[operator] == head:
                    value = pseudo * (now - head + LEAST_WAIT_S)
                    if value > best:
                        best, chosen = value, operator
                    break
                heappop(queue)
        if self._together and chosen != NONE:
            self._gather(chosen)
        return chosen

    def _gather(self, chosen: int) -> None:
        """Collect the operators of the chosen cluster that have an equally old tuple. These operators are at the top of the heap."""
        queue, head = self._queue_of[chosen], self._head[chosen]
        batch, stack = set(), [0]
        while stack:
            place = stack.pop()
            if place < len(queue) and queue[place][0] == head:
                batch.add(queue[place][1])
                stack += (2 * place + 1, 2 * place + 2)
        self._batch = sorted(batch - {chosen}, reverse=True)
        self._batch_head = head

    def _next_of_batch(self) -> int:
        while self._batch:
            operator = self._batch.pop()
            if self._head[operator] == self._batch_head:
                return operator
        return NONE
