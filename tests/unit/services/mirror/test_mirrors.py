"""Mirrors of objects over HTTP and of rows of a database: what changes comes out as a stream, what goes wrong is told."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
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
from services.mirror.mirror_definition import profile_of
from services.mirror.objects import DatabaseObjects, HttpObjects, ObjectProblem, Objects, objects_of
from services.mirror.poll_loop import Polling
from tests.support.object_server import Store, object_store
from tests.support.postgresql import postgresql

HUNG_S = 20.0  # whoever takes longer never ends
BAD = ("broken", "loop", "never", "garbage", "list", "large", "text", "missing")


def prices(store: Store, keys: str = "KEYS ('a', 'b')", rest: str = "") -> Mirror:
    return parse_create_mirror(
        f"CREATE MIRROR prices (item string, price float64) FROM HTTP '{store.url}{{key}}' {keys} "
        f"BANDWIDTH 400 PER SECOND {rest}"
    )


class Published:
    """Rows that have come, and a way to wait for what they are to be."""

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


def test_an_object_is_fetched_once_and_then_only_asked_whether_it_differs() -> None:
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
        assert objects.fetch("a").row == {"item": "a", "price": 2}  # not taken yet
        objects.close()
    assert store.answered == {200: 3, 304: 1}


def test_without_etags_the_body_says_whether_it_differs() -> None:
    with object_store(a={"price": 1}) as store:
        store.etags = False
        objects = HttpObjects(prices(store), store.url + "{key}")
        first = objects.fetch("a")
        assert first.changed_at is None
        objects.took("a", first)
        assert objects.fetch("a").row is None
        objects.close()


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("broken", "500 Internal Server Error"),
        ("loop", "more than 5 redirects"),
        ("never", "304 Not Modified, though nothing was asked"),
        ("garbage", "not JSON: b'<html>'"),
        ("list", "not an object"),
        ("large", "the body has more than 1,048,576 bytes"),
        ("missing", "404 Not Found"),
        ("error", "500 Internal Server Error"),
        ("flood", "the body has more than 1,048,576 bytes"),
        ("bomb", "the body has more than 1,048,576 bytes"),
    ],
)
def test_what_goes_wrong_is_told(key: str, told: str) -> None:
    with object_store(a={"price": 1}) as store:
        objects = HttpObjects(prices(store), store.url + "{key}")
        with pytest.raises(ObjectProblem, match=told):
            objects.fetch(key)
        assert objects.fetch("moved").row == {"item": "moved", "price": 1}
        objects.close()


@pytest.mark.parametrize("key", ["drip", "slow"])
def test_a_look_ends_though_a_byte_comes_now_and_then(key: str) -> None:
    with object_store(a={"price": 1}) as store:
        objects = HttpObjects(prices(store), store.url + "{key}", look_s=0.3)
        assert objects.fetch("a").row == {"item": "a", "price": 1}
        with pytest.raises(ObjectProblem, match=r"the answer was not there after 0.3 s"):
            objects.fetch(key)
        assert objects.fetch("a").row == {"item": "a", "price": 1}
        objects.close()


def test_who_is_still_looking_is_cut_off_at_the_end() -> None:
    with object_store(a={"price": 1}) as store, ThreadPoolExecutor(2) as pool:
        objects = HttpObjects(prices(store), store.url + "{key}")
        looks = [pool.submit(objects.fetch, key) for key in ("drip", "slow")]
        while store.asked.total() < 2:
            threading.Event().wait(0.01)
        objects.close()
        assert [isinstance(one.exception(HUNG_S), ObjectProblem) for one in looks] == [True, True]


def test_what_a_packed_answer_costs_is_what_came_over_the_wire() -> None:
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


def test_a_change_in_the_second_of_the_last_one_is_seen() -> None:
    """Of what was modified just now, a server that only knows seconds cannot say that it has not been since."""
    with object_store(a={"price": 1}) as store:
        store.etags, store.modified = False, datetime.now(UTC).replace(microsecond=0)
        objects = HttpObjects(prices(store), store.url + "{key}")
        objects.took("a", objects.fetch("a"))
        store.objects["a"] = {"price": 2}
        assert objects.fetch("a").row == {"item": "a", "price": 2}
        objects.close()


def test_what_was_modified_long_ago_is_asked_for_only_if_it_has_been_since() -> None:
    with object_store(a={"price": 1}) as store:
        store.etags, store.modified = False, datetime(2026, 1, 1, tzinfo=UTC)
        objects = HttpObjects(prices(store), store.url + "{key}")
        objects.took("a", objects.fetch("a"))
        assert objects.fetch("a").row is None
        objects.close()
    assert store.answered == {200: 1, 304: 1}


def test_an_object_that_is_the_same_under_a_new_etag_is_known_by_that_one() -> None:
    with object_store(a={"price": 1}) as store:
        objects = HttpObjects(prices(store), store.url + "{key}")
        objects.took("a", objects.fetch("a"))
        store.salt = "made anew"
        assert [objects.fetch("a").row for _ in range(3)] == [None] * 3
        objects.close()
    assert store.answered == {200: 2, 304: 2}


def test_a_password_is_shown_again_where_its_host_redirects_to_and_to_no_other() -> None:
    with object_store(a={"price": 1}) as store, object_store(a={"price": 2}) as other:
        store.credentials, store.elsewhere = "reader:hunter2", other.url + "a"
        url = store.url.replace("//", "//reader@")
        objects = HttpObjects(prices(store), url + "{key}", "hunter2")
        assert (objects.fetch("moved").row or {})["price"] == 1
        assert (objects.fetch("elsewhere").row or {})["price"] == 2
        objects.close()
    assert (len(store.shown), other.shown) == (1, {"": 1})


def test_an_etag_that_nobody_would_make_is_not_kept() -> None:
    with object_store(a={"price": 1}) as store:
        store.salt = "x" * 5000
        objects = HttpObjects(prices(store), store.url + "{key}")
        found = objects.fetch("a")
        assert found.mark[0] == ""
        objects.took("a", found)
        assert objects.fetch("a").row is None
        objects.close()


def test_nobody_there_is_told_as_well() -> None:
    with object_store() as store:
        mirror = prices(store)
    objects = objects_of(mirror, 1)
    with pytest.raises(ObjectProblem, match="ConnectError"):
        objects.fetch("a")
    objects.close()


def test_changes_are_published_and_the_others_go_on_whatever_goes_wrong() -> None:
    keys = ", ".join(f"'{one}'" for one in ("a", "b", *BAD))
    with object_store(a={"price": 1}, b={"price": 2}) as store:
        published = Published()
        with polling(prices(store, f"KEYS ({keys})"), published) as found:
            published.until(lambda: published.latest() == {"a": 1.0, "b": 2.0})
            store.objects["a"] = {"price": 7}
            published.until(lambda: published.latest() == {"a": 7.0, "b": 2.0})
            while found.progress().statistics.failing < len(BAD):
                threading.Event().wait(0.01)
        told = found.progress()
    assert len(published.rows) == 3
    assert told.published == 3
    assert (told.statistics.held, told.statistics.failing) == (2, len(BAD))
    assert set(told.problems) == {
        "500 Internal Server Error",
        "more than 5 redirects",
        "304 Not Modified, though nothing was asked to be compared",
        "not JSON: b'<html>'",
        "not an object: b'[1]'",
        "the body has more than 1,048,576 bytes",
        "does not fit: price",
        "404 Not Found",
    }
    row = published.rows[0]
    assert row["changed_at"] == datetime(2026, 1, 1, tzinfo=UTC)
    assert row["seen_at"] > row["changed_at"]


def test_what_nobody_takes_waits_and_is_published_once() -> None:
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


def test_the_last_problem_names_the_object_and_what_came() -> None:
    with object_store() as store, polling(prices(store, "KEYS ('text')"), Published()) as found:
        while found.progress().statistics.failing < 1 or not found.progress().last_problem:
            threading.Event().wait(0.01)
        last = found.progress().last_problem
    assert last is not None
    assert last.told == "text: does not fit: price (price is to be float64, got 'much')"


@pytest.mark.parametrize("key", ["", ".", ".."])
def test_a_key_that_means_another_place_is_not_asked_for(key: str) -> None:
    with object_store(a={"price": 1}) as store:
        objects = HttpObjects(prices(store), store.url + "{key}")
        with pytest.raises(ObjectProblem, match="makes no address of its own"):
            objects.fetch(key)
        objects.close()
    assert store.asked.total() == 0


def test_what_is_published_at_once_is_no_more_than_a_service_takes() -> None:
    text = "x" * 900_000
    with object_store(**{str(one): {"text": text} for one in range(12)}) as store:
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


def test_what_cannot_be_published_is_told_and_tried_again() -> None:
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


def test_what_has_not_changed_is_brought_again_after_so_long_and_is_no_change() -> None:
    with object_store(a={"price": 1}) as store:
        published = Published()
        with polling(prices(store, "KEYS ('a')", "REPEAT EVERY 0.05 SECONDS"), published) as found:
            published.until(lambda: len(published.rows) >= 3)
        told = found.progress().statistics
    assert published.latest() == {"a": 1.0}
    assert told.changes == 1


def test_lookups_are_counted_by_object() -> None:
    with object_store(a={"price": 0}) as store, polling(prices(store), published := Published()) as found:
        for key in ("a", "b", "b", "nobody"):
            found.used(key)
        published.until(lambda: bool(published.rows))
        told = found.progress()
        while told.statistics.uses < 3:
            threading.Event().wait(0.01)
            told = found.progress()
    assert (told.statistics.uses, told.unknown_uses) == (3, 1)


@pytest.mark.parametrize(
    ("rest", "told"),
    [
        ("PROFILE ('appel' 5)", "the profile names no object"),
        ("PROFILE ('x*' 5)", "the profile names no object"),
        ("PROFILE (" + ", ".join(f"'a{one}*' 1" for one in range(101)) + ")", "100 patterns at most"),
    ],
)
def test_a_profile_that_names_no_object_is_refused(rest: str, told: str) -> None:
    with object_store() as store:
        mirror = prices(store, "KEYS ('apple', 'pear')", rest)
    with pytest.raises(InvalidInput, match=told):
        profile_of(mirror, mirror.keys)


def test_the_first_pattern_that_a_key_meets_weighs_it() -> None:
    with object_store() as store:
        mirror = prices(store, "KEYS ('apple', 'apricot', 'pear')", "PROFILE ('apple' 5, 'ap*' 2)")
    assert profile_of(mirror, mirror.keys) == [5.0, 2.0, 1.0]


def test_keys_that_cannot_be_had_are_refused_before_anything_is_polled(tmp_path: Path) -> None:
    with object_store() as store:
        file = tmp_path / "prices.sql"
        for keys, told in (
            ("broken", "500 Internal Server Error"),
            ("text", "not a list of keys"),
            ("", "no objects"),
        ):
            sql = f"CREATE MIRROR prices (item string, price float64) FROM HTTP '{store.url}{{key}}' "
            file.write_text(
                sql + f"KEYS FROM URL '{store.url}{keys}' BANDWIDTH 5 PER SECOND", encoding="utf-8"
            )
            with pytest.raises(InvalidInput, match=told):
                CliRunner().invoke(app, ["mirror", str(file), "--check"], catch_exceptions=False)


def test_a_password_in_an_address_of_a_file_is_in_nothing_that_is_told(tmp_path: Path) -> None:
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


def test_an_address_that_is_none_is_told_before_anything_is_polled(tmp_path: Path) -> None:
    file = tmp_path / "prices.sql"
    sql = "CREATE MIRROR m (item string) FROM HTTP 'http://:99999/{key}' KEYS ('a') BANDWIDTH 5 PER SECOND"
    file.write_text(sql, encoding="utf-8")
    with pytest.raises(InvalidInput, match="not an address of HTTP"):
        CliRunner().invoke(app, ["mirror", str(file), "--check"], catch_exceptions=False)


def test_check_tells_what_would_be_polled_and_an_error_where_it_is(tmp_path: Path) -> None:
    file = tmp_path / "prices.sql"
    with object_store(a={}, b={}) as store:
        sql = f"SELECT 1;\nCREATE MIRROR prices (item string, price float64) FROM HTTP '{store.url}{{key}}' "
        file.write_text(sql + f"KEYS FROM URL '{store.url}' BANDWIDTH 5 PER SECOND", encoding="utf-8")
        result = CliRunner().invoke(app, ["mirror", str(file), "--check"], env={"COLUMNS": "120"})
        assert result.exit_code == 0, result.output
        assert "prices  item string, price float64        2  5 polls/s" in result.output
    file.write_text(sql, encoding="utf-8")
    with pytest.raises(InvalidInput, match=r"line 2, column .*BANDWIDTH is missing"):
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
    with sqlite3.connect(tmp_path / "stock.db") as made:
        made.execute(
            "CREATE TABLE stock (item TEXT PRIMARY KEY, count INTEGER, price NUMERIC(6, 2), more TEXT)"
        )
        made.executemany("INSERT INTO stock VALUES (?, ?, ?, ?)", [("a", 1, 1.5, "x"), ("b", 2, 2.25, "y")])
    made.close()
    return tmp_path / "stock.db"


def change(database: Path, sql: str) -> None:
    with sqlite3.connect(database) as connection:
        connection.execute(sql)
    connection.close()


def test_rows_of_a_table_are_objects(database: Path) -> None:
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
    with pytest.raises(ObjectProblem, match="there is no such row"):
        objects.fetch("b")
    change(database, "DROP TABLE stock")
    with pytest.raises(ObjectProblem, match="no such table: stock"):
        objects.fetch("a")
    objects.close()


def test_changed_rows_are_published(database: Path) -> None:
    published = Published()
    with polling(stock(f"sqlite:///{database}"), published):
        published.until(lambda: len(published.rows) == 2)
        change(database, "UPDATE stock SET price = 9 WHERE item = 'a'")
        published.until(lambda: len(published.rows) >= 3)
    assert {item: str(price) for item, price in published.latest().items()} == {"a": "9.00", "b": "2.25"}


@pytest.mark.parametrize(
    ("url", "table", "columns", "told"),
    [
        ("sqlite:///{}", "stok", "item string", "there is no such table"),
        ("sqlite:///{}", "stock", "itm string", "table stock has no such column(.|\n)*did you mean item"),
        ("sqlite:////nowhere/x.db", "stock", "item string", "the database does not answer: unable to open"),
        ("mysql://x/y", "stock", "item string", "not a database that is read"),
        ("hello", "stock", "item string", "not the address of a database"),
    ],
)
def test_a_table_that_is_not_there_is_told(
    database: Path, url: str, table: str, columns: str, told: str
) -> None:
    with pytest.raises(InvalidInput, match=told):
        objects_of(stock(url.format(database), table, columns), 1)


def test_a_file_that_is_not_there_is_told_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="unable to open database file"):
        objects_of(stock(f"sqlite:///{tmp_path}/stok.db"), 1)
    assert list(tmp_path.iterdir()) == []


def test_a_table_that_is_replaced_is_read_anew_and_told_while_it_is_away(database: Path) -> None:
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


def test_rows_that_cannot_be_told_apart_and_values_that_are_none_are_told(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "stock.db") as made:
        made.execute("CREATE TABLE stock (item TEXT, price NUMERIC(6, 2))")
        made.executemany("INSERT INTO stock VALUES (?, ?)", [("a", 1), ("a", 2), ("b", "cheap"), ("c", 3)])
    made.close()
    objects = objects_of(stock(f"sqlite:///{tmp_path}/stock.db", columns="item string, price float64"), 1)
    for key, told in (
        ("a", "several rows have this key"),
        ("b", "a value is not what the table's column says"),
    ):
        with pytest.raises(ObjectProblem, match=told):
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
def test_numbers_of_a_table_fit_the_columns_that_can_hold_them(
    database: Path, columns: str, expected: dict[str, Any]
) -> None:
    published = Published()
    with polling(stock(f"sqlite:///{database}", columns=columns), published):
        published.until(lambda: len(published.rows) == 2)
    row = next(row for row in published.rows if row["item"] == "a")
    assert {name: row[name] for name in expected} == expected


def test_a_row_that_is_too_large_is_told_and_not_held(database: Path) -> None:
    change(database, "UPDATE stock SET more = replace(hex(zeroblob(1048576)), '00', 'x')")
    objects = objects_of(stock(f"sqlite:///{database}", columns="item string, more string"), 1)
    with pytest.raises(ObjectProblem, match="the row has more than 1,048,576 bytes"):
        objects.fetch("a")
    objects.close()


@pytest.mark.slow
def test_a_database_that_is_silent_is_told_and_one_that_comes_back_is_read() -> None:
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
            with pytest.raises(ObjectProblem, match=r"statement timeout|not there after 0.5 s"):
                objects.fetch("a")
        assert (objects.fetch("a").row or {})["price"] == 1.5
        with engine.begin() as connection:
            stopped = connection.scalars(sa.text(f"SELECT pid {others}")).all()
            for one in stopped:
                os.kill(one, signal.SIGSTOP)
            with pytest.raises(ObjectProblem, match=r"not there after 0.5 s"):
                objects.fetch("a")
            for one in stopped:
                os.kill(one, signal.SIGCONT)
        assert objects.fetch("a").row is not None
        with engine.begin() as connection:
            connection.execute(sa.text(f"SELECT pg_terminate_backend(pid) {others}"))
        assert objects.fetch("a").row is not None
        objects.close()
        engine.dispose()


@pytest.mark.slow
def test_rows_of_postgresql_are_objects() -> None:
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
