"""Polling of objects over HTTP and of rows of a database: changes are published as a stream, and problems are reported."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from configs.errors import Away, InvalidInput
from engine.sql import Mirror, parse_create_mirror
from engine.sql.create_mirror import DatabaseOrigin
from services.cli.main import app
from services.mirror.mirror_definition import floors_of, profile_of
from services.mirror.objects import DatabaseObjects, HttpObjects, ObjectProblem, Objects, objects_of
from services.mirror.poll_loop import NOTHING, Polling, shortage_told
from tests.support.object_server import Store, object_store
from tests.support.postgresql import postgresql

HUNG_S = 20.0  # Seconds after which a call of the server counts as hanging.
BAD = ("broken", "loop", "never", "garbage", "list", "large", "text", "missing")


def prices(store: Store, keys: str = "KEYS ('a', 'b')", rest: str = "") -> Mirror:
    return parse_create_mirror(
        f"CREATE MIRROR prices (item string, price float64) FROM HTTP '{store.url}{{key}}' {keys} "
        f"BANDWIDTH 400 PER SECOND {rest}"
    )


class Published:
    """Collector of published rows, which can wait until the expected rows have been published."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.batches: list[str] = []
        self.changed = threading.Condition()
        self.away = self.broken = False
        self.largest = 0

    def __call__(self, table: pa.Table, batch: str) -> Mapping[str, int]:
        with self.changed:
            if self.away:
                raise Away("nobody takes them")
            if self.broken:
                raise RuntimeError("broken")
            self.largest = max(self.largest, table.nbytes)
            self.rows += table.to_pylist()
            self.batches.append(batch)
            self.changed.notify_all()
        return {}

    def latest(self) -> dict[str, Any]:
        return {row["item"]: row["price"] for row in self.rows}

    def until(self, holds: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(holds, 20), self.rows


@contextmanager
def polling(mirror: Mirror, published: Published) -> Iterator[Polling]:
    objects: Objects = objects_of(mirror, 4)
    found, stop = Polling(mirror, objects, published, "test"), threading.Event()
    thread = threading.Thread(target=found.run, args=(stop,))
    thread.start()
    try:
        yield found
    finally:
        stop.set()
        thread.join(20)
        objects.close()
        assert not thread.is_alive()


def test_unchanged_object_is_not_fetched_again() -> None:
    with object_store(a={"price": 1.5, "colour": "red"}) as store:
        objects = HttpObjects(prices(store), store.url + "{key}")
        first = objects.fetch("a")
        assert first.row == {"item": "a", "price": 1.5}
        assert first.changed_at == datetime(2026, 1, 1, tzinfo=UTC)
        objects.took("a", first)
        second = objects.fetch("a")
        assert (second.row, second.size < first.size) == (None, True)
        store.objects["a"] = {"price": 2}
        assert objects.fetch("a").row == {"item": "a", "price": 2}
        # The object still counts as changed, because `took` was not called after the last fetch.
        assert objects.fetch("a").row == {"item": "a", "price": 2}
        objects.close()
    assert store.answered == {200: 3, 304: 1}


def test_objects_without_etag_are_compared_by_body() -> None:
    with object_store(a={"price": 1}) as store:
        store.etags = False
        objects = HttpObjects(prices(store), store.url + "{key}")
        first = objects.fetch("a")
        assert first.changed_at is None
        objects.took("a", first)
        assert objects.fetch("a").row is None
        objects.close()


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("broken", "500 Internal Server Error"),
        ("loop", "the server sent more than 5 redirects"),
        ("never", "the server answered 304 Not Modified, though the request was not conditional"),
        ("garbage", "the object is not JSON: b'<html>'"),
        ("list", "the answer is not a JSON object"),
        ("large", "the body has more than 1,048,576 bytes"),
        ("missing", "404 Not Found"),
        ("error", "500 Internal Server Error"),
        ("flood", "the body has more than 1,048,576 bytes"),
        ("bomb", "the body has more than 1,048,576 bytes"),
    ],
)
def test_object_that_cannot_be_fetched_is_reported_and_other_objects_are_fetched(
    key: str, message: str
) -> None:
    with object_store(a={"price": 1}) as store:
        objects = HttpObjects(prices(store), store.url + "{key}")
        with pytest.raises(ObjectProblem, match=message):
            objects.fetch(key)
        assert objects.fetch("moved").row == {"item": "moved", "price": 1}
        objects.close()


