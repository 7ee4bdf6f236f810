"""The SQL front end on any text: it returns a plan or raises PlanningError, is deterministic, and keeps the
meaning of conditions.

1. Random text, and texts a few edits away from valid ones, raise nothing but PlanningError.
2. Planning is deterministic: the same plan, or the same error at the same place, which lies within the text.
3. A condition in its normal form selects the rows that DuckDB selects by the condition as written.
4. Reordered operands and other aliases leave the plan unchanged.
"""

from __future__ import annotations

import random

import duckdb
import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.data.schema import INT32, STRING, Field, Schema, TableSchema
from engine.data.train import train_from_arrow
from engine.expressions.compiler import RowFailures, compile_condition
from engine.plan.plan import Filter, Plan, Project, Scan
from engine.sql import PlanningError, SqlCatalog, parse_create_stream, plan_query, split_statements

READINGS = (
    "CREATE STREAM readings (ts int64, sensor int32, region int32, temp float64, wind float64, "
    "WATERMARK FOR ts AS ts - INTERVAL '1 second')"
)
TRADES = (
    "CREATE STREAM trades (at timestamp, symbol string, price decimal(10, 2), qty int64, ok boolean, "
    "WATERMARK FOR at AS at)"
)
VALUES = parse_create_stream(
    "CREATE STREAM input (n int32, a int64, b int64, x float64, s string, ok boolean)"
)
SENSORS = TableSchema("sensors", Schema((Field("sensor", INT32), Field("name", STRING))))
CATALOG = SqlCatalog.of([*(parse_create_stream(one) for one in (READINGS, TRADES)), VALUES], [SENSORS])

VALID = (
    READINGS,
    "SELECT * FROM readings WHERE temp > 30 AND NOT (wind IN (1, 2, 3) OR region BETWEEN 2 AND 4)",
    "SELECT ts, temp * 1.8 + 32 AS f, CASE WHEN temp > 30 THEN 'hot' ELSE 'cold' END FROM readings AS r",
    "SELECT region, avg(temp), count(DISTINCT sensor) AS n FROM readings [RANGE 10 SECONDS SLIDE 2 SECONDS] "
    "GROUP BY region HAVING max(wind) > 3",
    "SELECT floor(temp / 10) AS bucket, SCALED(COUNT(*)) FROM HOP(readings, ts, INTERVAL '2 seconds', "
    "INTERVAL '10 seconds') GROUP BY bucket",
    "SELECT r.ts, q.temp FROM readings r JOIN readings q ON r.sensor = q.sensor AND ABS(r.ts - q.ts) <= 500",
    "SELECT a.price FROM trades a, trades b WHERE a.symbol = b.symbol AND b.at BETWEEN a.at AND a.at + "
    "INTERVAL '1 minute'",
    "SELECT DISTINCT symbol FROM trades [ROWS 100 SLIDE 10]",
    "SELECT window_end, sum(q.n) FROM (SELECT window_end, count(*) AS n FROM trades [RANGE 1 SECOND]) AS q "
    "[RANGE 1 MINUTE SLIDE 10 SECONDS] WHERE q.window_end IS NOT NULL GROUP BY window_end",
    "SELECT upper(symbol) AS s, first(price * 2) FROM trades [ROWS 9] WHERE qty > 1 GROUP BY s HAVING count(*) > 1",
    "SELECT name, top(temp, 3), percentile(wind, 0.9) FROM readings [RANGE 1 MINUTE] JOIN sensors USING (sensor) "
    "GROUP BY name",
    "WITH hot AS (SELECT ts, sensor FROM readings WHERE temp > 30) SELECT count(*) FROM hot [RANGE 5 SECONDS]",
    "SELECT at, CAST(price AS float64) FROM trades UNION ALL SELECT at, TRY_CAST(symbol AS real) FROM trades",
    "SELECT date_trunc('hour', at), symbol || '-' || qty, coalesce(price, 0), qty::string FROM trades "
    "WHERE symbol LIKE 'A%' AND at >= TIMESTAMP '2026-01-01' AND ok IS NOT NULL",
)
SIGNS = "( ) [ ] , . ; ' \" -- /* * :: -> |> { } ? $1 :x \\ @a .5 0x1F 1_000 1e999 N'a' E'\\n' b'1' $$a$$ \x00 é \ud800"
OTHERS = (
    "INTERVAL NULL VALUES UNNEST LATERAL OVER QUALIFY LIMIT ORDER INTO START CONNECT PIVOT DESCRIBE SUMMARIZE "
    "EXCEPT INTERSECT NATURAL ANY EXISTS IF FILTER ESCAPE DISTINCT ALL CREATE QUERY EXPLAIN 99999999999999999999"
)
WORDS = sorted({word for text in (*VALID, SIGNS, OTHERS) for word in text.split(" ")})


