"""The Flight server with a real client: batches are published, answers are read, and keys limit what a client may do."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import flight

from actors.gateway.streams import Streams
from actors.log.segment_log import SEGMENT_BYTES, Reader
from actors.log.train_format import batch_of
from actors.log.unit_log import UnitLog, described
from actors.runtime.run_dirs import RunDirs
from engine.class_.steps import Answer, Commit
from engine.data.schema import Schema
from engine.data.train import train_from_arrow
from engine.sql import SqlCatalog, parse_create_stream, plan_query
from services.ingest.flight import FlightDoor, FlightSettings
from services.ingest.keys import KeyRecord, KeyRing, new_key
from tests.support.dead_letters import letters

READINGS = "CREATE STREAM readings (ts timestamp, sensor int32, temp float64, WATERMARK FOR ts AS ts)"
PLAIN = "CREATE STREAM plain (x int64)"
KEY, NARROW = new_key(), new_key()
KIB = 1024


@dataclass
class Client:
    """Client that writes batches like a producer on the network, and reads answers like a reader."""

    address: str
    key: str | None = KEY

    def __post_init__(self) -> None:
        self.flight = flight.connect(self.address)
        shown = [] if self.key is None else [(b"authorization", f"Bearer {self.key}".encode())]
        self.call = flight.FlightCallOptions(headers=shown)

    def put(
        self,
        rows: pa.RecordBatch | Sequence[pa.RecordBatch],
        number: int = 0,
        partition: int = 0,
        attempt: str = "a",
        **others: Any,
    ) -> dict[str, Any]:
        batches = [rows] if isinstance(rows, pa.RecordBatch) else list(rows)
        command = {
            "v": 1,
            "stream": "plain",
            "producer": "p",
            "batch": number,
            "partition": partition,
            "attempt": attempt,
            "timestamp_column": None,
            "schema_policy": "reject",
            "commit": False,
            **others,
        }
        descriptor = flight.FlightDescriptor.for_command(json.dumps(command).encode())
        writer, answers = self.flight.do_put(descriptor, batches[0].schema, self.call)
        with writer:
            for batch in batches:
                writer.write_batch(batch)
            writer.done_writing()
            return as_object(answers.read())

    def act(self, action: str, **fields: Any) -> dict[str, Any]:
        body = json.dumps({"v": 1, **fields}).encode()
        (result,) = self.flight.do_action(flight.Action(action, body), self.call)
        return as_object(result.body)

    def commit(self, number: int, *parts: tuple[int, str], **others: Any) -> dict[str, Any]:
        return self.act(
            "commit", **{"stream": "plain", "producer": "p", "batch": number, "parts": parts, **others}
        )

    def committed(self, producer: str = "p") -> int | None:
        found: int | None = self.act("committed", stream="plain", producer=producer)["batch"]
        return found


def as_object(body: pa.Buffer) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(body.to_pybytes())
    return found


@dataclass
class Door:
    dirs: RunDirs
    streams: Streams
    door: FlightDoor

    def client(self, key: str | None = KEY) -> Client:
        return Client(self.door.address, key)

    def frames(self, stream: str = "plain") -> list[list[Any]]:
        """Return the values of the first column, as one list for each frame of the stream's log."""
        log = Reader(self.dirs.stream(stream))
        return [batch_of(payload).columns[0].data.tolist() for _, payload in log.frames(log.first)]

    def restart(self, **settings: Any) -> None:
        """Replace the gateway by a new gateway, which knows only the files on disk."""
        self.door.close()
        self.streams.close()
        self.streams = Streams(self.dirs, lambda: 1.0)
        self.door = FlightSettings(**settings).with_key(KEY).open(self.streams, self.dirs)

    def close(self) -> None:
        self.door.close()
        self.streams.close()


def opened(dirs: RunDirs, bytes_max: int = 64 << 20, **settings: Any) -> Door:
    streams = Streams(dirs, lambda: 1.0, bytes_max=bytes_max)
    for sql in (READINGS, PLAIN):
        streams.declare(sql)
    keys = KeyRing().with_key(NARROW, ("ingest:plain", "tenant:gold"))
    found = Door(dirs, streams, FlightSettings(keys=keys, **settings).with_key(KEY).open(streams, dirs))
    for name in ("plain", "readings"):
        streams.keep_for("reader", [name, "plain"], lossless=True)
    return found


@pytest.fixture
def door(dirs: RunDirs) -> Iterator[Door]:
    found = opened(dirs)
    yield found
    found.close()


