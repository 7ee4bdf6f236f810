"""Lookups of a network that hold back tuples until the other stream has come far enough."""

from __future__ import annotations

from engine.network.network import ClassNetwork
from engine.network.node import QueuedOperator
from engine.operators.last import LookUp, LookUpOperator


class WaitingLookups:
    """Finds the nodes that look up, and searches for them only when nodes have come or gone."""

    def __init__(self, network: ClassNetwork) -> None:
        self._network = network
        self._nodes: list[QueuedOperator] = []
        self._searched = (0, 0)  # how often nodes had gone, and how many there were

    def nodes(self) -> list[QueuedOperator]:
        """Return the nodes that look up."""
        network = self._network
        state = network.removals, len(network.nodes)
        if state != self._searched:
            self._searched = state
            self._nodes = [node for node in network.nodes if isinstance(node.operator, LookUpOperator)]
        return self._nodes

    def overdue(self, before: float) -> dict[str, int]:
        """Return, by query, the event time in microseconds up to which tuples that arrived before wait for their lookups."""
        times_us: dict[str, int] = {}
        for node in self.nodes():
            upto_us = state_of(node).overdue(before)
            if upto_us is not None:
                query = min(node.users)
                times_us[query] = max(upto_us, times_us.get(query, upto_us))
        return times_us


def state_of(lookup: QueuedOperator) -> LookUp:
    """Return what the operators of a lookup share."""
    assert isinstance(lookup.operator, LookUpOperator)
    return lookup.operator.state
