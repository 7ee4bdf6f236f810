"""The client over a network that fails: which calls are repeated, and which error a refusal becomes."""

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


def client(server: Heard) -> Client:
    return Client(server.endpoint, KEY, timeout_s=5.0)


@pytest.mark.parametrize("refusals", [[BUSY], [AWAY, BUSY], [BROKEN], [HALF, AWAY], [BUSY] * 4])
def test_a_read_request_is_repeated_after_temporary_failures(refusals: list[Reply]) -> None:
    with replying([*refusals, EMPTY]) as server, client(server) as weir:
        assert weir.all("Tenant") == []
    assert server.paths == ["GET /v1/tenants?limit=1000"] * (len(refusals) + 1)


@pytest.mark.parametrize("refusal", [BUSY, AWAY, BROKEN])
def test_a_read_request_fails_after_five_tries(refusal: Reply) -> None:
    with replying([refusal] * 6) as server, client(server) as weir, pytest.raises(Away):
        weir.all("Tenant")
    assert len(server.requests) == 5


def test_long_retry_after_ends_the_retries_at_once() -> None:
    busy = Reply.problem(429, "too-many-requests", {"Retry-After": "900"}, detail="too many", hint="wait")
    with replying([busy] * 2) as server, client(server) as weir, pytest.raises(Away, match="too many"):
        weir.all("Tenant")
    assert len(server.requests) == 1


def test_client_repeats_a_failed_change_only_if_repeating_is_harmless() -> None:
    with replying([BROKEN, BUSY, PUT]) as server, client(server) as weir:
        assert weir.put(QUERY).version == 7
    assert len(server.requests) == 3
    with replying([BROKEN, PUT]) as server, client(server) as weir, pytest.raises(Away):
        weir.put(QUERY, version=6)
    with replying([BROKEN, PUT]) as server, client(server) as weir, pytest.raises(Away):
        weir.delete("query", "acme/q")
    with replying([BROKEN, PUT]) as server, client(server) as weir, pytest.raises(Away):
        weir.create_key("ops", ["admin"])
    assert len(server.requests) == 1


def test_any_call_refused_as_too_many_requests_is_repeated() -> None:
    with replying([BUSY, Reply(204, b"")]) as server, client(server) as weir:
        weir.delete("query", "acme/q", version=6)
    assert server.paths == ["DELETE /v1/tenants/acme/queries/q"] * 2
    assert [headers["If-Match"] for _, _, headers, _ in server.requests] == ['"6"', '"6"']


def test_rows_are_sent_again_as_the_same_batch() -> None:
    put = Reply(body=b'{"accepted": 1, "rejected": 0, "reasons": {}}')
    with replying([BROKEN, HALF, put]) as server, client(server) as weir:
        assert weir.put_rows("ticks", [{"x": 1}]).accepted == 1
    assert len({(headers["Idempotency-Key"], body) for _, _, headers, body in server.requests}) == 1


class ArrayOnly:
    """Object that offers only Arrow's array interface."""

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
    with replying([put]) as server, client(server) as weir:
        weir.put_rows("ticks", rows)
    (_, _, headers, body), *_ = server.requests
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
def test_rows_may_be_objects_or_any_arrow_data(rows: Any) -> None:
    assert sent(rows) == ROWS


def test_single_object_is_sent_as_one_row() -> None:
    assert sent({"x": 1, "s": "a"}) == ROWS[:1]


def test_timestamps_and_decimals_are_sent_as_text() -> None:
    row = {"ts": datetime(2026, 1, 1, tzinfo=UTC), "local": datetime(2026, 1, 1), "d": Decimal("1.50")}
    at = "2026-01-01T00:00:00+00:00"
    assert sent(row) == [{"ts": at, "local": at, "d": "1.50"}]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (7, "rows: rows cannot be of type int"),
        ("x=1", "rows: rows cannot be of type str"),
        (None, "rows: rows cannot be of type NoneType"),
        ([1, 2], "rows[0]: a row cannot be of type int"),
        (
            [{"x": object()}],
            "rows: a row has a value that JSON cannot represent: Type is not JSON serializable: object",
        ),
    ],
)
def test_rows_of_another_type_are_refused_before_sending(rows: Any, message: str) -> None:
    with replying([]) as server, client(server) as weir, pytest.raises(WrongType) as caught:
        weir.put_rows("ticks", rows)
    assert isinstance(caught.value, TypeError)
    assert str(caught.value).startswith(message)
    assert "hint: give " in str(caught.value)


def test_repr_of_a_client_hides_its_key() -> None:
    weir = Client("http://127.0.0.1:8080", KEY)
    assert repr(weir) == "Client('http://127.0.0.1:8080')"
    weir.close()