def plain(*values: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"x": pa.array(values, pa.int64())})


def readings(times: Sequence[int | None], sensor: int = 1) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "sensor": pa.array([sensor] * len(times), pa.int64()),
            "temp": [0.5] * len(times),
        }
    )


# -- batches of rows ---------------------------------------------------------------------------------------------


def test_commit_publishes_staged_parts_in_order_of_partitions(door: Door) -> None:
    client = door.client()
    assert client.put([plain(5), plain(6)], 1, 1) == {"rows": 2, "again": False}
    assert client.put(plain(1, 2), 1, 0) == {"rows": 2, "again": False}
    assert client.put(plain(9), 1, 0, "lost attempt") == {"rows": 1, "again": False}
    assert (door.frames(), client.committed()) == ([], None)
    assert client.commit(1, (1, "a"), (0, "a")) == {"published": 4, "dead": 0, "again": False}
    assert (door.frames(), client.committed()) == ([[1, 2], [5, 6]], 1)
    assert door.door.status()["staged"]["bytes"] == 0


def test_repeated_batch_is_acknowledged_and_ignored(door: Door) -> None:
    client = door.client()
    client.put(plain(1), 3)
    client.commit(3, (0, "a"))
    assert client.commit(3, (0, "a")) == {"published": 0, "dead": 0, "again": True}
    assert client.put(plain(1, 2), 3) == {"rows": 2, "again": True}
    assert client.put(plain(7), 2, commit=True) == {"rows": 1, "again": True, "published": 0, "dead": 0}
    assert client.commit(3, (0, "b"))["again"]
    assert client.put(plain(8), 3, producer="q", commit=True)["published"] == 1
    assert door.frames() == [[1], [8]]


def test_single_part_of_a_batch_is_published_at_once(door: Door) -> None:
    answer = door.client().put(plain(1, 2, 3), 0, commit=True)
    assert answer == {"rows": 3, "again": False, "published": 3, "dead": 0}
    assert door.frames() == [[1, 2, 3]]


def test_empty_batch_stays_committed_after_a_restart(door: Door) -> None:
    client = door.client()
    assert client.commit(4) == {"published": 0, "dead": 0, "again": False}
    assert client.put(plain(), 5, commit=True)["published"] == 0
    assert (client.committed(), door.frames()) == (5, [])
    door.restart()
    assert door.client().committed() == 5


def test_a_commit_that_names_missing_parts_is_refused_and_asks_for_the_whole_batch(door: Door) -> None:
    client = door.client()
    client.put(plain(1), 0)
    door.restart()
    client = door.client()
    with pytest.raises(
        flight.FlightServerError,
        match="the commit names a part that the gateway no longer holds: write the batch again",
    ) as caught:
        client.commit(0, (0, "a"))
    assert json.loads(caught.value.extra_info)["code"] == "not_staged"
    client.put(plain(1), 0)
    client.act("abort", stream="plain", producer="p", batch=0)
    client.act("abort", stream="plain", producer="p", batch=0)
    with pytest.raises(flight.FlightServerError, match="no longer holds"):
        client.commit(0, (0, "a"))
    assert door.frames() == []


def test_rows_are_cut_into_frames_of_at_most_100000_rows(door: Door) -> None:
    client = door.client()
    client.put([plain(*range(begin, begin + 7000)) for begin in range(0, 210_000, 7000)], 0, commit=True)
    client.put(plain(*range(210_000, 220_000)), 1, commit=True)
    frames = door.frames()
    assert [len(frame) for frame in frames] == [100_000, 100_000, 10_000, 10_000]
    assert [value for frame in frames for value in frame] == list(range(220_000))


def test_clients_can_read_a_streams_schema_and_send_different_columns_if_the_schema_policy_allows(
    door: Door,
) -> None:
    client = door.client()
    schema = client.flight.get_schema(
        flight.FlightDescriptor.for_path("stream", "READINGS"), client.call
    ).schema
    assert schema.equals(door.streams.find("readings").arrow)
    assert schema.metadata == {
        b"weir.time_column": b"ts",
        b"weir.time_unit_us": b"1",
        b"weir.sql": READINGS.encode(),
    }
    rows = readings([1]).rename_columns(["at", "Sensor", "x"])
    given: dict[str, Any] = {"stream": "readings", "commit": True, "timestamp_column": "at"}
    with pytest.raises(flight.FlightServerError, match="column x: the stream has no column of this name"):
        client.put(rows, **given)
    with pytest.raises(flight.FlightServerError, match="column temp: the column is missing"):
        client.put(rows, schema_policy="ignore", **given)
    with pytest.raises(flight.FlightServerError, match=r"CREATE STREAM readings \(x float64, ts"):
        client.put(rows, schema_policy="addNullable", **given)
    assert client.put(rows.drop_columns(["x"]), schema_policy="addNullable", **given)["published"] == 1
    assert door.frames("readings") == [[1]]


