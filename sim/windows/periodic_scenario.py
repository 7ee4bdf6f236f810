"""Workload for `sim.windows.periodic_run`, made from a scenario of periodic queries; times become numbers of synopsis intervals.

Cost of a run of a group that merges counts per value: each interval has as many counts as the attribute has distinct values in
it. The cost of an answer is a fraction of the number of counts in its range. This number grows more slowly than the range,
and is approximated by a line through the shortest and the longest range of the group.
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
    """Return the workload of a scenario; queries that the scenario draws at random depend on the seed."""
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
    """Return slide and cost, in seconds, of each aggregate by name. An aggregate's query, group and synopsis have the same name."""
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
    # A name with a slash is unique, because names of groups in scenario files have no slash.
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
    """Return the randomly drawn queries of each group. One random generator is used for all groups, in the order of the groups."""
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
    """Return the costs of a run of the group, in seconds."""
    costs, synopsis = group.costs, scenario.synopses[group.synopsis]
    if isinstance(costs, CountsModel):
        drawn = scenario.drawn
        ranges_s = [query.range_s for query in group.queries]
        ranges_s += (drawn.range_min_s, drawn.range_max_s) if drawn is not None else ()
        return counted(costs, synopsis, [intervals(range_s, synopsis.interval_s) for range_s in ranges_s])
    return ScanCosts(
        costs.interval_us / 1e6, costs.call_us / 1e6, costs.answer_us / 1e6, costs.answer_interval_us / 1e6
    )


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
    """Return the expected number of distinct values in `tuples` random tuples, out of `values` possible values."""
    return values * (1 - exp(-tuples / values))
