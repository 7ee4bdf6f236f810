"""Fraction of the run time that scheduling takes, for Carney's network of 1,000 queries of 10 boxes each (thesis, Tables 4.4 and 4.5).

A box (an operator) takes 5 µs per tuple, deadlines are 75 to 300 ms, and tuples come one by one to random inputs. The thesis
reports the share of the run time at 4,000 tuples per second, the most that its fixed push-through sustains. In the thesis,
boxes are busy for a fifth of the run time, and most of the other time is overhead of calling boxes.

Here a run is simulated, and all calls of the host to its scheduler are recorded. The same calls are then repeated without
the rest of the run. The processor time of these calls counts, minus the time of as many empty calls. Two shares are
reported:

1. the share of the run time at 4,000 tuples per second, as in the thesis;
2. the share of the time for which boxes and scheduler are busy, at nine tenths of the rate that boxes alone could process. This
   measure is stricter, because no time is idle.
"""

from __future__ import annotations

import gc
import random
import time
from dataclasses import dataclass

from bench.measure import TRIES, Figure
from configs.classes.policies import policy_of
from configs.classes.utility import UtilityGraph
from scheduler.operators.network import Estimate, Network, ScheduledOperator
from scheduler.operators.policies import NONE
from scheduler.operators.scheduler import OperatorScheduler

QUERIES, BOXES = 1000, 10
BOX_S = 5e-6
DEADLINES_MS = (75.0, 150.0, 225.0, 300.0)
STEADY_RATE = 4000.0
FULL_RATE = 0.9 / (BOXES * BOX_S)
TUPLES = 20_000

POLICIES = {
    "buckets, push-through": "bucket:gradients=50,slacks=50,push_through=true",
    "fixed, push-through": "fixed:push_through=true",
    "slope-slack, push-through": "slope-slack:push_through=true",
    "fixed, box by box": "fixed",
}
# Maximum percentage of the run time that scheduling may take, by policy. Policies that are not listed have no maximum.
LIMITS = {"buckets, push-through": 1.5}

Call = tuple[str, tuple[float, ...]]


def figures() -> list[Figure]:
    found = []
    for label, policy in POLICIES.items():
        steady, full = run_of(policy, STEADY_RATE), run_of(policy, FULL_RATE)
        name = f"scheduling, {label}"
        share = 100 * steady.scheduling_s() / steady.seconds
        found.append(Figure(f"{name}: part of run time at 4,000/s", share, "%", limit=LIMITS.get(label)))
        spent_s = full.scheduling_s()
        found.append(
            Figure(f"{name}: part of busy time at 18,000/s", 100 * spent_s / (spent_s + full.busy_s), "%")
        )
    return found


@dataclass
class Run:
    """Record of one run: all calls of a host to its scheduler, the run's length, and the time for which boxes were busy."""

    policy: str
    calls: list[Call]
    seconds: float
    busy_s: float

    def scheduling_s(self) -> float:
        """Return the least processor-seconds of all calls in several tries; other programs can only slow the calls down."""
        enabled = gc.isenabled()
        gc.disable()
        try:
            return min(self._made_again() for _ in range(TRIES))
        finally:
            if enabled:
                gc.enable()

    def _made_again(self) -> float:
        scheduler = scheduler_of(self.policy)
        called = {name: getattr(scheduler, name) for name in ("pick", "pending", "ready", "idle")}
        calls = [(called[name], args) for name, args in self.calls]
        began = time.thread_time()
        for call, args in calls:
            call(*args)
        middle = time.thread_time()
        for _, args in calls:
            nothing(*args)
        return (middle - began) - (time.thread_time() - middle)


def nothing(*args: float) -> None:
    """Do nothing. The benchmark measures the time of such empty calls and subtracts it from the result."""


def network() -> Network:
    return Network(
        tuple(
            ScheduledOperator(
                f"q{query}.{box}",
                () if box == BOXES - 1 else (query * BOXES + box + 1,),
                source=box == 0,
                utility=graph(DEADLINES_MS[query % len(DEADLINES_MS)]) if box == BOXES - 1 else None,
            )
            for query in range(QUERIES)
            for box in range(BOXES)
        )
    )


def graph(deadline_ms: float) -> UtilityGraph:
    points = ({"latency_ms": deadline_ms, "utility": 1.0}, {"latency_ms": deadline_ms + 0.1, "utility": 0.0})
    return UtilityGraph.model_validate({"points": points})


def scheduler_of(policy: str) -> OperatorScheduler:
    estimates = (Estimate(BOX_S, 1.0),) * (QUERIES * BOXES)
    return OperatorScheduler(network(), policy_of(policy), estimates, adaptive=False)


def run_of(policy: str, rate: float) -> Run:
    """Run a host's loop in virtual time, in which only boxes take time; each call processes the whole queue of a box."""
    scheduler, calls = scheduler_of(policy), list[Call]()
    chance = random.Random(1)
    arrivals = [(chance.expovariate(rate), BOXES * chance.randrange(QUERIES)) for _ in range(TUPLES)]
    queues: list[list[float]] = [[] for _ in range(QUERIES * BOXES)]
    now, coming, busy_s = 0.0, 0.0, 0.0

    def made(name: str, *args: float) -> int:
        calls.append((name, args))
        answer: int = getattr(scheduler, name)(*args)
        return answer

    def enter(number: int, tuples: list[float]) -> None:
        is_new = not queues[number]
        queues[number] += tuples
        if scheduler.counted[number]:
            made("pending", number, len(queues[number]))
        if is_new:
            made("ready", number, tuples[0])

    place = 0
    while True:
        while place < TUPLES and coming + arrivals[place][0] <= now:
            coming += arrivals[place][0]
            enter(arrivals[place][1], [coming])
            place += 1
        number = made("pick", now)
        if number == NONE:
            if place == TUPLES:
                return Run(policy, calls, now, busy_s)
            now = coming + arrivals[place][0]
            continue
        train, queues[number] = queues[number], []
        now += len(train) * BOX_S
        busy_s += len(train) * BOX_S
        if number % BOXES < BOXES - 1:
            enter(number + 1, train)
        made("idle", number)
