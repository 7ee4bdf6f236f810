"""Slack, output cost and expected output latency of operators, by the QoS graphs of their queries (Carney §4.2).

If several queries read the output of an operator, the query with the least slack counts. A root without a graph has a deadline of
one second. For an operator b:

    slack(b)         deadline − Σ c_k, k from b down to the root: time for which a new tuple may wait
    output cost(b)   Σ c_k/o_sel(k), o_sel(k) = s_k·…·s_root: processor time of one answer from b's queue
    eol(b)           latency(b) + train(b)·output cost(b): expected output latency of the last of b's tuples

The thesis uses train(k) of every operator on the way. Here train(b) is used, because all of b's tuples pass through each of these
operators; downstream queues are ignored, since push-through keeps them empty. latency(b) is the age of the oldest tuple.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from configs.classes.utility import UtilityGraph
from scheduler.operators.network import NetworkEstimates, ScheduledOperator
from scheduler.operators.policies.static import ratio

NO_GRAPH = UtilityGraph.step(1000.0)


@dataclass(frozen=True, slots=True)
class Outlook:
    """QoS graph, deadline, slack and output cost of an operator. If it feeds several roots, the root with the least slack counts."""

    graph: UtilityGraph
    deadline_s: float
    slack_s: float
    output_cost_s: float
    selectivity: float


def by_graph(root: ScheduledOperator) -> float:
    return (root.utility or NO_GRAPH).deadline_s


def outlooks(
    believed: NetworkEstimates, deadline_s: Callable[[ScheduledOperator], float] = by_graph
) -> list[Outlook]:
    """Return slack and output cost of every operator; the function `deadline_s` returns the deadline of a root."""
    by_operator = outlooks_of(believed, range(len(believed.estimates)), deadline_s)
    return [by_operator[number] for number in range(len(believed.estimates))]


def outlooks_of(
    believed: NetworkEstimates,
    numbers: Iterable[int],
    deadline_s: Callable[[ScheduledOperator], float] = by_graph,
) -> dict[int, Outlook]:
    """Return the outlook of each operator in `numbers`. All operators downstream of these operators must be in `numbers`, too."""
    by_operator: dict[int, Outlook] = {}
    for number in sorted(numbers, reverse=True):
        own, operator = believed.estimates[number], believed.network.operators[number]
        if operator.downstream:
            below = min((by_operator[number] for number in operator.downstream), key=lambda one: one.slack_s)
        else:
            due_s = deadline_s(operator)
            below = Outlook(operator.utility or NO_GRAPH, due_s, due_s, 0.0, 1.0)
        selectivity = own.selectivity * below.selectivity
        by_operator[number] = Outlook(
            below.graph,
            below.deadline_s,
            below.slack_s - own.cost_s,
            below.output_cost_s + (ratio(own.cost_s, selectivity) if own.cost_s else 0.0),
            selectivity,
        )
    return by_operator


def least_slack(believed: NetworkEstimates, operators: Collection[int]) -> list[float]:
    """Return fixed priorities: an operator with less slack has a higher priority (Carney §4.2.1)."""
    every = outlooks(believed)
    return [-every[operator].slack_s for operator in operators]
