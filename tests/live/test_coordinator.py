"""The coordinator on Ray: its decisions reach hosts and dispatchers, and the system continues when a process is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import ray

from actors.coordinator.control_plane import PlacedUnit
from actors.coordinator.coordinator_status import Decisions
from actors.messages.unit_messages import Figures, Unit, UnitReport, units_from_json
from actors.runtime import kv_store
from actors.runtime.names import (
    COORDINATOR,
    dispatcher_key,
    dispatcher_name,
    find,
    gateway_name,
    host_key,
    host_name,
)
from actors.runtime.run_dirs import prefix, shared_memory
from actors.system import System
from configs.classes.live_class import LiveClass
from configs.errors import InvalidInput
from tests.support.waiting import eventually

pytestmark = pytest.mark.live

ROOT = Path(__file__).parents[2]
READINGS = "CREATE STREAM readings (ts timestamp, sensor int32, temp float64, WATERMARK FOR ts AS ts)"
QUERY = "SELECT sensor, temp FROM readings WHERE temp > 0"
PRIORITIES = {"gold": 6.0, "silver": 3.0, "bronze": 1.0}


def declared(name: str, priority: float) -> LiveClass:
    return LiveClass(
        name=name, priority=priority, delay_target_ms=100.0, streams=(READINGS,), queries={"q": QUERY}
    )


@pytest.fixture(scope="module")
def classes(system: System) -> Iterator[System]:
    """Start three classes; yield the system once all of them sleep for lack of input."""
    system.apply([declared(name, priority) for name, priority in PRIORITIES.items()])
    for name in PRIORITIES:
        eventually(partial(is_asleep, system, name), "sleep: nothing comes in")
    yield system
    for name in PRIORITIES:
        ray.get(eventually(lambda: system.coordinator).remove_class.remote(name))
    eventually(lambda: not system.status().system.units, "the end of all classes")


def is_asleep(system: System, unit: str) -> bool:
    report = units(system)[unit].report
    return report is not None and report.asleep


def units(system: System) -> dict[str, PlacedUnit]:
    return dict(system.status().system.units)


def shares(system: System) -> dict[str, float]:
    return {name: unit.share for name, unit in units(system).items()}


def original_shares(system: System) -> dict[str, float]:
    """Return the share to which each unit is entitled. Loans change a unit's share, but never its entitlement."""
    return {name: unit.original for name, unit in units(system).items()}


def sent_unit(system: System, unit: str) -> Unit:
    """Wait until the unit's host has the unit, and return the unit as the coordinator last sent it to the host."""
    host = units(system)[unit].host
    eventually(lambda: unit in ray.get(system.host(host).status.remote()).units, f"a host with {unit}")
    return {sent.name: sent for sent in units_from_json(kv_store.get(host_key(host)))}[unit]


def streams(system: System, node: str) -> list[str]:
    """Return the names of the streams of the node's gateway."""
    return [stream["stream"] for stream in ray.get(system.gateway(node).status.remote())["streams"]]


def report_usages(system: System, **usage: float | None) -> None:
    """Report these usages of units for one load cycle, as their hosts would; None means that a unit sleeps."""
    found = units(system)
    for name, used in usage.items():
        load = (used or 0.0) * found[name].share
        report = UnitReport(name, used or 0.0, load, False, used is None, Figures())
        ray.get(system.coordinator.report.remote(found[name].host, [report]))


def lend(system: System) -> dict[str, float]:
    """Let class bronze borrow from the other classes, then let all classes sleep; return the shares."""

    def lent() -> bool:
        report_usages(system, gold=0.2, silver=0.5, bronze=4.0)
        return shares(system)["bronze"] > 0.2

    eventually(lent, "a loan")
    report_usages(system, gold=None, silver=None, bronze=None)
    assert all(is_asleep(system, name) for name in PRIORITIES)
    return shares(system)


def pid_of(name: str) -> int:
    return int(eventually(lambda: ray.get(find(name).ping.remote()), f"an answer of {name}"))


def kill_process(name: str) -> int:
    """Kill an actor's process and return its id; Ray starts another process later."""
    pid = pid_of(name)
    os.kill(pid, signal.SIGKILL)
    return pid


