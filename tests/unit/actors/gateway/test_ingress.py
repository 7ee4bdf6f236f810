"""The gateway of a node: producers, readers and logs, with real sockets, files and processes."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from actors.gateway.gateway_loop import Gateway
from actors.gateway.producer import Producer
from actors.gateway.producer_door import DoorBounds
from actors.gateway.reader_connection import ReaderConnection
from actors.gateway.streams import Streams
from actors.log.segment_log import FrameForgotten, LogFull, Reader
from actors.log.train_format import BatchId, batch_of, batch_parts, mark_of
from actors.messages.gateway_messages import (
    FROM_NOW,
    PUBLISH,
    Accepted,
    CaughtUp,
    Denied,
    Heard,
    LogIsFull,
    Message,
    News,
    Reads,
    RefusedBatch,
    Released,
    Subscribe,
    Subscribed,
    Unsubscribe,
    decode,
    encode,
    head_bytes,
)
from actors.runtime.run_dirs import RunDirs, remove_dead
from actors.runtime.unix_channel import Channel, connect
from bench.subscriber import Subscriber
from configs.errors import InvalidInput
from engine.data.train import train_from_arrow
from engine.sql import parse_create_stream
from tests.support.checkout import ROOT

READINGS = "CREATE STREAM readings (sensor INT, temp DOUBLE, place VARCHAR)"
SCHEMA = parse_create_stream(READINGS).schema
KIB = 1024
SERVE = """
import sys, threading
from pathlib import Path
from actors.runtime.run_dirs import RunDirs
from actors.gateway.gateway_loop import Gateway
dirs = RunDirs(Path(sys.argv[1]), "s", "n")
held = dirs.hold()
gateway = Gateway(dirs)
gateway.streams.declare(sys.argv[2])
print("open", flush=True)
gateway.run()
"""


def batch(rows: int, begin: int = 0) -> pa.RecordBatch:
    sensors = np.arange(begin, begin + rows, dtype=np.int32)
    texts = pa.array([f"place {number % 7}" for number in range(rows)])
    return pa.RecordBatch.from_arrays([pa.array(sensors), pa.array(sensors / 2), texts], schema=SCHEMA.arrow)


@contextmanager
def running(dirs: RunDirs, **settings: Any) -> Iterator[Gateway]:
    gateway = Gateway(dirs, **settings)
    thread = threading.Thread(target=gateway.run)
    thread.start()
    try:
        yield gateway
    finally:
        gateway.stop()
        thread.join()


def sensors(subscriber: Subscriber) -> list[tuple[int, list[int]]]:
    """Return the numbers of the frames that the reader has received, each with its sensors."""
    return [(number, batch_of(payload).columns[0].data.tolist()) for number, payload in subscriber.frames()]


def settle(dirs: RunDirs) -> None:
    """Wait until the gateway has handled all earlier messages of readers. The gateway answers a new reader only after these messages."""
    newcomer = Subscriber(dirs, "newcomer", "readings")
    newcomer.unsubscribe()
    newcomer.close()


def accepted(answer: Accepted | RefusedBatch) -> int:
    assert isinstance(answer, Accepted), answer
    return answer.number


def refused(answer: Accepted | RefusedBatch) -> RefusedBatch:
    assert isinstance(answer, RefusedBatch), answer
    return answer


def test_published_batch_arrives_at_the_reader_of_its_stream(dirs: RunDirs) -> None:
    with running(dirs) as gateway:
        gateway.streams.declare(READINGS)
        reader = Subscriber(dirs, "c1", "readings")
        with Producer(dirs.door_socket) as producer:
            assert accepted(producer.publish("readings", batch(3))) == 0
            assert reader.wait()
            assert sensors(reader) == [(0, [0, 1, 2])]
            assert accepted(producer.publish("readings", batch(0))) == 1
            assert accepted(producer.publish("readings", batch(2, begin=7))) == 2
            assert reader.wait()
            assert sensors(reader) == [(1, []), (2, [7, 8])]
        reader.close()


def test_reader_that_has_not_polled_gets_one_announcement_for_many_batches(dirs: RunDirs) -> None:
    with running(dirs) as gateway, Producer(dirs.door_socket) as producer:
        gateway.streams.declare(READINGS)
        reader = Subscriber(dirs, "c1", "readings")
        assert not reader.wait(0)
        for number in range(500):
            assert accepted(producer.publish("readings", batch(1))) == number
        assert reader.wait()
        assert len(sensors(reader)) == 500
        assert not reader.wait(0)
        reader.close()


def test_gateway_accepts_batches_with_columns_in_any_order(dirs: RunDirs) -> None:
    with running(dirs) as gateway, Producer(dirs.door_socket) as producer:
        gateway.streams.declare(READINGS)
        reader = Subscriber(dirs, "c1", "readings")
        accepted(producer.publish("readings", batch(2).select(["place", "sensor", "temp"])))
        assert sensors(reader) == [(0, [0, 1])]
        reader.close()


@pytest.mark.parametrize(
    ("given", "what"),
    [
        (
            batch(1).drop_columns(["temp"]),
            "stream readings, column temp: the column is missing; expected float64",
        ),
        (
            batch(1).append_column("x", pa.array([1])),
            "stream readings, column x: the stream has no column of this name",
        ),
        (
            batch(1).set_column(1, "temp", pa.array([1])),
            "stream readings, column temp: the column has type int64; expected float64 (double)",
        ),
    ],
    ids=["missing", "unknown", "another type"],
)
def test_batches_with_wrong_columns_are_refused_by_column_name(
    dirs: RunDirs, given: pa.RecordBatch, what: str
) -> None:
    with running(dirs) as gateway, Producer(dirs.door_socket) as producer:
        gateway.streams.declare(READINGS)
        answer = refused(producer.publish("readings", given))
        assert what in answer.reason
        assert answer.retry_after_s is None
        assert accepted(producer.publish("readings", batch(1))) == 0


def test_batch_sent_again_with_its_id_is_stored_once_even_after_a_restart(dirs: RunDirs) -> None:
    first, second = (BatchId(mark_of("p"), number) for number in (7, 8))
    with running(dirs) as gateway, Producer(dirs.door_socket) as producer:
        gateway.streams.declare(READINGS)
        gateway.streams.keep_for("reader", ["readings"], lossless=True)
        assert producer.publish("readings", batch(1), first) == Accepted(0)
        assert producer.publish("readings", batch(1), first) == Accepted(1, again=True)
        assert producer.publish("readings", batch(1), BatchId(mark_of("q"), 0)) == Accepted(1)
        assert producer.publish("readings", batch(1)) == Accepted(2)
    with running(dirs) as gateway, Producer(dirs.door_socket) as producer:
        assert producer.publish("readings", batch(1), first) == Accepted(3, again=True)
        assert producer.publish("readings", batch(2, begin=5), second) == Accepted(3)
        log = Reader(dirs.stream("readings"))
        found = [batch_of(payload).columns[0].data.tolist() for _, payload in log.frames(0)]
        assert found == [[0], [0], [0], [5, 6]]


def test_stream_names_ignore_case(dirs: RunDirs) -> None:
    with running(dirs) as gateway, Producer(dirs.door_socket) as producer:
        gateway.streams.declare(READINGS.replace("readings", "Readings"))
        reader = Subscriber(dirs, "c1", "READINGS")
        accepted(producer.publish("readings", batch(1)))
        assert reader.wait()
        assert sensors(reader) == [(0, [0])]
        reader.close()


def test_unknown_stream_is_refused_with_the_nearest_name(dirs: RunDirs) -> None:
    with running(dirs) as gateway, Producer(dirs.door_socket) as producer:
        gateway.streams.declare(READINGS)
        assert "did you mean readings?" in refused(producer.publish("reading", batch(1))).reason
        with pytest.raises(InvalidInput, match="did you mean readings"):
            Subscriber(dirs, "c1", "reading")


def test_stream_declared_again_with_another_definition_is_refused(dirs: RunDirs) -> None:
    with running(dirs) as gateway:
        gateway.streams.declare(READINGS)
        gateway.streams.declare(READINGS)
        with pytest.raises(InvalidInput, match="already declared with another definition"):
            gateway.streams.declare("CREATE STREAM readings (sensor INT)")


def raw(dirs: RunDirs) -> socket.socket:
    connected = socket.socket(socket.AF_UNIX)
    connected.connect(str(dirs.door_socket))
    return connected


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\nHost: weir\r\n\r\n",
        head_bytes(PUBLISH, "readings", 1, 100) + bytes(100),
        head_bytes(PUBLISH, "readings", 1, 1 << 60) + bytes(1 << 16),
        head_bytes(PUBLISH, "../../etc", 1, 4),
        head_bytes(PUBLISH, "readings", 1, 1000) + b"and then no more",
    ],
    ids=["another protocol", "empty description", "huge size", "invalid name", "half a batch"],
)
def test_invalid_producer_does_not_affect_other_producers(dirs: RunDirs, sent: bytes) -> None:
    with running(dirs) as gateway, Producer(dirs.door_socket) as producer, raw(dirs) as bad:
        gateway.streams.declare(READINGS)
        bad.sendall(sent)
        assert accepted(producer.publish("readings", batch(1))) == 0
        bad.close()
        assert accepted(producer.publish("readings", batch(1))) == 1
        assert not gateway.failures


def altered(message: bytes) -> list[bytes]:
    """Return copies of a valid message, each with one 32-bit word replaced by another number."""
    return [
        message[:place] + struct.pack("<I", value) + message[place + 4 :]
        for place in range(0, len(message) - 4, 4)
        for value in (0, 1, 0x7FFFFFFF, 0xFFFFFFFF, 64)
    ]


def test_damaged_batch_is_refused_unless_all_its_columns_can_be_read(dirs: RunDirs) -> None:
    with running(dirs) as gateway:
        gateway.streams.declare(READINGS)
        reader = Subscriber(dirs, "c1", "readings")
        for message in altered(batch(3).serialize().to_pybytes()):
            gateway.streams.append("readings", message, 3)
        for _, payload in reader.frames():
            train = batch_of(payload)
            assert [len(column.data) for column in train.columns] == [3, 3, 3]
            train.columns[2].data.to_pylist()
        reader.close()


def test_compressed_batch_is_refused(dirs: RunDirs) -> None:
    with running(dirs) as gateway:
        gateway.streams.declare(READINGS)
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, SCHEMA.arrow, options=options) as writer:
            writer.write_batch(batch(1000))
        messages = pa.ipc.MessageReader.open_stream(sink.getvalue())
        messages.read_next_message()
        compressed = messages.read_next_message().serialize()
        assert "compressed" in refused(gateway.streams.append("readings", compressed, 1000)).reason


def test_full_log_with_a_lossless_reader_refuses_batches(dirs: RunDirs) -> None:
    with running(dirs, bytes_max=256 * KIB) as gateway, Producer(dirs.door_socket) as producer:
        gateway.streams.declare(READINGS)
        reader = Subscriber(dirs, "c1", "readings", lossless=True)
        answers = [producer.publish("readings", batch(500)) for _ in range(40)]
        first_refused = next(place for place, one in enumerate(answers) if isinstance(one, RefusedBatch))
        assert all(isinstance(one, Accepted) for one in answers[:first_refused])
        assert refused(answers[-1]).retry_after_s is not None
        taken = sensors(reader)
        assert [number for number, _ in taken] == list(range(first_refused))
        reader.release(reader.next)
        settle(dirs)
        assert accepted(producer.publish("readings", batch(500))) == first_refused
        reader.close()


def test_reader_that_is_not_lossless_loses_its_oldest_frames_with_an_error(dirs: RunDirs) -> None:
    with running(dirs, bytes_max=256 * KIB) as gateway, Producer(dirs.door_socket) as producer:
        gateway.streams.declare(READINGS)
        reader = Subscriber(dirs, "c1", "readings")
        for number in range(100):
            assert accepted(producer.publish("readings", batch(500))) == number
        with pytest.raises(FrameForgotten, match="continue at frame"):
            sensors(reader)
        reader.close()


def test_frames_are_deleted_when_every_reader_has_released_them(dirs: RunDirs) -> None:
    with running(dirs, segment_bytes=32 * KIB) as gateway, Producer(dirs.door_socket) as producer:
        stream = gateway.streams.declare(READINGS)
        fast, slow = (
            Subscriber(dirs, name, "readings", lossless=name == "slow") for name in ("fast", "slow")
        )
        for _ in range(20):
            accepted(producer.publish("readings", batch(500)))
        fast.release(20)
        settle(dirs)
        assert stream.log.first == 0
        slow.release(10)
        settle(dirs)
        assert 0 < stream.log.first <= 10
        slow.unsubscribe()
        with pytest.raises(InvalidInput, match="not subscribed"):
            slow.wait()
        assert stream.log.first > 10
        fast.close()
        slow.close()


def test_restarted_gateway_keeps_streams_frames_and_readers(dirs: RunDirs) -> None:
    with running(dirs) as gateway, Producer(dirs.door_socket) as producer:
        gateway.streams.declare(READINGS)
        reader = Subscriber(dirs, "c1", "readings", lossless=True)
        accepted(producer.publish("readings", batch(2)))
        reader.release(1)
        settle(dirs)
    with pytest.raises(ConnectionError):
        reader.wait()
    assert sensors(reader) == [(0, [0, 1])]
    with running(dirs) as gateway, Producer(dirs.door_socket) as producer:
        (status,) = gateway.streams.status()
        assert (status["next"], status["readers"]["c1"]["lossless"]) == (1, True)
        assert not status["readers"]["c1"]["connected"]
        reader = Subscriber(dirs, "c1", "readings", reader.next, lossless=True)
        assert accepted(producer.publish("readings", batch(1))) == 1
        assert sensors(reader) == [(1, [0])]


def test_reader_that_resumes_at_a_later_frame_does_not_release_earlier_frames(dirs: RunDirs) -> None:
    with running(dirs, segment_bytes=32 * KIB) as gateway, Producer(dirs.door_socket) as producer:
        stream = gateway.streams.declare(READINGS)
        Subscriber(dirs, "c1", "readings", lossless=True).close()
        for _ in range(20):
            accepted(producer.publish("readings", batch(500)))
        again = Subscriber(dirs, "c1", "readings", 15, lossless=True)
        assert stream.log.first == 0
        assert [number for number, _ in sensors(again)] == [15, 16, 17, 18, 19]
        again.close()


def answer_to(dirs: RunDirs, message: Message) -> Message:
    """Send a message over a new connection, and return the gateway's answer to the message."""
    host = connect(dirs.gateway_socket)
    blocking = socket.socket(fileno=os.dup(host.fileno()))
    blocking.setblocking(True)
    blocking.send(encode(message))
    answer = decode(blocking.recv(KIB))
    blocking.close()
    host.close()
    return answer


