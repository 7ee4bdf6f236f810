"""[LAST BY key]: a join with the last row of each key of another stream."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configs.classes.limits import ClassLimits
from configs.classes.live_class import LiveClass
from configs.errors import InvalidInput
from engine.class_.admission import checked
from engine.network.row_losses import failed_rows
from engine.operators.last import HISTORY_FULL
from engine.sql import PlanningError
from tests.support.class_networks import class_of, nodes, row
from tests.support.query_grammar import Statement
from tests.support.query_runs import Run, planned

INNER = "SELECT s.id AS a, t.n AS n FROM s JOIN t [LAST BY k] ON s.k = t.k"
OUTER = "SELECT s.id AS a, t.g AS g, t.n AS n FROM s LEFT JOIN t [LAST BY k] ON s.k = t.k"


def offer(run: Run, name: str, *rows: dict[str, Any]) -> Run:
    """Offer rows, each with its event time in seconds as `at`; the default is 0."""
    given = [
        row(
            **{"second": one.get("at", 0), "b": None, "d": None} | {k: v for k, v in one.items() if k != "at"}
        )
        for one in rows
    ]
    run.offer(name, given)
    run.step(10**6)
    return run


def test_a_lookup_finds_the_newest_row_of_its_key_at_its_event_time() -> None:
    run = class_of(INNER, OUTER)
    offer(run, "t", {"at": 1, "k": 1, "n": 10}, {"at": 2, "k": 2, "n": 20}, {"at": 3, "k": 1, "n": 11})
    offer(run, "s", {"at": 0, "id": 1, "k": 1}, {"at": 2, "id": 2, "k": 1}, {"at": 3, "id": 3, "k": 1})
    assert run.rows("q0") == [
        (2, 10)
    ]  # The lookup with time 3 waits, because more rows with time 3 may arrive.
    offer(run, "t", {"at": 3, "k": 1, "n": 12}, {"at": 5, "k": None, "n": 9}, {"at": 9, "k": 1, "n": 99})
    assert run.rows("q0") == [
        (2, 10),
        (3, 12),
    ]  # Of several rows with one key and one time, the last row counts.
    offer(run, "s", {"at": 4, "id": 4, "k": 3}, {"at": 5, "id": 5, "k": None}, {"at": 6, "id": 6, "k": 2})
    assert run.rows("q0") == [(2, 10), (3, 12), (6, 20)]
    assert sorted(run.rows("q1")) == [
        *((1, None, None), (2, "a", 10), (3, "a", 12), (4, None, None), (5, None, None), (6, "a", 20))
    ]
    assert sorted(set(nodes(run))) == ["last", "lookup", "project", "source:s", "source:t"]


def test_where_applies_to_the_looked_up_row_and_windows_use_the_time_of_the_lookup() -> None:
    where = "SELECT s.id AS a FROM s JOIN t [LAST BY k] p ON s.k = p.k WHERE p.n > 5"
    window = "SELECT sum(c) AS c FROM (SELECT s.ts AS ts, t.n AS c FROM s JOIN t [LAST BY k] ON s.k = t.k) AS x [RANGE 1 SECOND]"
    run = class_of(where, window)
    offer(run, "t", {"at": 0.2, "k": 1, "n": 9}, {"at": 0.4, "k": 1, "n": 1})
    offer(run, "s", {"at": 0.3, "id": 1, "k": 1}, {"at": 0.5, "id": 2, "k": 1})
    run.finish()
    assert run.rows("q0") == [(1,)]  # The second lookup finds the newer row, with n = 1.
    assert run.rows("q1") == [(0, 1_000_000, 10)]


@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(1, 7))
def test_lookups_of_last_rows_equal_those_in_a_sorted_list(seed: int, steps: int, train_max: int) -> None:
    chance, rows = random.Random(seed), list[tuple[int, int, str, int]]()
    sql = "SELECT s.id AS a, t.n AS n FROM s LEFT JOIN t [LAST BY k, g] ON s.k = t.k AND s.g = t.g"
    run, asked = Run(planned({"q0": Statement(sql, "")}), train_max), []
    second = 0
    for number in range(steps):
        second += chance.randrange(3)
        some: list[dict[str, Any]] = [
            {
                "at": second,
                "id": number,
                "k": chance.randrange(3),
                "g": chance.choice("ab"),
                "n": chance.randrange(100),
            }
            for _ in range(chance.randrange(1, 9))
        ]
        if chance.random() < 0.5:
            offer(run, "t", *some)
            rows += [(one["at"], one["k"], one["g"], one["n"]) for one in some]
        else:
            offer(run, "s", *some)
            asked += some
    run.finish()
    wanted = []
    for one in asked:
        known = [n for at, k, g, n in rows if at <= one["at"] and (k, g) == (one["k"], one["g"])]
        wanted.append((one["id"], known[-1] if known else None))
    assert sorted(run.rows("q0"), key=repr) == sorted(wanted, key=repr)


def test_memory_grows_with_keys_not_rows_and_keys_are_limited() -> None:
    run = Run(planned({"q0": Statement(INNER, "")}), limits=ClassLimits(groups=3))
    for second in range(50):
        offer(run, "s", {"at": second, "id": 0, "k": 9})
        offer(run, "t", *({"at": second, "k": place % 3, "n": second} for place in range(1000)))
    account = run.runner.network.account
    assert account.state < 1 << 19  # The rows that have arrived take about 5 MB.
    offer(run, "t", {"at": 49, "k": 100_000, "n": 1})
    offer(run, "s", {"at": 50, "id": 1, "k": 100_000}, {"at": 50, "id": 2, "k": 2})
    run.finish()
    assert run.rows("q0") == [(2, 49)]
    assert failed_rows(run.runner.network.nodes) == {"too many groups (limit 3)": 1}


def test_only_the_newest_rows_of_keys_stay_when_history_is_full() -> None:
    run = Run(planned({"q0": Statement(INNER, "")}), limits=ClassLimits(state_bytes=1 << 20))
    for second in range(100):
        offer(run, "t", *({"at": second + place / 1000, "k": 0, "n": second} for place in range(1000)))
    offer(run, "s", {"at": 1, "id": 1, "k": 0}, {"at": 99.999, "id": 2, "k": 0})
    run.finish()
    assert run.rows("q0") == [(2, 99)]
    assert failed_rows(run.runner.network.nodes).keys() == {HISTORY_FULL}
    assert run.runner.network.account.state < 1 << 20


def test_overdue_lookups_are_answered_with_the_available_rows() -> None:
    run = class_of(OUTER)
    offer(run, "t", {"at": 1, "k": 1, "n": 10})
    offer(run, "s", {"at": 2, "id": 1, "k": 1}, {"at": 3, "id": 2, "k": 1})
    assert run.rows("q0") == []
    assert run.runner.overdue(run.now - 1) == {}
    assert run.runner.overdue(run.now) == {"q0": 3_000_001}
    run.runner.release("q0", 3_000_001, run.now)
    run.step(10**6)
    assert run.rows("q0") == [(1, "a", 10), (2, "a", 10)]
    # This row of t comes too late for the answered lookups, but later lookups find the row.
    offer(run, "t", {"at": 2, "k": 1, "n": 11})
    offer(run, "s", {"at": 4, "id": 3, "k": 1})
    run.finish()
    assert run.rows("q0")[2:] == [(3, "a", 11)]


def test_a_class_with_a_lookup_resumes_from_its_snapshot() -> None:
    run, other = class_of(OUTER), class_of(OUTER)
    offer(run, "t", {"at": 1, "k": 1, "n": 10, "g": "ab"})
    offer(run, "s", {"at": 2, "id": 0, "k": 1})
    other.runner.restore(run.runner.snapshot())
    for one in (run, other):
        offer(one, "t", {"at": 2, "k": 2, "n": 20})
        offer(one, "s", {"at": 3, "id": 1, "k": 1}, {"at": 3, "id": 2, "k": 2})
        one.finish()
    assert run.rows("q0") == other.rows("q0") == [(0, "ab", 10), (1, "ab", 10), (2, "a", 20)]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT n FROM t [LAST BY k]", "a continuous query must read a stream, but FROM has only tables"),
        ("SELECT s.n FROM s JOIN t [LAST BY z] ON s.k = t.k", "there is no such column"),
        ("SELECT s.n FROM s JOIN t [LAST BY] ON s.k = t.k", "LAST BY needs the columns of the key"),
        ("SELECT s.n FROM s JOIN t [LAST BY k] ON s.g = t.g", "must compare all columns of that key"),
        (
            "SELECT s.n FROM s JOIN t [LAST BY k, g] ON s.k = t.k",
            "must compare all columns of that key and no others",
        ),
        ("SELECT s.n FROM s JOIN t [LAST BY k]", "a join with a table needs a key"),
        (
            "SELECT s.n FROM s JOIN (SELECT k, count(*) AS n FROM t [ROWS 2] GROUP BY k) AS q [LAST BY k] ON s.k = q.k",
            "needs event time on both sides, but one side has none",
        ),
        ("SELECT s.n FROM s JOIN places [LAST BY k] ON s.k = places.k", "a table cannot have a window"),
    ],
)
def test_invalid_uses_of_last_by_are_refused(sql: str, message: str) -> None:
    with pytest.raises(PlanningError, match=message):
        class_of(sql)


def test_a_stream_that_looks_itself_up_is_refused() -> None:
    with pytest.raises(
        InvalidInput, match="a query cannot join a stream with the last rows of the same stream"
    ):
        class_of("SELECT a.n FROM t a JOIN t [LAST BY k] b ON a.k = b.k")


def test_a_class_with_a_query_that_looks_up_its_own_stream_is_refused() -> None:
    streams = ("CREATE STREAM t (ts int64, k int32, WATERMARK FOR ts AS ts)",)
    inner = "SELECT ts, k FROM t"
    outer = "SELECT q.k FROM q JOIN t [LAST BY k] b ON q.k = b.k"
    declared = LiveClass(
        name="c", priority=1, delay_target_ms=300, streams=streams, queries={"q": inner, "r": outer}
    )
    with pytest.raises(
        InvalidInput, match=r"queries\.r: a query cannot join a stream with the last rows of the same stream"
    ):
        checked(declared)


def test_a_class_with_a_lookup_can_be_split_only_by_the_key_of_the_lookup() -> None:
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
    with pytest.raises(InvalidInput, match="joins tuples of different shards"):
        checked(declared.model_copy(update={"key": "g"}))
