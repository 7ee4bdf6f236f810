"""The gateway as a Ray actor: one Ray on this machine runs two gateways, as if on two nodes."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
import ray
from pyarrow import flight
from ray.exceptions import RayActorError

from actors.gateway.gateway_actor import GatewayOptions, start
from actors.gateway.producer import Producer
from actors.log.commit_format import SnapshotFrame, snapshot_parts
from actors.log.segment_log import Reader, SegmentWriter
from actors.log.train_format import BatchId, batch_of, mark_of
from actors.log.unit_log import SNAPSHOTS, describe_as
from actors.messages.gateway_messages import Accepted, Grew, RefusedBatch, encode
from actors.messages.unit_messages import Copy
from actors.runtime.run_dirs import RunDirs
from actors.runtime.unix_channel import connect
from bench.subscriber import Subscriber
from services.ingest.flight import FlightSettings

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("cluster")]

READINGS = "CREATE STREAM readings (sensor INT, temp DOUBLE)"
# Longest wait for an answer, in seconds. If no answer comes in this time, the test fails instead of hanging.
HUNG_S = 120.0


@pytest.fixture
def base() -> Iterator[Path]:
    with TemporaryDirectory() as found:
        yield Path(found)


class Node:
    """Node with a gateway as a Ray actor."""

    def __init__(self, base: Path, name: str, endpoint: FlightSettings | None = None) -> None:
        self.dirs = RunDirs(base, "s", name)
        settings = GatewayOptions(self.dirs, endpoint=endpoint)
        self.actor: Any = start(ray.get_runtime_context().get_node_id(), settings)
        self.call("ping")

    def call(self, method: str, *given: Any, **named: Any) -> Any:
        return ray.get(getattr(self.actor, method).remote(*given, **named), timeout=HUNG_S)

    def publish(self, rows: pa.Table, part_of: BatchId | None = None) -> Accepted | RefusedBatch:
        """Publish rows over the node's Unix socket."""
        (batch,) = rows.to_batches()
        with Producer(self.dirs.door_socket) as producer:
            return producer.publish("readings", batch, part_of)

    def crash(self) -> None:
        """Kill the gateway's process, and wait until Ray has started it again."""
        pid = self.call("ping")
        os.kill(pid, signal.SIGKILL)
        while True:
            try:
                if self.call("ping") != pid:
                    return
            except RayActorError:
                continue


@pytest.fixture
def nodes(base: Path) -> Iterator[tuple[Node, Node]]:
    found = Node(base, "n1"), Node(base, "n2")
    yield found
    for node in found:
        ray.kill(node.actor)


def put(address: str, key: str, number: int, rows: pa.Table) -> dict[str, Any]:
    """Publish a whole batch over the network, as a single part with the request to commit the batch."""
    command = {"v": 1, "stream": "readings", "producer": "p", "batch": number, "partition": 0, "attempt": "a"}
    descriptor = flight.FlightDescriptor.for_command(json.dumps({**command, "commit": True}).encode())
    shown = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {key}".encode())])
    writer, answers = flight.connect(address).do_put(descriptor, rows.schema, shown)
    with writer:
        writer.write_table(rows)
        writer.done_writing()
        found: dict[str, Any] = json.loads(answers.read().to_pybytes())
        return found


def test_crashed_gateway_keeps_its_endpoint_and_published_batches(base: Path) -> None:
    settings, key = FlightSettings().with_new_key()
    node = Node(base, "n1", settings)
    node.call("declare", READINGS)
    part_of = BatchId(mark_of("q"), 0)
    for again in (False, True):
        assert node.publish(table(1, 2), part_of) == Accepted(again, again)
    address = node.call("status")["endpoint"]
    assert put(address, key, 4, table(3))["published"] == 1
    node.crash()
    assert node.call("status")["endpoint"] == address
    assert put(address, key, 4, table(3))["again"]
    assert put(address, key, 5, table(4, 5))["published"] == 2
    assert node.publish(table(1, 2), part_of) == Accepted(3, again=True)
    (status,) = node.call("status")["streams"]
    assert (status["next"], status["dead"]) == (3, {})
    ray.kill(node.actor)


def table(*sensors: int) -> pa.Table:
    return pa.table({"temp": [sensor / 2 for sensor in sensors], "sensor": pa.array(sensors, pa.int32())})


def received(reader: Subscriber, frames: int) -> list[tuple[int, list[int]]]:
    """Wait for this number of frames; return the number of each frame and the sensors in the frame."""
    found: list[tuple[int, list[int]]] = []
    while True:
        found += [(number, batch_of(frame).columns[0].data.tolist()) for number, frame in reader.frames()]
        if len(found) >= frames:
            return found
        assert reader.wait(HUNG_S)


def test_gateway_accepts_a_table_with_all_columns_and_refuses_a_table_with_a_missing_column(
    nodes: tuple[Node, Node],
) -> None:
    node, _ = nodes
    assert node.call("declare", READINGS) == "readings"
    reader = Subscriber(node.dirs, "c1", "readings")
    assert node.publish(table(1, 2)) == Accepted(0)
    assert node.publish(table(3)) == Accepted(1)
    assert received(reader, 2) == [(0, [1, 2]), (1, [3])]
    answer = node.publish(table(1).drop_columns(["temp"]))
    assert isinstance(answer, RefusedBatch)
    assert "stream readings, column temp: the column is missing" in answer.reason
    assert node.call("status")["streams"][0]["accepted_rows"] == 3
    reader.close()