def test_a_reader_that_repeats_its_subscription_still_starts_where_it_first_subscribed(dirs: RunDirs) -> None:
    begin = Subscribe("c1", "readings", FROM_NOW, False)
    with running(dirs) as gateway, Producer(dirs.door_socket) as producer:
        gateway.streams.declare(READINGS)
        accepted(producer.publish("readings", batch(7)))
        assert answer_to(dirs, begin) == Subscribed("c1", "readings", 0, 1, 7)
        accepted(producer.publish("readings", batch(5)))
        assert answer_to(dirs, begin) == Subscribed("c1", "readings", 0, 1, 7)
    with running(dirs):
        assert answer_to(dirs, begin) == Subscribed("c1", "readings", 0, 1, 7)


def test_a_copied_stream_tells_readers_the_row_count_of_the_original_once_it_has_a_frame(
    dirs: RunDirs,
) -> None:
    begins = [Subscribe(name, "readings", FROM_NOW, False) for name in ("c1", "c2")]
    with running(dirs) as gateway:
        gateway.streams.declare(READINGS, origin="n2")
        assert answer_to(dirs, begins[0]) == Subscribed("c1", "readings", 0, 0, None)
        frame = batch_parts(1.0, train_from_arrow(batch(3), SCHEMA, 1.0), 40)
        gateway.streams.append_copy("readings", 8, *frame)
        assert answer_to(dirs, begins[1]) == Subscribed("c2", "readings", 0, 9, 43)


