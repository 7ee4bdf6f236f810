"""Worth of answers: the utility graph of each query, which depends on the response time, and the weight of each query's freshness."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from configs.classes.utility import UtilityGraph
from engine.network.node import QueuedOperator


class AnswerValues:
    """Utility graphs and weights of queries, and of the operators that emit their answers."""

    def __init__(self) -> None:
        self.graphs: dict[str, UtilityGraph] = {}
        """Utility graph of each query that declares one."""
        self.weights: dict[str, float] = {}
        """Freshness weight of each query, where it is not 1."""
        # Utility graph of each operator that emits answers, by the operator's identity.
        self._by_node: dict[int, UtilityGraph] = {}

    def remove(self, query: str) -> None:
        self.graphs.pop(query, None)
        self.weights.pop(query, None)

    def weight(self, query: str) -> float:
        return self.weights.get(query, 1.0)

    def graph_of(self, node: QueuedOperator) -> UtilityGraph | None:
        """Return the utility graph of an operator that emits answers: the most urgent graph of all queries that it answers."""
        return self._by_node.get(id(node))

    def weight_of(self, node: QueuedOperator) -> float:
        """Return the sum of the weights of all queries that the operator answers."""
        # `fsum` is exact, so that the sum does not depend on the order of a set.
        return math.fsum(map(self.weight, node.outputs)) if node.outputs else 1.0

    def value(self, query: str, node: QueuedOperator) -> None:
        """Set the query's utility graph for an operator that emits its answers, unless the operator has a more urgent graph."""
        graph, before = self.graphs.get(query), self.graph_of(node)
        if graph is not None and (before is None or urgency(graph) < urgency(before)):
            self._by_node[id(node)] = graph

    def value_all(self, nodes: Iterable[QueuedOperator]) -> None:
        """Set the utility graphs of these operators, and forget the graphs of all other operators."""
        self._by_node = {}
        for node in nodes:
            for query in node.outputs:
                self.value(query, node)

    def changed(self, graphs: Mapping[str, UtilityGraph]) -> dict[str, UtilityGraph]:
        """Set the utility graphs of these queries, and return, by query, the graphs that have changed."""
        changed = {query: graph for query, graph in graphs.items() if graph != self.graphs.get(query)}
        self.graphs.update(changed)
        return changed


def urgency(graph: UtilityGraph) -> tuple[float, tuple[float, ...], tuple[float, ...]]:
    """Return a sort key for graphs: the deadline, then the points. Graphs then have one order in all processes."""
    return graph.deadline_s, graph.latencies_s, graph.utilities
