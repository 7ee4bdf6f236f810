"""Tuples that a network loses: those that come too late, fail in an expression, or find no room in an operator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from engine.network.network import TWIN
from engine.network.node import QueuedOperator
from engine.operators.source import SourceOperator


@dataclass(frozen=True, slots=True)
class FailingOperator:
    """An operator in which tuples failed or found no room."""

    node: int
    """Identity of its node, which a later operator may have again."""
    name: str
    queries: tuple[str, ...]
    taken: int
    """Tuples that it has taken."""
    reasons: Mapping[str, int]
    """Tuples that failed, by reason."""


def late_rows(nodes: Iterable[QueuedOperator]) -> Mapping[str, int]:
    """Return late tuples by source."""
    return {node.name: node.operator.late for node in nodes if isinstance(node.operator, SourceOperator)}


def failed_rows(nodes: Iterable[QueuedOperator]) -> Counter[str]:
    """Return how many tuples failed or found no room, by reason."""
    counts: Counter[str] = Counter()
    for node in nodes:
        counts.update(node.failed)
    return counts


def failing_operators(taken: Iterable[tuple[QueuedOperator, int]]) -> list[FailingOperator]:
    """Return the operators of queries in which tuples failed or found no room; `taken` are all nodes with their tuples."""
    operators = []
    for node, tuples in taken:
        # Most operators have none, and there may be 10,000 of them.
        if node.holding.refused or getattr(node.operator, "failed", None):
            queries = tuple(sorted(name for name in node.users if not name.startswith(TWIN)))
            # An operator of a plan that does not answer yet counts once it does.
            if queries:
                operators.append(FailingOperator(id(node), node.name, queries, tuples, node.failed))
    return operators