def test_reader_may_begin_after_the_last_frame_only_in_a_copied_stream(dirs: RunDirs) -> None:
    with running(dirs) as gateway:
        gateway.streams.declare(READINGS)
        with pytest.raises(InvalidInput, match="after the end"):
            Subscriber(dirs, "c1", "readings", 2)
        gateway.streams.drop("readings")
        gateway.streams.declare(READINGS, origin="n2")
        reader = Subscriber(dirs, "c1", "readings", 2)
        for number in (0, 2, 2, 3):
            frame = batch_parts(1.0, train_from_arrow(batch(1, begin=number), SCHEMA, 1.0))
            gateway.streams.append_copy("readings", number, *frame)
        assert reader.wait()
        assert sensors(reader) == [(2, [2]), (3, [3])]
        reader.close()


def test_killed_gateway_loses_no_accepted_batch(dirs: RunDirs) -> None:
    last = -1
    for _ in range(3):
        child = subprocess.Popen(
            [sys.executable, "-c", SERVE, dirs.base, READINGS],
            stdout=subprocess.PIPE,
            cwd=ROOT,
        )
        assert child.stdout is not None
        with child, child.stdout as said:
            assert said.readline() == b"open\n"
            with Producer(dirs.door_socket) as producer:
                reader = Subscriber(dirs, "c1", "readings", 0, lossless=True)
                for _ in range(20):
                    last = accepted(producer.publish("readings", batch(1, begin=last + 1)))
                child.send_signal(signal.SIGKILL)
                assert sensors(reader) == [(number, [number]) for number in range(last + 1)]
                reader.close()
    assert last == 59