def pids(system: System) -> dict[str, int]:
    """Return the process ids of all actors except the coordinator."""
    found = system.status().system
    names = [host_name(unit.host) for unit in found.units.values()]
    names += [make(node) for make in (dispatcher_name, gateway_name) for node in found.nodes]
    return {name: pid_of(name) for name in names}


def test_declarations_reach_hosts_dispatcher_and_gateway(classes: System) -> None:
    found = classes.status().system
    (node,) = found.nodes
    assert shares(classes) == {"gold": 0.6, "silver": 0.3, "bronze": 0.1}
    assert len({unit.host for unit in found.units.values()}) == 3
    assert eventually(lambda: sent_unit(classes, "gold")).declared == declared("gold", 6.0)
    eventually(lambda: streams(classes, node) == ["readings"], "the stream")
    assert ray.get(classes.dispatcher(node).ping.remote()) > 0
    ray.get(classes.coordinator.add_query.remote("gold", "more", QUERY))
    assert eventually(
        lambda: dict(sent_unit(classes, "gold").declared.queries) == {"q": QUERY, "more": QUERY}
    )
    decisions: Decisions = ray.get(classes.coordinator.decisions.remote("gold", 5))
    assert "within headroom" in decisions.units["gold"].decisions[0].words()
    assert decisions.moves[0].reason == "classes set"
    assert ray.get(classes.coordinator.plan.remote("gold"))


def test_system_started_without_an_endpoint_has_no_address_and_no_ingest_key(classes: System) -> None:
    (node,) = classes.status().system.nodes
    assert classes.endpoint(node) is None
    with pytest.raises(InvalidInput, match="this machine does not have the key"):
        _ = classes.ingest_key


def test_invalid_class_is_refused_with_its_error_and_changes_nothing(classes: System) -> None:
    before, pid = classes.status().system.classes, pid_of(COORDINATOR)
    with pytest.raises(InvalidInput, match="no_such_column") as problem:
        classes.apply(
            [
                declared("other", 1.0).model_copy(
                    update={"queries": {"q": "SELECT no_such_column FROM readings"}}
                )
            ]
        )
    assert problem.value.field == "classes.other.queries.q"
    assert classes.status().system.classes == before
    assert pid_of(COORDINATOR) == pid


def test_killed_coordinator_recovers_its_state_while_the_system_continues(classes: System) -> None:
    before = lend(classes)
    lending = ray.get(classes.coordinator.lending.remote())
    placed = {name: (unit.node, unit.host) for name, unit in units(classes).items()}
    (node,) = classes.status().system.nodes
    before_pids = pids(classes)
    pid = kill_process(COORDINATOR)
    assert {name: pid_of(name) for name in before_pids} == before_pids
    assert eventually(lambda: pid_of(COORDINATOR) != pid, "a new process")
    assert eventually(lambda: shares(classes)) == before
    assert {name: (unit.node, unit.host) for name, unit in units(classes).items()} == placed
    after = ray.get(classes.coordinator.lending.remote())
    assert {lender: set(to) for lender, to in after.items()} == {
        lender: set(to) for lender, to in lending.items()
    }
    assert all(after[lender][to] >= seconds for lender, row in lending.items() for to, seconds in row.items())
    assert kv_store.get(dispatcher_key(node))[0] == before
    assert pids(classes) == before_pids
    assert lend(classes)


def test_replacement_of_a_killed_host_gets_the_same_units(classes: System) -> None:
    host = units(classes)["bronze"].host
    # The stored units are deleted, so that the new process must get its units from the coordinator.
    kv_store.delete(host_key(host))
    pid = kill_process(host_name(host))
    assert eventually(partial(is_another, host_name(host), pid), "another process")
    assert sent_unit(classes, "bronze").declared == declared("bronze", 1.0)
    ray.kill(classes.host(host))
    assert sent_unit(classes, "bronze").declared == declared("bronze", 1.0)
    assert units(classes)["bronze"].host == host


def is_another(name: str, pid: int) -> bool:
    return pid_of(name) != pid


