"""Calls over a network that fails: what is tried again, what is not, and what a refusal becomes."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from configs.documents.declarations import PriorityClassDeclaration, QueryDeclaration
from configs.errors import (
    Away,
    InUse,
    InvalidInput,
    NotAllowed,
    UnknownName,
    VersionDiffers,
    WeirError,
    WrongType,
)
from services.client import Client
from services.common.weir_home import Home, held
from services.remote.wire import RowsForgotten, WouldMissTarget, address_of
from tests.support.breaking import Heard, Reply, replying

KEY = "weir_" + "k" * 43
QUERY = QueryDeclaration(kind="Query", tenant="acme", name="q", sql="SELECT x FROM s")
BUSY = Reply.problem(429, "too-many-requests", {"Retry-After": "0"}, detail="too many", hint="wait")
AWAY = Reply.problem(503, "catalog-away", {"Retry-After": "0"}, detail="the catalog does not answer")
BROKEN = Reply(cut=-1)
HALF = Reply(body=b'{"items": []}', cut=5)
EMPTY = Reply(body=b'{"items": [], "next": null}')
PUT = Reply(
    body=b'{"kind": "Query", "tenant": "acme", "name": "q", "sql": "SELECT 1"}', headers={"ETag": '"7"'}
)


def client(heard: Heard) -> Client:
    return Client(heard.endpoint, KEY, timeout_s=5.0)


@pytest.mark.parametrize("refusals", [[BUSY], [AWAY, BUSY], [BROKEN], [HALF, AWAY], [BUSY] * 4])
def test_reading_goes_on_after_what_passes(refusals: list[Reply]) -> None:
    with replying([*refusals, EMPTY]) as heard, client(heard) as weir:
        assert weir.all("Tenant") == []
    assert heard.paths == ["GET /v1/tenants?limit=1000"] * (len(refusals) + 1)


@pytest.mark.parametrize("refusal", [BUSY, AWAY, BROKEN])
def test_tries_come_to_an_end(refusal: Reply) -> None:
    with replying([refusal] * 6) as heard, client(heard) as weir, pytest.raises(Away):
        weir.all("Tenant")
    assert len(heard.requests) == 5


def test_nobody_waits_for_longer_than_is_bearable() -> None:
    busy = Reply.problem(429, "too-many-requests", {"Retry-After": "900"}, detail="too many", hint="wait")
    with replying([busy] * 2) as heard, client(heard) as weir, pytest.raises(Away, match="too many"):
        weir.all("Tenant")
    assert len(heard.requests) == 1


def test_a_change_is_repeated_only_if_doing_it_twice_is_doing_it_once() -> None:
    with replying([BROKEN, BUSY, PUT]) as heard, client(heard) as weir:
        assert weir.put(QUERY).version == 7
    assert len(heard.requests) == 3
    with replying([BROKEN, PUT]) as heard, client(heard) as weir, pytest.raises(Away):
        weir.put(QUERY, version=6)
    with replying([BROKEN, PUT]) as heard, client(heard) as weir, pytest.raises(Away):
        weir.delete("query", "acme/q")
    with replying([BROKEN, PUT]) as heard, client(heard) as weir, pytest.raises(Away):
        weir.create_key("ops", ["admin"])
    assert len(heard.requests) == 1


def test_what_was_refused_for_want_of_room_is_asked_for_again_whatever_it_is() -> None:
    with replying([BUSY, Reply(204, b"")]) as heard, client(heard) as weir:
        weir.delete("query", "acme/q", version=6)
    assert heard.paths == ["DELETE /v1/tenants/acme/queries/q"] * 2
    assert [headers["If-Match"] for _, _, headers, _ in heard.requests] == ['"6"', '"6"']


def test_rows_that_are_sent_again_are_the_same_batch() -> None:
    put = Reply(body=b'{"accepted": 1, "rejected": 0, "reasons": {}}')
    with replying([BROKEN, HALF, put]) as heard, client(heard) as weir:
        assert weir.put_rows("ticks", [{"x": 1}]).accepted == 1
    assert len({(headers["Idempotency-Key"], body) for _, _, headers, body in heard.requests}) == 1


class ArrayOnly:
    """An object that offers Arrow's array interface and no other."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return self._batch.__arrow_c_array__(requested_schema)


ROWS = [{"x": 1, "s": "a"}, {"x": 2, "s": "b"}]
TABLE = pa.table({"x": [1, 2], "s": ["a", "b"]})
DICTIONARY = pa.table({"x": [1, 2], "s": pa.array(["a", "b"]).dictionary_encode()})