def test_client_sends_the_parameter_force_only_if_requested() -> None:
    put = Reply(body=b'{"accepted": 1, "rejected": 0, "reasons": {}}')
    with replying([put, put]) as server, client(server) as weir:
        weir.put_rows("ticks", [{"x": 1}])
        weir.put_rows("ticks", [{"x": 1}], force=True)
    assert server.paths == ["POST /v1/streams/ticks/rows", "POST /v1/streams/ticks/rows?force=true"]


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
def test_problem_response_of_the_service_is_raised_as_the_matching_exception(
    status: int, slug: str, kind: type[WeirError]
) -> None:
    reply = Reply.problem(status, slug, detail="what is wrong", hint="what to do")
    with replying([reply]) as server, client(server) as weir, pytest.raises(WeirError) as caught:
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
def test_responses_that_are_no_problem_documents_are_reported_by_their_status(
    reply: Reply, kind: type[WeirError]
) -> None:
    with replying([reply]) as server, client(server) as weir, pytest.raises(WeirError) as caught:
        weir.all("Tenant")
    assert type(caught.value) is kind
    assert f"the service answers {reply.status}" in str(caught.value)


def test_error_about_a_document_in_a_list_names_the_document_instead_of_its_position() -> None:
    gold = PriorityClassDeclaration(kind="PriorityClass", name="gold", priority=1, delay_target_ms=1)
    reply = Reply.problem(422, "invalid", detail="documents[1] (Query q): sql: no such stream (got 's')")
    with replying([reply]) as server, client(server) as weir, pytest.raises(InvalidInput) as caught:
        weir.apply([gold, QUERY])
    assert str(caught.value) == "Query acme/q: sql: no such stream (got 's')"


def test_unreachable_service_is_reported_at_once() -> None:
    with replying([]) as server:
        pass
    with client(server) as weir, pytest.raises(Away, match=f"{server.endpoint} does not answer"):
        weir.all("Tenant")


def test_key_is_sent_to_the_service_and_never_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with replying([BROKEN, EMPTY]) as server, client(server) as weir:
        weir.all("Tenant")
        texts = repr(weir) + repr(vars(weir)) + repr(address_of({}, server.endpoint, KEY)) + caplog.text
    assert server.requests[0][2]["Authorization"] == f"Bearer {KEY}"
    assert KEY not in texts


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "ü?#%"])
def test_no_name_of_a_declaration_can_address_another_route(name: str) -> None:
    missing = Reply.problem(404, "not-found")
    with replying([missing]) as server, client(server) as weir, pytest.raises(InvalidInput):
        weir.get("tenant", name)
    assert all(path.startswith("GET /v1/tenants/") and path.count("/") == 3 for path in server.paths)


# -- how the client chooses the service ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "endpoint", "key"),
    [
        ({"WEIR_ENDPOINT": "https://w.example/", "WEIR_API_KEY": KEY}, "https://w.example", KEY),
        ({"WEIR_ENDPOINT": "http://[::1]:80", "WEIR_API_KEY": f" {KEY}\n"}, "http://[::1]:80", KEY),
        ({}, "http://127.0.0.1:1", "of-the-home"),
        ({"WEIR_API_KEY": KEY}, "http://127.0.0.1:1", KEY),
    ],
)
def test_service_is_found_by_environment_or_home(
    tmp_path: Path, environ: Mapping[str, str], endpoint: str, key: str
) -> None:
    (tmp_path / "admin.key").write_text("of-the-home\n", encoding="utf-8")
    with held(Home(tmp_path)):
        (tmp_path / "endpoint").write_text("http://127.0.0.1:1\n", encoding="utf-8")
        found = address_of({"WEIR_HOME": str(tmp_path), **environ})
    assert found is not None
    assert (found.endpoint, found.key) == (endpoint, key)


def test_key_of_the_home_is_not_sent_to_another_service(tmp_path: Path) -> None:
    (tmp_path / "endpoint").write_text("http://127.0.0.1:1\n", encoding="utf-8")
    (tmp_path / "admin.key").write_text("of-the-home\n", encoding="utf-8")
    with pytest.raises(NotAllowed, match="WEIR_API_KEY: the service requires an API key, and none is given"):
        address_of({"WEIR_HOME": str(tmp_path), "WEIR_ENDPOINT": "http://127.0.0.1:1"})


def test_no_service_is_found_if_none_runs(tmp_path: Path) -> None:
    assert address_of({"WEIR_HOME": str(tmp_path)}) is None
    (tmp_path / "endpoint").write_text("http://127.0.0.1:1\n", encoding="utf-8")
    assert address_of({"WEIR_HOME": str(tmp_path)}) is None


@pytest.mark.parametrize(
    "endpoint",
    ["w.example", "ftp://w", "http://", "http://a:b@w", "http://w:99999", "http://w?x", "http://[", KEY],
)
def test_invalid_endpoint_is_refused_and_not_shown(endpoint: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        address_of({}, endpoint, KEY)
    assert str(caught.value).startswith("WEIR_ENDPOINT: this is not the URL of a service\n")


@pytest.mark.parametrize("key", ["a\nb", "ä", "a b", "x" * 300])
def test_invalid_key_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        address_of({}, "http://w", key)
    assert str(caught.value).startswith("WEIR_API_KEY: the text does not have the form of an API key\n")
    assert key not in str(caught.value)


def test_unreadable_certificate_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIR_CA_FILE", str(tmp_path / "none.pem"))
    with pytest.raises(InvalidInput, match="WEIR_CA_FILE: the file cannot be read"):
        Client("https://w.example", KEY)
