"""Answers over HTTP, from real logs by a real server: pages, long polls, Arrow, event streams, and permissions."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pytest

from actors.log.unit_log import described
from actors.runtime.run_dirs import RunDirs
from bench.local_places import LocalPlaces
from configs.documents.declarations import Ref, documents_of
from services.api.routes.results import ARROW, results_of
from services.results.fanout import PIECE_ROWS
from tests.support.answer_logs import ClassLog
from tests.support.served import Served, served

DOCUMENTS = """
{kind: Stream, name: s, columns: {n: int64, s: string}}
---
{kind: Tenant, name: gold, priority_class: gold}
---
{kind: Query, tenant: gold, name: q, sql: "SELECT n, s FROM s"}
---
{kind: Tenant, name: silver, priority_class: silver}
---
{kind: Query, tenant: silver, name: q, sql: "SELECT n, s FROM s"}
"""
HUNG_S = 60.0
KIB = 1024
RESULTS = "/v1/tenants/gold/queries/q/results"


@dataclass
class Reading:
    """Service over the logs of a node, with a client of tenant gold."""

    served: Served
    dirs: RunDirs
    http: httpx.Client

    def get(self, path: str = RESULTS, **parameters: Any) -> httpx.Response:
        return self.http.get(path, params=parameters)

    def page(self, path: str = RESULTS, **parameters: Any) -> dict[str, Any]:
        answer = self.get(path, **parameters)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        assert answer.headers.get("Weir-Next") == found["next"]
        return found

    @contextmanager
    def events(self, path: str = RESULTS, **headers: str) -> Iterator[Events]:
        with self.http.stream("GET", f"{path}/stream", headers=headers) as answer:
            assert (answer.status_code, answer.headers["content-type"].partition(";")[0]) == (
                200,
                "text/event-stream",
            )
            yield Events(answer.iter_lines())


@dataclass
class Event:
    id: str
    kind: str
    data: dict[str, Any]


class Events:
    """Event stream as a browser reads it."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines

    def next(self) -> Event:
        fields: dict[str, str] = {}
        for line in self._lines:
            if line and not line.startswith(":"):
                name, _, value = line.partition(": ")
                fields[name] = value
            elif fields:
                return Event(fields.get("id", ""), fields["event"], json.loads(fields["data"]))
        raise EOFError

    def rows(self, upto: int) -> list[dict[str, Any]]:
        """Return all rows up to the row with this sequence number."""
        found: list[dict[str, Any]] = []
        while not found or found[-1]["_seq"] < upto:
            event = self.next()
            assert event.kind == "rows"
            found += event.data["rows"]
        return found


@pytest.fixture
def reading(dirs: RunDirs, tmp_path: Path) -> Iterator[Reading]:
    with served(tmp_path / "home") as found:
        found.catalog.apply(documents_of(DOCUMENTS), "test")
        found.service.snapshot.refresh()
        found.service.results = results_of(found.service, LocalPlaces(dirs), lambda: "")
        headers = {"Authorization": f"Bearer {found.key('tenant:gold')}"}
        with httpx.Client(base_url=found.url, headers=headers, timeout=HUNG_S) as http:
            yield Reading(found, dirs, http)
        found.service.results.close()


@pytest.fixture
def log(dirs: RunDirs) -> Iterator[ClassLog]:
    with opened(dirs) as found:
        yield found


@contextmanager
def opened(dirs: RunDirs, unit: str = "gold", bytes_max: int = 4096 * KIB) -> Iterator[ClassLog]:
    found = ClassLog(dirs.class_log(unit), bytes_max)
    try:
        yield found
    finally:
        with suppress(OSError):
            found.close()


def rows(first: int, following: int, text: str = "v") -> list[dict[str, Any]]:
    return [
        {"_seq": number, "_kept": 1.0, "n": number, "s": f"{text}{number}"}
        for number in range(first, following)
    ]


def mark(dirs: RunDirs, unit: str = "gold") -> str:
    return described(dirs.class_log(unit))["q"].mark


# -- pages of answers --------------------------------------------------------------------------------------------