def test_batch_that_is_too_large_is_refused_for_good_and_too_many_bytes_at_once_only_for_now(
    dirs: RunDirs,
) -> None:
    bounds = DoorBounds(message_bytes=64 * KIB, receiving_bytes=100 * KIB, connections=3)
    with running(dirs, bounds=bounds) as gateway, Producer(dirs.door_socket) as producer, raw(dirs) as slow:
        gateway.streams.declare(READINGS)
        answer = refused(producer.publish("readings", batch(10_000)))
        assert "send smaller batches" in answer.reason
        assert answer.retry_after_s is None
        accepted(producer.publish("readings", batch(1)))
        describe = head_bytes(0, "readings", 0, 90 * KIB)
        slow.sendall(describe + bytes(50 * KIB))
        settle(dirs)
        answer = refused(producer.publish("readings", batch(1000)))
        assert answer.retry_after_s is not None
        slow.close()
        settle(dirs)
        accepted(producer.publish("readings", batch(1000)))
        with raw(dirs), raw(dirs), raw(dirs) as too_many:
            assert too_many.recv(1) == b""


def test_batch_larger_than_the_log_is_refused_for_good(dirs: RunDirs) -> None:
    with running(dirs, bytes_max=256 * KIB) as gateway, Producer(dirs.door_socket) as producer:
        gateway.streams.declare(READINGS)
        answer = refused(producer.publish("readings", batch(20_000)))
        assert "send smaller batches" in answer.reason
        assert answer.retry_after_s is None


