"""Report of a unit, from which the tuning of policies is tested."""

from __future__ import annotations

from actors.host.tuning_sample import UnitNow
from engine.class_.explain import PlanLine
from loadshed.responses import ResponseStatistics

# Operators of the reported unit: a stream and two queries. One query is expensive and has few answers.
LINES = (
    PlanLine(0, "source:Readings", (1, 2), ("dear", "cheap"), 10_000, 1.0, 1.0, 1.0, 0, 1000),
    PlanLine(1, "select", (), ("dear",), 10_000, 400.0, 0.1, 1.0, 0, 1000),
    PlanLine(2, "select", (), ("cheap",), 10_000, 20.0, 1.0, 1.0, 0, 1000),
)


def unit_now(tuples: int = 150) -> UnitNow:
    seen = ResponseStatistics(0.1)
    seen.add([0.02] * 10, 0.001)
    return UnitNow(LINES, {"readings": ((tuples, 1),) * 20}, 0.15, 1.0, 100, seen, 3.0)
