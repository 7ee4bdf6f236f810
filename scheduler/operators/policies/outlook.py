"""What lies ahead of a tuple on its way to an answer, in terms of its query's QoS graph (Carney §4.2).

    slack(b)         deadline − Σ c_k, k from b down to the root: how long a tuple that has just come may wait
    output cost(b)   Σ c_k/o_sel(k), o_sel(k) = s_k·…·s_root: processor time of one answer from b's queue
    eol(b)           latency(b) + train(b)·output cost(b): when the last of b's tuples is expected to be out

The thesis writes train(k) of every operator on the way; all of b's tuples have to go through each of them, so train(b) is
what stands for it, and downstream queues, which push-through keeps empty, are left out. Latency is that of the oldest tuple.

Of an operator whose output several queries read, the one with the least slack counts. A root without a graph has one second.
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
    """From one operator to the most urgent of its roots."""

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
    """Of every operator; the deadlines are those of roots."""
    by_operator = outlooks_of(believed, range(len(believed.estimates)), deadline_s)
    return [by_operator[number] for number in range(len(believed.estimates))]


def outlooks_of(
    believed: NetworkEstimates,
    numbers: Iterable[int],
    deadline_s: Callable[[ScheduledOperator], float] = by_graph,
) -> dict[int, Outlook]:
    """Of operators with all that follow them, in one walk from the roots up."""
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
    """Fixed priority: the less slack the higher (Carney §4.2.1)."""
    every = outlooks(believed)
    return [-every[operator].slack_s for operator in operators]
