"""CREATE MIRROR: the mirror that a statement declares, and the errors with their places."""

from __future__ import annotations

import pytest

from engine.data.schema import FLOAT64, INT64, STRING, Field, Schema
from engine.sql import Mirror, PlanningError, parse_create_mirror, parse_create_stream, split_statements
from engine.sql.create_mirror import DatabaseOrigin, HttpOrigin

PRICES = """CREATE MIRROR prices (item string, price float64)
  FROM HTTP 'http://127.0.0.1/items/{key}' KEYS ('a', 'b')
  BANDWIDTH 50 PER SECOND PROFILE ('a' 5, 'b*' 0.5) LOOKUPS FROM acme/looked"""
COLUMNS = Schema((Field("item", STRING), Field("price", FLOAT64)))


def test_a_mirror_over_http_is_parsed() -> None:
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


def test_a_mirror_of_a_database_is_parsed_with_its_clauses_in_any_order() -> None:
    sql = "create mirror m (id int64) repeat every 9 seconds bandwidth 1e5 bytes per second from database 'sqlite:///x.db' table 'rows'"
    expected = Mirror(
        "m", Schema((Field("id", INT64),)), DatabaseOrigin("sqlite:///x.db", "rows"), (), None, 1e5, True, (), None, 9.0
    )  # fmt: skip
    assert parse_create_mirror(sql) == expected


def test_the_least_freshness_is_one_number_or_a_number_per_pattern() -> None:
    assert parse_create_mirror(PRICES).floors == ()
    assert parse_create_mirror(f"{PRICES} MIN FRESHNESS 0.5").floors == (("*", 0.5),)
    floors = parse_create_mirror(f"{PRICES} min freshness ('a' 0.9, '*' 0.25)").floors
    assert floors == (("a", 0.9), ("*", 0.25))


def test_the_stream_of_a_mirror_adds_changed_at_and_seen_at() -> None:
    mirror = parse_create_mirror(PRICES)
    assert mirror.stream == parse_create_stream(mirror.stream_sql)
    assert mirror.stream.schema.names == ("item", "price", "changed_at", "seen_at")
    assert mirror.stream.time == 3


def test_a_file_may_have_mirrors_among_its_statements() -> None:
    found = split_statements(PRICES + "; CREATE QUERY dear AS SELECT item FROM prices WHERE price > 3")
    assert [(one.kind, one.name) for one in found] == [("mirror", "prices"), ("query", "dear")]


HTTP = "FROM HTTP 'http://h/{key}' "


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("CREATE MIRROR m", "the columns are missing"),
        ("CREATE MIRROR m (k string) KEYS ('a') BANDWIDTH 1 PER SECOND", "the mirror has no FROM clause"),
        (f"CREATE MIRROR m (k string) {HTTP}KEYS ('a')", "the mirror has no BANDWIDTH clause"),
        (f"CREATE MIRROR m (k string) {HTTP}BANDWIDTH 1 PER SECOND", "the mirror has no KEYS clause"),
        (f"CREATE MIRROR m (k string) {HTTP}KEYS ('a') BANDWIDTH 0 PER SECOND", "must be above 0"),
        (f"CREATE MIRROR m (k string) {HTTP}KEYS ('a') BANDWIDTH 1e-9 PER SECOND", "BANDWIDTH must be at least 1e-05"),
        (f"CREATE MIRROR m (k string) {HTTP}KEYS ('a') BANDWIDTH 5", "PER SECOND is missing"),
        (f"CREATE MIRROR m (k string) {HTTP}KEYS ('a', 'a') BANDWIDTH 5 PER SECOND", "KEYS lists a key twice"),
        (f"CREATE MIRROR m (k string) {HTTP}{HTTP}", "FROM is given twice"),
        (f"CREATE MIRROR m (k float64) {HTTP}KEYS ('a') BANDWIDTH 5 PER SECOND", "the first column is the key and must be"),
        (f"CREATE MIRROR m (k string, seen_at timestamp) {HTTP}", "already has a column of this name"),
        ("CREATE MIRROR m (k string) FROM HTTP 'http://h/' KEYS ('a') BANDWIDTH 5 PER SECOND", "the same address"),
        ("CREATE MIRROR m (k string) FROM HTTP 'ftp://{key}' KEYS ('a') BANDWIDTH 5 PER SECOND", "does not begin with http"),
        ("CREATE MIRROR m (k string) FROM HTTP h", "missing here; write it in quotes"),
        ("CREATE MIRROR m (k string) FROM DATABASE 'x'", "TABLE is missing"),
        (f"CREATE MIRROR m (k string) {HTTP}SOMETIMES", "not a clause of CREATE MIRROR"),
        (f"CREATE MIRROR m (k string) {HTTP}PROFILE ('a')", "a number is missing"),
        (f"CREATE MIRROR m (k string) {HTTP}MIN FRESHNESS", "a number is missing"),
        (f"CREATE MIRROR m (k string) {HTTP}MIN FRESHNESS 0", "this number must be above 0 and at most 0.99"),
        (f"CREATE MIRROR m (k string) {HTTP}MIN FRESHNESS ('a' 0.5, 'b' 1)", "this number must be above 0 and at most 0.99"),
        (f"CREATE MIRROR m (k string) {HTTP}MIN FRESHNESS 0.5 MIN FRESHNESS 0.6", "MIN FRESHNESS is given twice"),
    ],
)  # fmt: skip
def test_an_invalid_mirror_is_refused_with_the_place(sql: str, message: str) -> None:
    with pytest.raises(PlanningError, match=message) as caught:
        parse_create_mirror(sql)
    assert "line 1, column " in str(caught.value)
