"""Cost of answering many windows over the same panes, with and without shared scans.

Forty windows over one stream each compute sums, means, maxima and counts of a thousand groups. Ranges are 20 to 100 s, and
slides are drawn from five values. The same input is processed with exact slides (each window by its own scan, or by shared
scans) and with `SLIDE AT MOST`. The variants "behind" process the same input as a class that is behind does, in trains of the maximum
length of 10,000 tuples. Event time then passes five seconds in one step. Their slides are drawn as in Golab's evaluation, because late
sharing changes nothing for slides that are multiples of each other. The variants run one after the other, and speeds are compared only
within one run.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence

import numpy as np

from bench.measure import Figure
from configs.classes.periodic_schedules import Late
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
LATE: Sequence[Late] = ("off", "late", "late-pending")
TRIES = 3
UNBOUNDED_S = 1e9
# Seconds of input in a train of a class that is in time, and of a class that is late.
IN_TIME_S, LATE_S = 1, 5
# Number of random draws of queries that a variant adds up, by its seconds of input in a train.
DRAWS = {IN_TIME_S: 1, LATE_S: 5}
# Kind of slide, schedule, and seconds of input per train, by the name of the variant.
WAYS: Mapping[str, tuple[str, WindowSettings, int]] = {
    "exact, each by its own scan": ("SLIDE", WindowSettings(schedule="none"), IN_TIME_S),
    "exact": ("SLIDE", WindowSettings(), IN_TIME_S),
    "at most, none": ("SLIDE AT MOST", WindowSettings(schedule="none"), IN_TIME_S),
    "at most, conservative": ("SLIDE AT MOST", WindowSettings(schedule="conservative"), IN_TIME_S),
    "at most, hybrid": ("SLIDE AT MOST", WindowSettings(schedule="hybrid"), IN_TIME_S),
    **{f"behind, late: {late}": ("SLIDE AT MOST", WindowSettings(late=late), LATE_S) for late in LATE},
}


def figures() -> list[Figure]:
    least, answers = dict.fromkeys(WAYS, float("inf")), dict[str, int]()
    trains = {seconds: drawn(seconds) for seconds in (IN_TIME_S, LATE_S)}
    for _ in range(TRIES):
        for name, (kind, settings, seconds) in WAYS.items():
            runs = [
                answering_s(queries(kind, seconds, draw), settings, trains[seconds])
                for draw in range(DRAWS[seconds])
            ]
            least[name] = min(least[name], sum(spent_s for spent_s, _ in runs))
            answers[name] = sum(ends for _, ends in runs)
    alone = least["exact, each by its own scan"]
    behind = [name for name, (_, _, seconds) in WAYS.items() if seconds == LATE_S]
    return [
        *(Figure(f"40 windows {name}", seconds, "s") for name, seconds in least.items()),
        *(Figure(f"40 windows {name}: ends answered", float(answers[name]), "") for name in behind),
        Figure("40 windows exact: own scans ÷ shared scans", alone / least["exact"], "×", least=2.0),
    ]


def queries(kind: str, seconds: int, draw: int) -> Sequence[Query]:
    """Return the queries of a variant with this kind of slide and this length of trains, in one of several random draws."""
    chance, catalog, texts = random.Random(1 + draw), SqlCatalog.of([STREAM]), list[str]()
    for _ in range(WINDOWS):
        window = chance.randint(20, 100)
        slide = chance.randint(1, window // 2) if seconds == LATE_S else chance.choice(SLIDES)
        texts.append(
            "SELECT window_end, k, SUM(x) AS total, AVG(x) AS mean, MAX(x) AS most, COUNT(*) AS n"
            f" FROM s [RANGE {window} SECONDS {kind} {slide} SECONDS] GROUP BY k"
        )
    return [plan_query(f"q{place}", text, catalog) for place, text in enumerate(texts)]


def drawn(seconds: int) -> Sequence[Train]:
    """Return the input in trains of this many seconds."""
    chance, trains = np.random.default_rng(1), []
    tuples = seconds * TUPLES
    for first in range(0, SECONDS, seconds):
        times = 1000 * first + np.arange(tuples) * 1000 // TUPLES
        columns = (
            Values(INT64, times),
            Values(INT64, chance.integers(0, GROUPS, tuples)),
            Values(FLOAT64, chance.normal(20.0, 10.0, tuples)),
        )
        trains.append(Train(columns, same_arrival(0.0, tuples)))
    return trains


def answering_s(
    some: Sequence[Query], settings: WindowSettings, trains: Sequence[Train]
) -> tuple[float, int]:
    """Return the processor-seconds that answering the queries takes for all of the input, and the number of answered windows."""
    answers: list[tuple[str, Train]] = []
    runner = ClassRunner(lambda query, out: answers.append((query, out)), windows=settings)
    runner.add(*some)
    began = time.thread_time()
    for train in trains:
        runner.offer("s", train)
        runner.run(UNBOUNDED_S, zero, zero)
    spent_s = time.thread_time() - began
    answered = {(query, end) for query, out in answers for end in np.unique(out.columns[0].data).tolist()}
    return spent_s, len(answered)


def zero() -> float:
    return 0.0
