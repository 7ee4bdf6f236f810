"""Costs of operators, and of a tuple of each stream. A cost is measured, estimated from similar operators, or assumed.

A call of an operator on n tuples costs o + n·p: a fixed cost o and a cost p per tuple. Measurements give only the cost per
tuple at the actual train length, o/n + p. The fixed cost o hardly depends on what an operator computes, so it is taken from
`COSTS`, and p is the rest. Without this division, a class with a low rate and short trains would seem equally expensive per
tuple at high rates.

`COSTS` holds all assumed costs. The assumed costs were measured with the operators of workload W11 on one core of a server
of 2025. Trains had 100, 500 and 2,000 tuples of two to six columns, and o and p were fitted to the three measurements. On a
core that is half as fast, costs are twice as high.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from engine.class_.explain import MEASURED_TUPLES, PlanLine
from scheduler.operators.network import Estimate, Network, ScheduledOperator

# Minimum part of the measured cost per tuple that is taken as p (cost of a tuple without the call), even after very short trains.
OWN_PART = 0.1
# Assumed calls of a window operator per call of the operator that fills its panes, if calls have not been counted.
RARELY = 0.01


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of an operator: processor-seconds per call and per tuple, and output tuples per input tuple."""

    call_s: float
    tuple_s: float
    selectivity: float = 1.0


# Assumed costs by kind of operator; the kind is the part of an operator's name before the colon.
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
# Beginnings of the names of operators that combine several streams, so that a tuple of one stream waits for tuples of another.
MEETS = ("join.", "union")


@dataclass(frozen=True, slots=True)
class StreamCost:
    """Cost of a stream for a class that reads the stream, summed over all of the class's operators."""

    stream: str
    call_s: float
    """Fixed cost of all operator calls that one train of the source causes, in processor-seconds."""
    tuple_s: float
    answers: float
    """Number of answers per tuple of the stream."""
    operators: int


def kind_of(line: PlanLine) -> str:
    return line.name.partition(":")[0]


def is_measured(line: PlanLine) -> bool:
    return line.tuples >= MEASURED_TUPLES and line.calls > 0


def measured(line: PlanLine) -> Cost:
    """Return the measured cost of an operator, divided into cost per call and cost per tuple."""
    cost_s, train = 1e-6 * line.cost_us, line.tuples / line.calls
    usual = COSTS.get(kind_of(line), OTHER)
    call_s = min(usual.call_s, (1 - OWN_PART) * cost_s * train)
    return Cost(call_s, cost_s - call_s / train, line.selectivity)


def likes(lines: Iterable[PlanLine]) -> dict[str, Cost]:
    """Return the mean cost of the measured operators of each kind, weighted by their tuples."""
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
    """Return the estimated cost of an operator that has not run, from measured operators of its kind."""
    return cost_of_kind(kind_of(line), known)


def cost_of_kind(kind: str, known: Mapping[str, Cost]) -> Cost:
    """Return the cost of an operator kind. The selectivity of a condition is not copied from other conditions but assumed."""
    assumed = COSTS.get(kind, OTHER)
    cost = known.get(kind, assumed)
    return replace(cost, selectivity=assumed.selectivity) if kind in ("filter", "select") else cost


def stream_costs(lines: Sequence[PlanLine], costs: Sequence[Cost]) -> list[StreamCost]:
    """Return the cost of each stream; `costs` has the costs of the operators in the order of `lines`."""
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
    """Return the source and all operators behind the source, each with its number of calls per call of the source."""
    reached, stack = {source: 1.0}, [source]
    while stack:
        above = stack.pop()
        # An operator that fills panes emits no tuples. When a pane closes, the windows over the panes are called.
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
    """Return True if one of the operators combines several streams, so that tuples of one stream wait for tuples of another stream."""
    return any(kind_of(line).startswith(MEETS) for line in lines)
