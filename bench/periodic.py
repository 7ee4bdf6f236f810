"""Cost of choosing the periods of periodic queries, and of deciding which queries run.

There are a thousand queries of one aggregate in twenty sub-groups. Windows are random as in Golab's evaluation; slides are
random as in Golab's evaluation, or from a wider range. A live class chooses the periods again whenever a query is added, so
the time is bounded like that of a registration.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

from bench.measure import Figure, seconds_each
from configs.classes.periodic_schedules import schedule_of
from scheduler.windows import PeriodicQuery, PeriodicScheduler, ScanCosts
from scheduler.windows.periods import cheapest_periods
from scheduler.windows.scan_model import SubGroup, sub_groups_of

QUERIES, SUB_GROUPS = 1000, 20
DRAWS = 5
COSTS = ScanCosts(interval=1.0, call=5.0, answer=0.1)


def figures() -> list[Figure]:
    drawn = [queries(chance, draw) for draw in (golab_slide, any_slide) for chance in range(DRAWS)]
    groups = [sub_groups_of(one) for one in drawn]
    assert {len(group) for group in groups} == {SUB_GROUPS}
    exact = [cheapest_periods(group, COSTS).exact for group in groups]
    return [
        Figure("hybrid periods, 1,000 queries in 20 sub-groups", choice_ms(groups, True), "ms", limit=100.0),
        Figure("hybrid periods without meetings", choice_ms(groups, False), "ms", limit=100.0),
        Figure("number of ten such choices proven to be the cheapest", float(sum(exact)), ""),
        *(
            Figure(f"periodic decision, {kind}", 1e6 * decision_s(drawn[0], kind), "µs", limit=200.0)
            for kind in ("none", "conservative", "hybrid")
        ),
    ]


def choice_ms(groups: list[tuple[SubGroup, ...]], meetings: bool) -> float:
    """Return the milliseconds for choosing the periods of the slowest group."""
    return 1e3 * max(seconds_each(partial(cheapest_periods, one, COSTS, meetings), 1) for one in groups)


def golab_slide(chance: random.Random, window: int) -> int:
    return chance.randint(1, window // 2)


def any_slide(chance: random.Random, window: int) -> int:
    return chance.randint(1, 1000)


def queries(seed: int, draw: Callable[[random.Random, int], int]) -> list[PeriodicQuery]:
    chance = random.Random(seed)
    slides: set[int] = set()
    while len(slides) < SUB_GROUPS:
        slides.add(draw(chance, chance.randint(20, 100)))
    among = sorted(slides)
    return [
        PeriodicQuery(
            f"q{place}",
            "synopsis",
            "group",
            max(chance.randint(20, 100), 2 * among[place % SUB_GROUPS]),
            among[place % SUB_GROUPS],
        )
        for place in range(QUERIES)
    ]


def decision_s(among: list[PeriodicQuery], kind: str) -> float:
    """Return the seconds of a decision: an update, the choice of the next run, and the report on that run of about fifty queries."""
    scheduler = PeriodicScheduler(schedule_of(kind))
    scheduler.open("synopsis", 1.0)
    for query in among:
        scheduler.add(query, COSTS)
    now = 0.0

    def decide() -> None:
        nonlocal now
        while True:
            task = scheduler.pick(now)
            if task is not None:
                scheduler.done(task, now)
                return
            now += 1.0
            scheduler.updated("synopsis", now)

    return seconds_each(decide, 300)
