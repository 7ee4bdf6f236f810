"""[LAST BY key]: a stream as a table that it keeps current."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configs.limits import ClassLimits
from configs.live import LiveClass
from configs.problems import InvalidInput
from engine.admission import checked
from engine.sql import PlanningError
from tests.property.query_grammar import Statement
from tests.property.query_runs import Run, planned
from tests.unit.test_class_network import class_of, nodes, row

INNER = "SELECT s.id AS a, t.n AS n FROM s JOIN t [LAST BY k] ON s.k = t.k"
OUTER = "SELECT s.id AS a, t.g AS g, t.n AS n FROM s LEFT JOIN t [LAST BY k] ON s.k = t.k"


def offer(run: Run, name: str, *rows: dict[str, Any]) -> Run:
    given = [row(0, **{"b": None, "d": None, **one} if name == "s" else one) for one in rows]
    run.offer(name, given)
    run.step(10**6)
    return run


def test_a_tuple_meets_the_last_row_of_its_key() -> None:
    run = class_of(INNER, OUTER)
    offer(run, "s", {"id": 1, "k": 1})
    offer(run, "t", {"k": 1, "n": 10}, {"k": 2, "n": 20}, {"k": 1, "n": 11})
    offer(run, "s", {"id": 2, "k": 1}, {"id": 3, "k": 2}, {"id": 4, "k": 3}, {"id": 5, "k": None})
    offer(run, "t", {"k": 1, "n": 12}, {"k": None, "n": 9})
    offer(run, "s", {"id": 6, "k": 1})
    assert run.rows("q0") == [(2, 11), (3, 20), (6, 12)]
    assert run.rows("q1") == [
        *((1, None, None), (2, "a", 11), (3, "a", 20), (4, None, None), (5, None, None), (6, "a", 12))
    ]
    assert sorted(set(nodes(run))) == ["last", "lookup", "project", "source:s", "source:t"]


def test_conditions_are_of_the_last_row_and_windows_go_on_by_the_time_of_who_looks_up() -> None:
    where = "SELECT s.id AS a FROM s JOIN t [LAST BY k] p ON s.k = p.k WHERE p.n > 5"
    window = "SELECT sum(c) AS c FROM (SELECT s.ts AS ts, t.n AS c FROM s JOIN t [LAST BY k] ON s.k = t.k) AS x [RANGE 1 SECOND]"
    run = class_of(where, window)
    offer(run, "t", {"k": 1, "n": 9})
    offer(run, "s", {"id": 1, "k": 1})
    offer(run, "t", {"k": 1, "n": 1})  # 9 is not there any more
    offer(run, "s", {"id": 2, "k": 1})
    run.finish()
    assert run.rows("q0") == [(1,)]
    assert run.rows("q1") == [(0, 1_000_000, 10)]


@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(1, 7))
def test_lookups_are_those_of_a_dictionary(seed: int, steps: int, train_max: int) -> None:
    chance, last = random.Random(seed), dict[tuple[int, str], int]()
    sql = "SELECT s.id AS a, t.n AS n FROM s LEFT JOIN t [LAST BY k, g] ON s.k = t.k AND s.g = t.g"
    run, wanted = Run(planned({"q0": Statement(sql, "")}), train_max), []
    for number in range(steps):
        some: list[dict[str, Any]] = [
            {"id": number, "k": chance.randrange(3), "g": chance.choice("ab"), "n": chance.randrange(100)}
            for _ in range(chance.randrange(1, 9))
        ]
        if chance.random() < 0.5:
            offer(run, "t", *some)
            last.update({(one["k"], one["g"]): one["n"] for one in some})
        else:
            offer(run, "s", *some)
            found = [(one["id"], last.get((one["k"], one["g"]))) for one in some]
            wanted += found
    assert sorted(run.rows("q0"), key=repr) == sorted(wanted, key=repr)


def test_many_rows_of_few_keys_take_no_more_memory_and_keys_beyond_the_limit_are_refused() -> None:
    run = Run(planned({"q0": Statement(INNER, "")}), limits=ClassLimits(groups=3))
    for number in range(50):
        offer(run, "t", *({"k": place % 3, "n": number} for place in range(1000)))
    account = run.runner.network.account
    assert account.state < 1 << 18  # of five megabytes that have come
    offer(run, "t", {"k": 100_000, "n": 1})
    offer(run, "s", {"id": 1, "k": 100_000}, {"id": 2, "k": 2})
    assert run.rows("q0") == [(2, 49)]
    assert run.runner.failures() == {"too many groups (limit 3)": 1}


def test_a_class_goes_on_from_its_snapshot() -> None:
    run, other = class_of(OUTER), class_of(OUTER)
    offer(run, "t", {"k": 1, "n": 10, "g": "ab"})
    other.runner.restore(run.runner.snapshot())
    for one in (run, other):
        offer(one, "t", {"k": 2, "n": 20})
        offer(one, "s", {"id": 1, "k": 1}, {"id": 2, "k": 2})
    assert run.rows("q0") == other.rows("q0") == [(1, "ab", 10), (2, "a", 20)]


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("SELECT n FROM t [LAST BY k]", "a table alone gives a continuous query nothing to wait for"),
        ("SELECT s.n FROM s JOIN t [LAST BY z] ON s.k = t.k", "there is no such column"),
        ("SELECT s.n FROM s JOIN t [LAST BY] ON s.k = t.k", "the columns of the key are missing here"),
        ("SELECT s.n FROM s JOIN t [LAST BY k] ON s.g = t.g", "goes by that key, all of it and nothing else"),
        (
            "SELECT s.n FROM s JOIN t [LAST BY k, g] ON s.k = t.k",
            "goes by that key, all of it and nothing else",
        ),
        ("SELECT s.n FROM s JOIN t [LAST BY k]", "a join with a table needs a key"),
        ("SELECT s.n FROM s JOIN places [LAST BY k] ON s.k = places.k", "a table has no window"),
    ],
)
def test_what_cannot_be_is_refused(sql: str, told: str) -> None:
    with pytest.raises(PlanningError, match=told):
        class_of(sql)


def test_a_stream_that_looks_itself_up_is_refused() -> None:
    with pytest.raises(InvalidInput, match="a stream cannot look itself up"):
        class_of("SELECT a.n FROM t a JOIN t [LAST BY k] b ON a.k = b.k")


def test_such_a_query_is_not_let_in_either() -> None:
    streams = ("CREATE STREAM t (ts int64, k int32, WATERMARK FOR ts AS ts)",)
    inner = "SELECT ts, k FROM t"
    outer = "SELECT q.k FROM q JOIN t [LAST BY k] b ON q.k = b.k"
    declared = LiveClass(
        name="c", priority=1, delay_target_ms=300, streams=streams, queries={"q": inner, "r": outer}
    )
    with pytest.raises(InvalidInput, match=r"queries\.r: a stream cannot look itself up"):
        checked(declared)


def test_a_class_may_be_split_by_the_key_of_the_lookup_and_by_no_other() -> None:
    streams = (
        "CREATE STREAM s (ts int64, k int32, g int32, WATERMARK FOR ts AS ts)",
        "CREATE STREAM t (ts int64, k int32, g int32, WATERMARK FOR ts AS ts)",
    )
    sql = "SELECT s.k, t.g FROM s LEFT JOIN t [LAST BY k] ON s.k = t.k"
    declared = LiveClass(
        name="c",
        priority=1,
        delay_target_ms=300,
        streams=streams,
        queries={"q": sql},
        key="k",
        shards=2,
    )
    assert checked(declared).keys == {"q": frozenset({0})}
    with pytest.raises(InvalidInput, match="joins tuples of different keys"):
        checked(declared.model_copy(update={"key": "g"}))
