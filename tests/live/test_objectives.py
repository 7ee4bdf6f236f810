"""Live classes with different objectives on the same streams: each does better with the policy for its objective.

Policies change without a restart. A self-tuning class is compared with forecasts while it runs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest

from actors.gateway.producer import Producer
from actors.messages.gateway_messages import Accepted
from actors.messages.unit_messages import UnitReport
from actors.system import System, start
from configs.classes.live_class import LiveClass, LiveSettings
from configs.classes.objectives import candidates
from configs.classes.policies import policy_text
from services.plan.worker_process import Aside
from services.tuning.tuner import Tuner
from services.watch.source import RunningSystem
from services.watch.watch import Watch
from tests.support.waiting import POLL_S, eventually

pytestmark = pytest.mark.live

STREAMS = tuple(
    f"CREATE STREAM {name} (ts int64, x float64, WATERMARK FOR ts AS ts)" for name in ("noise", "wanted")
)
# A tuple of stream `noise` costs little and has no answer. A tuple of `wanted` costs ten times as much and has several answers.
QUERIES = {"quiet": "SELECT ts FROM noise WHERE x < 0"} | {
    f"answer{number}": f"SELECT ts, x * {number} + SQRT(x) / (x + {number}) AS y FROM wanted"
    for number in range(1, 9)
}
ROWS = {"noise": 4_000_000, "wanted": 500_000}
# Numbers of tuples before the first phase, by stream: enough trains that the estimates of operators come from measurements.
WARM_UP = {"noise": 60_000, "wanted": 60_000}
# Number of phases under each policy; the policies alternate.
TIMES = 3


@pytest.fixture(scope="module")
def system() -> Iterator[System]:
    with start(LiveSettings(train_max=1000), [], pinned=False) as running:
        yield running


def declared(name: str, **given: object) -> LiveClass:
    terms = {"name": name, "priority": 1, "delay_target_ms": 10_000, "lossless": True}
    return LiveClass.model_validate(terms | {"streams": STREAMS, "queries": QUERIES} | given)


def publish(system: System, rows: Mapping[str, int]) -> None:
    """Publish the rows of stream `noise` before those of `wanted`; a policy that orders tuples by age then processes the noise first."""
    (node,) = system.status().system.nodes
    with Producer(system.door(node)) as producer:
        for name, count in rows.items():
            # Let event time increase from call to call, because rows with earlier event times would be late.
            begin = time.monotonic_ns()
            batch = {"ts": np.arange(begin, begin + count), "x": np.arange(count) / count}
            assert isinstance(producer.publish(name, pa.RecordBatch.from_pydict(batch)), Accepted)


def reports(system: System) -> dict[str, UnitReport]:
    units = system.status().system.units
    return {name: unit.report for name, unit in units.items() if unit.report is not None}


@dataclass
class Phase:
    """Measurements of one phase of the input, for each class."""

    response_ms: dict[str, float]
    queued: dict[str, float]
    lives: dict[str, object]


def phase(system: System, rows: Mapping[str, int]) -> Phase:
    """Publish all rows at once, and wait until they are processed; return the mean response time and the mean queue length."""
    before = reports(system)
    publish(system, rows)
    total = sum(rows.values())
    queued, looks, until = dict.fromkeys(before, 0.0), 0, time.monotonic() + 60
    while True:
        found = reports(system)
        if all(found[name].figures.delivered - before[name].figures.delivered == total for name in before):
            break
        assert time.monotonic() < until, "the input is not worked off"
        looks += 1
        for name, report in found.items():
            started = report.figures.offered > before[name].figures.offered
            queued[name] += report.figures.queued if started else total
        time.sleep(POLL_S)
    return Phase(
        {name: mean_since(before[name], found[name]) for name in before},
        {name: value / looks for name, value in queued.items()},
        {name: report.counted and report.counted.life for name, report in found.items()},
    )


def least_response_ms(phases: Sequence[Phase], name: str) -> float:
    """Return the lowest response time of all phases: in that phase, other processes of the machine disturbed least."""
    return min(phase_.response_ms[name] for phase_ in phases)


def least_queued(phases: Sequence[Phase], name: str) -> float:
    return min(phase_.queued[name] for phase_ in phases)


def mean_since(before: UnitReport, after: UnitReport) -> float:
    figures, earlier = after.figures, before.figures
    sums = [figure.response_ms.get("mean", 0.0) * figure.results for figure in (figures, earlier)]
    return (sums[0] - sums[1]) / (figures.results - earlier.results)


def test_policy_chosen_for_an_objective_reaches_the_objective_better_than_another_policy(
    system: System,
) -> None:
    system.apply([declared("quick", objective="response"), declared("small", objective="memory")])
    eventually(lambda: len(reports(system)) == 2, "the classes")
    (node,) = system.status().system.nodes
    both = {"quick", "small"}
    eventually(lambda: system.readers(node) == {"noise": both, "wanted": both}, "readers of the streams")
    phase(system, WARM_UP)
    own, other = list[Phase](), list[Phase]()
    for _ in range(TIMES):
        system.apply([declared("quick", objective="response"), declared("small", objective="memory")])
        own.append(phase(system, ROWS))
        system.apply(
            [
                declared("quick", objective="response", policy={"kind": "chain"}),
                declared("small", objective="memory", policy={"kind": "hr"}),
            ]
        )
        other.append(phase(system, ROWS))
    assert least_response_ms(own, "quick") < 0.9 * least_response_ms(other, "quick")
    assert least_queued(own, "small") < 0.9 * least_queued(other, "small")
    assert all(phase_.lives == own[0].lives for phase_ in [*own, *other])
    for name in both:
        system.remove_class(name)


def test_running_self_tuning_class_compares_its_measurements_with_forecasts(system: System) -> None:
    policy = {"kind": "auto", "every_s": 1, "steady": 1}
    system.apply([declared("auto", objective="memory", policy=policy)])
    eventually(lambda: "auto" in reports(system), "the class")
    source = RunningSystem(system)
    with Aside() as aside, Watch(source, lambda: ()) as watch, Tuner(source, watch, aside.forecasts):

        def is_compared() -> bool:
            publish(system, {"noise": 10_000, "wanted": 5_000})
            watch.view(max_age_s=0.0)
            return any(
                decision.forecasts and decision.measured is not None
                for decision in source.decisions("auto", 10).tuned
            )

        eventually(is_compared, "a comparison")
        found = source.decisions("auto", 10).tuned
        last = next(decision for decision in found if decision.forecasts)
        assert last.forecasts.keys() == {policy_text(candidate) for candidate in candidates("memory")}
        assert watch.view(max_age_s=0.0).classes["auto"].policy == found[-1].after
