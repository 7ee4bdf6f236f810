"""Windows of rows: each window holds the last tuples of its stream; WHERE, joins and groups then select among these tuples."""

from __future__ import annotations

import pytest

from engine.network.node import QueuedOperator
from tests.support.class_networks import add, class_of, feed, nodes, row
from tests.support.query_grammar import Statement
from tests.support.query_runs import Run, planned

COMPUTED = [
    ("n", "k"),
    ("n + 0", "k"),
    ("n", "k * 1"),
    ("CASE WHEN n > 0 THEN n ELSE n END", "coalesce(k, 0)"),
]


@pytest.mark.parametrize(("value", "key"), COMPUTED)
def test_first_and_last_use_event_time_with_computed_keys_and_arguments(value: str, key: str) -> None:
    run = class_of(
        f"SELECT {key} AS key, first({value}) AS a, last({value}) AS b FROM s [ROWS 2 SLIDE 1] GROUP BY {key}"
    )
    for second, n in ((2, 1), (1, 2), (3, 3)):
        run.offer("s", [row(second, n=n, b=None, d=None)])
    run.finish()
    assert run.rows("q0") == [(1, 1, 1), (1, 2, 1), (1, 2, 3)]


def test_first_uses_arrival_order_over_a_query_without_event_time() -> None:
    run = class_of("SELECT first(n) AS a FROM (SELECT n FROM s) AS q [ROWS 2]")
    for second, n in ((2, 1), (1, 2)):
        run.offer("s", [row(second, n=n, b=None, d=None)])
    run.finish()
    assert run.rows("q0") == [(1,)]


def test_where_filters_the_tuples_of_a_row_window() -> None:
    run = class_of("SELECT sum(n) AS c FROM t [ROWS 3 SLIDE 1] WHERE k = 1")
    feed(run, row(0, n=1), row(1, n=2, k=2), row(2, n=4), row(3, n=8, k=2), row(4, n=16))
    assert run.rows("q0") == [(1,), (1,), (5,), (4,), (20,)]


def test_a_row_window_without_matching_tuples_has_no_answer() -> None:
    run = class_of("SELECT count(*) AS c FROM t [ROWS 2] WHERE k = 1")
    feed(run, row(0, k=2), row(1), row(2, k=2), row(3, k=2), row(4), row(5))
    assert run.rows("q0") == [(1,), (2,)]


def test_where_of_an_inner_query_applies_before_the_window() -> None:
    inner = "SELECT n, k FROM t WHERE k > 0"
    run = class_of(f"SELECT sum(n) AS c FROM ({inner}) AS q [ROWS 2] WHERE k = 1")
    feed(run, row(0, n=1), row(1, n=2, k=0), row(2, n=4, k=2), row(3, n=8), row(4, n=16))
    assert run.rows("q0") == [(1,), (24,)]


def test_group_by_and_having_of_a_row_window_apply_to_the_tuples_in_the_window() -> None:
    run = class_of(
        "SELECT k, count(*) AS c FROM t [ROWS 4 SLIDE 2] WHERE n > 0 GROUP BY k HAVING count(*) > 1"
    )
    feed(run, row(0, k=1), row(1, k=1), row(2, k=2), row(3, k=2, n=0), row(4, k=2), row(5, k=1))
    assert run.rows("q0") == [(1, 2), (1, 2), (2, 2)]


def test_a_row_window_joined_with_a_table_counts_tuples_of_the_stream() -> None:
    sql = "SELECT count(*) AS c FROM t [ROWS 2] JOIN places AS p ON t.k = p.k"
    run = feed(class_of(sql), row(0, k=1), row(1, k=7), row(2, k=7), row(3, k=7), row(4, k=3), row(5, k=0))
    assert run.rows("q0") == [(2,), (2,)]


def test_a_row_window_left_joined_with_a_table_keeps_the_order_of_the_stream() -> None:
    sql = "SELECT first(n) AS a, last(n) AS b FROM t [ROWS 3] LEFT JOIN places AS p ON t.k = p.k"
    run = class_of(sql)
    run.offer("t", [row(0, k=7, n=1), row(0, k=3, n=2), row(0, k=7, n=3)])
    run.finish()
    assert run.rows("q0") == [(1, 3)]


def test_a_tuple_filtered_by_where_cannot_fail() -> None:
    run = class_of("SELECT sum(CAST(g AS int32)) AS c FROM t [ROWS 2] WHERE k = 1")
    feed(run, row(0, g="1"), row(1, g="x", k=2), row(2, g="3"), row(3, g="4"))
    assert run.rows("q0") == [(1,), (7,)]


def test_a_failed_tuple_keeps_its_place_in_the_window() -> None:
    run = class_of("SELECT sum(CAST(g AS int32)) AS c FROM t [ROWS 2]")
    feed(run, row(0, g="1"), row(1, g="x"), row(2, g="3"), row(3, g="4"))
    assert run.rows("q0") == [(1,), (7,)]


@pytest.mark.parametrize("needs", [{}, {"inner_query": "SELECT CAST(g AS int32) AS v FROM t"}])
def test_a_tuple_that_fails_in_an_inner_query_is_in_no_window(needs: dict[str, str]) -> None:
    inner = "inner_query" if needs else "(SELECT CAST(g AS int32) AS v FROM t) AS q"
    run = Run(planned({"q0": Statement(f"SELECT sum(v) AS c FROM {inner} [ROWS 2]", "", needs)}))
    feed(run, row(0, g="1"), row(1, g="x"), row(2, g="3"), row(3, g="4"))
    assert run.rows("q0") == [(4,)]


def test_row_windows_over_the_same_stream_share_the_numbering_of_rows_and_the_filter() -> None:
    run = class_of(
        "SELECT count(*) AS c FROM t [ROWS 2] WHERE k = 1",
        "SELECT sum(n) AS c FROM t [ROWS 9 SLIDE 3] WHERE k = 1",
    )
    assert nodes(run) == ["source:t", "number", "filter", "rows", "project", "rows", "project"]


def test_a_row_window_added_while_running_starts_with_new_input() -> None:
    run = class_of("SELECT count(*) AS c FROM t [ROWS 4 SLIDE 2]")
    feed(run, row(0), row(1), row(2))
    add(run, "late", "SELECT sum(n) AS c FROM t [ROWS 2]")
    feed(run, row(3, n=2), row(4, n=3), row(5, n=4))
    assert run.rows("q0") == [(2,), (4,), (4,)]
    assert run.rows("late") == [(5,)]


def test_a_row_window_has_the_arrival_of_the_tuple_that_completed_it() -> None:
    run = class_of("SELECT count(*) AS c FROM t [ROWS 3] WHERE k = 1")
    feed(run, row(0), row(1, k=2), row(2, k=2))
    assert [train.arrival.tolist() for train in run.answers["q0"]] == [[3.0]]


def test_scaled_counts_use_the_kept_fractions_of_the_window() -> None:
    run = class_of("SELECT SCALED(COUNT(*)) AS c FROM t [ROWS 2]")
    for kept in (0.5, 0.25, 1.0, 1.0):
        run.offer("t", [row(0)], kept)
        run.step(10**6)
    assert run.rows("q0") == [(6.0,), (2.0,)]


def test_advancing_event_time_gives_a_row_window_no_work() -> None:
    run = class_of("SELECT count(*) AS c FROM t [ROWS 2] WHERE k = 1")
    run.runner.advance("t", 10**9, 1.0)
    assert not any(queued(node) for node in run.runner.network.nodes)


def queued(node: QueuedOperator) -> int:
    return len(node.queue)