def test_batches_of_each_concurrent_producer_stay_in_order(dirs: RunDirs) -> None:
    def publish(begin: int) -> None:
        with Producer(dirs.door_socket) as producer:
            for number in range(50):
                accepted(producer.publish("readings", batch(1, begin=begin + number)))

    with running(dirs) as gateway:
        gateway.streams.declare(READINGS)
        reader = Subscriber(dirs, "c1", "readings")
        producers = [threading.Thread(target=publish, args=(1000 * one,)) for one in range(4)]
        for one in producers:
            one.start()
        for one in producers:
            one.join()
        found = sensors(reader)
        assert [number for number, _ in found] == list(range(200))
        came = [sensor for _, (sensor,) in found]
        assert sorted(came, key=lambda sensor: sensor // 1000) == [
            1000 * one + number for one in range(4) for number in range(50)
        ]
        reader.close()


def test_second_gateway_of_a_node_is_refused(dirs: RunDirs) -> None:
    with (
        running(dirs),
        pytest.raises(InvalidInput, match="another process already listens at this path of a Unix socket"),
    ):
        Gateway(dirs)


def test_run_folders_of_dead_systems_are_removed_and_those_of_living_systems_are_not(tmp_path: Path) -> None:
    dead, alive = (RunDirs(tmp_path, name, "n") for name in ("dead", "alive"))
    os.close(dead.hold())
    held = alive.hold()
    assert remove_dead(tmp_path) == [dead.root]
    assert not dead.root.exists()
    assert alive.streams.is_dir()
    os.close(held)


def test_removing_the_last_node_removes_all_run_folders(tmp_path: Path) -> None:
    one, two = RunDirs(tmp_path, "s", "n1"), RunDirs(tmp_path, "s", "n2")
    held = [one.hold(), two.hold()]
    one.remove()
    assert two.streams.is_dir()
    two.remove()
    assert list(tmp_path.iterdir()) == []
    for file in held:
        os.close(file)


