"""Tuples that a network loses, because they are late, fail in an expression, or find no room in an operator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from engine.network.network import TWIN
from engine.network.node import QueuedOperator
from engine.operators.source import SourceOperator


@dataclass(frozen=True, slots=True)
class FailingOperator:
    """Operator in which tuples failed or found no room."""

    node: int
    """Identity (`id`) of the operator in Python, which a later operator may reuse."""
    name: str
    queries: tuple[str, ...]
    taken: int
    """Number of tuples that the operator has taken."""
    reasons: Mapping[str, int]
    """Number of tuples that failed or found no room, by reason."""


def late_rows(nodes: Iterable[QueuedOperator]) -> Mapping[str, int]:
    """Return the number of late tuples of each source."""
    return {node.name: node.operator.late for node in nodes if isinstance(node.operator, SourceOperator)}


def failed_rows(nodes: Iterable[QueuedOperator]) -> Counter[str]:
    """Return how many tuples failed or found no room, by reason."""
    counts: Counter[str] = Counter()
    for node in nodes:
        counts.update(node.failed)
    return counts


def failing_operators(taken: Iterable[tuple[QueuedOperator, int]]) -> list[FailingOperator]:
    """Return the operators in which tuples failed or found no room; `taken` has the number of tuples that each operator has taken."""
    operators = []
    for node, tuples in taken:
        # There may be 10,000 operators, so the cheap check for failed tuples comes first.
        if node.holding.refused or getattr(node.operator, "failed", None):
            queries = tuple(sorted(name for name in node.users if not name.startswith(TWIN)))
            # An operator that only a second plan uses is left out until that plan replaces the running plan of its query.
            if queries:
                operators.append(FailingOperator(id(node), node.name, queries, tuples, node.failed))
    return operators
