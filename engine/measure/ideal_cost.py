"""Ideal cost of an answer: the processor time of an answer that waits for nothing.

The cost is computed from each operator's measured mean cost per tuple. The scheduler's estimates would not do: they begin
with a guess, which lasts for hundreds of tuples, and some operators never process that many tuples.

    T           cost of all operators that have to run for an answer; for a pair of a join, of both sides (Sharaf §3.4.1.2)
    apart       part of T that is spent before the pair's later tuple arrives: T less the cost of that tuple's path

The side of the later tuple is not recorded for each answer. So `apart` is a mean over both sides, weighted by the number
of pairs that each side has emitted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from engine.network.node import QueuedOperator
from scheduler.operators.network import Estimate, Network


class Alone(NamedTuple):
    """Cost of an answer that waits for nothing, in seconds of processor time."""

    ideal_s: float
    """Total cost T."""
    apart_s: float = 0.0
    """Part of T that is spent before the answer's last tuple arrives, on the other sides of joins."""


# Cost for a query that no operator answers.
NO_ANSWER = Alone(math.inf)


def alone_of(
    nodes: Sequence[QueuedOperator], network: Network, costs: Sequence[Estimate], given: Sequence[float]
) -> dict[str, Alone]:
    """Return the ideal cost of each query's answers; if several operators emit a query's answers, the lowest ideal cost.

    `given` has, for each operator, the number of tuples that it has emitted.
    """
    every, found = list[Alone](), dict[str, Alone]()
    for number, node in enumerate(nodes):
        above, cost_s = network.upstream[number], costs[number].cost_s
        if node.partner is None and len(above) <= 1:
            ideal_s = sum([every[one].ideal_s for one in above]) + cost_s
        else:
            ideal_s = network.ideal_cost(number, costs)
        if node.partner is None:
            apart_s = mean([every[one].apart_s for one in above], [given[one] for one in above])
        else:
            apart_s = ideal_s - cost_s - sum([every[one].ideal_s - every[one].apart_s for one in above])
        every.append(Alone(ideal_s, apart_s))
        # The ideal cost of a query ends at the operator that emits its answers, even if other queries read the answers.
        for query in node.outputs:
            found[query] = min(every[number], found.get(query, NO_ANSWER))
    return found


def mean(values: Sequence[float], weights: Sequence[float]) -> float:
    """Return the weighted mean of the values, or their plain mean if all weights are 0."""
    total = sum(weights)
    if not total:
        return sum(values) / max(len(values), 1)
    return sum([weight * value for weight, value in zip(weights, values, strict=True)]) / total