def test_pages_continue_where_the_previous_page_ended(reading: Reading, log: ClassLog) -> None:
    for size in (10, 0, 3000, 7):
        log.commit(size)
    columns = [{"name": "n", "type": "int64"}, {"name": "s", "type": "string"}]
    first = reading.page()
    assert first == {"columns": columns, "rows": rows(0, 1000), "next": f"999.{mark(reading.dirs)}"}
    assert reading.page(after=first["next"], limit=5000)["rows"] == rows(1000, 3017)
    assert reading.page(after="2999", limit=3)["rows"] == rows(3000, 3003)
    assert reading.page(after="3016") == {
        "columns": columns,
        "rows": [],
        "next": f"3016.{mark(reading.dirs)}",
    }


def test_a_request_with_tail_returns_only_the_last_rows(reading: Reading, log: ClassLog) -> None:
    for size in (10, 3000, 7):
        log.commit(size)
    last = reading.page(tail=20)
    assert (last["rows"], last["next"]) == (rows(2997, 3017), f"3016.{mark(reading.dirs)}")
    assert reading.page(tail=20, limit=5)["rows"] == rows(2997, 3002)
    assert reading.page(tail=100_000, limit=100_000)["rows"] == rows(0, 3017)
    log.commit(2)
    assert reading.page(after=last["next"])["rows"] == rows(3017, 3019)


def test_a_request_with_tail_returns_no_more_rows_than_the_log_has_kept(reading: Reading) -> None:
    with opened(reading.dirs, bytes_max=64 * KIB) as log:
        for _ in range(200):
            log.commit(50)
        oldest = reading.page(limit=1)["rows"][0]["_seq"]
        assert oldest > 0
        assert reading.page(tail=1_000_000, limit=100_000)["rows"] == rows(oldest, 10_000)


def test_if_a_shard_has_fewer_rows_than_its_part_of_tail_a_larger_shard_gives_the_missing_rows(
    reading: Reading,
) -> None:
    with opened(reading.dirs, "gold#0") as small, opened(reading.dirs, "gold#1") as large:
        small.commit(3)
        large.commit(300)
        assert [row["_seq"] for row in reading.page(tail=20)["rows"]] == [*range(3), *range(283, 300)]


def test_page_waits_for_rows_after_the_latest_row(reading: Reading, log: ClassLog) -> None:
    log.commit(5)
    latest = reading.page(after="latest")
    assert (latest["rows"], latest["next"]) == ([], f"4.{mark(reading.dirs)}")
    answers: list[dict[str, Any]] = []
    waiting = [threading.Thread(target=lambda: answers.append(reading.page(after=latest["next"], wait_s=60)))]
    waiting += [threading.Thread(target=lambda: answers.append(reading.page(after="4", wait_s=60)))]
    for thread in waiting:
        thread.start()
    wait_for_readers(reading, 2)
    log.commit(3, "other")
    log.commit(2)
    for thread in waiting:
        thread.join()
    assert [page["rows"] for page in answers] == [rows(5, 7)] * 2


def test_waiting_reader_with_a_revoked_key_is_refused(reading: Reading, log: ClassLog) -> None:
    log.commit(5)
    catalog, snapshot = reading.served.catalog, reading.served.service.snapshot
    answers: list[int] = []
    waiting = threading.Thread(target=lambda: answers.append(reading.get(after="4", wait_s=60).status_code))
    waiting.start()
    wait_for_readers(reading, 1)
    for info in catalog.keys.all():
        catalog.keys.revoke(info.id, "test")
    snapshot.refresh()
    log.commit(2)
    waiting.join()
    assert answers == [401]


def wait_for_readers(reading: Reading, readers: int) -> None:
    assert reading.served.service.results is not None
    while (
        sum(topic.readers for topic in list(reading.served.service.results.topics._topics.values())) < readers
    ):
        threading.Event().wait(0.001)


def test_reading_forgotten_rows_is_a_problem_with_the_next_cursor(reading: Reading) -> None:
    with opened(reading.dirs, bytes_max=64 * KIB) as log:
        for _ in range(200):
            log.commit(50)
        oldest = reading.page(limit=1)["rows"][0]["_seq"]
        assert oldest > 0
        refused = reading.get(after="9")
        assert (refused.status_code, refused.headers["content-type"]) == (410, "application/problem+json")
        problem = refused.json()
        assert problem["type"] == "urn:weir:problem:rows-forgotten"
        assert problem["missing"] == [{"unit": "gold", "first": 10, "next": oldest, "missing": oldest - 10}]
        assert reading.page(after=problem["next"], limit=100_000)["rows"] == rows(oldest, 10_000)