def sent(rows: Any) -> list[dict[str, Any]]:
    """Return the rows that a client sends."""
    put = Reply(body=b'{"accepted": 1, "rejected": 0, "reasons": {}}')
    with replying([put]) as heard, client(heard) as weir:
        weir.put_rows("ticks", rows)
    (_, _, headers, body), *_ = heard.requests
    if headers["Content-Type"] == "application/json":
        found: list[dict[str, Any]] = json.loads(body)
        return found
    table = pa.ipc.open_stream(body).read_all()
    assert not any(map(pa.types.is_dictionary, table.schema.types))
    assert not any(map(pa.types.is_string_view, table.schema.types))
    listed: list[dict[str, Any]] = table.to_pylist()
    return listed


@pytest.mark.parametrize(
    "rows",
    [
        ROWS,
        tuple(ROWS),
        iter(ROWS),
        TABLE,
        DICTIONARY,
        TABLE.to_batches()[0],
        TABLE.to_reader(),
        ArrayOnly(TABLE.to_batches()[0]),
        pl.DataFrame(ROWS),
    ],
    ids=["list", "tuple", "iterator", "table", "dictionary", "batch", "reader", "array", "polars"],
)
def test_rows_are_put_from_objects_and_from_whatever_is_arrow(rows: Any) -> None:
    assert sent(rows) == ROWS


def test_one_object_is_one_row() -> None:
    assert sent({"x": 1, "s": "a"}) == ROWS[:1]


def test_moments_and_decimals_of_objects_are_sent_as_texts() -> None:
    row = {"ts": datetime(2026, 1, 1, tzinfo=UTC), "local": datetime(2026, 1, 1), "d": Decimal("1.50")}
    at = "2026-01-01T00:00:00+00:00"
    assert sent(row) == [{"ts": at, "local": at, "d": "1.50"}]


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (7, "rows: cannot be of type int"),
        ("x=1", "rows: cannot be of type str"),
        (None, "rows: cannot be of type NoneType"),
        ([1, 2], "rows[0]: cannot be of type int"),
        (
            [{"x": object()}],
            "rows: holds a value that JSON does not have: Type is not JSON serializable: object",
        ),
    ],
)
def test_rows_of_another_type_are_refused_before_anything_is_sent(rows: Any, told: str) -> None:
    with replying([]) as heard, client(heard) as weir, pytest.raises(WrongType) as caught:
        weir.put_rows("ticks", rows)
    assert isinstance(caught.value, TypeError)
    assert str(caught.value).startswith(told)
    assert "hint: give " in str(caught.value)


def test_a_client_shows_its_service_and_not_its_key() -> None:
    weir = Client("http://127.0.0.1:8080", KEY)
    assert repr(weir) == "Client('http://127.0.0.1:8080')"
    weir.close()


def test_rows_are_put_into_a_fed_stream_only_with_force() -> None:
    put = Reply(body=b'{"accepted": 1, "rejected": 0, "reasons": {}}')
    with replying([put, put]) as heard, client(heard) as weir:
        weir.put_rows("ticks", [{"x": 1}])
        weir.put_rows("ticks", [{"x": 1}], force=True)
    assert heard.paths == ["POST /v1/streams/ticks/rows", "POST /v1/streams/ticks/rows?force=true"]


@pytest.mark.parametrize(
    ("status", "slug", "kind"),
    [
        (400, "malformed", InvalidInput),
        (401, "unauthenticated", NotAllowed),
        (403, "forbidden", NotAllowed),
        (404, "not-found", UnknownName),
        (409, "in-use", InUse),
        (409, "would-miss-target", WouldMissTarget),
        (410, "rows-forgotten", RowsForgotten),
        (412, "version-differs", VersionDiffers),
        (413, "too-large", InvalidInput),
        (422, "invalid", InvalidInput),
        (422, "that-comes-later", InvalidInput),
        (500, "internal", Away),
        (503, "not-running", Away),
    ],
)
def test_a_problem_becomes_the_error_that_it_would_be_here(
    status: int, slug: str, kind: type[WeirError]
) -> None:
    reply = Reply.problem(status, slug, detail="what is wrong", hint="what to do")
    with replying([reply]) as heard, client(heard) as weir, pytest.raises(WeirError) as caught:
        weir.all("Tenant")
    assert (type(caught.value), str(caught.value)) == (kind, "what is wrong\n  hint: what to do")


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (Reply(502, b"<html>bad gateway"), Away),
        (Reply(403, b"[]"), NotAllowed),
        (Reply(418, b"\xff"), InvalidInput),
        (Reply(302, b"", {"Location": "http://127.0.0.1:1/"}), Away),
    ],
)
def test_what_is_no_problem_of_ours_is_told_by_its_status(reply: Reply, kind: type[WeirError]) -> None:
    with replying([reply]) as heard, client(heard) as weir, pytest.raises(WeirError) as caught:
        weir.all("Tenant")
    assert type(caught.value) is kind
    assert f"the service answers {reply.status}" in str(caught.value)


