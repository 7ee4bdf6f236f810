"""Slope-slack (Carney §4.2.2): run the operator that loses most utility per second; among equals, the one with least time left.

The QoS graph is read at the expected output latency of the operator (`outlook.py`). Its gradient there is the utility lost per second,
and its slack is the time to the next critical point. The priority is (gradient, −slack). An answer expected
after the last critical point has no utility to lose, so it comes after all others.

Every ready operator is evaluated at every decision. `bucket.py` is an approximation that avoids this.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from scheduler.operators.network import NetworkEstimates
from scheduler.operators.policies.outlook import outlooks
from scheduler.operators.policies.protocol import NONE

LATEST_S = 1e300


class SlopeSlackPolicy:
    """Policy that runs the operator with the highest gradient, then the least slack, then the lowest number."""

    def __init__(self, believed: NetworkEstimates) -> None:
        size = len(believed.estimates)
        # All operators, ready operators before idle operators; `_place` has the index at which each operator stands in this array.
        self._ready = np.arange(size)
        self._place = list(range(size))
        self._count = 0
        self._head, self._train = np.zeros(size), np.ones(size)
        self.rank(believed)

    def rank(self, believed: NetworkEstimates) -> None:
        every = outlooks(believed)
        self._output_cost = np.array([outlook.output_cost_s for outlook in every])
        # Graphs are identified by id(), since comparing two graphs compares all their points.
        rows: dict[int, int] = {}
        self._graph = np.array(
            [rows.setdefault(id(outlook.graph), len(rows)) for outlook in every], dtype=np.intp
        )
        graphs = list({id(outlook.graph): outlook.graph for outlook in every}.values())
        points = max(len(graph.latencies_s) for graph in graphs)
        # For each graph: the latencies of its points, filled up with infinity, and the utility lost per second before each point.
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
        # If an operator expects no output, its latency `eol` is infinite or NaN. LATEST_S replaces it, so that slacks can be computed.
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