def test_replaced_query_is_read_from_its_beginning(reading: Reading, log: ClassLog) -> None:
    log.commit(10)
    before = reading.page()["next"]
    log.put_anew(last=2, first=20)
    after = reading.page(after=before)
    assert after["rows"] == rows(0, 20, "w")
    assert after["restarted"] is True
    assert reading.page(after="19")["rows"] == reading.page(after=after["next"])["rows"] == []
    # The new query has only 20 rows, so the cursor 20 can only come from a reader of the query before its replacement.
    beyond = reading.page(after="20")
    assert (beyond["rows"], beyond["restarted"]) == (rows(0, 20, "w"), True)
    assert "restarted" not in reading.page(after="5")


def test_answers_read_as_arrow_have_the_same_rows_as_answers_read_as_json(
    reading: Reading, log: ClassLog
) -> None:
    log.commit(20)
    log.commit(5)
    answer = reading.http.get(RESULTS, params={"after": "4"}, headers={"Accept": ARROW})
    assert (answer.headers["content-type"], answer.headers["weir-next"]) == (
        ARROW,
        f"24.{mark(reading.dirs)}",
    )
    assert pa.ipc.open_stream(answer.content).read_all().to_pylist() == rows(5, 25)
    ended = reading.http.get(RESULTS, params={"after": "24"}, headers={"Accept": ARROW})
    assert pa.ipc.open_stream(ended.content).read_all().schema.names == ["_seq", "_kept", "n", "s"]
    refused = reading.http.get(RESULTS, headers={"Accept": "text/csv"})
    assert (refused.status_code, refused.json()["type"]) == (406, "urn:weir:problem:not-acceptable")


def test_every_answer_row_has_the_kept_fraction_of_its_input(reading: Reading, log: ClassLog) -> None:
    """One page has the rows of several batches, and each row has the kept fraction of its batch."""
    fractions = [1.0, 0.25, 1 / 3]
    for kept in fractions:
        log.commit(2, kept=kept)
    expected = [
        {**row, "_kept": kept} for row, kept in zip(rows(0, 6), np.repeat(fractions, 2).tolist(), strict=True)
    ]
    assert reading.page()["rows"] == expected
    arrow = pa.ipc.open_stream(reading.http.get(RESULTS, headers={"Accept": ARROW}).content).read_all()
    assert arrow.to_pylist() == expected
    assert [str(field) for field in arrow.schema][:2] == [
        "pyarrow.Field<_seq: int64 not null>",
        "pyarrow.Field<_kept: double not null>",
    ]
    with reading.events() as events:
        assert events.rows(5) == expected
    assert reading.page(after="2", limit=2)["rows"] == expected[3:5]


def test_cursor_has_a_position_for_each_shard(reading: Reading) -> None:
    with opened(reading.dirs, "gold#0") as small, opened(reading.dirs, "gold#2") as large:
        small.commit(10)
        large.commit(300)
        first = reading.page(limit=30)
        assert [row["_seq"] for row in first["rows"]] == [*range(10), *range(20)]
        marks = mark(reading.dirs, "gold#0"), mark(reading.dirs, "gold#2")
        assert first["next"] == f"9.{marks[0]},,19.{marks[1]}"
        with opened(reading.dirs, "gold#1") as late:
            late.commit(1)
            found, following = list[dict[str, Any]](), first["next"]
            while len(found) < 281:
                page = reading.page(after=following)
                found, following = found + page["rows"], page["next"]
            assert sorted(row["_seq"] for row in found) == [0, *range(20, 300)]


def test_query_without_a_log_has_no_rows_yet(reading: Reading) -> None:
    nothing: dict[str, Any] = {"columns": [], "rows": [], "next": None}
    assert reading.page() == nothing
    assert reading.page(after="latest", wait_s=0.01) == nothing
    assert reading.page(tail=5) == nothing
    assert reading.get(f"{RESULTS}/flight").json() == {"units": []}
    assert reading.page(after="12")["next"] == "12"
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(reading.page(wait_s=60)["rows"]))
    waiting.start()
    wait_for_readers(reading, 1)
    with opened(reading.dirs) as log:
        log.commit(3)
        waiting.join()
    assert answers == [rows(0, 3)]


