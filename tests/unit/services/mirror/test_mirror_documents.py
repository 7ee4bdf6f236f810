"""Mirrors that are declared: what a document may be, the stream that comes with it, and what becomes of it at work."""

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
from services.results.places import LocalPlaces, endpoint_in
from tests.support.answer_logs import ClassLog
from tests.support.mirrors import HTTP, Told, mirror, seen
from tests.support.object_server import object_store

PRICES, STREAM = Ref("Mirror", "prices"), Ref("Stream", "prices")


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with closing(Catalog(Home(tmp_path / "home"))) as found:
        yield found


def made(catalog: Catalog, *documents: Document) -> list[tuple[str, str]]:
    return [(str(one.ref), one.action) for one in catalog.apply(documents, "ops")]


def stream_sql(columns: str = "item string, price float64") -> str:
    return f"CREATE STREAM prices ({columns}, changed_at timestamp, seen_at timestamp, WATERMARK FOR seen_at AS seen_at)"


# -- its stream ----------------------------------------------------------------------------------------------------


def test_the_stream_comes_with_its_mirror_and_changes_with_it(catalog: Catalog) -> None:
    assert made(catalog, mirror()) == [("Stream prices", "created"), ("Mirror prices", "created")]
    assert made(catalog, mirror()) == [("Mirror prices", "unchanged")]
    assert catalog.desired().streams == {"prices": stream_sql()}
    assert made(catalog, mirror(rest=HTTP + " REPEAT EVERY 60 SECONDS")) == [("Mirror prices", "changed")]
    wider = "item string, price float64, stock int32"
    assert made(catalog, mirror(wider)) == [("Stream prices", "changed"), ("Mirror prices", "changed")]
    assert catalog.desired().streams == {"prices": stream_sql(wider)}
    assert list(catalog.desired().mirrors) == ["prices"]


def test_queries_read_the_stream_that_comes_with_a_mirror_in_the_same_change(catalog: Catalog) -> None:
    text = """{kind: Tenant, name: acme, priority_class: gold}
---
{kind: Query, tenant: acme, name: dear, sql: SELECT item FROM prices WHERE price > 1}"""
    catalog.apply([*documents_of(text), mirror()], "ops")
    with pytest.raises(InvalidInput, match="cannot change while queries read the stream"):
        catalog.apply([mirror("item string, price int64")], "ops")
    with pytest.raises(InUse, match="in use by Query acme/dear, Mirror prices"):
        catalog.delete(STREAM, "ops")
    catalog.delete(PRICES, "ops")
    assert (catalog.desired().mirrors, list(catalog.desired().streams)) == ({}, ["prices"])


def test_a_stream_that_was_declared_for_it_is_left_as_it_was_written(catalog: Catalog) -> None:
    (stream,) = documents_of(
        "{kind: Stream, name: prices, time: seen_at, columns: {item: string, price: float64,"
        " changed_at: timestamp, seen_at: timestamp}}"
    )
    assert made(catalog, mirror(), stream) == [("Mirror prices", "created"), ("Stream prices", "created")]
    assert catalog.get(STREAM).declaration == stream.declaration