def outcome(sql: str) -> Plan | tuple[str, int, int]:
    """Return the plan, or the text and the position of the error."""
    try:
        return plan_query("q", sql, CATALOG).plan
    except PlanningError as problem:
        return str(problem), problem.line, problem.column


def check(sql: str) -> None:
    found = outcome(sql)
    assert found == outcome(sql)
    if isinstance(found, tuple):
        lines = sql.split("\n")
        assert 1 <= found[1] <= len(lines)
        assert 1 <= found[2] <= len(lines[found[1] - 1]) + 1
    for read in (parse_create_stream, split_statements):
        try:
            read(sql)
        except PlanningError:
            continue


@given(st.text(max_size=200))
def test_any_text_as_sql_gives_a_plan_or_a_planning_error(sql: str) -> None:
    check(sql)


@given(st.lists(st.sampled_from(WORDS), max_size=40))
def test_any_sequence_of_sql_words_gives_a_plan_or_a_planning_error(words: list[str]) -> None:
    check(" ".join(words))


@settings(max_examples=400)
@given(st.sampled_from(VALID), st.randoms(use_true_random=False))
def test_valid_text_with_a_few_edits_has_a_plan_or_a_planning_error(sql: str, chance: random.Random) -> None:
    pieces = sql.split(" ")
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(pieces) + 1)
        match chance.randrange(4):
            case 0:
                pieces[place : place + 1] = []
            case 1:
                pieces.insert(place, chance.choice(WORDS))
            case 2:
                pieces[place : place + 1] = [chance.choice(WORDS)]
            case 3:
                other = chance.choice(VALID).split(" ")
                start = chance.randrange(len(other))
                pieces[place:place] = other[start : start + 5]
    check(" ".join(pieces))


@settings(max_examples=200)
@given(st.sampled_from(VALID), st.data())
def test_valid_text_with_characters_changed_has_a_plan_or_a_planning_error(
    sql: str, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(sql)))
    stop = data.draw(st.integers(start, min(len(sql), start + 5)))
    check(sql[:start] + data.draw(st.text(max_size=4)) + sql[stop:])


@given(
    st.sampled_from(
        ["(", "NOT ", "- ", "CASE ", "abs(", "interval ", "(SELECT * FROM ", "CASE WHEN ok THEN "]
    ),
    st.integers(1, 3_000),
)
def test_sql_nested_to_any_depth_gives_a_plan_or_a_planning_error(opening: str, times: int) -> None:
    check("SELECT * FROM readings WHERE " + opening * times + "temp")


# --- what a condition selects ---------------------------------------------------------------------------

integers = st.sampled_from(["a", "b", "n", "1", "2", "-1", "0", "NULL", "a + 1", "b * 2", "coalesce(a, 1)"])
floats = st.sampled_from(["x", "1.5", "-0.5", "x + 1", "x * 2", "a / 2", "n"])
texts = st.sampled_from(["s", "'p'", "'q'", "upper(s)", "s || 'p'"])
comparison = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])


