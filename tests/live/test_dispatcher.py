"""The dispatcher as a Ray actor, and the store that outlives actors; all tests of the module share one Ray."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
import ray

from actors.dispatcher.dispatcher_actor import DispatcherSettings, DispatcherStatus, NodeShares, start
from actors.dispatcher.turn_loop import Record
from actors.host.turn_client import SliceClient
from actors.runtime import kv_store
from scheduler.turns.round_robin import Grant, TurnEvent

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("cluster")]

SHARES = {"gold": 0.75, "silver": 0.25}
HOSTS = {"gold": "host-gold", "silver": "host-silver"}
# Longest wait for an answer, in seconds. If no answer comes in this time, the test fails instead of hanging.
HUNG_S = 120.0


class Host:
    """Host of one class in a thread; its slices only record their quota."""

    def __init__(self, path: Path, name: str) -> None:
        self.name = name
        self.quotas: SimpleQueue[float] = SimpleQueue()
        self.client = SliceClient(path, HOSTS[name], self.run, lambda: None, classes=(name,))
        self.thread = threading.Thread(target=self.client.serve)
        self.thread.start()

    def run(self, name: str, quota_s: float) -> tuple[float, bool]:
        self.quotas.put(quota_s)
        return 0.0, False

    def slice(self) -> float:
        """Ask for a slice, and return its quota."""
        self.client.ready(self.name)
        return self.quotas.get(timeout=HUNG_S)

    def stop(self) -> None:
        self.client.stop()
        self.thread.join()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "dispatcher.sock"


@pytest.fixture
def gold(path: Path) -> Iterator[Host]:
    host = Host(path, "gold")
    yield host
    host.stop()


def recall() -> NodeShares | None:
    found: NodeShares | None = kv_store.get("test/shares")
    return found


def fails_once() -> Record:
    """Return a function that records decisions, but fails in the first process of the dispatcher."""
    first = kv_store.get("test/failed") in (None, os.getpid())

    def record(event: TurnEvent, now: float, grants: tuple[Grant, ...]) -> None:
        if first:
            kv_store.put("test/failed", os.getpid())
            raise OSError("no room on this disk")

    return record


def started(path: Path, recorder: Callable[[], Record] | None = None) -> Any:
    node_id = ray.get_runtime_context().get_node_id()
    return start(
        "dispatcher-test", node_id, DispatcherSettings(path, round_s=0.01, lanes=1), recall, recorder
    )


@pytest.fixture
def dispatcher(path: Path) -> Iterator[Any]:
    actor = started(path)
    yield actor
    ray.get(actor.stop.remote(), timeout=HUNG_S)
    ray.kill(actor)
    kv_store.delete("test/shares")


def status(dispatcher: Any) -> DispatcherStatus:
    found: DispatcherStatus = ray.get(dispatcher.status.remote(), timeout=HUNG_S)
    return found


def test_classes_get_turns_once_their_shares_are_set(dispatcher: Any, gold: Host) -> None:
    ray.get(dispatcher.set_shares.remote(SHARES, HOSTS), timeout=HUNG_S)
    assert gold.slice() == 0.0075
    found = status(dispatcher).turns
    assert found.hosts == {"host-gold": ("gold",)}
    assert found.not_pinned == "" or os.cpu_count() == 1


def test_killed_dispatcher_comes_back_with_its_shares_and_hosts(path: Path, gold: Host) -> None:
    kv_store.put("test/shares", [SHARES, HOSTS])
    dispatcher = started(path)
    assert gold.slice() == 0.0075
    killed = status(dispatcher).pid
    os.kill(killed, signal.SIGKILL)
    assert [gold.slice() for _ in range(20)] == [0.0075] * 20
    again = status(dispatcher)
    assert again.pid != killed
    assert again.turns.hosts == {"host-gold": ("gold",)}
    ray.kill(dispatcher)
    kv_store.delete("test/shares")


def test_dispatcher_is_restarted_when_its_loop_fails(path: Path, gold: Host) -> None:
    kv_store.put("test/shares", [SHARES, HOSTS])
    dispatcher = started(path, fails_once)
    assert gold.slice() == 0.0075
    assert status(dispatcher).pid != kv_store.get("test/failed")
    ray.kill(dispatcher)
    for name in ("shares", "failed"):
        kv_store.delete(f"test/{name}")


def test_running_dispatcher_is_not_started_twice(dispatcher: Any, path: Path) -> None:
    pid = ray.get(dispatcher.ping.remote(), timeout=HUNG_S)
    assert ray.get(started(path).ping.remote(), timeout=HUNG_S) == pid
    assert ray.get(ray.get_actor("dispatcher-test", namespace="weir").ping.remote(), timeout=HUNG_S) == pid


# Tests of Ray's key-value store, which outlives actors.


class Keeper:
    def put(self, name: str, value: object) -> int:
        kv_store.put(name, value)
        return os.getpid()


def test_stored_value_can_be_read_after_its_writer_was_killed() -> None:
    keeper: Any = ray.remote(num_cpus=0)(Keeper)
    pid = ray.get(keeper.remote().put.remote("test/kept", {"a": [1, 2.5, None, "ü"]}), timeout=HUNG_S)
    os.kill(pid, signal.SIGKILL)
    assert kv_store.get("test/kept") == {"a": [1, 2.5, None, "ü"]}
    kv_store.delete("test/kept")
    kv_store.delete("test/kept")
    assert kv_store.get("test/kept") is None


def test_storing_a_second_value_under_a_key_replaces_the_first() -> None:
    for value in ([1], [2]):
        kv_store.put("test/last", value)
    assert kv_store.get("test/last") == [2]
    kv_store.delete("test/last")