def test_thousand_readers_on_a_connection_all_get_announcements(dirs: RunDirs) -> None:
    names = [f"c#{number}" for number in range(1000)]
    with running(dirs) as gateway, Producer(dirs.door_socket) as producer:
        gateway.streams.declare(READINGS)
        host = connect(dirs.gateway_socket)
        blocking = socket.socket(fileno=os.dup(host.fileno()))
        blocking.setblocking(True)
        for name in names:
            blocking.send(encode(Subscribe(name, "readings", 0, False)))
            blocking.send(encode(Heard(name, "readings", 0)))
        answers = [decode(blocking.recv(KIB)) for _ in names]
        accepted(producer.publish("readings", batch(1)))
        news = [decode(blocking.recv(KIB)) for _ in names]
        assert answers == [Subscribed(name, "readings", 0, 0) for name in names]
        assert sorted(news, key=str) == sorted([News(name, "readings", 1) for name in names], key=str)
        blocking.close()
        host.close()


def test_gateway_denies_a_packet_of_another_protocol_and_closes_the_connection(dirs: RunDirs) -> None:
    with running(dirs):
        host = connect(dirs.gateway_socket)
        blocking = socket.socket(fileno=os.dup(host.fileno()))
        blocking.setblocking(True)
        blocking.send(b"what is this?")
        answer = decode(blocking.recv(KIB))
        assert isinstance(answer, Denied)
        assert blocking.recv(KIB) == b""
        blocking.close()
        host.close()


def test_reader_is_refused_while_memory_is_full_and_accepted_later(
    dirs: RunDirs, no_room: Callable[[], AbstractContextManager[None]]
) -> None:
    with running(dirs) as gateway:
        gateway.streams.declare(READINGS)
        early = Subscriber(dirs, "early", "readings", lossless=True)
        with no_room():
            with pytest.raises(InvalidInput, match="the machine has no memory left for the stream's record"):
                Subscriber(dirs, "late", "readings", 0, lossless=True)
            early.unsubscribe()
            with pytest.raises(LogFull):
                gateway.streams.declare(READINGS.replace("readings", "others"))
        gateway.streams.declare(READINGS.replace("readings", "others"))
        late = Subscriber(dirs, "late", "readings", 0, lossless=True)
        with Producer(dirs.door_socket) as producer:
            assert accepted(producer.publish("readings", batch(3))) == 0
        assert late.wait()
        assert sensors(late) == [(0, [0, 1, 2])]
        assert set(gateway.streams.find("readings").readers) == {"late"}
        for reader in (early, late):
            reader.close()


def test_gateway_that_stops_while_memory_is_full_releases_its_logs(
    dirs: RunDirs, no_room: Callable[[], AbstractContextManager[None]]
) -> None:
    with running(dirs) as gateway:
        gateway.streams.declare(READINGS)
        with no_room():
            gateway.streams.close()
    with running(dirs) as gateway, Producer(dirs.door_socket) as producer:
        assert accepted(producer.publish("readings", batch(3))) == 0


def test_readers_are_notified_when_the_feed_of_their_stream_has_caught_up(dirs: RunDirs) -> None:
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    mine, gateways = (Channel(one) for one in ends)
    streams = Streams(dirs, lambda: 100.0)
    streams.declare(READINGS)
    streams.hear(Subscribe("c1", "readings", FROM_NOW, False), ReaderConnection(gateways, lambda _: None))
    assert isinstance(decode(mine.receive() or b""), Subscribed)
    streams.caught_up({"Readings": 5.0, "another": 1.0})
    assert decode(mine.receive() or b"") == CaughtUp("c1", "Readings", 95.0)
    streams.close()
    gateways.close()
    mine.close()


def test_frame_numbers_of_a_dropped_stream_are_not_reused(dirs: RunDirs) -> None:
    with running(dirs) as gateway, Producer(dirs.door_socket) as producer:
        gateway.streams.declare(READINGS)
        accepted(producer.publish("readings", batch(7)))
        gateway.streams.drop("readings")
    with running(dirs) as gateway, Producer(dirs.door_socket) as producer:
        again = gateway.streams.declare(READINGS)
        assert (again.log.next, again.rows) == (1, 7)
        assert answer_to(dirs, Subscribe("c1", "readings", FROM_NOW, False)) == Subscribed(
            "c1", "readings", 0, 1, 7
        )
        accepted(producer.publish("readings", batch(5)))
        assert (again.log.next, again.rows) == (2, 12)