def test_restarted_class_is_read_from_its_beginning(reading: Reading) -> None:
    with opened(reading.dirs) as log:
        log.commit(10)
        before = reading.page()["next"]
        log.log.remove()
    assert reading.page()["rows"] == []
    with opened(reading.dirs) as log:
        log.commit(15)
        assert reading.page(after=before)["rows"] == rows(0, 15)


def test_flight_locations_of_answers_are_listed_per_unit(reading: Reading, log: ClassLog) -> None:
    reading.dirs.endpoint.write_text("grpc://127.0.0.1:5", encoding="utf-8")
    log.commit(5)
    assert reading.get(f"{RESULTS}/flight").json() == {
        "units": [{"endpoint": "grpc://127.0.0.1:5", "unit": "gold", "query": "q", "first": 0, "next": 5}]
    }


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"after": "x"}, "the text is not a cursor of Weir"),
        ({"after": "-2"}, "the text is not a cursor of Weir"),
        ({"after": "1.XYZ"}, "the text is not a cursor of Weir"),
        ({"after": "1" * 30}, "the text is not a cursor of Weir"),
        ({"after": "," * 300}, "the text is not a cursor of Weir"),
        ({"limit": 0}, "greater than or equal to 1"),
        ({"tail": 0}, "greater than or equal to 1"),
        ({"tail": 5, "after": "3"}, "?tail: this parameter cannot be combined with `after` (got 5)"),
        ({"limit": 100_001}, "less than or equal to 100000"),
        ({"wait_s": 61}, "less than or equal to 60"),
        ({"wait_s": "nan"}, "less than or equal to 60"),
    ],
)
def test_page_with_an_invalid_parameter_answers_422(
    reading: Reading, parameters: dict[str, Any], message: str
) -> None:
    answer = reading.get(**parameters)
    assert (answer.status_code, message in answer.text) == (422, True), answer.text


@pytest.mark.parametrize("route", ["", "/stream", "/flight"])
@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/tenants/gold/queries/none/results", 404),
        ("/v1/tenants/silver/queries/q/results", 404),
        ("/v1/tenants/none/queries/q/results", 404),
    ],
)
def test_unknown_query_and_query_of_another_tenant_are_not_found(
    reading: Reading, path: str, route: str, status: int
) -> None:
    assert reading.get(path + route).status_code == status


# -- event streams -----------------------------------------------------------------------------------------------


def test_events_deliver_new_rows_and_resume_from_an_id(reading: Reading, log: ClassLog) -> None:
    log.commit(3000)
    with reading.events() as events:
        assert events.rows(2999) == rows(0, 3000)
        log.commit(2)
        event = events.next()
        assert (event.kind, event.data) == ("rows", {"rows": rows(3000, 3002)})
        assert event.id == f"3001.{mark(reading.dirs)}"
    log.commit(5)
    with reading.events(**{"Last-Event-ID": event.id}) as events:
        assert events.rows(3006) == rows(3002, 3007)


def test_rows_for_many_readers_are_encoded_once(reading: Reading, log: ClassLog) -> None:
    readers = 10
    have_begun = threading.Barrier(readers + 1, timeout=HUNG_S)
    found: list[list[dict[str, Any]]] = []

    def read() -> None:
        with reading.events() as events:
            first = events.rows(9)
            have_begun.wait()
            found.append(first + events.rows(5009))

    log.commit(10)
    threads = [threading.Thread(target=read) for _ in range(readers)]
    for thread in threads:
        thread.start()
    have_begun.wait()
    for _ in range(5):
        log.commit(1000)
    for thread in threads:
        thread.join()
    assert found == [rows(0, 5010)] * readers
    assert reading.served.service.results is not None
    # Readers share blocks of rows. A block ends only at the end of a commit, or at one of three row numbers where every block ends.
    assert reading.served.service.results.pieces.made <= 1 + 5 + 3


