"""Declared mirrors: valid documents, the stream that is created with a mirror, and polling by the service."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from actors.gateway.streams import Streams
from actors.log.segment_log import Reader
from actors.log.train_format import batch_of
from actors.runtime.run_dirs import RunDirs
from bench.local_places import LocalPlaces
from configs.documents.declarations import Document, MirrorDeclaration, Ref, documents_of
from configs.errors import InUse, InvalidInput
from engine.data.train import values_to_arrow
from engine.sql import Mirror, parse_create_mirror
from services.catalog.catalog import Catalog
from services.catalog.redaction import HIDDEN, restored, shown_document
from services.common.weir_home import Home
from services.ingest.flight import FlightSettings
from services.ingest.keys import new_key
from services.mirror.doors import SystemDoor
from services.mirror.mirror_definition import read_mirror
from services.mirror.mirror_threads import Mirrors
from services.results.places import endpoint_in
from tests.support.answer_logs import ClassLog
from tests.support.mirrors import HTTP, Told, mirror, seen
from tests.support.object_server import object_store

PRICES, STREAM = Ref("Mirror", "prices"), Ref("Stream", "prices")


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with closing(Catalog(Home(tmp_path / "home"))) as found:
        yield found


def applied(catalog: Catalog, *documents: Document) -> list[tuple[str, str]]:
    return [(str(change.ref), change.action) for change in catalog.apply(documents, "ops")]


def stream_sql(columns: str = "item string, price float64") -> str:
    return f"CREATE STREAM prices ({columns}, changed_at timestamp, seen_at timestamp, WATERMARK FOR seen_at AS seen_at)"


# -- the stream of a mirror ----------------------------------------------------------------------------------------


def test_stream_is_created_and_changed_with_its_mirror(catalog: Catalog) -> None:
    assert applied(catalog, mirror()) == [("Stream prices", "created"), ("Mirror prices", "created")]
    assert applied(catalog, mirror()) == [("Mirror prices", "unchanged")]
    assert catalog.desired().streams == {"prices": stream_sql()}
    assert applied(catalog, mirror(rest=HTTP + " REPEAT EVERY 60 SECONDS")) == [("Mirror prices", "changed")]
    wider = "item string, price float64, stock int32"
    assert applied(catalog, mirror(wider)) == [("Stream prices", "changed"), ("Mirror prices", "changed")]
    assert catalog.desired().streams == {"prices": stream_sql(wider)}
    assert list(catalog.desired().mirrors) == ["prices"]


def test_query_may_be_declared_together_with_the_mirror_it_reads(catalog: Catalog) -> None:
    text = """{kind: Tenant, name: acme, priority_class: gold}
