"""A class host as a Ray actor, with a gateway and a dispatcher in this process; all tests of the module share one Ray."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import ray
from ray.exceptions import RayActorError

from actors.dispatcher.turn_loop import TurnLoop
from actors.gateway.gateway_loop import Gateway
from actors.gateway.producer import Producer
from actors.host import host_actor
from actors.host.answer_reader import AnswerReader
from actors.messages.gateway_messages import Accepted
from actors.messages.unit_messages import Unit, UnitReport, units_to_json
from actors.runtime import kv_store
from actors.runtime.names import COORDINATOR, host_key
from actors.runtime.run_dirs import RunDirs
from configs.classes.live_class import LiveClass, LiveSettings
from engine.class_.explain import PlanLine
from tests.support.answer_logs import answer_rows

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("cluster")]

READINGS = "CREATE STREAM readings (ts int64, temp float64, WATERMARK FOR ts AS ts)"
GOLD = LiveClass(
    name="gold",
    priority=1,
    delay_target_ms=300,
    streams=(READINGS,),
    queries={"hot": "SELECT ts, temp FROM readings WHERE temp > 0"},
)
SETTINGS = LiveSettings.model_validate({"load": {"cycle_ms": 20}, "snapshot_s": 0.05})
UNITS = [Unit(GOLD, 0, 1.0, 1.0)]
# Longest wait for an answer, in seconds. If no answer comes in this time, the test fails instead of hanging.
HUNG_S = 120.0


class StubCoordinator:
    """Stand-in for the coordinator that keeps the last report of each unit."""

    def __init__(self) -> None:
        self._last: dict[str, UnitReport] = {}

    def report(self, host: str, reports: Sequence[UnitReport]) -> None:
        self._last.update((report.unit, report) for report in reports)

    def last(self) -> dict[str, UnitReport]:
        return self._last


@pytest.fixture
def dirs() -> Iterator[RunDirs]:
    with TemporaryDirectory() as base:
        found = RunDirs(Path(base), "s", "n")
        held = found.hold()
        gateway, turns = Gateway(found), TurnLoop(found.dispatcher_socket, round_s=0.01)
        gateway.streams.declare(READINGS)
        turns.set_shares({"gold": 1.0}, {"gold": "h1"})
        threads = [threading.Thread(target=loop.run) for loop in (gateway, turns)]
        for thread in threads:
            thread.start()
        yield found
        gateway.stop()
        turns.stop()
        for thread in threads:
            thread.join()
        os.close(held)


@pytest.fixture
def coordinator() -> Iterator[Any]:
    remote: Any = ray.remote(num_cpus=0)(StubCoordinator)
    actor = remote.options(name=COORDINATOR, namespace="weir").remote()
    call(actor.last)
    yield actor
    ray.kill(actor)


@pytest.fixture
def host(dirs: RunDirs) -> Iterator[Any]:
    kv_store.put(host_key("h1"), units_to_json(UNITS))
    actor = host_actor.start("h1", ray.get_runtime_context().get_node_id(), dirs, SETTINGS)
    yield actor
    ray.kill(actor)
    kv_store.delete(host_key("h1"))


def call(method: Any, *given: Any) -> Any:
    return ray.get(method.remote(*given), timeout=HUNG_S)


def publish(dirs: RunDirs, begin: int, rows: int) -> None:
    number = np.arange(begin, begin + rows)
    with Producer(dirs.door_socket) as producer:
        batch = pa.RecordBatch.from_pydict({"ts": number, "temp": number + 1.0})
        assert isinstance(producer.publish("readings", batch), Accepted)


def answered(dirs: RunDirs, rows: int) -> list[int]:
    """Return the event times of the answers, once there are at least `rows` answers."""
    while True:
        found = [row["ts"] for row in answer_rows(AnswerReader(dirs, "gold"), "hot")]
        if len(found) >= rows:
            return found
        threading.Event().wait(0.005)


def ready(dirs: RunDirs, host: Any) -> None:
    """Wait until the host's unit has subscribed to its stream."""
    call(host.explanations, "gold", 0)
    while "gold" not in (dirs.stream("readings") / "stream.json").read_text("utf-8"):
        threading.Event().wait(0.005)


def test_host_gives_plan_ledger_explanations_and_status_of_its_units(
    dirs: RunDirs, coordinator: Any, host: Any
) -> None:
    ready(dirs, host)
    publish(dirs, 0, 10)
    assert answered(dirs, 10) == list(range(10))
    while "gold" not in (last_reports := call(coordinator.last)) or last_reports["gold"].figures.results < 10:
        threading.Event().wait(0.005)
    plan: list[PlanLine] = call(host.plan, "gold")
    assert plan[0].tuples == 10
    ledger, queued = call(host.ledger, "gold")["readings"]
    assert ledger.closes(queued)
    assert call(host.explanations, "gold", 1).decisions
    assert call(host.status).units["gold"].figures.delivered == 10


def test_killed_host_continues_even_without_a_coordinator(dirs: RunDirs, host: Any) -> None:
    ready(dirs, host)
    for begin in range(0, 30, 10):
        publish(dirs, begin, 10)
        assert answered(dirs, begin + 10) == list(range(begin + 10))
        pid = call(host.ping)
        os.kill(pid, signal.SIGKILL)
        while True:
            try:
                if call(host.ping) != pid:
                    break
            except RayActorError:
                continue


def test_removed_host_leaves_no_files(dirs: RunDirs, host: Any) -> None:
    ready(dirs, host)
    publish(dirs, 0, 10)
    answered(dirs, 10)
    call(host.set_units, UNITS)
    kv_store.delete(host_key("h1"))
    call(host.stop)
    assert not dirs.class_log("gold").exists()


def test_host_sends_its_reports_to_a_coordinator_that_replaced_the_first(dirs: RunDirs, host: Any) -> None:
    ready(dirs, host)
    remote: Any = ray.remote(num_cpus=0)(StubCoordinator)
    results: SimpleQueue[int] = SimpleQueue()
    for begin in (0, 10):
        coordinator = remote.options(name=COORDINATOR, namespace="weir").remote()
        call(coordinator.last)
        publish(dirs, begin, 10)
        while (
            "gold" not in (last_reports := call(coordinator.last))
            or last_reports["gold"].figures.results < begin + 10
        ):
            threading.Event().wait(0.005)
        results.put(last_reports["gold"].figures.results)
        ray.kill(coordinator)
    assert [results.get(), results.get()] == [10, 20]
