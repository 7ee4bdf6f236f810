"""The operator network of a running class in words and numbers: what EXPLAIN prints."""

from __future__ import annotations

from dataclasses import dataclass

from engine.class_.runner import ClassRunner
from engine.network.node import QueuedOperator
from scheduler.operators.policies.static import ratio

# Tuples after which little is left of the first estimate of an operator: (1 - ALPHA) ** 10 windows of 100, 15% of it.
MEASURED_TUPLES = 1000


@dataclass(frozen=True, slots=True)
class PlanLine:
    """One operator: where it stands, what was measured of it, what follows for its turn."""

    number: int
    name: str
    feeds: tuple[int, ...]
    queries: tuple[str, ...]
    tuples: int
    cost_us: float  # processor time per input tuple
    selectivity: float
    rate: float  # answers per second of processor time from here on, S/C̄: the priority under HR
    queued: int
    calls: int = 0  # trains in which its tuples came
    outputs: tuple[str, ...] = ()  # queries whose answers it gives

    @property
    def is_measured(self) -> bool:
        """False while cost and selectivity are mostly the first estimate. An operator without tuples is measured by its calls."""
        return self.tuples >= MEASURED_TUPLES or (not self.tuples and self.calls > 0)


def explain(runner: ClassRunner) -> list[PlanLine]:
    """A line an operator, those that feed others first."""
    believed = runner.scheduled.believed()
    nodes = runner.network.nodes
    place = {id(node): number for number, node in enumerate(nodes)}
    return [
        PlanLine(
            number=number,
            name=node.name,
            feeds=tuple(place[id(below)] for below in node.downstream),
            queries=tuple(sorted(node.outputs or shared_by(node))),
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


def shared_by(node: QueuedOperator) -> set[str]:
    return node.users
