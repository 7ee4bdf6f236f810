"""A class that tunes itself beside one that is given every policy in turn, on three workloads with different objectives.

Both are classes as a host runs them, with the same queries: slices, load cycles, and what a unit notices of itself. They get the
same bursts by turns. The first begins with its objective's policy and is compared after each burst, until it has no reason to
think of another one. The other runs by each candidate, some times over; the best of them then run against the first by turns, and
only these bursts count: whoever is the best of many tries has been lucky, too. What is compared is what a class that tunes itself is
held against. The clock is this thread's processor time, as if the class had its lane to itself: with real hosts on Ray, on a machine
whose processors others use as well, one burst by the same policy takes up to twice as long as another.

What makes policies differ live is which stream goes first:

    response     noise leads to nothing; what is wanted is answered eight times
    memory       a filter drops nearly all of what is sifted, and what is left is dear: a tuple that is taken in costs more than
                 a plain one, although its queue seems to shrink faster
    tardiness    what has an hour's time comes before what is due every ten milliseconds, and is passed on as well
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

import numpy as np
import pyarrow as pa

from actors.noticed import Noticed
from bench.measure import Figure
from configs.live import LiveClass
from configs.objectives import WAYS, Objective, candidates
from configs.policies import Automatic, policy_of, policy_text
from engine.door import Piece
from engine.hosted import HostedClass
from engine.train import train_from_arrow
from scheduler.tuning import Compared, Explanation, tuning_core
from services.tuning.tuner import class_now
from sim.lookahead import Seen, forecasts, objective_value
from sim.simulation import alone

# Bursts by each policy, and of those that run against each other.
TRIES, FINAL_TRIES, FINALISTS = 2, 4, 3
WARM_UPS = 2
# Comparisons within which a class is to have found what serves it.
COMPARED_MOST = 20
TRAIN_MAX, SLICE_S, CYCLE_S = 5000, 0.01, 0.04
# From one burst to the next, longer if it takes longer; and of event time.
PERIOD_S, PERIOD_MS = 1.0, 1000
AFTER_S = 1e-4
KEYS = 50


def costly(number: int, terms: int) -> str:
    """An expression that no other query has."""
    each = [f"SQRT(x + {number}) * LN(x + {place + 2}) / (x + {place + 1})" for place in range(terms)]
    return " + ".join(each)


@dataclass(frozen=True)
class Workload:
    """Rows of a burst by stream, in the order in which they come."""

    objective: Objective
    rows: Mapping[str, int]
    queries: Mapping[str, str]

    def declared(self, policy: str) -> LiveClass:
        """The class by a policy, or by `auto`."""
        columns = "(ts int64, k int64, x float64, WATERMARK FOR ts AS ts)"
        chosen = Automatic() if policy == "auto" else policy_of(policy)
        return LiveClass(
            name=self.objective,
            priority=1,
            delay_target_ms=10_000,
            lossless=True,
            objective=self.objective,
            policy=chosen,
            streams=tuple(f"CREATE STREAM {one} {columns}" for one in self.rows),
            queries=self.queries,
        )


WORKLOADS = (
    Workload(
        "response",
        {"noise": 900_000, "wanted": 400_000},
        {f"quiet{one}": f"SELECT ts FROM noise WHERE {costly(one, 8)} < -1" for one in range(8)}
        | {f"answer{one}": f"SELECT ts, {costly(one, 3)} AS y FROM wanted" for one in range(8)},
    ),
    Workload(
        "memory",
        {"sifted": 300_000, "plain": 500_000},
        {"sift": "SELECT ts, x FROM sifted WHERE x > 0.99"}
        | {f"dear{one}": f"SELECT MEDIAN(x) AS y FROM sift [ROWS {100 + one} SLIDE 1]" for one in range(2)}
        | {"worked": f"SELECT ts, {costly(0, 60)} AS y FROM plain"},
    ),
    Workload(
        "tardiness",
        {"slow": 1_500_000, "fast": 1_000_000},
        {
            f"hourly{one}": f"SELECT k, STDDEV(x + {one}) AS y FROM slow [RANGE 1 HOUR] GROUP BY k"
            for one in range(6)
        }
        | {
            f"often{one}": f"SELECT k, STDDEV(x + {one}) AS y"
            " FROM fast [RANGE 20 MILLISECONDS SLIDE 10 MILLISECONDS] GROUP BY k"
            for one in range(4)
        }
        # Of windows alone policies know nothing: panes pass no tuples on.
        | {"passed": "SELECT ts, k, x FROM fast WHERE x >= 0.5"},
    ),
)


def figures() -> list[Figure]:
    return [figure for workload in WORKLOADS for figure in compared(workload)]


def compared(workload: Workload) -> list[Figure]:
    tuned, given = Running(workload, "auto"), Running(workload, "fcfs")
    told = settled(tuned)
    tried(given, ["fcfs"], WARM_UPS)
    every = tried(given, [policy_text(one) for one in candidates(workload.objective)], TRIES)
    best = sorted(every, key=lambda policy: min(every[policy]))[:FINALISTS]
    own, others = list[float](), {policy: list[float]() for policy in best}
    for _ in range(FINAL_TRIES):
        # Each comes after the other: what a burst finds in caches is the same.
        for policy in best:
            others[policy] += tried(given, [policy], 1)[policy]
            own.append(tuned.burst())
    rival = min(others, key=lambda policy: median(others[policy]))
    best_value, worst_value = median(others[rival]), max(median(values) for values in every.values())
    name, unit = f"auto, {workload.objective}", WAYS[workload.objective].unit
    return [
        Figure(f"{name}: over the best policy, {rival}", median(own) / best_value, "×", limit=1.1),
        Figure(f"{name}: {told[0].policy}, then {told[-1].after}", median(own), unit),
        Figure(f"{name}: comparisons until it stays", len(told), ""),
        Figure(f"{name}: its first policy over the best", median(every[told[0].policy]) / best_value, "×"),
        Figure(f"{name}: the worst policy over the best", worst_value / best_value, "×"),
    ]


def settled(tuned: Running) -> Sequence[Explanation]:
    """What it was told until it stays."""
    for _ in range(WARM_UPS):
        tuned.burst()
    while tuned.compare().branch != "stay" and len(tuned.told) < COMPARED_MOST:
        tuned.burst()
    return [*tuned.told]


def tried(given: Running, policies: Sequence[str], times: int) -> dict[str, list[float]]:
    """What the objective came to, by turns."""
    found: dict[str, list[float]] = {policy: [] for policy in policies}
    for _ in range(times):
        for policy in policies:
            given.hosted.switch(policy_of(policy))
            found[policy].append(given.burst())
    return found


class ProcessorClock:
    """Stands while others have the processor, and when it is told to."""

    def __init__(self) -> None:
        self._ahead_s = 0.0

    def __call__(self) -> float:
        return time.thread_time() + self._ahead_s

    def until(self, moment: float) -> None:
        self._ahead_s += max(0.0, moment - self())

    @contextmanager
    def standing(self) -> Iterator[None]:
        at = self()
        yield
        self._ahead_s += at - self()


class Running:
    """A class of the workload as its host runs it."""

    def __init__(self, workload: Workload, policy: str) -> None:
        declared = workload.declared(policy)
        self.hosted = HostedClass(declared, TRAIN_MAX)
        self._workload, self._core, self._clock = workload, tuning_core(declared), ProcessorClock()
        self._noticed = Noticed(CYCLE_S, TRAIN_MAX)
        # Both are looked at, whoever tunes himself.
        self._noticed.follow(Automatic(), self.hosted)
        self._bursts = 0
        self.hosted.wake(self._clock())

    @property
    def told(self) -> Sequence[Explanation]:
        return () if self._core is None else self._core.explanations

    def burst(self) -> float:
        """Everything at once, until it is answered, and quiet up to the end of the period; what the objective came to."""
        clock, hosted = self._clock, self.hosted
        began, used_s = clock(), 0.0
        next_cycle = began + CYCLE_S
        for place, (stream, count) in enumerate(self._workload.rows.items()):
            # One comes after the other.
            clock.until(began + place * AFTER_S)
            now = clock()
            with clock.standing():
                piece = self._piece(stream, count, now)
            hosted.take(piece)
        self._bursts += 1
        while hosted.has_input() or clock() < began + PERIOD_S:
            if hosted.has_input():
                used_s += hosted.run(SLICE_S, clock, clock)
                hosted.committed()
            else:
                clock.until(next_cycle)
            if clock() >= next_cycle:
                self._noticed.cycle_ended(hosted.end_cycle(clock(), used_s), 1.0, hosted, clock())
                used_s, next_cycle = 0.0, clock() + CYCLE_S
        with clock.standing():
            found = self._noticed.now(hosted, 1.0)
            assert found is not None
            self._found = found
        value = objective_value(
            self._workload.objective,
            Seen(found.seen, found.queued, found.stale, found.lost, found.tardy_ms),
        )
        assert value is not None
        self._value = value
        return value

    def compare(self) -> Explanation:
        """What came of the last burst with what would come of it by each policy; it may go on by another one."""
        objective = self._workload.objective
        assert self._core is not None
        with self._clock.standing():
            forecast = forecasts(class_now(objective, self._found), candidates(objective), alone)
            for command in self._core.handle(Compared(self._value, forecast), self._clock()):
                self.hosted.switch(policy_of(command.policy))
        return self._core.explanations[-1]

    def _piece(self, stream: str, count: int, now: float) -> Piece:
        number, begin = np.arange(count), self._bursts * PERIOD_MS
        columns = {"ts": begin + number * PERIOD_MS // count, "k": number % KEYS, "x": number % 1000 / 1000}
        schema = self.hosted.schemas[stream].schema
        train = train_from_arrow(pa.RecordBatch.from_pydict(columns), schema, now)
        return Piece(stream, self._bursts, count, 0, 0, train, None)