def test_the_place_of_a_document_is_the_callers() -> None:
    one = PriorityClassDeclaration(kind="PriorityClass", name="gold", priority=1, delay_target_ms=1)
    reply = Reply.problem(422, "invalid", detail="documents[1] (Query q): sql: no such stream (got 's')")
    with replying([reply]) as heard, client(heard) as weir, pytest.raises(InvalidInput) as caught:
        weir.apply([one, QUERY])
    assert str(caught.value) == "Query acme/q: sql: no such stream (got 's')"


def test_nobody_there_is_told_at_once() -> None:
    with replying([]) as heard:
        pass
    with client(heard) as weir, pytest.raises(Away, match=f"{heard.endpoint} does not answer"):
        weir.all("Tenant")


def test_the_key_is_shown_to_the_service_and_in_no_text(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with replying([BROKEN, EMPTY]) as heard, client(heard) as weir:
        weir.all("Tenant")
        told = repr(weir) + repr(vars(weir)) + repr(address_of({}, heard.endpoint, KEY)) + caplog.text
    assert heard.requests[0][2]["Authorization"] == f"Bearer {KEY}"
    assert KEY not in told


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "ü?#%"])
def test_a_name_cannot_lead_elsewhere(name: str) -> None:
    missing = Reply.problem(404, "not-found")
    with replying([missing]) as heard, client(heard) as weir, pytest.raises(InvalidInput):
        weir.get("tenant", name)
    assert all(path.startswith("GET /v1/tenants/") and path.count("/") == 3 for path in heard.paths)


# -- which service -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "endpoint", "key"),
    [
        ({"WEIR_ENDPOINT": "https://w.example/", "WEIR_API_KEY": KEY}, "https://w.example", KEY),
        ({"WEIR_ENDPOINT": "http://[::1]:80", "WEIR_API_KEY": f" {KEY}\n"}, "http://[::1]:80", KEY),
        ({}, "http://127.0.0.1:1", "of-the-home"),
        ({"WEIR_API_KEY": KEY}, "http://127.0.0.1:1", KEY),
    ],
)
def test_a_service_is_found(tmp_path: Path, environ: Mapping[str, str], endpoint: str, key: str) -> None:
    (tmp_path / "admin.key").write_text("of-the-home\n", encoding="utf-8")
    with held(Home(tmp_path)):
        (tmp_path / "endpoint").write_text("http://127.0.0.1:1\n", encoding="utf-8")
        found = address_of({"WEIR_HOME": str(tmp_path), **environ})
    assert found is not None
    assert (found.endpoint, found.key) == (endpoint, key)


def test_the_key_of_the_home_is_not_shown_to_another_service(tmp_path: Path) -> None:
    (tmp_path / "endpoint").write_text("http://127.0.0.1:1\n", encoding="utf-8")
    (tmp_path / "admin.key").write_text("of-the-home\n", encoding="utf-8")
    with pytest.raises(NotAllowed, match="WEIR_API_KEY: a key is needed"):
        address_of({"WEIR_HOME": str(tmp_path), "WEIR_ENDPOINT": "http://127.0.0.1:1"})


def test_no_service_is_known_where_none_runs(tmp_path: Path) -> None:
    assert address_of({"WEIR_HOME": str(tmp_path)}) is None
    (tmp_path / "endpoint").write_text("http://127.0.0.1:1\n", encoding="utf-8")
    assert address_of({"WEIR_HOME": str(tmp_path)}) is None


@pytest.mark.parametrize(
    "endpoint",
    ["w.example", "ftp://w", "http://", "http://a:b@w", "http://w:99999", "http://w?x", "http://[", KEY],
)
def test_what_is_no_endpoint_is_refused_and_not_shown(endpoint: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        address_of({}, endpoint, KEY)
    assert str(caught.value).startswith("WEIR_ENDPOINT: not the address of a service\n")


@pytest.mark.parametrize("key", ["a\nb", "ä", "a b", "x" * 300])
def test_what_is_no_key_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        address_of({}, "http://w", key)
    assert str(caught.value).startswith("WEIR_API_KEY: not a key\n")
    assert key not in str(caught.value)


def test_certificates_that_cannot_be_read_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEIR_CA_FILE", str(tmp_path / "none.pem"))
    with pytest.raises(InvalidInput, match="WEIR_CA_FILE: cannot be read"):
        Client("https://w.example", KEY)
