"""From the operators of a class to what a tuple of each stream costs it: as measured, as those that are like it, or as assumed.

The cost of a call is o + n·p. What is measured is the cost of a tuple at the trains that there were, o/n + p; since o hardly
depends on what an operator computes, it is taken from `COSTS`, and p is what is left. Without that a class of few tuples,
whose trains are short, would seem to be as costly at any rate.

`COSTS` is the one place of costs that are assumed. They are those of W11's operators on one core of a server of 2025, run in
this process at trains of 100, 500 and 2,000 tuples of two to six columns, with o and p fitted to the three; a machine whose
cores are half as fast has twice these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from engine.class_.explain import MEASURED_TUPLES, PlanLine
from scheduler.operators.network import Estimate, Network, ScheduledOperator

# Of what a tuple was measured to cost, a part is its own, however short its train.
OWN_PART = 0.1
# Calls of a window's operator for one of the operator that fills its panes, if they have not been counted.
RARELY = 0.01


@dataclass(frozen=True, slots=True)
class Cost:
    """Processor-seconds of a call and of each tuple in it, and tuples that come out for one that goes in."""

    call_s: float
    tuple_s: float
    selectivity: float = 1.0


# By kind of operator, as it is called in a plan up to the colon.
COSTS: Mapping[str, Cost] = {
    "source": Cost(15e-6, 3e-9),
    "filter": Cost(14e-6, 3e-9, 0.5),
    "select": Cost(20e-6, 3e-9, 0.5),
    "project": Cost(12e-6, 3e-9),
    "panes": Cost(25e-6, 12e-9, 0.0),
    "window": Cost(120e-6, 100e-9),
    "number": Cost(15e-6, 3e-9),
    "rows": Cost(25e-6, 50e-9, 0.1),
    "join.left": Cost(50e-6, 100e-9),
    "join.right": Cost(50e-6, 100e-9),
    "table": Cost(30e-6, 50e-9),
    "union": Cost(12e-6, 3e-9),
}
OTHER = Cost(20e-6, 10e-9)
# Its tuples wait for each other: the oldest goes first, whichever stream it is of.
MEETS = ("join.", "union")


@dataclass(frozen=True, slots=True)
class StreamCost:
    """What a tuple of a stream costs the class that reads it, with all that follows from it."""

    stream: str
    call_s: float
    """Of all calls for one train of the source."""
    tuple_s: float
    answers: float
    """Of one tuple."""
    operators: int


def kind_of(line: PlanLine) -> str:
    return line.name.partition(":")[0]


def is_measured(line: PlanLine) -> bool:
    return line.tuples >= MEASURED_TUPLES and line.calls > 0


def measured(line: PlanLine) -> Cost:
    """What was measured, divided into what a call costs and what a tuple does."""
    cost_s, train = 1e-6 * line.cost_us, line.tuples / line.calls
    usual = COSTS.get(kind_of(line), OTHER)
    call_s = min(usual.call_s, (1 - OWN_PART) * cost_s * train)
    return Cost(call_s, cost_s - call_s / train, line.selectivity)


def likes(lines: Iterable[PlanLine]) -> dict[str, Cost]:
    """By kind, what its operators cost on the mean of the tuples that they take."""
    sums: dict[str, tuple[float, float, float, float]] = {}
    for line in lines:
        if is_measured(line):
            cost, weight = measured(line), float(line.tuples)
            before = sums.get(kind_of(line), (0.0, 0.0, 0.0, 0.0))
            mine = (cost.call_s, cost.tuple_s, cost.selectivity, 1.0)
            calls, tuples, kept, total = (old + weight * new for old, new in zip(before, mine, strict=True))
            sums[kind_of(line)] = (calls, tuples, kept, total)
    return {kind: Cost(*(part / total for part in parts)) for kind, (*parts, total) in sums.items()}


def like(line: PlanLine, known: Mapping[str, Cost]) -> Cost:
    """What one that has not run may cost. How much a condition lets through is its own, whatever others do."""
    assumed = COSTS.get(kind_of(line), OTHER)
    cost = known.get(kind_of(line), assumed)
    if kind_of(line) in ("filter", "select"):
        return Cost(cost.call_s, cost.tuple_s, assumed.selectivity)
    return cost


def stream_costs(lines: Sequence[PlanLine], costs: Sequence[Cost]) -> list[StreamCost]:
    """What a tuple of each stream costs, from what each operator does, in the lines' order."""
    network = Network(
        tuple(ScheduledOperator(line.name, line.feeds, kind_of(line) == "source") for line in lines)
    )
    segments = network.segments([Estimate(cost.tuple_s, cost.selectivity) for cost in costs])
    stream_costs_ = []
    for source in network.sources:
        reached = calls_below(lines, costs, source)
        calls = sum(costs[number].call_s * each for number, each in reached.items())
        stream_costs_.append(
            StreamCost(
                lines[source].name.partition(":")[2].lower(),
                calls,
                segments[source].cost_s,
                segments[source].selectivity,
                len(reached),
            )
        )
    return stream_costs_


def calls_below(lines: Sequence[PlanLine], costs: Sequence[Cost], source: int) -> dict[int, float]:
    """The source and all that follow it, with how often each is called for one call of the source."""
    reached, stack = {source: 1.0}, [source]
    while stack:
        above = stack.pop()
        # Panes give their tuples to nobody; windows over them are called when they close.
        often = reached[above] * (1.0 if costs[above].selectivity else RARELY)
        for below in lines[above].feeds:
            if reached.get(below, 0.0) < often:
                reached[below] = often
                stack.append(below)
    calls = lines[source].calls
    return {
        number: min(1.0, lines[number].calls / calls) if calls else often for number, often in reached.items()
    }


def meet(lines: Iterable[PlanLine]) -> bool:
    """Whether tuples of several streams wait for each other in some operator."""
    return any(kind_of(line).startswith(MEETS) for line in lines)