# -- rows that are invalid ---------------------------------------------------------------------------------------


def test_invalid_rows_are_kept_once_with_the_reason_and_valid_rows_are_published(door: Door) -> None:
    client = door.client()
    parts = [(0, "a"), (1, "a")]
    answers = []
    for _ in range(2):
        client.put([readings([1, None]), readings([None, 4], 2**40)], 0, stream="readings")
        client.put(readings([5, None]), 0, 1, stream="readings")
        answers.append(client.commit(0, *parts, stream="readings"))
    assert [answer["again"] for answer in answers] == [False, True]
    client.put(readings([6, None]), 1, stream="readings")
    assert client.commit(1, (0, "a"), stream="readings") == {"published": 1, "dead": 1, "again": False}
    assert door.frames("readings") == [[1], [5], [6]]
    counts = {"no event time: ts": 4, "does not fit: sensor": 1}
    assert door.door.status()["dead"] == {"readings": counts, "plain": {}}
    found = list(letters(door.dirs.stream("readings")))
    assert [(letter.reason, letter.column, letter.batch, letter.rows) for letter in found] == [
        ("no event time", "ts", 0, 3),
        ("does not fit", "sensor", 0, 1),
        ("no event time", "ts", 1, 1),
    ]
    assert found[1].kept.to_pylist() == readings([4], 2**40).to_pylist()
    door.restart()
    assert door.door.status()["dead"]["readings"] == counts


def test_dead_rows_are_counted_once_though_publishing_was_retried(dirs: RunDirs) -> None:
    door = opened(dirs, bytes_max=256 * KIB)
    client = door.client()
    fill(client, "readings", readings(range(1000)))
    for _ in range(3):
        with pytest.raises(flight.FlightUnavailableError):
            client.put(readings([*range(1000), None]), 0, stream="readings", producer="q", commit=True)
    door.streams.keep_for("reader", [], lossless=True)
    answer = client.put(readings([*range(1000), None]), 0, stream="readings", producer="q", commit=True)
    assert (answer["published"], answer["dead"]) == (1000, 1)
    assert door.door.status()["dead"]["readings"] == {"no event time: ts": 1}
    door.close()


def test_all_dead_rows_are_counted_although_their_log_keeps_only_the_last(dirs: RunDirs) -> None:
    door = opened(dirs, dead_bytes=256 * KIB)
    client = door.client()
    for number in range(30):
        client.put(readings([None] * 5000, number), number, stream="readings", commit=True)
    assert door.door.status()["dead"]["readings"] == {"no event time: ts": 150_000}
    taken = sum(path.stat().st_blocks * 512 for path in door.dirs.stream("readings").glob("dead/*.segment"))
    assert taken <= 256 * KIB
    last = list(letters(door.dirs.stream("readings")))[-1]
    assert (last.batch, last.rows) == (29, 5000)
    assert 0 < last.kept.num_rows < 5000
    door.close()


def test_dropping_a_stream_drops_its_dead_and_staged_rows(door: Door) -> None:
    client = door.client()
    client.put(readings([None]), 0, stream="readings", commit=True)
    client.put(readings([1]), 1, stream="readings")
    door.streams.drop("readings")
    door.streams.declare(READINGS)
    assert door.door.status()["dead"]["readings"] == {}
    with pytest.raises(flight.FlightServerError, match="no longer holds"):
        client.commit(1, (0, "a"), stream="readings")
    client.put(readings([None, 2]), 0, stream="readings", commit=True)
    assert door.door.status()["dead"]["readings"] == {"no event time: ts": 1}


# -- limits of logs and batches ----------------------------------------------------------------------------------


def fill(client: Client, stream: str, rows: pa.RecordBatch) -> None:
    """Publish batches until the log is full because its lossless reader has released nothing."""
    numbers = count()

    def put_all() -> None:
        while True:
            client.put(rows, next(numbers), stream=stream, commit=True)

    with pytest.raises(flight.FlightUnavailableError):
        put_all()


