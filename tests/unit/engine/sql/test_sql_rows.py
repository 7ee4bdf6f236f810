"""What is in a window of rows: the last tuples of its stream, of which WHERE, joins and groups take theirs."""

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
def test_first_and_last_go_by_event_time_whether_a_key_or_an_argument_is_computed(
    value: str, key: str
) -> None:
    run = class_of(
        f"SELECT {key} AS key, first({value}) AS a, last({value}) AS b FROM s [ROWS 2 SLIDE 1] GROUP BY {key}"
    )
    for second, n in ((2, 1), (1, 2), (3, 3)):
        run.offer("s", [row(second, n=n, b=None, d=None)])
    run.finish()
    assert run.rows("q0") == [(1, 1, 1), (1, 2, 1), (1, 2, 3)]


def test_first_goes_by_arrival_over_a_query_without_event_time() -> None:
    run = class_of("SELECT first(n) AS a FROM (SELECT n FROM s) AS q [ROWS 2]")
    for second, n in ((2, 1), (1, 2)):
        run.offer("s", [row(second, n=n, b=None, d=None)])
    run.finish()
    assert run.rows("q0") == [(1,)]


def test_where_takes_from_the_window_what_satisfies_it() -> None:
    run = class_of("SELECT sum(n) AS c FROM t [ROWS 3 SLIDE 1] WHERE k = 1")
    feed(run, row(0, n=1), row(1, n=2, k=2), row(2, n=4), row(3, n=8, k=2), row(4, n=16))
    assert run.rows("q0") == [(1,), (1,), (5,), (4,), (20,)]


def test_a_window_of_rows_without_any_that_satisfies_where_has_no_answer() -> None:
    run = class_of("SELECT count(*) AS c FROM t [ROWS 2] WHERE k = 1")
    feed(run, row(0, k=2), row(1), row(2, k=2), row(3, k=2), row(4), row(5))
    assert run.rows("q0") == [(1,), (2,)]


def test_where_of_an_inner_query_stands_before_the_window() -> None:
    inner = "SELECT n, k FROM t WHERE k > 0"
    run = class_of(f"SELECT sum(n) AS c FROM ({inner}) AS q [ROWS 2] WHERE k = 1")
    feed(run, row(0, n=1), row(1, n=2, k=0), row(2, n=4, k=2), row(3, n=8), row(4, n=16))
    assert run.rows("q0") == [(1,), (24,)]


def test_having_and_groups_are_of_what_is_in_the_window() -> None:
    run = class_of(
        "SELECT k, count(*) AS c FROM t [ROWS 4 SLIDE 2] WHERE n > 0 GROUP BY k HAVING count(*) > 1"
    )
    feed(run, row(0, k=1), row(1, k=1), row(2, k=2), row(3, k=2, n=0), row(4, k=2), row(5, k=1))
    assert run.rows("q0") == [(1, 2), (1, 2), (2, 2)]


def test_a_window_of_rows_beside_a_table_counts_the_streams_tuples() -> None:
    sql = "SELECT count(*) AS c FROM t [ROWS 2] JOIN places AS p ON t.k = p.k"
    run = feed(class_of(sql), row(0, k=1), row(1, k=7), row(2, k=7), row(3, k=7), row(4, k=3), row(5, k=0))
    assert run.rows("q0") == [(2,), (2,)]


def test_a_window_of_rows_beside_an_outer_table_keeps_the_order_of_the_stream() -> None:
    sql = "SELECT first(n) AS a, last(n) AS b FROM t [ROWS 3] LEFT JOIN places AS p ON t.k = p.k"
    run = class_of(sql)
    run.offer("t", [row(0, k=7, n=1), row(0, k=3, n=2), row(0, k=7, n=3)])
    run.finish()
    assert run.rows("q0") == [(1, 3)]


def test_a_tuple_that_where_leaves_out_cannot_fail() -> None:
    run = class_of("SELECT sum(CAST(g AS int32)) AS c FROM t [ROWS 2] WHERE k = 1")
    feed(run, row(0, g="1"), row(1, g="x", k=2), row(2, g="3"), row(3, g="4"))
    assert run.rows("q0") == [(1,), (7,)]


def test_a_tuple_that_fails_within_the_window_keeps_its_place_there() -> None:
    run = class_of("SELECT sum(CAST(g AS int32)) AS c FROM t [ROWS 2]")
    feed(run, row(0, g="1"), row(1, g="x"), row(2, g="3"), row(3, g="4"))
    assert run.rows("q0") == [(1,), (7,)]


@pytest.mark.parametrize("needs", [{}, {"inner_query": "SELECT CAST(g AS int32) AS v FROM t"}])
def test_a_tuple_that_fails_in_an_inner_query_is_in_no_window(needs: dict[str, str]) -> None:
    inner = "inner_query" if needs else "(SELECT CAST(g AS int32) AS v FROM t) AS q"
    run = Run(planned({"q0": Statement(f"SELECT sum(v) AS c FROM {inner} [ROWS 2]", "", needs)}))
    feed(run, row(0, g="1"), row(1, g="x"), row(2, g="3"), row(3, g="4"))
    assert run.rows("q0") == [(4,)]


def test_windows_of_rows_over_one_stream_share_its_numbers_and_filter() -> None:
    run = class_of(
        "SELECT count(*) AS c FROM t [ROWS 2] WHERE k = 1",
        "SELECT sum(n) AS c FROM t [ROWS 9 SLIDE 3] WHERE k = 1",
    )
    assert nodes(run) == ["source:t", "number", "filter", "rows", "project", "rows", "project"]


def test_a_window_of_rows_added_while_running_starts_with_new_input() -> None:
    run = class_of("SELECT count(*) AS c FROM t [ROWS 4 SLIDE 2]")
    feed(run, row(0), row(1), row(2))
    add(run, "late", "SELECT sum(n) AS c FROM t [ROWS 2]")
    feed(run, row(3, n=2), row(4, n=3), row(5, n=4))
    assert run.rows("q0") == [(2,), (4,), (4,)]
    assert run.rows("late") == [(5,)]


def test_a_window_of_rows_is_answered_to_the_tuple_that_completed_it() -> None:
    run = class_of("SELECT count(*) AS c FROM t [ROWS 3] WHERE k = 1")
    feed(run, row(0), row(1, k=2), row(2, k=2))
    assert [train.arrival.tolist() for train in run.answers["q0"]] == [[3.0]]


def test_scaled_counts_go_by_what_was_kept_of_the_window() -> None:
    run = class_of("SELECT SCALED(COUNT(*)) AS c FROM t [ROWS 2]")
    for kept in (0.5, 0.25, 1.0, 1.0):
        run.offer("t", [row(0)], kept)
        run.step(10**6)
    assert run.rows("q0") == [(6.0,), (2.0,)]


def test_progress_of_time_alone_is_nothing_to_a_window_of_rows() -> None:
    run = class_of("SELECT count(*) AS c FROM t [ROWS 2] WHERE k = 1")
    run.runner.advance("t", 10**9, 1.0)
    assert not any(queued(node) for node in run.runner.network.nodes)


def queued(node: QueuedOperator) -> int:
    return len(node.queue)