def test_killed_dispatcher_and_gateway_come_back(classes: System) -> None:
    (node,) = classes.status().system.nodes
    for name in (dispatcher_name(node), gateway_name(node)):
        pid = kill_process(name)
        assert eventually(partial(is_another, name, pid), f"another {name}")
        ray.kill(find(name))
    assert pid_of(dispatcher_name(node))
    eventually(lambda: streams(classes, node) == ["readings"], "the stream")
    eventually(lambda: not classes.status().quarantined, "the end of quarantine")


# Tests of a coordinator next to processes, systems and nodes that do not belong to it.

ATTACHED = """
import sys
from actors.system import attach
system = attach(sys.argv[1])
print(sorted(system.status().system.units))
system.stop()
"""
STARTED = """
from actors.system import start
from configs.classes.live_class import LiveSettings
from tests.live.test_coordinator import declared
system = start(LiveSettings(), [declared("alone", 1.0)], pinned=False)
print(system.name, sorted(system.status().system.units), flush=True)
input()
"""


def python(code: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_second_process_that_attaches_to_a_system_restarts_nothing(classes: System) -> None:
    pid = pid_of(COORDINATOR)
    output, _ = python(ATTACHED, classes.address).communicate()
    assert output.splitlines()[-1] == "['bronze', 'gold', 'silver']", output
    assert pid_of(COORDINATOR) == pid


def processes_of(name: str) -> list[str]:
    """Return the command lines that contain the system's folder."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if f"weir-{name}-" in line:
            found.append(line)
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_second_system_on_a_cluster_ends_without_traces_and_leaves_the_first_untouched(
    classes: System, number: signal.Signals
) -> None:
    before = pids(classes)
    process = python(STARTED)
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.endswith("['alone']\n"):
            break
    assert "".join(lines).endswith("['alone']\n"), "".join(lines)
    name = lines[-1].split()[0]
    folder = shared_memory() / f"{prefix()}{name}"
    assert folder.is_dir()
    assert processes_of(name)
    process.send_signal(number)
    rest, _ = process.communicate()
    assert process.returncode != 0, rest
    assert not folder.exists()
    eventually(lambda: not processes_of(name), "the end of its processes")
    assert not list(Path(os.environ.get("TMPDIR", "/tmp")).glob(f"weir-{name}-*"))
    assert pids(classes) == before


@pytest.fixture
def second_node(classes: System, tmp_path: Path) -> Iterator[str]:
    """Start another node of the cluster on this machine; yield its short name."""
    command = [str(Path(sys.executable).with_name("ray")), "start", "--block", "--num-cpus=1"]
    command += [f"--address={classes.address}", f"--object-store-memory={80 << 20}"]
    quiet = subprocess.DEVNULL
    before = set(classes.status().system.nodes)
    with subprocess.Popen(command, cwd=tmp_path, stdout=quiet, stderr=quiet) as process:
        yield eventually(
            lambda: min(set(classes.status().system.nodes) - before, default=""), "a second node"
        )
        end_node(process)


def end_node(process: subprocess.Popen[bytes]) -> None:
    """Kill all processes of the node at once, so that none of them announces its end."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    for pid in (*map(int, children), process.pid):
        os.kill(pid, signal.SIGKILL)
    process.wait()


def test_units_move_to_a_node_that_joins(classes: System, second_node: str) -> None:
    eventually(lambda: not classes.status().waited_for, "gateway and dispatcher of the second node")
    ray.get(classes.coordinator.move.remote("silver", second_node))
    eventually(lambda: units(classes)["silver"].node == second_node, "the move")
    assert original_shares(classes) == pytest.approx({"gold": 6 / 7, "silver": 1.0, "bronze": 1 / 7})
    assert eventually(lambda: sent_unit(classes, "silver")).original == 1.0
    eventually(
        lambda: "stream readings" in ray.get(classes.gateway(second_node).status.remote())["following"]
    )


def test_units_of_a_lost_node_are_placed_again(classes: System) -> None:
    eventually(lambda: len(classes.status().system.nodes) == 1, "the end of the second node")
    assert original_shares(classes) == pytest.approx({"gold": 0.6, "silver": 0.3, "bronze": 0.1})
    assert eventually(lambda: sent_unit(classes, "silver")).original == pytest.approx(0.3)