def test_stalled_reader_delays_no_other_reader_and_loses_no_row(reading: Reading) -> None:
    total, results = 400_000, reading.served.service.results
    assert results is not None
    with opened(reading.dirs, bytes_max=64 << 20) as log, slow_reader(reading) as slow:
        for _ in range(total // 1000):
            log.commit(1000)
        while not (made := results.pieces.made):
            threading.Event().wait(0.001)
        with reading.events() as events:
            assert events.rows(total - 1)[-1]["_seq"] == total - 1
        assert results.pieces.made >= total // PIECE_ROWS
        # No other reader has asked for rows, so the slow reader's rows wait only in the sockets and in one block of rows in memory.
        before = results.pieces.made
        log.commit(1000)
        reading.page(after=str(total - 1))
        assert results.pieces.made == before + 1 > made
        numbers = [row["_seq"] for row in Events(slow).rows(total + 999)]
        assert numbers == list(range(total + 1000))


@contextmanager
def slow_reader(reading: Reading) -> Iterator[Iterator[str]]:
    """Yield the lines of an event stream from a socket with a small buffer, which is read only when a line is requested."""
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * KIB)
        host, port = reading.served.url.removeprefix("http://").split(":")
        slow.connect((host, int(port)))
        key = reading.http.headers["Authorization"]
        slow.sendall(f"GET {RESULTS}/stream HTTP/1.1\r\nHost: weir\r\nAuthorization: {key}\r\n\r\n".encode())
        answer = HTTPResponse(slow)
        answer.begin()
        yield (line.decode().rstrip("\n") for line in iter(answer.readline, b""))


def test_reader_gets_an_event_about_forgotten_rows(reading: Reading) -> None:
    with opened(reading.dirs, bytes_max=64 * KIB) as log:
        for _ in range(200):
            log.commit(50)
        oldest = reading.page(limit=1)["rows"][0]["_seq"]
        with reading.events(**{"Last-Event-ID": "9"}) as events:
            gap = events.next()
            assert gap.kind == "gap"
            assert gap.data == {"unit": "gold", "first": 10, "next": oldest, "missing": oldest - 10}
            assert gap.id == f"{oldest - 1}.{mark(reading.dirs)}"
            assert events.rows(9999) == rows(oldest, 10_000)


def test_reader_gets_an_event_when_the_query_is_replaced(reading: Reading, log: ClassLog) -> None:
    log.commit(3)
    with reading.events() as events:
        events.rows(2)
        log.put_anew(first=2)
        assert (event := events.next()).data == {"unit": "gold", "anew": True}
        assert event.id == f"-1.{mark(reading.dirs)}"
        assert events.next().data == {"rows": rows(0, 2, "w")}


def test_events_end_when_the_query_is_deleted_or_the_key_is_revoked(reading: Reading, log: ClassLog) -> None:
    log.commit(3)
    catalog, snapshot = reading.served.catalog, reading.served.service.snapshot
    with reading.events() as events:
        events.rows(2)
        catalog.delete(Ref("Query", "q", "gold"), "test")
        snapshot.refresh()
        assert events.next().kind == "end"
        with pytest.raises(EOFError):
            events.next()
    assert reading.get(f"{RESULTS}/stream").status_code == 404
    catalog.apply(documents_of(DOCUMENTS), "test")
    snapshot.refresh()
    with reading.events() as events:
        events.rows(2)
        for info in catalog.keys.all():
            catalog.keys.revoke(info.id, "test")
        snapshot.refresh()
        log.commit(1)
        with pytest.raises(EOFError):
            events.next()


def test_number_of_waiting_readers_per_key_is_limited(reading: Reading, log: ClassLog) -> None:
    limits = reading.served.service.limits
    limits.settings = limits.settings.model_copy(update={"streams_per_key": 1})
    with reading.events():
        refused = reading.get(f"{RESULTS}/stream")
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert reading.get(wait_s=1).status_code == 429
        assert reading.get().status_code == 200
    while reading.get(f"{RESULTS}", wait_s=0.001).status_code == 429:
        threading.Event().wait(0.001)


def test_the_service_frees_the_memory_of_a_query_when_the_last_reader_of_its_answers_leaves(
    reading: Reading, log: ClassLog
) -> None:
    log.commit(3)
    with reading.events() as events:
        events.rows(2)
    results = reading.served.service.results
    assert results is not None
    while not results.topics.is_idle:
        threading.Event().wait(0.01)
    assert results.topics._topics == {}
    assert results._desk._units == {}