@pytest.mark.parametrize("key", ["drip", "slow"])
def test_poll_of_an_object_times_out_if_the_answer_is_slow(key: str) -> None:
    with object_store(a={"price": 1}) as store:
        objects = HttpObjects(prices(store), store.url + "{key}", look_s=0.3)
        assert objects.fetch("a").row == {"item": "a", "price": 1}
        with pytest.raises(ObjectProblem, match=r"the answer was not complete after 0.3 s"):
            objects.fetch(key)
        assert objects.fetch("a").row == {"item": "a", "price": 1}
        objects.close()


def test_polls_in_progress_are_cut_off_on_close() -> None:
    with object_store(a={"price": 1}) as store, ThreadPoolExecutor(2) as pool:
        objects = HttpObjects(prices(store), store.url + "{key}")
        polls = [pool.submit(objects.fetch, key) for key in ("drip", "slow")]
        while store.asked.total() < 2:
            threading.Event().wait(0.01)
        objects.close()
        assert [isinstance(poll.exception(HUNG_S), ObjectProblem) for poll in polls] == [True, True]


def test_size_of_a_compressed_answer_is_its_size_on_the_wire() -> None:
    with object_store() as store:
        objects = HttpObjects(prices(store), store.url + "{key}")
        assert objects.fetch("packed").row == {"item": "packed", "price": 3}
        with pytest.raises(ObjectProblem) as bomb:
            objects.fetch("bomb")
        assert bomb.value.size < 1 << 17
        with pytest.raises(ObjectProblem) as loop:
            objects.fetch("loop")
        assert loop.value.size > 6 * len("Location: /items/loop")
        objects.close()


def test_two_changes_of_an_object_within_one_second_are_both_noticed() -> None:
    """Check that a second change in the second that `Last-Modified` names is noticed, though the server may answer "not modified"."""
    with object_store(a={"price": 1}) as store:
        store.etags, store.modified = False, datetime.now(UTC).replace(microsecond=0)
        objects = HttpObjects(prices(store), store.url + "{key}")
        objects.took("a", objects.fetch("a"))
        store.objects["a"] = {"price": 2}
        assert objects.fetch("a").row == {"item": "a", "price": 2}
        objects.close()


def test_object_modified_long_ago_is_requested_conditionally() -> None:
    with object_store(a={"price": 1}) as store:
        store.etags, store.modified = False, datetime(2026, 1, 1, tzinfo=UTC)
        objects = HttpObjects(prices(store), store.url + "{key}")
        objects.took("a", objects.fetch("a"))
        assert objects.fetch("a").row is None
        objects.close()
    assert store.answered == {200: 1, 304: 1}


def test_new_etag_of_an_unchanged_object_is_remembered() -> None:
    with object_store(a={"price": 1}) as store:
        objects = HttpObjects(prices(store), store.url + "{key}")
        objects.took("a", objects.fetch("a"))
        store.salt = "made anew"
        assert [objects.fetch("a").row for _ in range(3)] == [None] * 3
        objects.close()
    assert store.answered == {200: 2, 304: 2}


def test_password_follows_redirects_only_on_the_same_host() -> None:
    with object_store(a={"price": 1}) as store, object_store(a={"price": 2}) as other:
        store.credentials, store.elsewhere = "reader:hunter2", other.url + "a"
        url = store.url.replace("//", "//reader@")
        objects = HttpObjects(prices(store), url + "{key}", "hunter2")
        assert (objects.fetch("moved").row or {})["price"] == 1
        assert (objects.fetch("elsewhere").row or {})["price"] == 2
        objects.close()
    assert (len(store.shown), other.shown) == (1, {"": 1})


def test_oversized_etag_is_ignored_and_the_object_is_compared_by_its_body() -> None:
    with object_store(a={"price": 1}) as store:
        store.salt = "x" * 5000
        objects = HttpObjects(prices(store), store.url + "{key}")
        found = objects.fetch("a")
        assert found.mark[0] == ""
        objects.took("a", found)
        assert objects.fetch("a").row is None
        objects.close()