def test_a_stream_keeps_no_frames_for_a_reader_whose_host_no_longer_reads_the_stream(
    dirs: RunDirs,
) -> None:
    with running(dirs) as gateway:
        gateway.streams.declare(READINGS)
        gateway.streams.keep_for("c1", ["readings"], lossless=False)
        stream = gateway.streams.find("readings")
        gateway.streams.keep_for("c1", ["readings"], lossless=True)
        assert stream.readers["c1"].lossless
        for reads, readers in ((Reads("c1", ("READINGS",)), {"c1"}), (Reads("c1", ()), set())):
            host = connect(dirs.gateway_socket)
            host.send(encode(reads))
            host.send(encode(Subscribe("c2", "readings", FROM_NOW, False)))
            while "c2" not in stream.readers:
                pass
            assert stream.readers.keys() == {"c2", *readers}
            host.close()
            gateway.streams.forget_reader("c2")


def test_declared_reader_begins_with_the_first_row_after_its_declaration(dirs: RunDirs) -> None:
    begin = Subscribe("c1", "readings", FROM_NOW, False)
    with running(dirs) as gateway, Producer(dirs.door_socket) as producer:
        gateway.streams.declare(READINGS)
        accepted(producer.publish("readings", batch(7)))
        gateway.streams.declare(READINGS, readers={"c1": False})
        for _ in range(3):
            accepted(producer.publish("readings", batch(5)))
    with running(dirs) as gateway:
        gateway.streams.declare(READINGS, readers={"c1": False, "c2": False})
        assert answer_to(dirs, begin) == Subscribed("c1", "readings", 0, 1, 7)
        assert answer_to(dirs, Subscribe("c2", "readings", FROM_NOW, False)) == Subscribed(
            "c2", "readings", 0, 4, 22
        )
        assert gateway.streams.find("readings").status()["expected"] == []


def test_an_unsubscription_that_arrives_after_its_reader_is_declared_again_leaves_the_new_start_unchanged(
    dirs: RunDirs,
) -> None:
    begin = Subscribe("c1", "readings", FROM_NOW, False)
    with running(dirs) as gateway, Producer(dirs.door_socket) as producer:
        streams = gateway.streams
        streams.declare(READINGS, readers={"c1": False})
        assert answer_to(dirs, begin) == Subscribed("c1", "readings", 0, 0, 0)
        accepted(producer.publish("readings", batch(7)))
        streams.declare(READINGS, readers={})
        streams.declare(READINGS, readers={"c1": False})
        accepted(producer.publish("readings", batch(5)))
        leaving = connect(dirs.gateway_socket)
        for message in (Unsubscribe("c1", "readings"), Reads("c1", ())):
            leaving.send(encode(message))
        settle(dirs)
        assert answer_to(dirs, begin) == Subscribed("c1", "readings", 0, 1, 7)
        leaving.close()


def test_declared_reader_that_unsubscribes_and_returns_begins_where_it_was_declared(
    dirs: RunDirs,
) -> None:
    begin = Subscribe("c1", "readings", FROM_NOW, False)
    with running(dirs) as gateway, Producer(dirs.door_socket) as producer:
        gateway.streams.declare(READINGS, readers={"c1": False})
        accepted(producer.publish("readings", batch(7)))
        assert answer_to(dirs, begin) == Subscribed("c1", "readings", 0, 0, 0)
        leaving = connect(dirs.gateway_socket)
        leaving.send(encode(Unsubscribe("c1", "readings")))
        settle(dirs)
        assert answer_to(dirs, begin) == Subscribed("c1", "readings", 0, 0, 0)
        leaving.close()


def test_subscription_at_an_old_position_does_not_move_the_start_of_a_redeclared_reader(
    dirs: RunDirs,
) -> None:
    begin = Subscribe("c1", "readings", FROM_NOW, False)
    with running(dirs) as gateway, Producer(dirs.door_socket) as producer:
        streams = gateway.streams
        streams.declare(READINGS, readers={"c1": False})
        accepted(producer.publish("readings", batch(7)))
        assert answer_to(dirs, begin) == Subscribed("c1", "readings", 0, 0, 0)
        streams.declare(READINGS, readers={})
        streams.declare(READINGS, readers={"c1": False})
        accepted(producer.publish("readings", batch(5)))
        # The host does not know yet that its class was removed as a reader and declared again, so the host reads on from its old position.
        assert answer_to(dirs, Subscribe("c1", "readings", 1, False)) == Subscribed("c1", "readings", 0, 2)
        assert answer_to(dirs, begin) == Subscribed("c1", "readings", 0, 1, 7)