def test_only_lossless_readers_with_a_full_log_hold_producers_back(dirs: RunDirs) -> None:
    door = opened(dirs, bytes_max=256 * KIB)
    client, rows = door.client(), plain(*range(1000))
    fill(client, "plain", rows)
    following = client.committed()
    assert following is not None
    client.put(rows, following + 1)
    for _ in range(2):
        with pytest.raises(flight.FlightUnavailableError, match="has no room for") as caught:
            client.commit(following + 1, (0, "a"))
        details = json.loads(caught.value.extra_info)
        assert details["retry_after_s"] > 0
        assert "plain" in details["reason"]
    # Check that another stream still accepts batches, and that the same commit succeeds as soon as there is room.
    client.put(readings([1]), 0, stream="readings", commit=True)
    door.streams.release_for("reader", {"plain": door.streams.find("plain").log.next})
    assert client.commit(following + 1, (0, "a"))["published"] == 1000
    door.streams.keep_for("reader", [], lossless=True)
    door.streams.keep_for("shedding", ["plain"], lossless=False)
    for number in range(following + 2, following + 100):
        client.put(rows, number, commit=True)
    door.close()


def test_a_client_must_send_a_batch_again_if_the_gateway_has_no_memory_left(
    door: Door, no_room: Callable[[], AbstractContextManager[None]]
) -> None:
    client = door.client()
    with no_room():
        for batch in (plain(), readings([None, 1])):
            name = "plain" if not batch.num_rows else "readings"
            with pytest.raises(flight.FlightUnavailableError, match="no memory left"):
                client.put(batch, 1, stream=name, commit=True)
    assert client.put(plain(), 1, commit=True)["published"] == 0
    assert client.put(readings([None, 1]), 1, stream="readings", commit=True)["dead"] == 1
    door.restart()
    assert door.client().committed() == 1


def test_batch_larger_than_the_log_is_refused_for_good(dirs: RunDirs) -> None:
    door = opened(dirs, bytes_max=256 * KIB)
    with pytest.raises(flight.FlightServerError, match="send smaller batches"):
        door.client().put(plain(*range(20_000)), 0, commit=True)
    door.close()


def test_staged_parts_are_refused_while_staging_is_full_and_accepted_after_a_commit(dirs: RunDirs) -> None:
    door = opened(dirs, staged_bytes=100_000, message_bytes=90_000)
    client = door.client()
    client.put(plain(*range(8000)), 0)
    with pytest.raises(flight.FlightUnavailableError, match="wait for their commits"):
        client.put(plain(*range(8000)), 0, producer="q")
    with pytest.raises(flight.FlightServerError, match="maxOffsetsPerTrigger"):
        client.put(plain(*range(8000)), 0, 1)
    with pytest.raises(flight.FlightServerError, match="send smaller batches"):
        client.put(plain(*range(12_000)), 0, producer="r")
    client.commit(0, (0, "a"))
    client.put(plain(*range(8000)), 0, producer="q")
    door.close()


def test_producer_that_stops_midway_delays_no_other_producer(door: Door) -> None:
    slow, client = door.client(), door.client()
    command = {"v": 1, "stream": "plain", "producer": "slow", "batch": 0, "partition": 0, "attempt": "a"}
    descriptor = flight.FlightDescriptor.for_command(json.dumps(command).encode())
    writer, _ = slow.flight.do_put(descriptor, plain().schema, slow.call)
    writer.write_batch(plain(1))
    assert client.put(plain(2), 0, commit=True)["published"] == 1
    writer.close()
    assert door.frames() == [[2]]


# -- keys and their permissions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "key",
    [None, "", "weir_", new_key(), KEY[:-1], KEY + "x"],
    ids=["none", "empty", "prefix", "another", "shorter", "longer"],
)
def test_calls_without_a_known_key_are_refused(door: Door, key: str | None) -> None:
    client = door.client(key)
    with pytest.raises(flight.FlightUnauthenticatedError, match="option apiKey"):
        client.put(plain(1), 0, commit=True)
    with pytest.raises(flight.FlightUnauthenticatedError, match="option apiKey"):
        client.committed()
    # For `get_schema`, pyarrow raises a plain OSError instead of a Flight error.
    with pytest.raises(OSError, match=r"option apiKey.*Unauthenticated"):
        client.flight.get_schema(flight.FlightDescriptor.for_path("stream", "plain"), client.call)
    with pytest.raises(flight.FlightUnauthenticatedError, match="option apiKey"):
        client.flight.do_get(flight.Ticket(b"{}"), client.call).read_all()
    assert door.frames() == []