def test_unreachable_host_is_reported() -> None:
    with object_store() as store:
        mirror = prices(store)
    objects = objects_of(mirror, 1)
    with pytest.raises(ObjectProblem, match="ConnectError"):
        objects.fetch("a")
    objects.close()


def test_changes_are_published_though_other_objects_fail() -> None:
    keys = ", ".join(f"'{key}'" for key in ("a", "b", *BAD))
    with object_store(a={"price": 1}, b={"price": 2}) as store:
        published = Published()
        with polling(prices(store, f"KEYS ({keys})"), published) as found:
            published.until(lambda: published.latest() == {"a": 1.0, "b": 2.0})
            store.objects["a"] = {"price": 7}
            published.until(lambda: published.latest() == {"a": 7.0, "b": 2.0})
            while found.progress().statistics.failing < len(BAD):
                threading.Event().wait(0.01)
        progress = found.progress()
    assert len(published.rows) == 3
    assert progress.published == 3
    assert (progress.statistics.held, progress.statistics.failing) == (2, len(BAD))
    assert set(progress.problems) == {
        "500 Internal Server Error",
        "the server sent more than 5 redirects",
        "the server answered 304 Not Modified, though the request was not conditional",
        "the object is not JSON: b'<html>'",
        "the answer is not a JSON object: b'[1]'",
        "the body has more than 1,048,576 bytes",
        "does not fit: price",
        "404 Not Found",
    }
    row = published.rows[0]
    assert row["changed_at"] == datetime(2026, 1, 1, tzinfo=UTC)
    assert row["seen_at"] > row["changed_at"]


def test_rows_wait_while_publishing_fails_and_are_published_once() -> None:
    with object_store(a={"price": 1}) as store:
        published = Published()
        published.away = True
        with polling(prices(store, "KEYS FROM URL '" + store.url + "'"), published) as found:
            assert found.keys == ["a"]
            while "publishing: nobody takes them" not in found.progress().problems:
                threading.Event().wait(0.01)
            with published.changed:
                published.away = False
            published.until(lambda: bool(published.rows))
    assert published.latest() == {"a": 1.0}
    assert published.batches == ["test-0"]


def test_last_problem_of_a_mirror_names_the_object_and_the_invalid_value() -> None:
    with object_store() as store, polling(prices(store, "KEYS ('text')"), Published()) as found:
        while found.progress().statistics.failing < 1 or not found.progress().last_problem:
            threading.Event().wait(0.01)
        last = found.progress().last_problem
    assert last is not None
    assert last.told == "text: does not fit: price (price must be float64, got 'much')"


@pytest.mark.parametrize("key", ["", ".", ".."])
def test_key_that_cannot_be_part_of_an_address_is_reported_and_not_requested(key: str) -> None:
    with object_store(a={"price": 1}) as store:
        objects = HttpObjects(prices(store), store.url + "{key}")
        with pytest.raises(ObjectProblem, match="cannot be part of an address"):
            objects.fetch(key)
        objects.close()
    assert store.asked.total() == 0


def test_published_batches_are_limited_in_bytes() -> None:
    text = "x" * 900_000
    with object_store(**{str(number): {"text": text} for number in range(12)}) as store:
        published = Published()
        published.away = True
        mirror = parse_create_mirror(
            f"CREATE MIRROR texts (item string, text string) FROM HTTP '{store.url}{{key}}' "
            f"KEYS FROM URL '{store.url}' BANDWIDTH 400 PER SECOND"
        )
        with polling(mirror, published) as found:
            while found.progress().statistics.held < 12:
                threading.Event().wait(0.01)
            with published.changed:
                published.away = False
            published.until(lambda: len(published.rows) == 12)
    assert published.largest <= 4 << 20


def test_failed_publishing_is_reported_and_retried() -> None:
    with object_store(a={"price": 1}) as store:
        published = Published()
        published.broken = True
        with polling(prices(store, "KEYS ('a')"), published) as found:
            while "publishing: RuntimeError: broken" not in found.progress().problems:
                threading.Event().wait(0.01)
            last = found.progress().last_problem
            assert last is not None
            assert last.told == "publishing: RuntimeError: broken"
            published.broken = False
            published.until(lambda: bool(published.rows))


