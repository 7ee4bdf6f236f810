"""After any process is killed, answers equal the answers of an undisturbed run, tuple by tuple, and other classes continue."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from actors.runtime import kv_store
from actors.runtime.names import COORDINATOR, dispatcher_key, dispatcher_name, gateway_name, host_name
from actors.system import System
from bench.idle import descendants
from configs.classes.live_class import LiveClass, LiveSettings
from services.cli.simulation.replay import remarks
from sim.replay import replay
from tests.live import runs
from tests.live.runs import Answers, Publisher
from tests.support.waiting import eventually

pytestmark = pytest.mark.live

# Little input is retained, so that snapshots are taken in mid-stream. Trains are small, so that kills interrupt work.
SETTINGS = LiveSettings.model_validate(
    {"load": {"cycle_ms": 50}, "train_max": 200, "retained_bytes": 2 << 20, "idle_after_s": None}
)
CLASSES = runs.classes()
BATCHES = runs.batches(seconds=16, batch_rows=250)
PARTS = 8
# Queries of class silver that have the same answers when the class is sharded by sensor.
BY_SENSOR = ("S2", "A2", "J1")

Disturb = Callable[[int], object]
Lending = Mapping[str, Mapping[str, float]]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def system(data: Path) -> Iterator[System]:
    with pytest.MonkeyPatch.context() as patch:
        # By default Ray notices the death of a node only after 15 s, so the period is shortened.
        patch.setenv("RAY_health_check_period_ms", "500")
        patch.setenv("RAY_health_check_failure_threshold", "6")
        with runs.started(SETTINGS, data) as running:
            yield running


def run(system: System, disturb: Disturb = lambda part: None) -> Answers:
    """Publish all input, call `disturb` after each part of it, and return the answers."""
    runs.host(system, CLASSES)
    publisher = Publisher(runs.folders(system, runs.node_of(system)))
    for number, part in enumerate(runs.parts(BATCHES, PARTS)):
        publisher.publish(part)
        disturb(number)
    runs.worked_off(system, runs.offered(CLASSES, publisher.accepted))
    found = runs.answers(system, CLASSES)
    runs.remove(system, CLASSES)
    return found


@pytest.fixture(scope="module")
def undisturbed(system: System) -> Answers:
    found = run(system)
    assert all(map(len, found.values()))
    return found


def test_repeatedly_killed_class_hosts_change_no_answer(system: System, undisturbed: Answers) -> None:
    killed: list[int] = []

    def disturb(part: int) -> None:
        if part in (1, 2, 4):
            killed.append(runs.kill_host(system, "gold"))
        if part == 4:
            killed.append(runs.kill_host(system, "silver"))

    runs.assert_same(run(system, disturb), undisturbed)
    assert len(set(killed)) == 4


def test_producers_of_other_classes_continue_while_a_lossless_class_hangs(
    system: System, undisturbed: Answers
) -> None:
    runs.host(system, CLASSES)
    publisher = Publisher(runs.folders(system, runs.node_of(system)))
    slow = [batch for batch in BATCHES if batch[0].startswith("b_")]

    def taken() -> int:
        return sum(count for stream, count in publisher.batches.items() if stream.startswith("b_"))

    pid = runs.pid_of(host_name(runs.units(system)["bronze"].host))
    os.kill(pid, signal.SIGSTOP)
    try:
        while not publisher.refused:
            publisher.offer(*slow[taken()])
        publisher.publish(batch for batch in BATCHES if not batch[0].startswith("b_"))
        runs.worked_off(system, runs.offered(CLASSES[:2], publisher.accepted))
    finally:
        os.kill(pid, signal.SIGCONT)
    publisher.publish(slow[taken() :])
    figures = runs.worked_off(system, runs.offered(CLASSES, publisher.accepted))
    assert figures["bronze"].delivered == figures["bronze"].offered
    runs.assert_same(runs.answers(system, CLASSES), undisturbed)
    runs.remove(system, CLASSES)


def test_killed_dispatcher_changes_no_answer(system: System, undisturbed: Answers) -> None:
    name = dispatcher_name(runs.node_of(system))
    killed: list[int] = []

    def disturb(part: int) -> None:
        if part in (1, 4):
            before = hosts_of(system)
            killed.append(runs.kill(name))
            assert hosts_of(system) == before

    runs.assert_same(run(system, disturb), undisturbed)
    assert runs.pid_of(name) not in killed


def test_killed_coordinator_changes_no_answer(system: System, undisturbed: Answers) -> None:
    killed: list[int] = []

    def disturb(part: int) -> None:
        if part in (1, 4):
            placed, hosts, lent = seats_of(system), hosts_of(system), system.lending()
            killed.append(runs.kill(COORDINATOR))
            eventually(lambda: runs.pid_of(COORDINATOR) not in killed, "another coordinator")
            assert seats_of(system) == placed
            assert hosts_of(system) == hosts
            assert is_at_least(system.lending(), lent)
        if part == PARTS - 1:
            eventually(lambda: shares_agree(system), "the same shares everywhere")

    runs.assert_same(run(system, disturb), undisturbed)


def test_killed_gateway_changes_no_answer(system: System, undisturbed: Answers) -> None:
    name = gateway_name(runs.node_of(system))
    killed: list[int] = []

    def disturb(part: int) -> None:
        if part in (1, 4):
            killed.append(runs.kill(name))

    runs.assert_same(run(system, disturb), undisturbed)
    assert runs.pid_of(name) not in killed


def test_all_processes_killed_at_once_change_no_answer(system: System, undisturbed: Answers) -> None:
    node = runs.node_of(system)

    def disturb(part: int) -> None:
        if part == 3:
            runs.kill_host(system, "bronze")
            for name in (COORDINATOR, dispatcher_name(node), gateway_name(node)):
                runs.kill(name)

    runs.assert_same(run(system, disturb), undisturbed)


def test_changed_declarations_and_killed_hosts_change_no_answer_of_unchanged_queries(
    system: System, undisturbed: Answers
) -> None:
    """Check that answers stay equal while declarations change and hosts are killed in between."""
    gold, silver, _ = CLASSES
    more = "SELECT ts, sensor FROM readings WHERE region = 5"
    runs.host(system, CLASSES)
    publisher = Publisher(runs.folders(system, runs.node_of(system)))
    early, middle, late = runs.parts(BATCHES, 3)

    publisher.publish(early)
    runs.worked_off(system, runs.offered(CLASSES, publisher.accepted))
    runs.call(system.coordinator.add_query, "gold", "more", more)
    eventually(lambda: "more" in runs.queries_of(system, "gold"), "the new query")
    publisher.publish(middle)
    runs.kill_host(system, "gold")

    runs.worked_off(system, runs.offered(CLASSES, publisher.accepted))
    runs.call(system.coordinator.remove_query, "silver", "S2")
    system.apply([gold.model_copy(update={"priority": 2.0, "queries": {**gold.queries, "more": more}})])
    system.remove_class("bronze")
    eventually(lambda: "S2" not in runs.queries_of(system, "silver"), "the end of a query")
    folder = publisher.dirs.class_log("bronze")
    eventually(lambda: not folder.exists(), "the end of a class")
    publisher.publish(batch for batch in late if not batch[0].startswith("b_"))
    runs.kill_host(system, "silver")

    rest = [without(gold), without(silver, "S2")]
    runs.worked_off(system, runs.offered(rest, publisher.accepted))
    assert {name: unit.original for name, unit in runs.units(system).items()} == {"gold": 0.4, "silver": 0.6}
    expected = {
        name: table for name, table in undisturbed.items() if not name.startswith(("bronze", "silver.S2"))
    }
    runs.assert_same(runs.answers(system, rest), expected)
    found = runs.answers(system, [gold.model_copy(update={"queries": {"more": more}})])["gold.more"]
    rows = pa.concat_tables([pa.table(rows) for stream, rows in [*middle, *late] if stream == "readings"])
    assert found.equals(runs.ordered(rows.filter(pc.equal(rows["region"], 5)).select(["ts", "sensor"])))
    runs.remove(system, rest)


@dataclass
class Node:
    process: subprocess.Popen[bytes]

    def kill(self) -> None:
        """Kill all processes of the node at once; do nothing if it has ended."""
        if self.process.poll() is None:
            for pid in (*descendants(str(self.process.pid)), self.process.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.wait()


@contextmanager
def second_node(system: System, folder: Path) -> Iterator[Node]:
    """Start another node of the cluster on this machine."""
    command = [str(Path(sys.executable).with_name("ray")), "start", "--block", "--num-cpus=1"]
    command += [f"--address={system.address}", f"--object-store-memory={80 << 20}"]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, cwd=folder, stdout=quiet, stderr=quiet) as process:
        node = Node(process)
        try:
            eventually(lambda: len(system.status().system.nodes) == 2, "a second node")
            eventually(lambda: not system.status().waited_for, "its gateway and dispatcher")
            yield node
        finally:
            node.kill()


@pytest.fixture(scope="module")
def lost_node(system: System, undisturbed: Answers, data: Path) -> Answers:
    """Return the answers of a class and of a sharded class, after a node with one shard was killed in mid-stream."""
    gold, silver, _ = CLASSES
    by_sensor = {name: silver.queries[name] for name in BY_SENSOR}
    spread = silver.model_copy(update={"name": "spread", "queries": by_sensor, "key": "sensor", "shards": 2})
    early, late = runs.parts([batch for batch in BATCHES if not batch[0].startswith("b_")], 2)
    head = runs.node_of(system)
    runs.host(system, [gold])
    publisher = Publisher(runs.folders(system, head))
    with second_node(system, data) as second:
        runs.host(system, [spread])
        eventually(
            lambda: len({unit.node for unit in runs.units(system).values()}) == 2, "a shard on each node"
        )
        publisher.publish(early)
        second.kill()
    eventually(lambda: list(system.status().system.nodes) == [head], "the end of the node")
    assert {unit.node for unit in runs.units(system).values()} == {head}
    publisher.publish(late)
    runs.worked_off(system, runs.offered([gold], publisher.accepted))
    eventually(
        lambda: all(runs.status_of(system, shard).asleep for shard in ("spread#0", "spread#1")), "rest"
    )
    found = runs.answers(system, [gold, spread])
    runs.remove(system, [gold, spread])
    return found


def test_units_on_other_nodes_answer_unchanged_when_a_node_is_killed(
    lost_node: Answers, undisturbed: Answers
) -> None:
    gold = {name: table for name, table in lost_node.items() if name.startswith("gold.")}
    runs.assert_same(gold, {name: undisturbed[name] for name in gold})
    assert all(len(lost_node[f"spread.{name}"]) for name in BY_SENSOR)


def test_shards_of_a_killed_node_lose_no_answer(lost_node: Answers, undisturbed: Answers) -> None:
    spread = {f"silver.{name}": lost_node[f"spread.{name}"] for name in BY_SENSOR}
    runs.assert_same(spread, {name: undisturbed[name] for name in spread})


def test_replay_of_a_run_with_kills_repeats_every_decision(system: System, data: Path) -> None:
    """Replay all events of all cores, and check the messages that cores sent to other cores."""
    system.stop()
    report = replay(next((data / "events").iterdir()))
    assert report.agrees, remarks(report)
    assert sum(delivery.heard for delivery in report.deliveries) > 0


# Tests of the stored state of a system.


def seats_of(system: System) -> dict[str, tuple[str, str, float]]:
    return {name: (unit.node, unit.host, unit.original) for name, unit in runs.units(system).items()}


def hosts_of(system: System) -> dict[str, int]:
    return {name: runs.pid_of(host_name(unit.host)) for name, unit in runs.units(system).items()}


def shares_agree(system: System) -> bool:
    """Return True if the shares that are saved for the dispatcher equal the coordinator's shares."""
    shares = {name: unit.share for name, unit in runs.units(system).items()}
    assert sum(shares.values()) == pytest.approx(1.0)
    return bool(kv_store.get(dispatcher_key(runs.node_of(system)))[0] == shares)


def is_at_least(after: Lending, before: Lending) -> bool:
    return all(
        after.get(lender, {}).get(borrower, 0.0) >= seconds
        for lender, borrowers in before.items()
        for borrower, seconds in borrowers.items()
    )


def without(class_: LiveClass, *queries: str) -> LiveClass:
    return class_.model_copy(
        update={"queries": {name: sql for name, sql in class_.queries.items() if name not in queries}}
    )
