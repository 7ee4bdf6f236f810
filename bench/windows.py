"""Cost of answering many windows over the same panes, with and without shared scans.

Forty windows over one stream each compute sums, means, maxima and counts of a thousand groups. Ranges are 20 to 100 s, and
slides are drawn from five values. The same input is processed with exact slides (each window by its own scan, or by shared
scans) and with `SLIDE AT MOST`. The variants run one after the other, and speeds are compared only within one run.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence

import numpy as np

from bench.measure import Figure
from configs.classes.window_settings import WindowSettings
from engine.class_.runner import ClassRunner
from engine.data.schema import FLOAT64, INT64
from engine.data.train import Train, Values, same_arrival
from engine.plan.plan import Query
from engine.sql import SqlCatalog, parse_create_stream, plan_query

STREAM = parse_create_stream("CREATE STREAM s (ts int64, k int64, x float64, WATERMARK FOR ts AS ts)")
WINDOWS, GROUPS = 40, 1000
SECONDS, TUPLES = 120, 2000
SLIDES = (1, 2, 3, 5, 10)
TRIES = 3
UNBOUNDED_S = 1e9
# Kind of slide and schedule, by the name of the variant.
WAYS: Mapping[str, tuple[str, WindowSettings]] = {
    "exact, each by its own scan": ("SLIDE", WindowSettings(schedule="none")),
    "exact": ("SLIDE", WindowSettings()),
    "at most, none": ("SLIDE AT MOST", WindowSettings(schedule="none")),
    "at most, conservative": ("SLIDE AT MOST", WindowSettings(schedule="conservative")),
    "at most, hybrid": ("SLIDE AT MOST", WindowSettings(schedule="hybrid")),
}


def figures() -> list[Figure]:
    least = dict.fromkeys(WAYS, float("inf"))
    trains = drawn()
    for _ in range(TRIES):
        for name, (kind, settings) in WAYS.items():
            least[name] = min(least[name], answering_s(queries(kind), settings, trains))
    alone = least["exact, each by its own scan"]
    return [
        *(Figure(f"40 windows {name}", seconds, "s") for name, seconds in least.items()),
        Figure("40 windows exact: own scans ÷ shared scans", alone / least["exact"], "×", least=2.0),
    ]


def queries(kind: str) -> Sequence[Query]:
    chance, catalog = random.Random(1), SqlCatalog.of([STREAM])
    texts = [
        "SELECT window_end, k, SUM(x) AS total, AVG(x) AS mean, MAX(x) AS most, COUNT(*) AS n"
        f" FROM s [RANGE {chance.randint(20, 100)} SECONDS {kind} {chance.choice(SLIDES)} SECONDS] GROUP BY k"
        for _ in range(WINDOWS)
    ]
    return [plan_query(f"q{place}", text, catalog) for place, text in enumerate(texts)]


def drawn() -> Sequence[Train]:
    chance, trains = np.random.default_rng(1), []
    for second in range(SECONDS):
        times = 1000 * second + np.arange(TUPLES) * 1000 // TUPLES
        columns = (
            Values(INT64, times),
            Values(INT64, chance.integers(0, GROUPS, TUPLES)),
            Values(FLOAT64, chance.normal(20.0, 10.0, TUPLES)),
        )
        trains.append(Train(columns, same_arrival(0.0, TUPLES)))
    return trains


def answering_s(some: Sequence[Query], settings: WindowSettings, trains: Sequence[Train]) -> float:
    """Return the processor-seconds that answering the queries takes for all of the input."""
    runner = ClassRunner(ignore, windows=settings)
    runner.add(*some)
    began = time.thread_time()
    for train in trains:
        runner.offer("s", train)
        runner.run(UNBOUNDED_S, zero, zero)
    return time.thread_time() - began


def ignore(query: str, out: Train) -> None:
    """Discard all answers of the queries."""


def zero() -> float:
    return 0.0