def test_a_mirror_with_repeat_every_publishes_unchanged_objects_again() -> None:
    with object_store(a={"price": 1}) as store:
        published = Published()
        with polling(prices(store, "KEYS ('a')", "REPEAT EVERY 0.05 SECONDS"), published) as found:
            published.until(lambda: len(published.rows) >= 3)
        statistics = found.progress().statistics
    assert published.latest() == {"a": 1.0}
    assert statistics.changes == 1


def test_lookups_are_counted_by_object() -> None:
    with object_store(a={"price": 0}) as store, polling(prices(store), published := Published()) as found:
        for key in ("a", "b", "b", "nobody"):
            found.used(key)
        published.until(lambda: bool(published.rows))
        progress = found.progress()
        while progress.statistics.uses < 3:
            threading.Event().wait(0.01)
            progress = found.progress()
    assert (progress.statistics.uses, progress.unknown_uses) == (3, 1)


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ("PROFILE ('appel' 5)", "the pattern matches no key of the mirror"),
        ("PROFILE ('x*' 5)", "the pattern matches no key of the mirror"),
        ("PROFILE (" + ", ".join(f"'a{number}*' 1" for number in range(101)) + ")", "more than 100 patterns"),
    ],
)
def test_profile_without_matching_objects_is_refused(rest: str, message: str) -> None:
    with object_store() as store:
        mirror = prices(store, "KEYS ('apple', 'pear')", rest)
    with pytest.raises(InvalidInput, match=message):
        profile_of(mirror, mirror.keys)


def test_first_pattern_of_a_mirror_profile_that_matches_an_object_sets_its_interest() -> None:
    with object_store() as store:
        mirror = prices(store, "KEYS ('apple', 'apricot', 'pear')", "PROFILE ('apple' 5, 'ap*' 2)")
    assert profile_of(mirror, mirror.keys) == [5.0, 2.0, 1.0]


def test_first_pattern_that_matches_an_object_sets_its_least_freshness() -> None:
    with object_store() as store:
        keys = "KEYS ('apple', 'apricot', 'pear')"
        mirror = prices(store, keys, "MIN FRESHNESS ('apple' 0.9, 'ap*' 0.2)")
        assert floors_of(mirror, mirror.keys) == [0.9, 0.2, 0.0]
        mirror = prices(store, keys, "MIN FRESHNESS 0.5")
        assert floors_of(mirror, mirror.keys) == [0.5, 0.5, 0.5]
        mirror = prices(store, keys, "MIN FRESHNESS ('appel' 0.9)")
    with pytest.raises(InvalidInput, match="MIN FRESHNESS: the pattern matches no key of the mirror"):
        floors_of(mirror, mirror.keys)


def test_progress_shows_expected_freshness_next_to_the_least_freshness() -> None:
    with object_store(a={"price": 1}, b={"price": 2}) as store:
        published = Published()
        with polling(prices(store, rest="MIN FRESHNESS ('b' 0.5)"), published) as found:
            published.until(lambda: len(published.rows) == 2)
            progress = found.progress()
            while not (progress.floors and progress.floors[0].expected > 0.5):
                threading.Event().wait(0.01)
                progress = found.progress()
    assert [(floor.key, floor.least) for floor in progress.floors] == [("b", 0.5)]
    assert progress.as_json()["floors"][0].keys() == {"key", "least", "expected"}
    assert progress.statistics.floored == 1
    assert progress.problems == {}