---
{kind: Query, tenant: acme, name: dear, sql: SELECT item FROM prices WHERE price > 1}"""
    catalog.apply([*documents_of(text), mirror()], "ops")
    with pytest.raises(InvalidInput, match="cannot change while queries read the stream"):
        catalog.apply([mirror("item string, price int64")], "ops")
    with pytest.raises(InUse, match="the declaration is in use by Query acme/dear, Mirror prices"):
        catalog.delete(STREAM, "ops")
    catalog.delete(PRICES, "ops")
    assert (catalog.desired().mirrors, list(catalog.desired().streams)) == ({}, ["prices"])


def test_stream_that_a_user_declares_for_a_mirror_is_stored_as_written(catalog: Catalog) -> None:
    (stream,) = documents_of(
        "{kind: Stream, name: prices, time: seen_at, columns: {item: string, price: float64,"
        " changed_at: timestamp, seen_at: timestamp}}"
    )
    assert applied(catalog, mirror(), stream) == [("Mirror prices", "created"), ("Stream prices", "created")]
    assert catalog.get(STREAM).declaration == stream.declaration


# -- invalid documents ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (
            "{kind: Mirror, name: m, sql: CREATE MIRROR m (a string)}",
            "(Mirror m): line 1, column 27: sql: the mirror has no FROM clause",
        ),
        (
            f'{{kind: Mirror, name: m, sql: "CREATE MIRROR o (a string) {HTTP}"}}',
            "sql: the name in CREATE MIRROR differs from the name of the declared mirror (got 'o')",
        ),
        (
            f"""{{kind: Mirror, name: m, sql: "CREATE MIRROR m (a string) {HTTP} PROFILE ('c*' 2)"}}""",
            "sql: the pattern matches no key of the mirror (got 'c*')",
        ),
        (
            f"""{{kind: Mirror, name: m, sql: "CREATE MIRROR m (a string) {HTTP} MIN FRESHNESS ('c*' 0.5)"}}""",
            "sql: the pattern matches no key of the mirror (got 'c*')",
        ),
        (
            "{kind: Mirror, name: m, sql: \"CREATE MIRROR m (a string) FROM DATABASE 'postgresql://u:hunter2@h/d'"
            " TABLE 't' BANDWIDTH 5 PER SECOND\"}",
            "sql: an address in the SQL contains a password, which every reader of the declaration would see\n  hint: remove the password from the address, and set options.password",
        ),
        (
            "{kind: Mirror, name: m, sql: \"CREATE MIRROR m (a string) FROM DATABASE 'postgresql://h/d?password=hunter2'"
            " TABLE 't' BANDWIDTH 5 PER SECOND\"}",
            "sql: an address in the SQL contains a password, which every reader of the declaration would see",
        ),
        (
            "{kind: Mirror, name: m, sql: \"CREATE MIRROR m (a int32) FROM HTTP 'http://h/{key}' KEYS ('1', '3000000000')"
            ' BANDWIDTH 5 PER SECOND"}',
            "sql: the key is not a valid int32 (got '3000000000')\n  hint: declare a as string, or remove the key",
        ),
        (
            "{kind: Mirror, name: m, sql: \"CREATE MIRROR m (a string) FROM HTTP 'http://:99999/{key}' KEYS ('1')"
            ' BANDWIDTH 5 PER SECOND"}',
            "sql: this is not a valid HTTP address",
        ),
        (
            "{kind: Mirror, name: m, sql: \"CREATE MIRROR m (a string) FROM DATABASE 'mysql://h/d'"
            " TABLE 't' BANDWIDTH 5 PER SECOND\"}",
            "sql: this kind of database is not supported (got 'mysql')",
        ),
        (
            f'{{kind: Mirror, name: m, options: {{password: hunter2}}, sql: "CREATE MIRROR m (a string) {HTTP}"}}',
            "options.password: a password is given, but no address in the SQL contains a user name",
        ),
        (
            f'{{kind: Mirror, name: m, options: {{passwd: hunter2}}, sql: "CREATE MIRROR m (a string) {HTTP}"}}',
            "options: a mirror has no option of this name (got 'passwd')\n  hint: did you mean password?",
        ),
        (
            f'{{kind: Mirror, name: other, sql: "CREATE MIRROR other (x string) {HTTP}"}}',
            "name: the columns or event time of the stream differ from those of the mirror (got 'other')",
        ),
        (
            f'{{kind: Mirror, name: fed, sql: "CREATE MIRROR fed (item string) {HTTP}"}}',
            "name: a stream can have only one writer, but this stream has a mirror and a source of its own (got 'fed')",
        ),
    ],
)
def test_invalid_mirrors_are_refused_with_the_reason(catalog: Catalog, document: str, message: str) -> None:
    catalog.apply(
        documents_of(
            "{kind: Stream, name: other, columns: {x: int64}}\n---\n"
            "{kind: Stream, name: fed, source: {format: weir_feeder}, time: seen_at,"
            " columns: {item: string, changed_at: timestamp, seen_at: timestamp}}"
        ),
        "ops",
    )
    before = catalog.revision()
    with pytest.raises(InvalidInput) as caught:
        catalog.apply(documents_of(document, "new.yaml"), "ops")
    assert message in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert catalog.revision() == before


def test_stream_of_a_mirror_cannot_have_another_source(catalog: Catalog) -> None:
    catalog.apply([mirror()], "ops")
    source = f'{{kind: Stream, name: prices, source: {{format: weir_feeder}}, sql: "{stream_sql()}"}}'
    with pytest.raises(
        InvalidInput,
        match="a stream can have only one writer, but this stream has a mirror and a source of its own",
    ):
        catalog.apply(documents_of(source), "ops")
    feed = "{kind: Feed, name: f, source: {format: weir_feeder}, streams: {prices: {}}}"
    with pytest.raises(
        InvalidInput, match="a stream can have only one writer, but this stream has a mirror and feed f"
    ):
        catalog.apply(documents_of(feed), "ops")
    with pytest.raises(
        InvalidInput, match="the columns or event time of the stream differ from those of the mirror"
    ):
        catalog.apply(documents_of("{kind: Stream, name: prices, columns: {x: int64}}"), "ops")


def test_hidden_password_is_kept_when_the_shown_document_is_applied(catalog: Catalog) -> None:
    sql = "CREATE MIRROR m (a string) FROM HTTP 'http://u@h/{key}' KEYS ('a') BANDWIDTH 5 PER SECOND"
    secret = MirrorDeclaration(kind="Mirror", name="m", sql=sql, options={"password": "hunter2"})
    catalog.apply([Document(secret)], "ops")
    shown = shown_document(secret)
    assert shown["options"] == {"password": HIDDEN}
    again = Document(MirrorDeclaration.model_validate(shown))
    assert restored(again, secret).declaration == secret


# -- polling by the service ----------------------------------------------------------------------------------------


def test_failing_mirrors_report_their_problems_and_other_mirrors_continue(tmp_path: Path) -> None:
    door = Told()
    with object_store(a={"price": 1}) as store, Mirrors(door) as mirrors:
        origin = f"FROM HTTP '{store.url}{{key}}' BANDWIDTH 100 PER SECOND KEYS "
        for name, keys in (("broken", "broken"), ("looping", "loop"), ("garbage", "garbage")):
            mirrors.begin(read(mirror(rest=f"{origin} FROM URL '{store.url}{keys}'", name=name)))
        rest = f"{origin} FROM URL '{store.url}' PROFILE ('x*' 2)"
        mirrors.begin(read(mirror(rest=rest, name="nobody")))
        database = f"FROM DATABASE 'sqlite:///{tmp_path}/stock.db' TABLE 'stock' BANDWIDTH 9 PER SECOND"
        mirrors.begin(read(mirror(rest=database, name="stock")))
        unreachable = database.replace(f"sqlite:///{tmp_path}/stock.db", "postgresql://u@127.0.0.1:1/d")
        mirrors.begin(read(mirror(rest=unreachable, name="away")))
        mirrors.begin(read(mirror(rest=f"{origin} ('a', 'garbage', 'loop')")))
        door.until(lambda: "prices" in door.rows)
        for name, message in (
            ("broken", "500 Internal Server Error"),
            ("looping", "the server sent more than 5 redirects"),
            ("garbage", "not JSON"),
            ("stock", "unable to open database file"),
            ("nobody", "PROFILE: the pattern matches no key of the mirror (got 'x*'); known: a"),
            ("away", "the database does not answer: connection failed"),
        ):
            found = seen(mirrors, name, lambda progress: progress.state == "waiting")
            assert message in next(iter(found.problems))
            assert found.last_problem is not None
            assert message in found.last_problem.told
        prices = seen(mirrors, "prices", lambda progress: progress.statistics.failing == 2)
        assert (prices.state, prices.statistics.held, prices.bytes > 0) == ("running", 1, True)
        with sqlite3.connect(tmp_path / "stock.db") as applied:
            applied.execute("CREATE TABLE stock (item TEXT, price REAL)")
            applied.execute("INSERT INTO stock VALUES ('x', 1.5)")
        applied.close()
        door.until(lambda: "stock" in door.rows)
        assert seen(mirrors, "stock", lambda progress: progress.state == "running").problems == {}
        mirrors.end("prices")
        store.objects["a"] = {"price": 2}
        assert sorted(progress.mirror for progress in mirrors.progress()) == [
            "away",
            "broken",
            "garbage",
            "looping",
            "nobody",
            "stock",
        ]
    assert mirrors.progress() == []
    assert [row["price"] for row in door.rows["prices"]] == [1.0]


def read(document: Document) -> Mirror:
    assert isinstance(document.declaration, MirrorDeclaration)
    return read_mirror(document.declaration)


def test_password_is_used_for_polling_and_hidden_in_problems() -> None:
    door = Told()
    with object_store(a={"price": 1}) as store, Mirrors(door) as mirrors:
        store.credentials = "reader:hunter2"
        url = store.url.replace("//", "//reader@")
        sql = f"FROM HTTP '{url}{{key}}' KEYS FROM URL '{url}' BANDWIDTH 50 PER SECOND"
        definition = read(mirror(rest=sql))
        mirrors.begin(definition, "wrong")
        waiting = seen(mirrors, "prices", lambda progress: progress.state == "waiting")
        assert "401 Unauthorized" in next(iter(waiting.problems))
        mirrors.begin(definition, "hunter2")
        door.until(lambda: "prices" in door.rows)
        store.credentials = "reader:another"
        seen(mirrors, "prices", lambda progress: progress.statistics.failing == 1)
        assert "hunter2" not in str(mirrors.progress())


def test_answers_of_a_lookup_query_count_as_uses_of_objects() -> None:
    door = Told()
    with object_store(a={"price": 1}) as store, Mirrors(door) as mirrors:
        sql = f"FROM HTTP '{store.url}{{key}}' KEYS ('a') BANDWIDTH 50 PER SECOND LOOKUPS FROM acme/looked"
        mirrors.begin(read(mirror(rest=sql)))
        found = seen(mirrors, "prices", lambda progress: progress.statistics.uses >= 2)
    assert found.unknown_uses >= 2


# -- publishing to a running system --------------------------------------------------------------------------------


@pytest.fixture
def gateway(dirs: RunDirs) -> Iterator[tuple[Streams, SystemDoor]]:
    key, streams = new_key(), Streams(dirs, lambda: 1.0, bytes_max=8 << 20)
    door = FlightSettings().with_key(key).open(streams, dirs)
    yield streams, SystemDoor(LocalPlaces(dirs), lambda stream: endpoint_in(dirs), lambda: key)
    door.close()
    streams.close()


def test_rows_are_published_once_and_answers_are_read_from_the_log(
    gateway: tuple[Streams, SystemDoor], dirs: RunDirs
) -> None:
    streams, door = gateway
    found = parse_create_mirror(
        "CREATE MIRROR prices (s string, n int64) FROM HTTP 'http://x/{key}' KEYS ('a') BANDWIDTH 5 PER SECOND"
    )
    streams.declare(found.stream_sql)
    streams.keep_for("reader", ["prices"], lossless=True)
    rows = pa.Table.from_batches(
        [
            pa.RecordBatch.from_pylist(
                [{"s": "a", "n": 7, "changed_at": None, "seen_at": 5}], found.stream.schema.arrow
            )
        ]
    )
    for _ in range(2):
        assert door.publish(found, rows, "one") == {}
    log = Reader(dirs.stream("prices"))
    trains = [batch_of(payload) for _, payload in log.frames(log.first)]
    assert [values_to_arrow(train.columns[0]).to_pylist() for train in trains] == [["a"]]

    stop, class_log = threading.Event(), ClassLog(dirs.class_log("acme"), 1 << 20)
    class_log.commit(3)
    polls = door.answers("acme/q", stop)
    assert list(next(polls)) == []  # Answers from before the first poll are not counted as uses.
    class_log.commit(2)
    while not (answers := list(next(polls))):
        pass
    assert [row["n"] for row in answers] == [3, 4]
    stop.set()
    assert list(polls) == [()]
    class_log.close()