def compared(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(values, comparison, values).map(" ".join),
        st.tuples(values, values, values).map(lambda of: f"{of[0]} BETWEEN {of[1]} AND {of[2]}"),
        st.tuples(values, st.lists(values, min_size=1, max_size=4)).map(
            lambda of: f"{of[0]} IN ({', '.join(of[1])})"
        ),
        st.tuples(values, values).map(lambda of: f"{of[0]} IS DISTINCT FROM {of[1]}"),
        values.map(lambda one: f"({one}) IS NULL"),
    )


simple = st.one_of(
    compared(integers),
    compared(floats),
    compared(texts),
    st.sampled_from(["ok", "TRUE", "FALSE", "ok = FALSE"]),
)
conditions = st.recursive(
    simple,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda of: f"({of[0]}) AND ({of[1]})"),
        st.tuples(inner, inner).map(lambda of: f"({of[0]}) OR ({of[1]})"),
        inner.map(lambda one: f"NOT ({one})"),
        inner.map(lambda one: f"({one}) IS TRUE"),
        st.tuples(inner, inner).map(lambda of: f"({of[0]}) = ({of[1]})"),
        st.tuples(inner, inner, inner).map(lambda of: f"CASE WHEN {of[0]} THEN {of[1]} ELSE {of[2]} END"),
    ),
    max_leaves=8,
)


def rows() -> pa.Table:
    """Return rows of random combinations of a few values, including NULL."""
    chance = random.Random(7)
    count = 300
    drawn = {
        "n": (range(count), pa.int32()),
        "a": ([chance.choice([None, -1, 0, 1, 2, 3]) for _ in range(count)], pa.int64()),
        "b": ([chance.choice([None, -1, 0, 1, 2]) for _ in range(count)], pa.int64()),
        "x": ([chance.choice([None, -0.5, 0.0, 1.5, 2.0]) for _ in range(count)], pa.float64()),
        "s": ([chance.choice([None, "p", "q", "pp", ""]) for _ in range(count)], pa.string()),
        "ok": ([chance.choice([None, True, False]) for _ in range(count)], pa.bool_()),
    }
    return pa.table({name: pa.array(values, type_) for name, (values, type_) in drawn.items()})


ROWS = rows()
TRAIN = train_from_arrow(ROWS, VALUES.schema, 0.0)
DUCKDB = duckdb.connect()
DUCKDB.register("input", ROWS)


@settings(max_examples=300)
@given(conditions)
def test_a_condition_selects_the_rows_that_duckdb_selects(condition: str) -> None:
    expected = [n for (n,) in DUCKDB.sql(f"SELECT n FROM input WHERE {condition} ORDER BY n").fetchall()]
    plan = plan_query("q", f"SELECT * FROM input WHERE {condition}", CATALOG).plan
    assert isinstance(plan, Scan | Filter)
    chosen = np.ones(len(ROWS), bool)
    if isinstance(plan, Filter):
        chosen = compile_condition(plan.condition)(TRAIN, RowFailures())
    assert np.flatnonzero(chosen).tolist() == expected


@given(st.lists(conditions, min_size=2, max_size=4), st.randoms(use_true_random=False))
def test_the_plan_stays_unchanged_if_operands_are_reordered_or_aliases_renamed(
    parts: list[str], chance: random.Random
) -> None:
    other = parts.copy()
    chance.shuffle(other)
    first, second = (" AND ".join(f"({one})" for one in order) for order in (parts, other))
    one = plan_query("q", f"SELECT a AS p FROM input AS i WHERE {first}", CATALOG).plan
    same = plan_query("r", f"SELECT i.a AS p FROM input AS i WHERE NOT (NOT ({second}))", CATALOG).plan
    renamed = plan_query(
        "r", f"SELECT a AS other FROM (SELECT * FROM input) AS j WHERE {second}", CATALOG
    ).plan
    assert one == same
    assert isinstance(one, Project)
    assert isinstance(renamed, Project)
    assert one.input == renamed.input
