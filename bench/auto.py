"""Comparison of a self-tuning class on Ray with all fixed policies, on three workloads with different objectives.

The system has one class, and the host of the class has its own processor. The class gets the same burst of rows again
whenever it has answered the previous burst.

1. After each burst the class compares policies, as in the service: measurements go to the simulator in another process, and the
   coordinator's tuning core decides. This ends when the core decides to keep its policy.
2. The host then runs some bursts under each candidate policy.
3. The finalists are the best policies and the policy that the class chose. They run bursts in turns, and only bursts of
   this step count, because the best of many tries is partly luck. Of several bursts the best counts, because other programs
   can only make a burst slower.

In the live system, policies differ mainly in the stream that they process first:

    response     tuples of `noise` give no answer; tuples of `wanted` give eight answers each
    memory       a filter drops nearly all tuples of `sifted`, but the rest is expensive. So a tuple of `sifted` costs more
                 than a tuple of `plain`, although its queue seems to shrink faster
    tardiness    the windows of `slow` are due every hour, those of `fast` every ten milliseconds
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import ray

from actors.gateway.producer import Producer
from actors.host.host import HostStatus
from actors.host.unit import UnitStatus
from actors.messages.gateway_messages import Accepted
from actors.messages.unit_messages import Unit
from actors.system import System, start
from bench.measure import Figure, wait
from configs.classes.live_class import LiveClass, LiveSettings
from configs.classes.load_manager import LoadSettings
from configs.classes.objectives import WAYS, Objective, candidates
from configs.classes.policies import Automatic
from configs.classes.policy_and_plan import Choice, choice_of
from scheduler.tuning import TuningDecision
from services.plan.worker_process import Aside
from services.tuning.tuner import Tuner
from services.watch.source import RunningSystem
from services.watch.watch import Watch
from sim.forecast.policy_forecast import ObjectiveFigures, objective_value

# Number of bursts of each candidate policy, number of bursts of each finalist, and number of finalists.
TRIES, FINAL_TRIES, FINALISTS = 2, 6, 3
WARM_UPS = 2
# Number of comparisons after which a class must have decided to keep its policy.
COMPARED_MOST = 20
CYCLE_MS = 40.0
SETTINGS = LiveSettings(train_max=5000, idle_after_s=None, load=LoadSettings(cycle_ms=CYCLE_MS))
# Event time, in ms, between the beginnings of two bursts.
PERIOD_MS = 1000
KEYS = 50
WAIT_S = 60.0
# Seconds by which the clock is moved so that the next comparison is due at once.
LONG_S = 1e6


def costly(number: int, terms: int) -> str:
    """Return an expensive SQL expression that no other query shares."""
    each = [f"SQRT(x + {number}) * LN(x + {place + 2}) / (x + {place + 1})" for place in range(terms)]
    return " + ".join(each)


@dataclass(frozen=True)
class Workload:
    """Workload for one objective: its queries, and the rows of a burst by stream, with the streams in the order of arrival."""

    objective: Objective
    rows: Mapping[str, int]
    queries: Mapping[str, str]

    @property
    def declared(self) -> LiveClass:
        columns = "(ts int64, k int64, x float64, WATERMARK FOR ts AS ts)"
        return LiveClass(
            name=self.objective,
            priority=1,
            delay_target_ms=10_000,
            lossless=True,
            objective=self.objective,
            policy=Automatic(),
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
        },
    ),
)


def figures() -> list[Figure]:
    return [figure for workload in WORKLOADS for figure in compared(workload)]


def compared(workload: Workload) -> list[Figure]:
    with running(workload) as one:
        told = one.settled()
        own = choice_of(told[-1].after)
        every = [Choice(policy, own.plan) for policy in candidates(workload.objective)]
        tries = {str(choice): min(one.tried(choice, TRIES)) for choice in every}
        others = sorted((choice for choice in every if choice != own), key=lambda it: tries[str(it)])
        finals = {}
        for choice in others[:FINALISTS]:
            by_turns = [(*one.tried(own, 1), *one.tried(choice, 1)) for _ in range(FINAL_TRIES)]
            finals[str(choice)] = tuple(map(min, zip(*by_turns, strict=True)))
    rival = max(finals, key=lambda name: finals[name][0] / finals[name][1])
    own_value, rival_value = finals[rival]
    name, unit = f"auto, {workload.objective}", WAYS[workload.objective].unit
    best = min(tries.values())
    return [
        Figure(
            f"{name}: chosen policy ÷ best other policy, {rival}", own_value / rival_value, "×", limit=1.1
        ),
        Figure(f"{name}: began with {told[0].policy}, chose {own}", own_value, unit),
        Figure(f"{name}: comparisons until it keeps its policy", len(told), ""),
        Figure(f"{name}: first policy ÷ best policy", tries[told[0].policy] / best, "×"),
        Figure(f"{name}: worst policy ÷ best policy", max(tries.values()) / best, "×"),
    ]


@dataclass
class Running:
    """Running class of a workload, on its host."""

    workload: Workload
    system: System
    source: RunningSystem
    watch: Watch
    tuner: Tuner
    _clock: Ahead
    _bursts: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        (self._node,) = self.system.status().system.nodes
        (unit,) = self.system.status().system.units.values()
        self._host = self.system.host(unit.host)
        wait(lambda: self.system.readers(self._node).keys() >= self.workload.rows.keys(), "readers", WAIT_S)

    def settled(self) -> Sequence[TuningDecision]:
        """Compare policies after each burst until the class keeps its policy; return all tuning decisions."""
        for _ in range(WARM_UPS):
            self.burst()
        # The first call of the tuner sets the time at which the class is due for a comparison.
        self._compare()
        for _ in range(COMPARED_MOST):
            self._compare()
            if self.told and self.told[-1].branch == "stay":
                break
        return self.told

    def tried(self, choice: Choice, times: int) -> list[float]:
        """Run bursts under a policy and plan, and return the objective's value for each burst."""
        declared = self.workload.declared
        unit = Unit(declared, original=1.0, share=1.0, choice=choice)
        ray.get(self._host.set_units.remote([unit]))
        return [self.burst() for _ in range(times)]

    @property
    def told(self) -> Sequence[TuningDecision]:
        return self.source.decisions(self.workload.objective, COMPARED_MOST).tuned

    def burst(self) -> float:
        """Publish a burst, wait until it is answered, and return the objective's value."""
        ray.get(self._host.noticed.remote(self.workload.objective))
        self._publish()
        self._done()
        found = ray.get(self._host.noticed.remote(self.workload.objective))
        value = objective_value(
            self.workload.objective,
            ObjectiveFigures(found.seen, found.queued, found.stale, found.lost, found.tardy_ms),
        )
        assert value is not None
        return value

    def _compare(self) -> None:
        """Publish a burst and let the tuner compare policies. The class must be awake, because sleeping classes are skipped."""
        self._publish()
        wait(self._is_seen_awake, "end of its sleep", WAIT_S)
        self._clock.ahead_s += LONG_S
        self.tuner.look()
        self._done()

    def _is_seen_awake(self) -> bool:
        self.watch.look()
        seen = self.watch.view(max_age_s=LONG_S).classes
        return not seen[self.workload.objective].asleep

    def _publish(self) -> None:
        begin = self._bursts * PERIOD_MS
        self._bursts += 1
        batches = []
        for stream, count in self.workload.rows.items():
            number = np.arange(count)
            ts = begin + number * PERIOD_MS // count
            columns = {"ts": ts, "k": number % KEYS, "x": number % 1000 / 1000}
            batches.append((stream, pa.RecordBatch.from_pydict(columns)))
        with Producer(self.system.door(self._node)) as producer:
            for stream, batch in batches:
                assert isinstance(producer.publish(stream, batch), Accepted)

    def _done(self) -> None:
        total = self._bursts * sum(self.workload.rows.values())

        def is_done() -> bool:
            status = self._status()
            return status.asleep and status.figures.delivered == total

        wait(is_done, "rest", WAIT_S)

    def _status(self) -> UnitStatus:
        found: HostStatus = ray.get(self._host.status.remote())
        return found.units[self.workload.objective]


class Ahead:
    """Clock that can be moved forward, so that comparisons follow each other without waiting."""

    ahead_s = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead_s


@contextmanager
def running(workload: Workload) -> Iterator[Running]:
    clock = Ahead()
    with start(SETTINGS, [workload.declared]) as system:
        source = RunningSystem(system)
        with Aside() as aside, Watch(source, lambda: (), clock=clock) as watch:
            yield Running(
                workload, system, source, watch, Tuner(source, watch, aside.forecasts, clock), clock
            )