def test_full_log_keeps_frames_for_a_lossless_reader_that_is_only_declared(dirs: RunDirs) -> None:
    with running(dirs, bytes_max=16 * KIB, segment_bytes=2 * KIB) as gateway:
        stream = gateway.streams.declare(READINGS, readers={"c1": False})
        rows = stream.train(batch(20))
        for _ in range(100):
            accepted(gateway.streams.publish(stream, [rows]))
        assert (stream.log.first > 0, stream.log.bytes <= 16 * KIB) == (True, True)
        # The reader counts the rows between its start and the first remaining frame as missed.
        assert answer_to(dirs, Subscribe("c1", "readings", FROM_NOW, False)) == Subscribed(
            "c1", "readings", 0, 0, 0
        )
        gateway.streams.forget_reader("c1")
        gateway.streams.declare(READINGS, readers={"c2": True})
        answers = [gateway.streams.publish(stream, [rows]) for _ in range(100)]
        assert refused(answers[-1]).retry_after_s is not None
        gateway.streams.declare(READINGS, readers={})
        assert isinstance(gateway.streams.publish(stream, [rows]), Accepted)


def test_frames_are_no_longer_kept_for_a_declared_reader_once_it_has_released_them(dirs: RunDirs) -> None:
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    channels = [Channel(one) for one in ends]
    streams, peer = Streams(dirs, lambda: 100.0), ReaderConnection(channels[1], lambda _: None)
    stream = streams.declare(READINGS)
    streams.hear(Subscribe("c1", "readings", FROM_NOW, True), peer)
    stream.expect({"c1": True})
    for _ in range(2):
        accepted(streams.publish(stream, [stream.train(batch(3))]))
    streams.hear(Released("c1", "readings", 2), peer)
    assert (stream.status()["expected"], stream.log.keep_from) == ([], 2)
    streams.close()
    for channel in channels:
        channel.close()


def test_lossless_reader_is_notified_when_its_frames_fill_the_log(dirs: RunDirs) -> None:
    ends = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(2)]
    channels = [(Channel(mine), Channel(gateways)) for mine, gateways in ends]
    now = [100.0]
    streams = Streams(dirs, lambda: now[0], bytes_max=16 * KIB, segment_bytes=2 * KIB)
    stream = streams.declare(READINGS)
    for (_, gateways), (name, lossless) in zip(channels, (("c1", True), ("c2", False)), strict=True):
        streams.hear(
            Subscribe(name, "readings", FROM_NOW, lossless), ReaderConnection(gateways, lambda _: None)
        )
    rows = stream.train(batch(20))
    while isinstance(streams.publish(stream, [rows]), Accepted):
        pass
    streams.publish(stream, [rows])
    now[0] += 10.0
    streams.publish(stream, [rows])
    streams.caught_up({"readings": 0.0})
    heard = []
    for mine, _ in channels:
        heard.append([type(decode(mine.receive() or b""))])
        while heard[-1][-1] is not CaughtUp:
            heard[-1].append(type(decode(mine.receive() or b"")))
    # LogIsFull is sent again only after some time, however often producers try.
    assert heard == [[Subscribed, LogIsFull, LogIsFull, CaughtUp], [Subscribed, CaughtUp]]
    streams.close()
    for channel in (one for pair in channels for one in pair):
        channel.close()


def test_a_stream_keeps_every_row_for_the_declared_copy_until_the_copy_has_it(dirs: RunDirs) -> None:
    with running(dirs) as gateway:
        stream = gateway.streams.declare(READINGS, readers={"node-n2": True})
        accepted(gateway.streams.publish(stream, [stream.train(batch(3))]))
        gateway.streams.begin_copy("readings", "node-n2")
        assert (stream.log.keep_from, stream.readers["node-n2"].released) == (0, 0)
        gateway.streams.follow_from("readings", "node-n2", 1)
        assert (stream.log.keep_from, stream.status()["expected"]) == (1, [])
