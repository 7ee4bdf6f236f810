"""The values of queries' answers by their latency, and the weights of their freshness."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from configs.classes.utility import UtilityGraph
from engine.network.node import QueuedOperator


class AnswerValues:
    """Utility graphs and weights of queries, and of the nodes that give their answers."""

    def __init__(self) -> None:
        self.graphs: dict[str, UtilityGraph] = {}
        """By query, as far as one was declared."""
        self.weights: dict[str, float] = {}
        """By query, where the weight is not 1."""
        self._by_node: dict[int, UtilityGraph] = {}  # by identity, of nodes that give answers

    def remove(self, query: str) -> None:
        self.graphs.pop(query, None)
        self.weights.pop(query, None)

    def weight(self, query: str) -> float:
        return self.weights.get(query, 1.0)

    def graph_of(self, node: QueuedOperator) -> UtilityGraph | None:
        """Return the graph of a node that gives answers; of queries with equal answers, the most urgent one counts."""
        return self._by_node.get(id(node))

    def weight_of(self, node: QueuedOperator) -> float:
        """Return the sum of the weights of all queries that have their answers of the node."""
        # The sum is exact, since names of a set come in any order.
        return math.fsum(map(self.weight, node.outputs)) if node.outputs else 1.0

    def value(self, query: str, node: QueuedOperator) -> None:
        """Let a node give the answers of a query."""
        graph, before = self.graphs.get(query), self.graph_of(node)
        if graph is not None and (before is None or urgency(graph) < urgency(before)):
            self._by_node[id(node)] = graph

    def value_all(self, nodes: Iterable[QueuedOperator]) -> None:
        """Find the graphs of these nodes, and forget those of all others."""
        self._by_node = {}
        for node in nodes:
            for query in node.outputs:
                self.value(query, node)

    def changed(self, graphs: Mapping[str, UtilityGraph]) -> dict[str, UtilityGraph]:
        """Set graphs of queries; return those that are other than before."""
        changed = {query: graph for query, graph in graphs.items() if graph != self.graphs.get(query)}
        self.graphs.update(changed)
        return changed


def urgency(graph: UtilityGraph) -> tuple[float, tuple[float, ...], tuple[float, ...]]:
    """Return a key that orders graphs by their deadlines; its rest makes the order the same everywhere."""
    return graph.deadline_s, graph.latencies_s, graph.utilities