@pytest.mark.parametrize(
    ("rest", "needed", "held", "warning"),
    [
        (
            "BANDWIDTH 5 PER SECOND",
            12.3,
            3,
            "needs more than BANDWIDTH 5 PER SECOND, so every object gets less",
        ),
        ("BANDWIDTH 5 PER SECOND", 12.3, 3, "least freshness; BANDWIDTH 20 PER SECOND suffices"),
        ("BANDWIDTH 500 BYTES PER SECOND", 5001.0, 3, "BANDWIDTH 10000 BYTES PER SECOND suffices"),
        ("BANDWIDTH 0.001 PER SECOND", 0.002, 3, "BANDWIDTH 0.002 PER SECOND suffices"),
        ("BANDWIDTH 5 PER SECOND", 12.3, 2, ""),
    ],
)
def test_bandwidth_below_the_least_freshnesses_is_warned_of_with_a_bandwidth_that_suffices(
    rest: str, needed: float, held: int, warning: str
) -> None:
    mirror = parse_create_mirror(f"CREATE MIRROR m (a string) FROM DATABASE 'sqlite:///x' TABLE 't' {rest}")
    statistics = replace(NOTHING, objects=3, held=held, needed=needed, floor_part=0.4)
    assert warning in shortage_told(mirror, statistics)
    assert bool(warning) == bool(shortage_told(mirror, statistics))
    assert shortage_told(mirror, replace(statistics, floor_part=1.0)) == ""


def test_mirror_whose_list_of_keys_cannot_be_fetched_is_reported_before_polling(tmp_path: Path) -> None:
    with object_store() as store:
        file = tmp_path / "prices.sql"
        for keys, message in (
            ("broken", "500 Internal Server Error"),
            ("text", "not a list of keys"),
            ("", "no objects"),
        ):
            sql = f"CREATE MIRROR prices (item string, price float64) FROM HTTP '{store.url}{{key}}' "
            file.write_text(
                sql + f"KEYS FROM URL '{store.url}{keys}' BANDWIDTH 5 PER SECOND", encoding="utf-8"
            )
            with pytest.raises(InvalidInput, match=message):
                CliRunner().invoke(app, ["mirror", str(file), "--check"], catch_exceptions=False)


def test_password_in_an_address_is_hidden_in_errors(tmp_path: Path) -> None:
    file = tmp_path / "prices.sql"
    with object_store() as store:
        url = store.url.replace("//", "//reader:hunter2@")
        file.write_text(
            f"CREATE MIRROR prices (item string, price float64) FROM HTTP '{url}{{key}}' "
            f"KEYS FROM URL '{url}broken' BANDWIDTH 5 PER SECOND",
            encoding="utf-8",
        )
        with pytest.raises(InvalidInput, match="500 Internal Server Error") as caught:
            CliRunner().invoke(app, ["mirror", str(file), "--check"], catch_exceptions=False)
    assert "hunter2" not in str(caught.value)
    assert "//reader:…@127.0.0.1" in str(caught.value)


def test_invalid_address_is_reported_before_polling(tmp_path: Path) -> None:
    file = tmp_path / "prices.sql"
    sql = "CREATE MIRROR m (item string) FROM HTTP 'http://:99999/{key}' KEYS ('a') BANDWIDTH 5 PER SECOND"
    file.write_text(sql, encoding="utf-8")
    with pytest.raises(InvalidInput, match="this is not a valid HTTP address"):
        CliRunner().invoke(app, ["mirror", str(file), "--check"], catch_exceptions=False)


def test_mirror_check_prints_the_objects_and_the_place_of_an_error(tmp_path: Path) -> None:
    file = tmp_path / "prices.sql"
    with object_store(a={}, b={}) as store:
        sql = f"SELECT 1;\nCREATE MIRROR prices (item string, price float64) FROM HTTP '{store.url}{{key}}' "
        file.write_text(sql + f"KEYS FROM URL '{store.url}' BANDWIDTH 5 PER SECOND", encoding="utf-8")
        result = CliRunner().invoke(app, ["mirror", str(file), "--check"], env={"COLUMNS": "120"})
        assert result.exit_code == 0, result.output
        assert "prices  item string, price float64        2  5 polls/s" in result.output
    file.write_text(sql, encoding="utf-8")
    with pytest.raises(InvalidInput, match=r"line 2, column .*the mirror has no BANDWIDTH clause"):
        CliRunner().invoke(app, ["mirror", str(file), "--check"], catch_exceptions=False)


# -- rows of a database -------------------------------------------------------------------------------------------


