"""Queries change to other plans while their input arrives, without losing or repeating an answer.

A self-tuning class finds the better plan by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice

import numpy as np
import pyarrow as pa
import pytest
import ray

from actors.system import System
from configs.classes.live_class import LiveClass, LiveSettings
from configs.classes.plans import PlanSettings
from configs.classes.policy_and_plan import PLANS, choice_of
from configs.scenario import w11
from engine.class_.explain import PlanLine
from engine.class_.hosted_class import HostedClass
from services.plan.worker_process import Aside
from services.tuning.tuner import Tuner
from services.watch.source import RunningSystem
from services.watch.watch import Watch
from tests.live import runs
from tests.live.runs import Answers, Publisher
from tests.support.waiting import eventually

pytestmark = pytest.mark.live

USUAL, AFTER, APART, AFTER_APART = PLANS
NEAR = (
    "SELECT r.ts AS rts, a.ts AS ats, r.sensor, r.temp, a.level FROM readings r JOIN alerts a ON r.sensor = a.sensor"
    " AND a.ts BETWEEN r.ts - INTERVAL 500 MILLISECONDS AND r.ts + INTERVAL 500 MILLISECONDS WHERE a.level >= 2 AND r.temp > 5"
)
MEAN = "SELECT window_end AS wend, region, SUM(temp) AS v FROM readings [RANGE 1 SECOND] GROUP BY region"
QUERIES = {
    "hot": "SELECT ts, sensor, temp FROM readings WHERE temp > 20",
    "near": NEAR,
    "nearer": NEAR,
    "mean": MEAN,
    "again": MEAN,
    "paired": "SELECT window_end AS wend, level, COUNT(*) AS n FROM near [RANGE 1 SECOND] GROUP BY level",
}
SETTINGS = LiveSettings.model_validate({"load": {"cycle_ms": 50}, "train_max": 200, "idle_after_s": None})
BATCHES = runs.batches(seconds=24, batch_rows=250, prefixes=("",))
# Number of parts in which the input is published. Two parts span more event time than an exchange of operators takes.
PARTS = 8
CHANGES = {0: AFTER, 2: APART, 4: AFTER_APART, 6: USUAL}


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with runs.started(SETTINGS, tmp_path_factory.mktemp("data")) as running:
        yield running


def declared(plan: PlanSettings = USUAL) -> LiveClass:
    return runs.declared("gold", 1, w11.streams(), QUERIES, plan=plan)


def has(system: System, operators: Counter[str]) -> bool:
    """Return True if the class has exactly these operators."""
    host = system.host(runs.units(system)["gold"].host)
    lines: list[PlanLine] = ray.get(host.plan.remote("gold"), timeout=5)
    return Counter(line.name.partition(":")[0] for line in lines) == operators


def expected(plan: PlanSettings, queries: Mapping[str, str] = QUERIES) -> Counter[str]:
    """Return the operators of a class that was started with this plan."""
    hosted = HostedClass(declared(plan).model_copy(update={"queries": queries}), SETTINGS.train_max)
    return Counter(node.name.partition(":")[0] for node in hosted.runner.network.nodes)


def answered(system: System, changes: Mapping[int, PlanSettings]) -> Answers:
    """Return all answers to the input; each change of plan is complete before the next change."""
    runs.host(system, [declared()])
    publisher = Publisher(runs.folders(system, runs.node_of(system)))
    for number, part in enumerate(runs.parts(BATCHES, PARTS)):
        if number in changes:
            system.apply([declared(changes[number])])
        publisher.publish(part)
        if number - 1 in changes:
            wanted = expected(changes[number - 1])
            eventually(partial(has, system, wanted), f"an exchange for {dict(wanted)}")
    runs.worked_off(system, runs.offered([declared()], publisher.accepted))
    answers = runs.answers(system, [declared()])
    runs.remove(system, [declared()])
    return answers


def test_no_answer_is_lost_or_repeated_when_a_class_changes_its_plan_during_input(system: System) -> None:
    undisturbed = answered(system, {})
    assert all(map(len, undisturbed.values()))
    runs.assert_same(answered(system, CHANGES), undisturbed)


# SQL of the queries: few readings pass the condition, and each of those readings joins with many alerts.
SELECTIVE = {
    "near": "SELECT r.ts AS rts, r.temp, a.level FROM readings r JOIN alerts a ON r.sensor = a.sensor"
    " AND a.ts BETWEEN r.ts - INTERVAL 1 SECOND AND r.ts + INTERVAL 1 SECOND WHERE r.temp < 1 AND a.level = 0"
}
STEP_MS, ROWS, SENSORS, TEMPS, LEVELS = 50, 100, 12, 40, 4


def second(number: int) -> Iterator[runs.Batch]:
    """Yield batches of two streams in turn. All these batches together cover one second of event time."""
    chance = np.random.default_rng(number)
    for step in range(1000 // STEP_MS):
        times = 1000 * number + STEP_MS * step + np.sort(chance.integers(0, STEP_MS, ROWS))
        both = {"ts": times, "sensor": chance.integers(0, SENSORS, ROWS).astype(np.int32)}
        more = {name: chance.random(ROWS) for name in ("humidity", "wind")}
        region, temp = chance.integers(0, 9, ROWS).astype(np.int32), TEMPS * chance.random(ROWS)
        level = chance.integers(0, LEVELS, ROWS).astype(np.int32)
        readings = {"ts": times, "sensor": both["sensor"], "region": region, "temp": temp} | more
        yield "readings", pa.RecordBatch.from_pydict(readings)
        yield "alerts", pa.RecordBatch.from_pydict(both | {"level": level})


def test_self_tuning_class_switches_to_the_plan_with_the_better_forecast(
    system: System,
) -> None:
    policy = {"kind": "auto", "every_s": 1, "steady": 1}
    gold = runs.declared("gold", 1, w11.streams(), SELECTIVE, plan=AFTER, policy=policy)
    runs.host(system, [gold])
    publisher, seconds = Publisher(runs.folders(system, runs.node_of(system))), iter(range(100_000))
    for number in islice(seconds, 3):
        publisher.publish(second(number))
    source = RunningSystem(system)
    with Aside() as aside, Watch(source, lambda: ()) as watch, Tuner(source, watch, aside.forecasts):

        def is_usual() -> bool:
            publisher.publish(second(next(seconds)))
            return has(system, expected(USUAL, SELECTIVE))

        assert has(system, expected(AFTER, SELECTIVE))
        eventually(is_usual, "an exchange")
        switches = [
            decision for decision in source.decisions("gold", 10).tuned if decision.branch == "switch"
        ]
    assert choice_of(switches[0].policy).plan == AFTER
    assert choice_of(switches[0].after).plan == USUAL
    assert switches[0].forecasts[switches[0].after] < 0.9 * switches[0].forecasts[switches[0].policy]
    runs.worked_off(system, runs.offered([gold], publisher.accepted))
    runs.remove(system, [gold])
