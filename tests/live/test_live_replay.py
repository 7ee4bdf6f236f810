"""The project's central test: a live system under overload, with killed processes, decides as its replay does.

The same cores get the recorded events again and must make the same decisions. Every offered tuple is accounted for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.gateway.replay_feeder import Feeder
from actors.runtime.names import COORDINATOR, dispatcher_name
from actors.system import System
from configs.classes.live_class import LiveSettings
from configs.scenario import w11
from configs.scenario.arrivals import StepArrivals
from services.cli.simulation.replay import remarks
from sim.replay import replay
from tests.live import runs
from tests.live.runs import Publisher
from tests.support.waiting import eventually

pytestmark = pytest.mark.live

# With small trains, the overhead of calls takes most of the time, so the system is soon overloaded.
SETTINGS = LiveSettings.model_validate(
    {"load": {"cycle_ms": 50}, "train_max": 50, "retained_bytes": 256 << 20, "idle_after_s": None}
)
SECONDS = 4
FEW, MANY = 1e3, 2e5
ORIGINAL = {"gold": 0.6, "silver": 0.3, "bronze": 0.1}
CLASSES = [
    runs.declared(name, part, w11.streams(f"{name}_"), w11.queries(f"{name}_"), lossless=name == "silver")
    for name, part in ORIGINAL.items()
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def system(data: Path) -> Iterator[System]:
    with runs.started(SETTINGS, data) as running:
        yield running


@pytest.fixture
def feeder(system: System) -> Iterator[Feeder]:
    """Provide a feeder that offers input to classes gold and bronze, at the rates that a test sets."""
    runs.host(system, CLASSES)
    inputs = {
        class_.name: runs.tables(SECONDS, f"{class_.name}_") for class_ in CLASSES if not class_.lossless
    }
    feeder = Feeder(system.door(runs.node_of(system)), inputs, "ts", 1000 * SECONDS)
    yield feeder
    feeder.stop()


def offer(feeder: Feeder, gold: float, bronze: float) -> None:
    rates = {"gold": gold, "bronze": bronze}
    feeder.offer(
        {
            name: StepArrivals.model_validate({"kind": "steps", "steps": [{"at_s": 0, "rate": rate}]})
            for name, rate in rates.items()
        }
    )


def share(system: System, name: str) -> float:
    return runs.units(system)[name].share


def delivered(system: System, name: str) -> int:
    return runs.status_of(system, name).figures.delivered


def wait_for_progress(system: System, name: str) -> None:
    """Wait until the class has processed more input."""
    before = eventually(lambda: delivered(system, name), "input")
    eventually(lambda: delivered(system, name) > before, "more of it")


def test_run_with_overload_and_kills_is_accounted_for_and_replayed_exactly(
    system: System, feeder: Feeder, data: Path
) -> None:
    node = runs.node_of(system)
    offer(feeder, FEW, MANY)
    eventually(lambda: share(system, "bronze") > 0.5, "a loan")
    runs.kill(dispatcher_name(node))
    wait_for_progress(system, "bronze")
    runs.kill_host(system, "bronze")
    wait_for_progress(system, "bronze")
    pid = runs.kill(COORDINATOR)
    eventually(lambda: runs.pid_of(COORDINATOR) != pid, "another coordinator")

    offer(feeder, MANY, MANY)
    eventually(lambda: share(system, "gold") >= ORIGINAL["gold"], "the share that was lent")
    publisher = Publisher(runs.folders(system, node))
    publisher.publish(runs.batches(SECONDS, 250, ["silver_"]))
    offer(feeder, 0, 0)
    counts = dict(feeder.offered().accepted) | {"silver": publisher.accepted.total()}
    figures = runs.worked_off(system, counts)
    assert figures["bronze"].shed > 0
    assert figures["silver"].delivered == counts["silver"]
    runs.answers(system, CLASSES)

    system.stop()
    report = replay(data / "events" / system.name)
    assert report.agrees, remarks(report)
    lives = Counter({(core.core, core.name.partition("-")[0]): len(core.lives) for core in report.cores})
    assert lives["load", "bronze"] == lives["turns", node] == lives["capacity", node] == 2
    heard = {delivery.receiver: delivery.heard for delivery in report.deliveries}
    assert all(heard[receiver] > 0 for receiver in ("load gold", "load bronze", f"turns {node}")), heard
