"""CREATE MIRROR: what it declares, and what it refuses and where."""

from __future__ import annotations

import pytest

from engine.data.schema import FLOAT64, INT64, STRING, Field, Schema
from engine.sql import Mirror, PlanningError, parse_create_mirror, parse_create_stream, split_statements
from engine.sql.create_mirror import DatabaseOrigin, HttpOrigin

PRICES = """CREATE MIRROR prices (item string, price float64)
  FROM HTTP 'http://127.0.0.1/items/{key}' KEYS ('a', 'b')
  BANDWIDTH 50 PER SECOND PROFILE ('a' 5, 'b*' 0.5) LOOKUPS FROM acme/looked"""
COLUMNS = Schema((Field("item", STRING), Field("price", FLOAT64)))


def test_a_mirror_over_http_is_read() -> None:
    assert parse_create_mirror(PRICES) == Mirror(
        "prices",
        COLUMNS,
        HttpOrigin("http://127.0.0.1/items/{key}"),
        ("a", "b"),
        None,
        50.0,
        False,
        (("a", 5.0), ("b*", 0.5)),
        "acme/looked",
    )


def test_a_mirror_of_rows_is_read_with_its_clauses_in_any_order() -> None:
    sql = "create mirror m (id int64) repeat every 9 seconds bandwidth 1e5 bytes per second from database 'sqlite:///x.db' table 'rows'"
    expected = Mirror(
        "m", Schema((Field("id", INT64),)), DatabaseOrigin("sqlite:///x.db", "rows"), (), None, 1e5, True, (), None, 9.0
    )  # fmt: skip
    assert parse_create_mirror(sql) == expected


def test_its_stream_has_the_columns_and_when_it_was_seen() -> None:
    mirror = parse_create_mirror(PRICES)
    assert mirror.stream == parse_create_stream(mirror.stream_sql)
    assert mirror.stream.schema.names == ("item", "price", "changed_at", "seen_at")
    assert mirror.stream.time == 3


def test_a_file_may_have_mirrors_among_its_statements() -> None:
    found = split_statements(PRICES + "; CREATE QUERY dear AS SELECT item FROM prices WHERE price > 3")
    assert [(one.kind, one.name) for one in found] == [("mirror", "prices"), ("query", "dear")]


HTTP = "FROM HTTP 'http://h/{key}' "


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("CREATE MIRROR m", "the columns are missing"),
        ("CREATE MIRROR m (k string) KEYS ('a') BANDWIDTH 1 PER SECOND", "FROM is missing"),
        (f"CREATE MIRROR m (k string) {HTTP}KEYS ('a')", "BANDWIDTH is missing"),
        (f"CREATE MIRROR m (k string) {HTTP}BANDWIDTH 1 PER SECOND", "KEYS is missing"),
        (f"CREATE MIRROR m (k string) {HTTP}KEYS ('a') BANDWIDTH 0 PER SECOND", "must be above 0"),
        (f"CREATE MIRROR m (k string) {HTTP}KEYS ('a') BANDWIDTH 1e-9 PER SECOND", "nothing would be polled"),
        (f"CREATE MIRROR m (k string) {HTTP}KEYS ('a') BANDWIDTH 5", "PER SECOND is missing"),
        (f"CREATE MIRROR m (k string) {HTTP}KEYS ('a', 'a') BANDWIDTH 5 PER SECOND", "a key is said twice"),
        (f"CREATE MIRROR m (k string) {HTTP}{HTTP}", "FROM is said twice"),
        (f"CREATE MIRROR m (k float64) {HTTP}KEYS ('a') BANDWIDTH 5 PER SECOND", "the first column is the key"),
        (f"CREATE MIRROR m (k string, seen_at timestamp) {HTTP}", "every mirror has a column of this name"),
        ("CREATE MIRROR m (k string) FROM HTTP 'http://h/' KEYS ('a') BANDWIDTH 5 PER SECOND", "one address"),
        ("CREATE MIRROR m (k string) FROM HTTP 'ftp://{key}' KEYS ('a') BANDWIDTH 5 PER SECOND", "not an address"),
        ("CREATE MIRROR m (k string) FROM HTTP h", "missing here, in quotes"),
        ("CREATE MIRROR m (k string) FROM DATABASE 'x'", "TABLE is missing"),
        (f"CREATE MIRROR m (k string) {HTTP}SOMETIMES", "not expected here"),
        (f"CREATE MIRROR m (k string) {HTTP}PROFILE ('a')", "a number is missing"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_place(sql: str, told: str) -> None:
    with pytest.raises(PlanningError, match=told) as caught:
        parse_create_mirror(sql)
    assert "line 1, column " in str(caught.value)
