"""Classes with different objectives on the same streams, live: each does better by its own policy than by the other's, and
goes from one to the other without being started anew; one that tunes itself is compared while it runs."""

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
# A tuple of noise costs little and leads to nothing; a wanted one costs some ten times as much and is answered often.
QUERIES = {"quiet": "SELECT ts FROM noise WHERE x < 0"} | {
    f"answer{number}": f"SELECT ts, x * {number} + SQRT(x) / (x + {number}) AS y FROM wanted"
    for number in range(1, 9)
}
ROWS = {"noise": 4_000_000, "wanted": 500_000}
# Enough trains for what is believed of an operator to be what was measured.
WARM_UP = {"noise": 60_000, "wanted": 60_000}
# By each of the policies, by turns.
TIMES = 3


@pytest.fixture(scope="module")
def system() -> Iterator[System]:
    with start(LiveSettings(train_max=1000), [], pinned=False) as running:
        yield running


def declared(name: str, **given: object) -> LiveClass:
    terms = {"name": name, "priority": 1, "delay_target_ms": 10_000, "lossless": True}
    return LiveClass.model_validate(terms | {"streams": STREAMS, "queries": QUERIES} | given)


def publish(system: System, rows: Mapping[str, int]) -> None:
    """Noise first: whoever goes by age takes it first."""
    (node,) = system.status().system.nodes
    with Producer(system.door(node)) as producer:
        for name, count in rows.items():
            # Event time goes on from one call to the next: what goes back is late.
            begin = time.monotonic_ns()
            batch = {"ts": np.arange(begin, begin + count), "x": np.arange(count) / count}
            assert isinstance(producer.publish(name, pa.RecordBatch.from_pydict(batch)), Accepted)


def reports(system: System) -> dict[str, UnitReport]:
    units = system.status().system.units
    return {name: one.report for name, one in units.items() if one.report is not None}


@dataclass
class Phase:
    """What came of the same input, by class."""

    response_ms: dict[str, float]
    queued: dict[str, float]
    lives: dict[str, object]


def phase(system: System, rows: Mapping[str, int]) -> Phase:
    """Everything at once; how long answers took on the mean, and how much was queued on the mean, until all is done."""
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
        for name, one in found.items():
            started = one.figures.offered > before[name].figures.offered
            queued[name] += one.figures.queued if started else total
        time.sleep(POLL_S)
    return Phase(
        {name: mean_since(before[name], found[name]) for name in before},
        {name: value / looks for name, value in queued.items()},
        {name: one.counted and one.counted.life for name, one in found.items()},
    )


def least_response_ms(phases: Sequence[Phase], name: str) -> float:
    """When the machine had the least else to do."""
    return min(one.response_ms[name] for one in phases)


def least_queued(phases: Sequence[Phase], name: str) -> float:
    return min(one.queued[name] for one in phases)


def mean_since(before: UnitReport, after: UnitReport) -> float:
    figures, earlier = after.figures, before.figures
    sums = [one.response_ms.get("mean", 0.0) * one.results for one in (figures, earlier)]
    return (sums[0] - sums[1]) / (figures.results - earlier.results)


def test_each_does_better_by_what_serves_its_objective_and_changes_over_without_a_restart(
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
    assert all(one.lives == own[0].lives for one in [*own, *other])
    for name in both:
        system.remove_class(name)


def test_a_class_that_tunes_itself_is_compared_while_it_runs(system: System) -> None:
    policy = {"kind": "auto", "every_s": 1, "steady": 1}
    system.apply([declared("auto", objective="memory", policy=policy)])
    eventually(lambda: "auto" in reports(system), "the class")
    source = RunningSystem(system)
    with Aside() as aside, Watch(source, lambda: ()) as watch, Tuner(source, watch, aside.forecasts):

        def told() -> bool:
            publish(system, {"noise": 10_000, "wanted": 5_000})
            watch.view(max_age_s=0.0)
            return any(
                one.forecasts and one.measured is not None for one in source.decisions("auto", 10).tuned
            )

        eventually(told, "a comparison")
        found = source.decisions("auto", 10).tuned
        last = next(one for one in found if one.forecasts)
        assert last.forecasts.keys() == {policy_text(one) for one in candidates("memory")}
        assert watch.view(max_age_s=0.0).classes["auto"].policy == found[-1].after
