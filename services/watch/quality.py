"""Quality of the answers of a tenant's queries (utility, staleness, tardiness, slowdown), over all units of its class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from actors.coordinator.control_plane import SystemStatus
from actors.messages.unit_messages import Quality
from configs.classes.live_class import LiveClass
from configs.classes.utility import UtilityGraph
from scheduler.ratios import mean, ratio


@dataclass(frozen=True, slots=True)
class QueryWorth:
    """Quality of the answers of one query since its units started; without answers, the utility is 1."""

    query: str
    graph: UtilityGraph
    weight: float
    answers: int
    mean_ms: float
    utility: float
    missed: int
    staleness: float
    """Mean of the staleness that the units report."""
    due: int = 0
    """Number of window answers. Other answers have no tardiness."""
    tardy: int = 0
    tardiness_ms: float = 0.0
    """Mean tardiness of all window answers; an answer in time has tardiness 0."""
    slowdown: float = 0.0
    """Mean slowdown of all answers."""


def worth_of(system: SystemStatus, one: LiveClass) -> list[QueryWorth]:
    """Return the quality of each query in the order of declaration, without the queries that no unit has reported."""
    qualities: dict[str, list[Quality]] = {}
    for unit in system.units.values():
        if unit.class_name == one.name and unit.report is not None and unit.report.counted is not None:
            for quality in unit.report.counted.quality:
                qualities.setdefault(quality.query, []).append(quality)
    return [
        together(query, one.graph_of(query), one.weight_of(query), qualities[query])
        for query in one.queries
        if query in qualities
    ]


def together(query: str, graph: UtilityGraph, weight: float, parts: Sequence[Quality]) -> QueryWorth:
    answers, due = sum(part.answers for part in parts), sum(part.due for part in parts)
    return QueryWorth(
        query=query,
        graph=graph,
        weight=weight,
        answers=answers,
        mean_ms=1e3 * sum(part.response_s for part in parts) / answers if answers else 0.0,
        utility=ratio(sum(part.utility for part in parts), answers, 1.0),
        missed=sum(part.missed for part in parts),
        staleness=mean([part.staleness for part in parts]),
        due=due,
        tardy=sum(part.tardy for part in parts),
        tardiness_ms=1e3 * sum(part.tardiness_s for part in parts) / due if due else 0.0,
        slowdown=sum(part.slowdown for part in parts) / answers if answers else 0.0,
    )
