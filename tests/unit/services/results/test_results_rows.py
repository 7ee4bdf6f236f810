"""Rows pushed over HTTP: a real Flight server writes each row once to a real log, and invalid rows are counted by reason."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.gateway.streams import Streams
from actors.log.segment_log import Reader
from actors.log.train_format import batch_of
from actors.runtime.run_dirs import RunDirs
from bench.local_places import LocalPlaces
from configs.documents.declarations import StreamDeclaration, documents_of
from engine.data.schema import DataType, TypeKind, decimal
from engine.data.train import values_to_arrow
from engine.sql import parse_create_stream
from services.api.routes.results import ARROW
from services.ingest.flight import FlightDoor, FlightSettings
from services.ingest.keys import new_key
from services.results.cursors import OLDEST
from services.results.encoding import values_of
from services.results.log_reader import Desk, QueryAddress
from services.results.places import AnswersPlace, SystemPlaces, endpoint_in
from services.results.row_parsing import REASONS_MAX, ROWS_MAX, NotReadable, column_of, from_json, from_lines
from services.results.rows import BRINGERS_MAX, RowDelivery
from services.results.units import LocalAnswers, RemoteAnswers
from tests.support.answer_logs import ClassLog
from tests.support.dead_letters import letters
from tests.support.served import Served, served

HUNG_S = 60.0
KEY = new_key()
NDJSON = "application/x-ndjson"
ALL = """CREATE STREAM every (ts timestamp, b boolean, i int32, l int64, f float32, d float64, m decimal(6, 2), s string,
  WATERMARK FOR ts AS ts)"""
DOCUMENTS = f"""
{{kind: Stream, name: plain, columns: {{x: int64}}}}
---
{{kind: Stream, name: Timed, columns: {{ts: timestamp, v: float64}}, time: ts}}
---
{{kind: Stream, name: every, sql: "{ALL}"}}
---
{{kind: Stream, name: soon, columns: {{x: int64}}}}
---
{{kind: Stream, name: Fed, columns: {{x: int64}}, source: {{format: json, options: {{path: /in}}, schema: x BIGINT}}}}
---
{{kind: Stream, name: hot, columns: {{x: int64}}}}
---
{{kind: Feed, name: sensors, source: {{format: rate, sql: SELECT value AS x FROM source}}, streams: {{hot: {{}}}}}}
---
{{kind: Tenant, name: gold, priority_class: gold}}
"""


@dataclass
class Pushing:
    """Service next to the Flight server of a node, with a client that pushes rows."""

    served: Served
    dirs: RunDirs
    streams: Streams
    http: httpx.Client

    def post(
        self, body: object, stream: str = "plain", media: str = "application/json", **headers: str
    ) -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": media} | {name.replace("_", "-"): value for name, value in headers.items()}
        return self.http.post(f"/v1/streams/{stream}/rows", content=content, headers=headers)

    def push(self, body: object, *arguments: str, **headers: str) -> dict[str, Any]:
        answer = self.post(body, *arguments, **headers)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def published(self, stream: str = "plain") -> list[tuple[Any, ...]]:
        log = Reader(self.dirs.stream(stream))
        trains = [batch_of(payload) for _, payload in log.frames(log.first)]
        batches = [[values_to_arrow(column).to_pylist() for column in train.columns] for train in trains]
        return [row for columns in batches for row in zip(*columns, strict=True)]


@pytest.fixture
def pushing(dirs: RunDirs, tmp_path: Path) -> Iterator[Pushing]:
    streams = Streams(dirs, lambda: 1.0, bytes_max=8 << 20)
    with served(tmp_path / "home") as found:
        found.catalog.apply(documents_of(DOCUMENTS), "test")
        found.service.snapshot.refresh()
        for entry in found.service.snapshot.now.of_kind["Stream"]:
            declared = entry.stored.declaration
            assert isinstance(declared, StreamDeclaration)
            if declared.name != "soon":
                streams.declare(declared.declaration(declared.name))
        for name in ("plain", "timed", "every"):
            streams.keep_for("reader", [name, "plain", "timed", "every"], lossless=True)
        door = FlightSettings().with_key(KEY).open(streams, dirs)
        found.service.rows = RowDelivery(lambda _: endpoint_in(dirs), lambda: KEY)
        headers = {
            "Authorization": f"Bearer {found.key('ingest:plain', 'ingest:timed', 'ingest:every', 'ingest:soon')}"
        }
        with httpx.Client(base_url=found.url, headers=headers, timeout=HUNG_S) as http:
            yield Pushing(found, dirs, streams, http)
        door.close()
        streams.close()


def plain(*values: int) -> list[dict[str, int]]:
    return [{"x": value} for value in values]


def arrow(table: pa.Table, compression: str | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(
        sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)
    ) as writer:
        writer.write_table(table)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def accepted(rows: int, **rejected: int) -> dict[str, Any]:
    return {"accepted": rows, "rejected": sum(rejected.values()), "reasons": rejected, "repeated": False}


# -- formats of rows -----------------------------------------------------------------------------------------------


def test_rows_in_every_format_are_published(pushing: Pushing) -> None:
    assert pushing.push(plain(1, 2)) == accepted(2)
    assert pushing.push(b'{"x":3}\n\n{"X":4}\r\n', "plain", NDJSON) == accepted(2)
    table = pa.table({"x": pa.array([5, 6], pa.int32())})
    assert pushing.push(arrow(table), "PLAIN", ARROW) == accepted(2)
    assert pushing.push([]) == accepted(0)
    assert pushing.published() == [(number,) for number in range(1, 7)]


def test_values_of_every_type_are_stored_unchanged(pushing: Pushing) -> None:
    row = {
        "ts": "2026-01-01T12:00:00.5+02:00",
        "b": True,
        "i": -1,
        "l": 2**53 + 1,
        "f": 0.5,
        "d": 1,
        "m": "1.25",
        "s": "ü",
    }
    others = {"ts": 1_000_000, "m": 3.5, "L": None}
    assert pushing.push([row, others], "every") == accepted(2)
    first, second = pushing.published("every")
    # The rows of a batch are in the order of event time.
    assert [str(value) for value in second] == [
        "2026-01-01 10:00:00.500000+00:00", "True", "-1", str(2**53 + 1), "0.5", "1.0", "1.25", "ü",
    ]  # fmt: skip
    assert [str(value) for value in first] == ["1970-01-01 00:00:01+00:00", *["None"] * 5, "3.50", "None"]


def test_invalid_rows_are_counted_by_reason_and_valid_rows_are_published(pushing: Pushing) -> None:
    rows = [
        {"x": 1},
        {"x": "1"},
        {"x": 1.5},
        {"x": True},
        {"x": 2**63},
        7,
        {"y": 1},
        {"x": 1, "X": 2},
        {"x": 2},
    ]
    reasons = {"does not fit: x": 4, "not an object": 1, "no such column: y": 1, "column given twice": 1}
    assert pushing.push(rows) == accepted(2, **reasons)
    assert pushing.push(b'{"x":3}\n{"x":\n', "plain", NDJSON) == accepted(1, **{"not JSON": 1})
    assert pushing.published() == [(1,), (2,), (3,)]
    timed = [{"ts": None, "v": 1}, {"v": 1}, {"ts": "2026-01-01", "v": 1}, {"ts": 5, "v": 2}]
    assert pushing.push(timed, "timed") == accepted(1, **{"no event time: ts": 2, "does not fit: ts": 1})
    assert [(letter.reason, letter.rows) for letter in letters(pushing.dirs.stream("timed"))] == [
        ("no event time", 2)
    ]


def test_number_of_reported_reasons_is_limited(pushing: Pushing) -> None:
    result = pushing.push([{f"c{number}": 1} for number in range(200)])
    assert (result["rejected"], len(result["reasons"])) == (200, REASONS_MAX + 1)
    assert result["reasons"]["other reasons"] == 200 - REASONS_MAX


@pytest.mark.parametrize(
    ("body", "media", "status", "message"),
    [
        (b"[{", "application/json", 400, "not valid JSON"),
        (b'{"x":1}', "application/json", 400, "the body is not a JSON array"),
        (b'[{"x":NaN}]', "application/json", 400, "not valid JSON"),
        (b"\xff", "application/json", 400, "not valid JSON"),
        (b"x=1", "application/x-www-form-urlencoded", 415, "header Content-Type"),
        (b"nothing of the kind", ARROW, 400, "not a valid Arrow stream"),
        (b"", ARROW, 400, "not a valid Arrow stream"),
        (b"{}" * (ROWS_MAX + 1), "application/json", 413, "too many rows"),
        (b"\n" * (ROWS_MAX + 1), NDJSON, 413, "too many rows"),
        (b"[" + b"0," * ROWS_MAX + b"0]", "application/json", 413, "too many rows"),
        (arrow(pa.table({"x": pa.array([1] * 5000)}), "zstd"), ARROW, 400, "compressed"),
        (arrow(pa.table({"x": pa.nulls(ROWS_MAX + 1)})), ARROW, 413, "too many rows"),
        (arrow(pa.table({"x": pa.array(["a"]).dictionary_encode()})), ARROW, 422, "not supported"),
        (arrow(pa.table({"x": [1.5]})), ARROW, 422, "type double; expected int64"),
        (arrow(pa.table({"y": [1]})), ARROW, 422, "no column of this name"),
        (arrow(pa.table({"x": [1]}))[:-60], ARROW, 400, "not a valid Arrow stream"),
    ],
)  # fmt: skip
def test_body_that_cannot_be_read_as_rows_is_refused_and_publishes_nothing(
    pushing: Pushing, body: bytes, media: str, status: int, message: str
) -> None:
    answer = pushing.post(body, media=media)
    assert (answer.status_code, message in answer.text) == (status, True), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert pushing.published() == []


def test_lines_of_pushed_rows_end_only_at_newline_characters() -> None:
    stream = parse_create_stream("CREATE STREAM plain (x int64)")
    assert from_lines(stream, b"1\r" * 5).rejected == {"not JSON": 1}
    assert from_lines(stream, b'{"x":1}\r\n{"x":2}\r\n').rows == 2


@pytest.mark.parametrize(
    ("stream", "fed_by"),
    [("fed", "stream Fed is fed by its source"), ("HOT", "stream hot is fed by a feed")],
)
def test_rows_for_a_fed_stream_are_refused_unless_forced(pushing: Pushing, stream: str, fed_by: str) -> None:
    pushing.streams.keep_for("other", ["fed", "hot"], lossless=True)
    key = pushing.served.key(f"ingest:{stream.lower()}")
    headers = {"Authorization": f"Bearer {key}"}
    path = f"/v1/streams/{stream}/rows"
    refused = pushing.http.post(path, json=plain(1), headers=headers)
    assert refused.status_code == 422
    assert refused.json()["detail"] == f"?force: {fed_by}: rows put by hand would mix with its rows"
    assert "force=true" in refused.json()["hint"]
    assert pushing.published(stream) == []
    taken = pushing.http.post(path, params={"force": "true"}, json=plain(1), headers=headers)
    assert taken.json() == accepted(1)
    assert pushing.published(stream) == [(1,)]


# -- rows that are written exactly once ----------------------------------------------------------------------------


def test_rows_pushed_again_with_their_idempotency_key_are_published_once(pushing: Pushing) -> None:
    rows = [*plain(1, 2), {"x": "?"}]
    first = pushing.push(rows, Idempotency_Key="a")
    assert first == accepted(2, **{"does not fit: x": 1})
    assert pushing.push(rows, Idempotency_Key="a") == first | {"repeated": True}
    assert pushing.push(plain(3), Idempotency_Key="b") == accepted(1)
    assert pushing.push(plain(1, 2), Idempotency_Key="a")["repeated"]
    other = pushing.served.key("ingest:plain", "ingest:timed")
    headers = {"Authorization": f"Bearer {other}", "Idempotency-Key": "a"}
    answer = pushing.http.post("/v1/streams/plain/rows", json=plain(4), headers=headers)
    assert answer.json() == accepted(1)
    assert pushing.push(plain(5)) == pushing.push(plain(5)) == accepted(1)
    assert pushing.published() == [(number,) for number in (1, 2, 3, 4, 5, 5)]
    assert pushing.post(plain(1), Idempotency_Key="k" * 256).status_code == 422


def test_rows_without_an_idempotency_key_share_a_producer(pushing: Pushing) -> None:
    for number in range(20):
        pushing.push(plain(number))
    (status,) = (stream for stream in pushing.streams.status() if stream["stream"] == "plain")
    assert (status["producers"], status["accepted_rows"]) == (1, 20)


def test_full_stream_is_refused_with_retry_after(pushing: Pushing) -> None:
    # The lossless reader has released nothing, so the log may forget nothing.
    rows = plain(*range(50_000))
    answers: list[httpx.Response] = []
    while not answers or answers[-1].status_code == 200:
        answers.append(pushing.post(rows, Idempotency_Key=f"k{len(answers)}"))
    refused = answers[-1]
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) >= 1
    assert refused.json()["type"] == "urn:weir:problem:too-many-requests"
    assert len(pushing.published()) == 50_000 * (len(answers) - 1) > 0


def test_number_of_concurrent_pushes_is_limited(pushing: Pushing) -> None:
    rows = pushing.served.service.rows
    assert rows is not None
    rows._bringers = BRINGERS_MAX
    assert pushing.post(plain(1)).status_code == 429
    rows._bringers = 0
    assert pushing.push(plain(1)) == accepted(1)


# -- permissions, and streams that are starting --------------------------------------------------------------------


def test_pushing_rows_requires_the_scope_of_the_stream(pushing: Pushing) -> None:
    def status(stream: str, *scopes: str) -> int:
        headers = {"Authorization": f"Bearer {pushing.served.key(*scopes)}"}
        return pushing.http.post(f"/v1/streams/{stream}/rows", json=plain(1), headers=headers).status_code

    assert status("plain", "admin") == status("Plain", "ingest:PLAIN") == 200
    assert status("plain", "ingest:timed") == status("none", "tenant:gold") == 403
    assert status("none", "admin") == 404


def test_rows_for_a_stream_that_is_starting_are_refused_with_retry_after(pushing: Pushing) -> None:
    answer = pushing.post(plain(1), "soon")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert "is starting" in answer.text
    pushing.dirs.endpoint.write_text("grpc://127.0.0.1:9", encoding="utf-8")
    assert pushing.post(plain(1)).status_code == 503
    pushing.dirs.endpoint.unlink()
    assert pushing.post(plain(1)).status_code == 503
    pushing.served.service.rows = None
    assert pushing.post(plain(1)).json()["type"] == "urn:weir:problem:not-running"


# -- values of rows ------------------------------------------------------------------------------------------------

TYPES = [DataType(kind) for kind in TypeKind if kind is not TypeKind.DECIMAL] + [
    decimal(6, 2),
    decimal(18, 0),
]
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),  # JSON has neither NaN nor infinity
    st.text(),
    st.sampled_from(["1.25", "-0", "1e3", "NaN", "Infinity", "1e-400", "2026-01-01T00:00:00Z", "2026-01-01"]),
    st.sampled_from(["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59.999999Z"]),
    st.lists(st.integers()),
    st.dictionaries(st.text(), st.integers()),
)


@given(type_=st.sampled_from(TYPES), values=st.lists(VALUES, max_size=8))
def test_every_pushed_value_is_stored_unchanged_or_counted_as_invalid(
    type_: DataType, values: Sequence[Any]
) -> None:
    array, bad = column_of(type_, values)
    assert (array.type, len(array)) == (type_.arrow, len(values))
    alone = [column_of(type_, [value]) for value in values]
    assert [place for place, (_, is_bad) in enumerate(alone) if list(is_bad)] == sorted(bad)
    assert not values or pa.concat_arrays([single for single, _ in alone]).equals(array)
    encoded = values_of(array)
    assert orjson.loads(orjson.dumps(encoded)) == encoded
    assert column_of(type_, encoded)[0].equals(array)
    if type_.kind is TypeKind.TIMESTAMP:
        return
    for value, found in zip(values, array, strict=True):
        if found.as_py() is not None and type_.kind in (
            TypeKind.BOOLEAN,
            TypeKind.INT32,
            TypeKind.INT64,
            TypeKind.STRING,
            TypeKind.FLOAT64,
        ):
            assert found.as_py() == value


@given(
    body=st.binary(max_size=200)
    | st.recursive(VALUES, lambda inner: st.lists(inner, max_size=5)).map(
        lambda value: json.dumps(value).encode()
    )
)
def test_every_row_of_a_readable_body_is_accepted_or_counted_as_rejected(body: bytes) -> None:
    stream = parse_create_stream(ALL)
    try:
        found = from_json(stream, body)
    except NotReadable:
        return
    assert found.rows + sum(found.rejected.values()) == len(json.loads(body))


# -- answers that are read from another node ------------------------------------------------------------------------


def test_answers_read_over_flight_equal_local_answers(dirs: RunDirs) -> None:
    streams = Streams(dirs, lambda: 1.0)
    door: FlightDoor = FlightSettings().with_key(KEY).open(streams, dirs)
    log = ClassLog(dirs.class_log("gold"), 64 << 10)
    for _ in range(200):
        log.commit(50)
    local, remote = LocalAnswers(dirs, "gold"), RemoteAnswers(door.address, KEY, "gold")
    assert local.seen("q") == remote.seen("q")
    assert local.columns("q") == remote.columns("q") == [("n", "int64"), ("s", "string")]
    for row, most in ((0, 10), (9000, 100), (9990, 100), (10_000, 5)):
        left, right = local.some("q", row, most), remote.some("q", row, most)
        assert left is not None
        assert right is not None
        assert (left.mark, left.first, left.following) == (right.mark, right.first, right.following)
        rows = [[row for batch in found.batches for row in batch.to_pylist()] for found in (left, right)]
        assert rows[0] == rows[1]
    assert remote.seen("none") is None
    remote.let_go()
    door.close()
    assert remote.some("q", 0, 1) is None
    assert RemoteAnswers(door.address, KEY, "gold").seen("q") is None
    streams.close()
    log.close()


def test_answers_are_read_from_local_logs_or_from_the_endpoints_of_other_nodes(dirs: RunDirs) -> None:
    units = {"gold": [("gold#0", "n"), ("gold#1", "far")]}
    places = SystemPlaces(
        lambda name: units.get(name, []), {"far": "grpc://far:1"}.get, dirs.base, dirs.system
    )
    assert places.places("gold") == (
        AnswersPlace("gold#0", dirs),
        AnswersPlace("gold#1", None, "grpc://far:1"),
    )
    assert Desk(places, lambda: KEY).view(QueryAddress("none", "q")) == {}
    assert LocalPlaces(dirs).places("../etc") == ()
    assert OLDEST == {}