def stock(
    url: str, table: str = "stock", columns: str = "item string, count int64, price decimal(6, 2)"
) -> Mirror:
    return parse_create_mirror(
        f"CREATE MIRROR stock ({columns}) FROM DATABASE '{url}' TABLE '{table}' BANDWIDTH 100 PER SECOND"
    )


@pytest.fixture
def database(tmp_path: Path) -> Path:
    with sqlite3.connect(tmp_path / "stock.db") as connection:
        connection.execute(
            "CREATE TABLE stock (item TEXT PRIMARY KEY, count INTEGER, price NUMERIC(6, 2), more TEXT)"
        )
        connection.executemany(
            "INSERT INTO stock VALUES (?, ?, ?, ?)", [("a", 1, 1.5, "x"), ("b", 2, 2.25, "y")]
        )
    connection.close()
    return tmp_path / "stock.db"


def change(database: Path, sql: str) -> None:
    with sqlite3.connect(database) as connection:
        connection.execute(sql)
    connection.close()


def test_rows_of_a_table_are_polled_as_objects(database: Path) -> None:
    objects = objects_of(stock(f"sqlite:///{database}"), 1)
    assert isinstance(objects, DatabaseObjects)
    assert sorted(objects.keys()) == ["a", "b"]
    first = objects.fetch("b")
    assert first.row == {"item": "b", "count": 2, "price": "2.25"}
    objects.took("b", first)
    change(database, "UPDATE stock SET more = 'z'")
    assert objects.fetch("b").row is None
    change(database, "UPDATE stock SET count = 3")
    assert (objects.fetch("b").row or {})["count"] == 3
    change(database, "DELETE FROM stock WHERE item = 'b'")
    with pytest.raises(ObjectProblem, match="no row has this key"):
        objects.fetch("b")
    change(database, "DROP TABLE stock")
    with pytest.raises(ObjectProblem, match="no such table: stock"):
        objects.fetch("a")
    objects.close()


def test_changed_rows_of_a_table_are_published_to_the_stream_of_the_mirror(database: Path) -> None:
    published = Published()
    with polling(stock(f"sqlite:///{database}"), published):
        published.until(lambda: len(published.rows) == 2)
        change(database, "UPDATE stock SET price = 9 WHERE item = 'a'")
        published.until(lambda: len(published.rows) >= 3)
    assert {item: str(price) for item, price in published.latest().items()} == {"a": "9.00", "b": "2.25"}


@pytest.mark.parametrize(
    ("url", "table", "columns", "message"),
    [
        ("sqlite:///{}", "stok", "item string", "the database has no table of this name"),
        (
            "sqlite:///{}",
            "stock",
            "itm string",
            "table stock has no column of this name(.|\n)*did you mean item",
        ),
        ("sqlite:////nowhere/x.db", "stock", "item string", "the database does not answer: unable to open"),
        ("mysql://x/y", "stock", "item string", "this kind of database is not supported"),
        ("hello", "stock", "item string", "this is not a valid database address"),
    ],
)
def test_missing_database_table_or_column_is_reported(
    database: Path, url: str, table: str, columns: str, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        objects_of(stock(url.format(database), table, columns), 1)


def test_missing_database_file_is_reported_and_not_created(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="unable to open database file"):
        objects_of(stock(f"sqlite:///{tmp_path}/stok.db"), 1)
    assert list(tmp_path.iterdir()) == []


def test_replaced_database_file_is_read_again_and_reported_while_missing(database: Path) -> None:
    objects = objects_of(stock(f"sqlite:///{database}"), 1)
    objects.took("a", objects.fetch("a"))
    database.rename(database.with_suffix(".old"))
    with pytest.raises(ObjectProblem, match="unable to open database file"):
        objects.fetch("a")
    shutil.copy(database.with_suffix(".old"), database)
    assert objects.fetch("a").row is None
    change(database, "UPDATE stock SET count = 3")
    assert (objects.fetch("a").row or {})["count"] == 3
    objects.close()


def test_duplicate_keys_and_invalid_values_are_reported(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "stock.db") as connection:
        connection.execute("CREATE TABLE stock (item TEXT, price NUMERIC(6, 2))")
        connection.executemany(
            "INSERT INTO stock VALUES (?, ?)", [("a", 1), ("a", 2), ("b", "cheap"), ("c", 3)]
        )
    connection.close()
    objects = objects_of(stock(f"sqlite:///{tmp_path}/stock.db", columns="item string, price float64"), 1)
    for key, message in (
        ("a", "several rows have this key"),
        ("b", "a value does not have the type of its column"),
    ):
        with pytest.raises(ObjectProblem, match=message):
            objects.fetch(key)
    assert (objects.fetch("c").row or {})["price"] == 3
    objects.close()


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ("item string, price float64", {"item": "a", "price": 1.5}),
        ("item string, price string, count float64", {"item": "a", "price": "1.50", "count": 1}),
    ],
)
def test_numbers_of_a_table_are_converted_to_the_declared_columns(
    database: Path, columns: str, expected: dict[str, Any]
) -> None:
    published = Published()
    with polling(stock(f"sqlite:///{database}", columns=columns), published):
        published.until(lambda: len(published.rows) == 2)
    row = next(row for row in published.rows if row["item"] == "a")
    assert {name: row[name] for name in expected} == expected