def test_killed_gateway_comes_back_with_its_streams_and_readers(nodes: tuple[Node, Node]) -> None:
    node, _ = nodes
    node.call("declare", READINGS)
    node.publish(table(1))
    reader = Subscriber(node.dirs, "c1", "readings", 0, lossless=True)
    node.crash()
    with pytest.raises(ConnectionError):
        received(reader, frames=2)
    assert node.publish(table(2)) == Accepted(1)
    assert received(Subscriber(node.dirs, "c1", "readings", 0, lossless=True), 2) == [(0, [1]), (1, [2])]
    assert node.call("status")["streams"][0]["readers"].keys() == {"c1"}


def test_copy_of_a_stream_has_the_same_frames_after_either_gateway_crashed(nodes: tuple[Node, Node]) -> None:
    origin, copy = nodes
    origin.call("declare", READINGS)
    origin.publish(table(1, 2))
    copy.call("follow", "n1", "readings")
    reader = Subscriber(copy.dirs, "c1", "readings", 0, lossless=True)
    assert received(reader, 1) == [(0, [1, 2])]
    origin.publish(table(3))
    assert received(reader, 1) == [(1, [3])]
    assert isinstance(copy.publish(table(9)), RefusedBatch)
    origin.crash()
    origin.publish(table(4))
    assert received(reader, 1) == [(2, [4])]
    copy.crash()
    origin.publish(table(5))
    again = Subscriber(copy.dirs, "c1", "readings", 2, lossless=True)
    assert received(again, 2) == [(2, [4]), (3, [5])]


def test_stream_keeps_no_frames_for_a_copy_that_was_dropped_on_another_node(nodes: tuple[Node, Node]) -> None:
    origin, copy = nodes
    origin.call("declare", READINGS)
    copy.call("follow", "n1", "readings")
    assert origin.call("status")["streams"][0]["readers"].keys() == {"node-n2"}
    calls = [copy.actor.drop.remote("readings"), copy.actor.declare.remote(READINGS)]
    ray.get(calls, timeout=HUNG_S)
    assert copy.publish(table(9)) == Accepted(0)
    while origin.call("status")["streams"][0]["readers"]:
        pass
    assert origin.publish(table(1)) == Accepted(0)


def test_copy_of_a_stream_may_start_before_the_stream_is_declared_on_its_home_node(
    nodes: tuple[Node, Node],
) -> None:
    origin, copy = nodes
    followed = copy.actor.follow.remote("n1", "readings")
    origin.call("declare", READINGS)
    origin.publish(table(4))
    ray.get(followed, timeout=HUNG_S)
    found = copy.call("frames", "readings", 0, wait_s=HUNG_S).frames
    assert [number for number, _ in found] == [0]


def unit_log(node: Node) -> tuple[SegmentWriter, SegmentWriter]:
    """Create the logs of a unit without queries; return its commits and its snapshots."""
    folder = node.dirs.class_log("gold")
    logs = SegmentWriter(folder), SegmentWriter(folder / SNAPSHOTS)
    describe_as(folder, b'{"version": 1, "queries": {}}')
    return logs


def test_log_of_a_class_is_copied_unchanged(nodes: tuple[Node, Node]) -> None:
    origin, copy = nodes
    log, _ = unit_log(origin)
    log.append([b"first"])
    copy.call("follow_class", "n1", "gold")
    first = copy.call("class_frames", "gold", 0, wait_s=HUNG_S).frames
    assert [(number, bytes(payload)) for number, payload in first] == [(0, b"first")]
    log.append([b"second"])
    host = connect(origin.dirs.gateway_socket)
    host.send(encode(Grew("gold", log.next)))
    second = copy.call("class_frames", "gold", 1, wait_s=HUNG_S).frames
    assert [(number, bytes(payload)) for number, payload in second] == [(1, b"second")]
    copy.call("unfollow_class", "gold")
    host.close()


def test_home_node_keeps_the_input_of_a_unit_until_a_snapshot_contains_it(nodes: tuple[Node, Node]) -> None:
    away, home = nodes
    home.call("declare", READINGS)
    commits, snapshots = unit_log(away)
    home.call("set_copies", {"gold": Copy("n1", ("readings",), holds_back=True)})
    away.call("follow", "n2", "readings")
    unit = Subscriber(away.dirs, "gold", "readings", 0, lossless=True)
    home.publish(table(1))
    home.publish(table(2))
    assert received(unit, 2) == [(0, [1]), (1, [2])]
    assert home.call("status")["streams"][0]["readers"]["gold"]["released"] == 0
    commits.append([b"a commit"])
    snapshots.append(*snapshot_parts(SnapshotFrame(1, b"a state")))
    unit.release(2)
    while home.call("status")["streams"][0]["readers"]["gold"]["released"] < 2:
        pass
    assert Reader(home.dirs.class_log("gold")).next == 1
    assert Reader(home.dirs.class_log("gold") / SNAPSHOTS).next == 1
    home.call("set_copies", {})
    home.call("forget_unit", "gold")
    assert not home.dirs.class_log("gold").exists()
    assert "gold" not in home.call("status")["streams"][0]["readers"]


def test_stopped_gateway_leaves_no_files(nodes: tuple[Node, Node], base: Path) -> None:
    for node in nodes:
        node.call("declare", READINGS)
    nodes[1].call("follow_class", "n1", "none")
    for node in nodes:
        node.call("stop", remove=True)
    assert list(base.iterdir()) == []