def test_key_permits_only_its_streams_and_classes(door: Door) -> None:
    client = door.client(NARROW)
    assert client.put(plain(1), 0, commit=True)["published"] == 1
    with pytest.raises(flight.FlightUnauthorizedError, match="stream readings"):
        client.put(readings([1]), 0, stream="readings", commit=True)
    with pytest.raises(flight.FlightUnauthorizedError, match="stream unknown"):
        client.act("committed", stream="unknown", producer="p")
    with pytest.raises(flight.FlightUnauthorizedError, match="class silver"):
        client.act("results", **{"class": "silver", "query": "q"})
    ticket = json.dumps({"v": 1, "unit": "silver#1", "query": "q", "from": 0, "to": 1}).encode()
    with pytest.raises(flight.FlightUnauthorizedError, match="class silver"):
        client.flight.do_get(flight.Ticket(ticket), client.call).read_all()


def test_published_keys_are_valid_until_they_expire_or_are_withdrawn(door: Door) -> None:
    key, late = new_key(), new_key()
    ring = KeyRing(pepper=b"pepper")
    records = (
        KeyRecord(ring.digest_of(key), frozenset({"ingest:plain"}), "k1"),
        KeyRecord(ring.digest_of(late), frozenset({"admin"}), "k2", expires_at=1.0),
    )
    client = door.client(key)
    with pytest.raises(flight.FlightUnauthenticatedError):
        client.committed()
    replace(ring, records=records).publish(door.dirs.keys)
    assert door.dirs.keys.stat().st_mode & 0o777 == 0o600
    assert client.committed() is None
    with pytest.raises(flight.FlightUnauthorizedError, match="stream readings"):
        client.act("committed", stream="readings", producer="p")
    with pytest.raises(flight.FlightUnauthenticatedError):
        door.client(late).committed()
    assert door.door.status()["keys_used"].keys() == {"k1"}
    ring.publish(door.dirs.keys)
    with pytest.raises(flight.FlightUnauthenticatedError):
        client.committed()
    assert door.client().committed() is None


def test_repr_of_the_settings_hides_the_key(door: Door) -> None:
    settings = FlightSettings().with_key(KEY)
    assert KEY not in repr(settings)
    assert KEY not in repr(settings.keys)


# -- malformed requests, restarts and many producers ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "pattern"),
    [
        ({"colour": "red"}, "colour: unknown field"),
        ({"v": 2}, "v: Input should be 1"),
        ({"batch": -1}, "batch: Input should be greater than or equal to 0"),
        ({"batch": "1"}, "batch: Input should be a valid integer"),
        ({"producer": "p" * 201}, "producer: String should have at most 200 characters"),
        ({"schema_policy": "guess"}, "schema_policy: Input should be"),
        ({"stream": "plian"}, "no stream of this name.*did you mean plain"),
    ],
)  # fmt: skip
def test_malformed_request_is_refused_with_the_name_of_the_field(
    door: Door, change: dict[str, Any], pattern: str
) -> None:
    with pytest.raises(flight.FlightServerError, match=f"(?s){pattern}"):
        door.client().put(plain(1), **{"number": 0, **change})


def test_copy_of_another_nodes_stream_accepts_no_rows(door: Door) -> None:
    door.streams.declare("CREATE STREAM far (x int64)", origin="n2")
    with pytest.raises(flight.FlightServerError, match="is received at node n2"):
        door.client().put(plain(1), 0, stream="far", commit=True)


def test_restarted_gateway_keeps_its_address(door: Door) -> None:
    address = door.door.address
    assert door.dirs.endpoint.read_text() == address
    left = door.dirs.endpoint.read_bytes()
    door.door.close()
    assert not door.dirs.endpoint.exists()
    door.dirs.endpoint.write_bytes(left)
    door.door = FlightSettings().with_key(KEY).open(door.streams, door.dirs)
    assert door.door.address == address
    other = FlightSettings().with_key(KEY).open(door.streams, door.dirs)
    assert other.address != address
    other.close()
    assert Client(address).put(plain(1), 0, commit=True)["published"] == 1


def test_unknown_actions_and_paths_are_refused(door: Door) -> None:
    client = door.client()
    with pytest.raises(flight.FlightServerError, match="known: commit, abort, committed, results"):
        client.act("comit")
    with pytest.raises(pa.ArrowException, match=r"\[stream, NAME\]"):
        client.flight.get_schema(flight.FlightDescriptor.for_path("what"), client.call)


