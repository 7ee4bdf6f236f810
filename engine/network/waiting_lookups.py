"""Finds the lookups of a network; a lookup holds back tuples until the watermark of the looked-up stream has passed them."""

from __future__ import annotations

from engine.network.network import ClassNetwork
from engine.network.node import QueuedOperator
from engine.operators.last import LookUp, LookUpOperator


class WaitingLookups:
    """Finds the lookup operators, and searches the network only after operators were added or removed."""

    def __init__(self, network: ClassNetwork) -> None:
        self._network = network
        self._nodes: list[QueuedOperator] = []
        self._searched = (0, 0)  # number of removals and number of operators at the last search

    def nodes(self) -> list[QueuedOperator]:
        """Return the operators of all lookups (joins with [LAST BY …])."""
        network = self._network
        state = network.removals, len(network.nodes)
        if state != self._searched:
            self._searched = state
            self._nodes = [node for node in network.nodes if isinstance(node.operator, LookUpOperator)]
        return self._nodes

    def overdue(self, before: float) -> dict[str, int]:
        """Return, by query, the event time in µs up to which tuples that arrived by `before` still wait in a lookup."""
        times_us: dict[str, int] = {}
        for node in self.nodes():
            upto_us = state_of(node).overdue(before)
            if upto_us is not None:
                query = min(node.users)
                times_us[query] = max(upto_us, times_us.get(query, upto_us))
        return times_us


def state_of(lookup: QueuedOperator) -> LookUp:
    """Return the state that both operators of a lookup share."""
    assert isinstance(lookup.operator, LookUpOperator)
    return lookup.operator.state