def test_row_that_is_too_large_is_reported(database: Path) -> None:
    change(database, "UPDATE stock SET more = replace(hex(zeroblob(1048576)), '00', 'x')")
    objects = objects_of(stock(f"sqlite:///{database}", columns="item string, more string"), 1)
    with pytest.raises(ObjectProblem, match="the row has more than 1,048,576 bytes"):
        objects.fetch("a")
    objects.close()


@pytest.mark.slow
def test_silent_database_times_out_and_is_read_when_it_is_back() -> None:
    with postgresql() as url:
        engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
        with engine.begin() as connection:
            connection.execute(sa.text("CREATE TABLE stock (item text PRIMARY KEY, price numeric(6, 2))"))
            connection.execute(sa.text("INSERT INTO stock VALUES ('a', 1.5)"))
        mirror = stock(url, columns="item string, price float64")
        assert isinstance(mirror.origin, DatabaseOrigin)
        objects = DatabaseObjects(mirror, mirror.origin, 1, look_s=0.5)
        others = "FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
        with engine.begin() as connection:
            connection.execute(sa.text("LOCK TABLE stock"))
            with pytest.raises(ObjectProblem, match=r"statement timeout|not complete after 0.5 s"):
                objects.fetch("a")
        assert (objects.fetch("a").row or {})["price"] == 1.5
        with engine.begin() as connection:
            stopped = connection.scalars(sa.text(f"SELECT pid {others}")).all()
            for process in stopped:
                os.kill(process, signal.SIGSTOP)
            with pytest.raises(ObjectProblem, match=r"not complete after 0.5 s"):
                objects.fetch("a")
            for process in stopped:
                os.kill(process, signal.SIGCONT)
        assert objects.fetch("a").row is not None
        with engine.begin() as connection:
            connection.execute(sa.text(f"SELECT pg_terminate_backend(pid) {others}"))
        assert objects.fetch("a").row is not None
        objects.close()
        engine.dispose()


@pytest.mark.slow
def test_rows_of_postgresql_are_polled_as_objects() -> None:
    with postgresql() as url:
        engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
        with engine.begin() as connection:
            connection.execute(
                sa.text("CREATE TABLE stock (item text PRIMARY KEY, count bigint, price numeric(6, 2))")
            )
            connection.execute(sa.text("INSERT INTO stock VALUES ('a', 1, 1.5)"))
            connection.execute(sa.text("CREATE SCHEMA shop CREATE TABLE stock (item text, count bigint)"))
            connection.execute(sa.text("INSERT INTO shop.stock VALUES ('z', 9)"))
        elsewhere = objects_of(stock(url, "shop.stock", "item string, count int64"), 1)
        assert (elsewhere.keys(), elsewhere.fetch("z").row) == (["z"], {"item": "z", "count": 9})
        elsewhere.close()
        published = Published()
        with polling(stock(url), published):
            published.until(lambda: len(published.rows) == 1)
            with engine.begin() as connection:
                connection.execute(sa.text("UPDATE stock SET price = 9"))
            published.until(lambda: len(published.rows) == 2)
        engine.dispose()
    assert str(published.latest()["a"]) == "9.00"