# -- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("document", "told"),
    [
        (
            "{kind: Mirror, name: m, sql: CREATE MIRROR m (a string)}",
            "(Mirror m): line 1, column 27: sql: FROM is missing",
        ),
        (
            f'{{kind: Mirror, name: m, sql: "CREATE MIRROR o (a string) {HTTP}"}}',
            "sql: the SQL declares a mirror of another name (got 'o')",
        ),
        (
            f"""{{kind: Mirror, name: m, sql: "CREATE MIRROR m (a string) {HTTP} PROFILE ('c*' 2)"}}""",
            "sql: the profile names no object (got 'c*')",
        ),
        (
            "{kind: Mirror, name: m, sql: \"CREATE MIRROR m (a string) FROM DATABASE 'postgresql://u:hunter2@h/d'"
            " TABLE 't' BANDWIDTH 5 PER SECOND\"}",
            "sql: an address has a password\n  hint: leave it out there, and give it as options.password",
        ),
        (
            "{kind: Mirror, name: m, sql: \"CREATE MIRROR m (a string) FROM DATABASE 'postgresql://h/d?password=hunter2'"
            " TABLE 't' BANDWIDTH 5 PER SECOND\"}",
            "sql: an address has a password",
        ),
        (
            "{kind: Mirror, name: m, sql: \"CREATE MIRROR m (a int32) FROM HTTP 'http://h/{key}' KEYS ('1', '3000000000')"
            ' BANDWIDTH 5 PER SECOND"}',
            "sql: a key is no int32 (got '3000000000')\n  hint: let a be a string, or leave it out",
        ),
        (
            "{kind: Mirror, name: m, sql: \"CREATE MIRROR m (a string) FROM HTTP 'http://:99999/{key}' KEYS ('1')"
            ' BANDWIDTH 5 PER SECOND"}',
            "sql: not an address of HTTP",
        ),
        (
            "{kind: Mirror, name: m, sql: \"CREATE MIRROR m (a string) FROM DATABASE 'mysql://h/d'"
            " TABLE 't' BANDWIDTH 5 PER SECOND\"}",
            "sql: not a database that is read (got 'mysql')",
        ),
        (
            f'{{kind: Mirror, name: m, options: {{password: hunter2}}, sql: "CREATE MIRROR m (a string) {HTTP}"}}',
            "options.password: nobody's password: no address names a user",
        ),
        (
            f'{{kind: Mirror, name: m, options: {{passwd: hunter2}}, sql: "CREATE MIRROR m (a string) {HTTP}"}}',
            "options: a mirror has no such option (got 'passwd')\n  hint: did you mean password?",
        ),
        (
            f'{{kind: Mirror, name: other, sql: "CREATE MIRROR other (x string) {HTTP}"}}',
            "name: the mirror's stream is another one (got 'other')",
        ),
        (
            f'{{kind: Mirror, name: fed, sql: "CREATE MIRROR fed (item string) {HTTP}"}}',
            "name: a mirror and a source of its own bring the stream (got 'fed')",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_a_word_on_what_to_do(
    catalog: Catalog, document: str, told: str
) -> None:
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
    assert told in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert catalog.revision() == before


def test_what_a_mirror_brings_nobody_else_is_to_bring(catalog: Catalog) -> None:
    catalog.apply([mirror()], "ops")
    source = f'{{kind: Stream, name: prices, source: {{format: weir_feeder}}, sql: "{stream_sql()}"}}'
    with pytest.raises(InvalidInput, match="a mirror and a source of its own bring the stream"):
        catalog.apply(documents_of(source), "ops")
    feed = "{kind: Feed, name: f, source: {format: weir_feeder}, streams: {prices: {}}}"
    with pytest.raises(InvalidInput, match="a mirror and feed f bring the stream"):
        catalog.apply(documents_of(feed), "ops")
    with pytest.raises(InvalidInput, match="the mirror's stream is another one"):
        catalog.apply(documents_of("{kind: Stream, name: prices, columns: {x: int64}}"), "ops")


def test_a_password_is_never_shown_and_is_kept_where_it_is_hidden(catalog: Catalog) -> None:
    sql = "CREATE MIRROR m (a string) FROM HTTP 'http://u@h/{key}' KEYS ('a') BANDWIDTH 5 PER SECOND"
    secret = MirrorDeclaration(kind="Mirror", name="m", sql=sql, options={"password": "hunter2"})
    catalog.apply([Document(secret)], "ops")
    shown = shown_document(secret)
    assert shown["options"] == {"password": HIDDEN}
    again = Document(MirrorDeclaration.model_validate(shown))
    assert restored(again, secret).declaration == secret


# -- at work -------------------------------------------------------------------------------------------------------


def test_what_keeps_a_mirror_from_polling_is_told_and_the_others_go_on(tmp_path: Path) -> None:
    door = Told()
    with object_store(a={"price": 1}) as store, Mirrors(door) as mirrors:
        origin = f"FROM HTTP '{store.url}{{key}}' BANDWIDTH 100 PER SECOND KEYS "
        for name, keys in (("broken", "broken"), ("looping", "loop"), ("garbage", "garbage")):
            mirrors.begin(read(mirror(rest=f"{origin} FROM URL '{store.url}{keys}'", name=name)))
        rest = f"{origin} FROM URL '{store.url}' PROFILE ('x*' 2)"
        mirrors.begin(read(mirror(rest=rest, name="nobody")))
        database = f"FROM DATABASE 'sqlite:///{tmp_path}/stock.db' TABLE 'stock' BANDWIDTH 9 PER SECOND"
        mirrors.begin(read(mirror(rest=database, name="stock")))
        nobody = database.replace(f"sqlite:///{tmp_path}/stock.db", "postgresql://u@127.0.0.1:1/d")
        mirrors.begin(read(mirror(rest=nobody, name="away")))
        mirrors.begin(read(mirror(rest=f"{origin} ('a', 'garbage', 'loop')")))
        door.until(lambda: "prices" in door.rows)
        for name, told in (
            ("broken", "500 Internal Server Error"),
            ("looping", "more than 5 redirects"),
            ("garbage", "not JSON"),
            ("stock", "unable to open database file"),
            ("nobody", "PROFILE: the profile names no object (got 'x*'); known: a"),
            ("away", "the database does not answer: connection failed"),
        ):
            found = seen(mirrors, name, lambda one: one.state == "waiting")
            assert told in next(iter(found.problems))
            assert found.last_problem is not None
            assert told in found.last_problem.told
        fares = seen(mirrors, "prices", lambda one: one.statistics.failing == 2)
        assert (fares.state, fares.statistics.held, fares.bytes > 0) == ("running", 1, True)
        with sqlite3.connect(tmp_path / "stock.db") as made:
            made.execute("CREATE TABLE stock (item TEXT, price REAL)")
            made.execute("INSERT INTO stock VALUES ('x', 1.5)")
        made.close()
        door.until(lambda: "stock" in door.rows)
        assert seen(mirrors, "stock", lambda one: one.state == "running").problems == {}
        mirrors.end("prices")
        store.objects["a"] = {"price": 2}
        assert sorted(one.mirror for one in mirrors.progress()) == [
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


def test_a_password_opens_the_store_and_is_in_no_problem() -> None:
    door = Told()
    with object_store(a={"price": 1}) as store, Mirrors(door) as mirrors:
        store.credentials = "reader:hunter2"
        url = store.url.replace("//", "//reader@")
        sql = f"FROM HTTP '{url}{{key}}' KEYS FROM URL '{url}' BANDWIDTH 50 PER SECOND"
        one = read(mirror(rest=sql))
        mirrors.begin(one, "wrong")
        told = seen(mirrors, "prices", lambda it: it.state == "waiting")
        assert "401 Unauthorized" in next(iter(told.problems))
        mirrors.begin(one, "hunter2")
        door.until(lambda: "prices" in door.rows)
        store.credentials = "reader:another"
        seen(mirrors, "prices", lambda it: it.statistics.failing == 1)
        assert "hunter2" not in str(mirrors.progress())


def test_answers_of_a_query_are_uses_of_the_objects_that_they_name() -> None:
    door = Told()
    with object_store(a={"price": 1}) as store, Mirrors(door) as mirrors:
        sql = f"FROM HTTP '{store.url}{{key}}' KEYS ('a') BANDWIDTH 50 PER SECOND LOOKUPS FROM acme/looked"
        mirrors.begin(read(mirror(rest=sql)))
        told = seen(mirrors, "prices", lambda it: it.statistics.uses >= 2)
    assert told.unknown_uses >= 2


# -- the system's door ---------------------------------------------------------------------------------------------


@pytest.fixture
def gateway(dirs: RunDirs) -> Iterator[tuple[Streams, SystemDoor]]:
    key, streams = new_key(), Streams(dirs, lambda: 1.0, bytes_max=8 << 20)
    door = FlightSettings().with_key(key).open(streams, dirs)
    yield streams, SystemDoor(LocalPlaces(dirs), lambda stream: endpoint_in(dirs), lambda: key)
    door.close()
    streams.close()


def test_rows_go_to_the_gateway_once_and_answers_are_read_where_they_are_written(
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
    assert [values_to_arrow(one.columns[0]).to_pylist() for one in trains] == [["a"]]

    stop, class_log = threading.Event(), ClassLog(dirs.class_log("acme"), 1 << 20)
    class_log.commit(3)
    looks = door.answers("acme/q", stop)
    assert list(next(looks)) == []  # what was there before it looked does not count
    class_log.commit(2)
    while not (answers := list(next(looks))):
        pass
    assert [row["n"] for row in answers] == [3, 4]
    stop.set()
    assert list(looks) == [()]
    class_log.close()
