"""Operator network of a running class in words and numbers, as EXPLAIN prints it."""

from __future__ import annotations

from dataclasses import dataclass

from engine.class_.runner import ClassRunner
from scheduler.operators.policies.static import ratio

# Number of tuples after which an operator's first estimate hardly counts: its weight is then (1 - ALPHA) ** 10, or 15%.
MEASURED_TUPLES = 1000


@dataclass(frozen=True, slots=True)
class PlanLine:
    """One line of EXPLAIN: an operator with the operators that it feeds, its measurements, and its priority."""

    number: int
    name: str
    feeds: tuple[int, ...]
    queries: tuple[str, ...]
    tuples: int
    cost_us: float  # Processor time per input tuple, in microseconds
    selectivity: float
    rate: float  # Answers of the operator's segment per second of processor time; the policy HR uses this figure (S/C̄) as priority
    queued: int
    calls: int = 0  # Number of trains that the operator has taken
    outputs: tuple[str, ...] = ()  # Queries for which the operator emits the answers

    @property
    def is_measured(self) -> bool:
        """True if cost and selectivity were mostly measured, so that the first estimate hardly counts.

        An operator that takes no tuples counts as measured after its first call.
        """
        return self.tuples >= MEASURED_TUPLES or (not self.tuples and self.calls > 0)


def explain(runner: ClassRunner) -> list[PlanLine]:
    """Return a line for each operator; an operator comes before the operators that take its output."""
    believed = runner.scheduled.believed()
    nodes = runner.network.nodes
    place = {id(node): number for number, node in enumerate(nodes)}
    return [
        PlanLine(
            number=number,
            name=node.name,
            feeds=tuple(place[id(below)] for below in node.downstream),
            queries=tuple(sorted(node.outputs or node.users)),
            tuples=runner.scheduled.tuples[number],
            cost_us=1e6 * estimate.cost_s,
            selectivity=estimate.selectivity,
            rate=ratio(segment.selectivity, segment.cost_s),
            queued=node.tuples,
            calls=runner.scheduled.calls[number],
            outputs=tuple(sorted(node.outputs)),
        )
        for number, (node, estimate, segment) in enumerate(
            zip(nodes, believed.estimates, believed.segments, strict=True)
        )
    ]