def test_many_concurrent_producers_publish_each_row_once(door: Door) -> None:
    def produce(name: int) -> None:
        client = door.client()
        for number in range(20):
            client.put(plain(1000 * name + number), number, producer=f"p{name}")
            for _ in range(2):
                client.commit(number, (0, "a"), producer=f"p{name}")

    threads = [threading.Thread(target=produce, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = [value for frame in door.frames() for value in frame]
    assert sorted(found) == sorted(1000 * name + number for name in range(8) for number in range(20))
    for name in range(8):
        assert [value for value in found if value // 1000 == name] == [
            1000 * name + number for number in range(20)
        ]


# -- reading answers over the network -------------------------------------------------------------------------------


@dataclass
class Unit:
    """Log of a unit with the answers of one query, written as a class writes them."""

    log: UnitLog
    schema: Schema
    given: int = 0

    def commit(self, rows: int, kept: float = 1.0) -> None:
        values = np.arange(self.given, self.given + rows)
        batch = pa.RecordBatch.from_arrays(
            [values, pa.array([f"v{value}" for value in values])], names=["n", "s"]
        )
        train = train_from_arrow(batch, self.schema, 0.0, kept)
        answers = (Answer("q", self.given, train),) if rows else ()
        self.given += rows
        self.log.append(Commit((), answers, {"q": self.given}))


@pytest.fixture
def unit(door: Door) -> Iterator[Unit]:
    stream = parse_create_stream("CREATE STREAM s (n int64, s string)")
    query = plan_query("q", "SELECT n, s FROM s", SqlCatalog.of(streams=[stream]))
    log = UnitLog(door.dirs.class_log("gold"), 4 * SEGMENT_BYTES)
    log.describe({"q": query})
    yield Unit(log, stream.schema)
    log.close()


def get(client: Client, first: int, following: int, query: str = "q") -> pa.Table:
    ticket = {"v": 1, "unit": "gold", "query": query, "from": first, "to": following}
    return client.flight.do_get(flight.Ticket(json.dumps(ticket).encode()), client.call).read_all()


def test_answers_are_read_over_flight_by_their_sequence_numbers(door: Door, unit: Unit) -> None:
    client = door.client(NARROW)
    for rows in (100, 0, 3, 1000, 0):
        unit.commit(rows)
    unit.commit(50, kept=0.5)
    schema = client.flight.get_schema(
        flight.FlightDescriptor.for_path("query", "gold", "q"), client.call
    ).schema
    assert schema.names == ["_seq", "_kept", "n", "s"]
    results = client.act("results", **{"class": "gold", "query": "q"})
    mark = described(door.dirs.class_log("gold"))["q"].mark
    assert results == {"units": [{"unit": "gold", "first": 0, "next": 1153, "mark": mark}]}
    for first, following in [(0, 1153), (0, 1), (99, 101), (100, 100), (103, 1103), (1152, 1153), (5, 7)]:
        found = get(client, first, following)
        assert found.schema == schema
        numbers = list(range(first, following))
        assert found.to_pydict() == {
            "_seq": numbers,
            "_kept": [0.5 if number >= 1103 else 1.0 for number in numbers],
            "n": numbers,
            "s": [f"v{number}" for number in numbers],
        }


def test_reading_forgotten_or_future_rows_is_an_error(door: Door, unit: Unit) -> None:
    client = door.client()
    for _ in range(400):
        unit.commit(20_000)
        unit.log.save(b"")
    results = client.act("results", **{"class": "gold", "query": "q"})["units"][0]
    assert 0 < results["first"] < results["next"] == 8_000_000
    found = get(client, results["first"], results["first"] + 10)
    assert found["n"].to_pylist() == list(range(results["first"], results["first"] + 10))
    with pytest.raises(flight.FlightServerError, match="no longer kept; the first kept row is") as caught:
        get(client, results["first"] - 1, results["next"])
    assert json.loads(caught.value.extra_info) == {"next": results["first"]}
    with pytest.raises(flight.FlightServerError, match="ask for rows up to 8000000"):
        get(client, results["next"] - 1, results["next"] + 1)


def test_unknown_class_or_query_is_refused(door: Door, unit: Unit) -> None:
    client = door.client()
    unit.commit(1)
    with pytest.raises(flight.FlightServerError, match="no answers of this class"):
        client.act("results", **{"class": "iron", "query": "q"})
    with pytest.raises(flight.FlightServerError, match="no query of this name"):
        client.act("results", **{"class": "gold", "query": "r"})
    with pytest.raises(flight.FlightServerError, match="no query of this name"):
        get(client, 0, 1, "r")
