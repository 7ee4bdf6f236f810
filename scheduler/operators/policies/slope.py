"""Slope-slack (Carney §4.2.2): where most utility is lost a second, and of that, where least time is left.

    priority(b) = (gradient at eol(b), −slack at eol(b))

eol(b) is the expected output latency (`outlook.py`); gradient and slack are those of the QoS graph there: utility lost a
second, and the time to the next critical point. An answer that will come after the last point is worth nothing more to
hurry for: it waits for all others.

Every ready operator is evaluated at every decision; `bucket.py` is the approximation that does not.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from scheduler.operators.network import NetworkEstimates
from scheduler.operators.policies.outlook import outlooks
from scheduler.operators.policies.protocol import NONE

LATEST_S = 1e300


class SlopeSlackPolicy:
    """Highest gradient, then least slack, then the lower number."""

    def __init__(self, believed: NetworkEstimates) -> None:
        size = len(believed.estimates)
        # The ready operators in any order, then the rest; and where each stands.
        self._ready = np.arange(size)
        self._place = list(range(size))
        self._count = 0
        self._head, self._train = np.zeros(size), np.ones(size)
        self.rank(believed)

    def rank(self, believed: NetworkEstimates) -> None:
        every = outlooks(believed)
        self._output_cost = np.array([outlook.output_cost_s for outlook in every])
        # By identity: a graph is compared corner by corner.
        rows: dict[int, int] = {}
        self._graph = np.array(
            [rows.setdefault(id(outlook.graph), len(rows)) for outlook in every], dtype=np.intp
        )
        graphs = list({id(outlook.graph): outlook.graph for outlook in every}.values())
        points = max(len(graph.latencies_s) for graph in graphs)
        # By graph: latencies with infinity after the last, and what is lost a second before each of them.
        self._latencies = np.full((len(graphs), points + 1), np.inf)
        self._gradients = np.zeros((len(graphs), points + 1))
        for row, graph in enumerate(graphs):
            self._latencies[row, : len(graph.latencies_s)] = graph.latencies_s
            self._gradients[row, : len(graph.gradients)] = graph.gradients

    def extend(self, believed: NetworkEstimates, changed: Collection[int]) -> None:
        more = range(len(self._place), len(believed.estimates))
        self._ready = np.concatenate([self._ready, np.array(more, dtype=self._ready.dtype)])
        self._place += more
        self._head = np.concatenate([self._head, np.zeros(len(more))])
        self._train = np.concatenate([self._train, np.ones(len(more))])
        self.rank(believed)

    def pending(self, operator: int, tuples: int) -> None:
        self._train[operator] = tuples

    def ready(self, operator: int, head: float) -> None:
        self._head[operator] = head
        if self._place[operator] >= self._count:
            self._swap(operator, self._count)
            self._count += 1

    def idle(self, operator: int) -> None:
        if self._place[operator] < self._count:
            self._count -= 1
            self._swap(operator, self._count)

    def pick(self, now: float) -> int:
        if not self._count:
            return NONE
        if self._count == 1:
            return int(self._ready[0])
        ready = self._ready[: self._count]
        eol = now - self._head[ready] + self._train[ready] * self._output_cost[ready]
        # Finite, also of what is not expected to come out at all (no tuples of which would be no number): infinity has no
        # distance to infinity.
        np.fmin(eol, LATEST_S, out=eol)
        graph = self._graph[ready]
        place = (self._latencies[graph] <= eol[:, np.newaxis]).sum(axis=1)
        gradient = self._gradients[graph, place]
        ready, slack = ready[best := gradient == gradient.max()], (self._latencies[graph, place] - eol)[best]
        return int(ready[slack == slack.min()].min())

    def _swap(self, operator: int, place: int) -> None:
        other, before = int(self._ready[place]), self._place[operator]
        self._ready[place], self._ready[before] = operator, other
        self._place[operator], self._place[other] = place, before
