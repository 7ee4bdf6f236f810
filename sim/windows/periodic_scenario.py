"""A scenario of periodic queries as the workload that `sim.windows.periodic_run` runs, its times in intervals of synopses.

What a run of a group costs where counts are merged: in an interval as many as the attribute has values among its tuples; what an
answer takes afterwards is a part of the counts of its whole range, which grow less than the range does: a line through the shortest and
the longest range that the group may have.
"""

from __future__ import annotations

from math import exp, inf

from configs.scenario.periodic_scenario import (
    Aggregates,
    CountsModel,
    Drawn,
    PeriodicScenario,
    SynopsisModel,
    WindowGroup,
    intervals,
)
from scheduler.windows import PeriodicQuery, ScanCosts
from sim.run.rng import generator
from sim.windows.periodic_run import PeriodicWorkload, SynopsisLoad


def workload_of(scenario: PeriodicScenario, seed: int) -> PeriodicWorkload:
    """What is to be run; the seed decides what is drawn."""
    drawn = drawn_queries(scenario, scenario.drawn, seed) if scenario.drawn is not None else {}
    one_time, alone = scenario.one_time, aggregates_of(scenario.aggregates, seed)
    queries = [
        query
        for name, group in scenario.groups.items()
        for query in (*listed_queries(name, group, scenario), *drawn.get(name, ()))
    ]
    synopses = {
        name: SynopsisLoad(synopsis.interval_s, synopsis.update_s)
        for name, synopsis in scenario.synopses.items()
    }
    return PeriodicWorkload(
        [*queries, *(PeriodicQuery(name, name, name, 1, 1) for name in alone)],
        synopses | {name: SynopsisLoad(slide_s) for name, (slide_s, _) in alone.items()},
        {name: costs_of(group, scenario) for name, group in scenario.groups.items()}
        | {name: ScanCosts(interval=0.0, call=cost_s) for name, (_, cost_s) in alone.items()},
        one_time.every_s if one_time is not None else inf,
        one_time.cost_us / 1e6 if one_time is not None else 0.0,
    )


def aggregates_of(aggregates: Aggregates | None, seed: int) -> dict[str, tuple[float, float]]:
    """Slide and cost of each, in seconds, by the name of its query, its group and its synopsis."""
    if aggregates is None:
        return {}
    chance = generator(seed, "sharaf-tardiness")
    drawn = [
        (
            chance.uniform(aggregates.slide_min_s, aggregates.slide_max_s),
            2.0 ** chance.randrange(aggregates.cost_classes),
        )
        for _ in range(aggregates.queries)
    ]
    scale = aggregates.utilisation / sum(cost / slide for slide, cost in drawn)
    # No group of a file can be called so.
    return {f"aggregate/{place}": (slide, cost * scale) for place, (slide, cost) in enumerate(drawn, start=1)}


def listed_queries(name: str, group: WindowGroup, scenario: PeriodicScenario) -> list[PeriodicQuery]:
    interval_s = scenario.synopses[group.synopsis].interval_s
    return [
        PeriodicQuery(
            name=f"{name}/{query.name}",
            synopsis=group.synopsis,
            group=name,
            window=intervals(query.range_s, interval_s),
            slide=intervals(query.slide_s, interval_s),
            at_most=query.at_most,
        )
        for query in group.queries
    ]


def drawn_queries(scenario: PeriodicScenario, drawn: Drawn, seed: int) -> dict[str, list[PeriodicQuery]]:
    """By group. One generator for all of them, in their order."""
    chance = generator(seed, "golab", str(drawn.per_group))
    queries_by_group: dict[str, list[PeriodicQuery]] = {}
    for name, group in scenario.groups.items():
        interval_s = scenario.synopses[group.synopsis].interval_s
        shortest, longest = intervals(drawn.range_min_s, interval_s), intervals(drawn.range_max_s, interval_s)
        queries_by_group[name] = []
        for place in range(drawn.per_group):
            window = chance.randint(shortest, longest)
            slide = chance.randint(1, int(window * drawn.slide_part))
            queries_by_group[name].append(
                PeriodicQuery(
                    name=f"{name}/{place}",
                    synopsis=group.synopsis,
                    group=name,
                    window=window,
                    slide=slide,
                    at_most=drawn.at_most,
                )
            )
    return queries_by_group


def costs_of(group: WindowGroup, scenario: PeriodicScenario) -> ScanCosts:
    """In seconds."""
    costs, synopsis = group.costs, scenario.synopses[group.synopsis]
    if isinstance(costs, CountsModel):
        return counted(costs, synopsis, windows_of(group, scenario.drawn, synopsis.interval_s))
    return ScanCosts(
        costs.interval_us / 1e6, costs.call_us / 1e6, costs.answer_us / 1e6, costs.answer_interval_us / 1e6
    )


def windows_of(group: WindowGroup, drawn: Drawn | None, interval_s: float) -> list[int]:
    """Ranges that its queries have, and the bounds of those that are drawn, in intervals."""
    bounds = (drawn.range_min_s, drawn.range_max_s) if drawn is not None else ()
    return [
        intervals(length_s, interval_s) for length_s in (*(query.range_s for query in group.queries), *bounds)
    ]


def counted(costs: CountsModel, synopsis: SynopsisModel, windows: list[int]) -> ScanCosts:
    tuples, count_s = synopsis.rate * synopsis.interval_s, costs.count_us / 1e6
    least, most = min(windows), max(windows)
    shortest, longest = distinct(costs.distinct, least * tuples), distinct(costs.distinct, most * tuples)
    by_interval = (longest - shortest) / (most - least) if most > least else 0.0
    return ScanCosts(
        interval=count_s * distinct(costs.distinct, tuples),
        answer=count_s * costs.answering * (shortest - least * by_interval),
        answer_interval=count_s * costs.answering * by_interval,
    )


def distinct(values: float, tuples: float) -> float:
    """Of so many values, how many are among so many tuples."""
    return values * (1 - exp(-tuples / values))
