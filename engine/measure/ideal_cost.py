"""What answers cost if nothing else is in their way, by what operators have taken a tuple on the mean.

Not by what the scheduler believes: that begins with a guess, which it takes hundreds of tuples to leave behind, and some operators
never have as many.

    T           every operator that has to run for an answer; of a pair, those of both sides (Sharaf §3.4.1.2)
    apart       of that, what is done before the later of the two comes: T less the way of that one, D_ideal − A

Of which side the later one is, is not kept for each answer: by how many either side has given, on the mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from engine.network.node import QueuedOperator
from scheduler.operators.network import Estimate, Network


class Alone(NamedTuple):
    """An answer of which nothing else is in the way."""

    ideal_s: float
    """What it costs: T."""
    apart_s: float = 0.0
    """Of that, what is done before the last tuple that it is made of arrives: the other sides of joins."""


# Of a query that nothing answers.
NO_ANSWER = Alone(math.inf)


def alone_of(
    nodes: Sequence[QueuedOperator], network: Network, costs: Sequence[Estimate], given: Sequence[float]
) -> dict[str, Alone]:
    """By query, the least if several nodes answer it. `given` are the tuples that each node has passed on."""
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
        # What reads the output of a query stands below it; T of the query itself ends here.
        for query in node.outputs:
            found[query] = min(every[number], found.get(query, NO_ANSWER))
    return found


def mean(values: Sequence[float], weights: Sequence[float]) -> float:
    """As if all counted the same, where none counts."""
    total = sum(weights)
    if not total:
        return sum(values) / max(len(values), 1)
    return sum([weight * value for weight, value in zip(weights, values, strict=True)]) / total
