"""Policies whose priority grows with the wait of the head tuple: LSF, BRT, BSD.

Priority = φ·W, φ from the statistics, W = now − arrival of the head tuple:

    LSF  φ = 1/T           least maximum slowdown
    BRT  φ = S/C̄           least ℓ2 of response (Sharaf eq. 3.8)
    BSD  φ = S/(C̄·T²)      least ℓ2 of slowdown (Sharaf eq. 3.7)

`WaitingPolicy` evaluates every ready operator, exactly. `ClusteredPolicy` puts operators whose φ lies in
[ε^i, ε^(i+1)) into one cluster ordered by age and compares one candidate a cluster (Sharaf §3.3.1): a decision
no longer depends on the number of operators, for about 5% of the objective at 12 clusters.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from heapq import heapify, heappop, heappush

import numpy as np

from scheduler.network import NetworkEstimates
from scheduler.policies.protocol import NONE
from scheduler.policies.static import Priorities

# Added to every wait: among heads that have just arrived (W = 0) the static part still decides. To the wait, not
# to the time: beside seconds since 1970 it would be rounded away.
LEAST_WAIT_S = 1e-9
# φ stays within these, so that neither ∞·0 nor 0·∞ arises for operators without cost or without output.
SMALLEST_PHI, LARGEST_PHI = 1e-200, 1e200
NEVER = math.inf


class WaitingPolicy:
    """Highest φ·W over all ready operators."""

    def __init__(self, phi: Priorities, believed: NetworkEstimates) -> None:
        self._phi_of = phi
        size = len(believed.estimates)
        self._is_ready = [False] * size
        self._ready_count = 0
        # An operator that is not ready has its head in the infinite future: φ·W = −∞ never wins.
        self._head = np.full(size, NEVER)
        self._value = np.empty(size)
        self._phi = np.empty(size)
        self.rank(believed)

    def rank(self, believed: NetworkEstimates) -> None:
        self._set_phi(believed, range(len(believed.estimates)))

    def extend(self, believed: NetworkEstimates, changed: Collection[int]) -> None:
        more = len(believed.estimates) - len(self._is_ready)
        self._is_ready += [False] * more
        self._head = np.concatenate([self._head, np.full(more, NEVER)])
        self._phi = np.concatenate([self._phi, np.empty(more)])
        self._value = np.empty(len(self._head))
        self._set_phi(believed, changed)

    def _set_phi(self, believed: NetworkEstimates, operators: Collection[int]) -> None:
        values = np.asarray(self._phi_of(believed, operators), dtype=float)
        self._phi[list(operators)] = np.clip(values, SMALLEST_PHI, LARGEST_PHI)

    def ready(self, operator: int, head: float) -> None:
        self._head[operator] = head
        if not self._is_ready[operator]:
            self._is_ready[operator] = True
            self._ready_count += 1

    def idle(self, operator: int) -> None:
        if self._is_ready[operator]:
            self._is_ready[operator] = False
            self._ready_count -= 1
            self._head[operator] = NEVER

    def pick(self, now: float) -> int:
        if not self._ready_count:
            return NONE
        value = self._value
        np.subtract(now, self._head, out=value)
        np.add(value, LEAST_WAIT_S, out=value)
        np.multiply(value, self._phi, out=value)
        return int(value.argmax())


class ClusteredPolicy:
    """Highest ε^i·W over the oldest ready operator of each cluster i."""

    def __init__(self, phi: Priorities, clusters: int, believed: NetworkEstimates) -> None:
        self._phi_of = phi
        self._clusters = clusters
        # NEVER marks an operator without input; a queue entry counts only while it names the current head.
        self._head = [NEVER] * len(believed.estimates)
        self.rank(believed)

    def rank(self, believed: NetworkEstimates) -> None:
        # In logarithms throughout: between the smallest and the largest φ the ratio itself overflows.
        phi = self._phi_of(believed, range(len(believed.estimates)))
        values = [math.log(min(max(value, SMALLEST_PHI), LARGEST_PHI)) for value in phi]
        low, high = min(values), max(values)
        log_base = (high - low) / self._clusters if high > low else 1.0
        number = [min(int((value - low) / log_base), self._clusters - 1) for value in values]
        used = sorted(set(number), reverse=True)
        place = {cluster: position for position, cluster in enumerate(used)}
        self._queues: list[list[tuple[float, int]]] = [[] for _ in used]
        self._queue_of = [self._queues[place[cluster]] for cluster in number]
        self._by_pseudo = [
            (math.exp(low + log_base * cluster), queue)
            for cluster, queue in zip(used, self._queues, strict=True)
        ]
        for operator, head in enumerate(self._head):
            if head != NEVER:
                self._queue_of[operator].append((head, operator))
        for queue in self._queues:
            heapify(queue)

    def extend(self, believed: NetworkEstimates, changed: Collection[int]) -> None:
        # Clusters are parts of the range of all φ: with another one, all may be elsewhere.
        self._head += [NEVER] * (len(believed.estimates) - len(self._head))
        self.rank(believed)

    def ready(self, operator: int, head: float) -> None:
        if self._head[operator] != head:
            self._head[operator] = head
            heappush(self._queue_of[operator], (head, operator))

    def idle(self, operator: int) -> None:
        self._head[operator] = NEVER

    def pick(self, now: float) -> int:
        heads, best, chosen = self._head, -math.inf, NONE
        for pseudo, queue in self._by_pseudo:
            while queue:
                head, operator = queue[0]
                if heads[operator] == head:
                    value = pseudo * (now - head + LEAST_WAIT_S)
                    if value > best:
                        best, chosen = value, operator
                    break
                heappop(queue)
        return chosen
