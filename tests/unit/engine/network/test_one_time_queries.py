"""One-time queries: what panes can answer, which time an answer covers, and what the errors say."""

from typing import Any

import pytest

from configs.errors import InvalidInput
from engine.network import one_time
from engine.network.one_time import OneTimeAnswer, answered_once
from engine.sql import plan_query
from tests.support.class_networks import SECOND, add, class_of, feed, row
from tests.support.query_runs import CATALOG, Run

BY_GROUP = (
    "SELECT k, g, AVG(x) AS mean, MAX(n) AS top FROM t [RANGE 10 SECONDS SLIDE 2 SECONDS] GROUP BY k, g"
)


def ask(run: Run, sql: str, key: str | None = None) -> OneTimeAnswer:
    return answered_once(plan_query("", sql, CATALOG), run.runner.network, key)


def values(run: Run, sql: str) -> list[tuple[Any, ...]]:
    """Return the rows of an answer without the bounds of the window."""
    return [tuple(row.values())[2:] for row in ask(run, sql).rows.to_pylist()]


def refusal(run: Run, sql: str) -> tuple[str, object, str]:
    with pytest.raises(InvalidInput) as caught:
        ask(run, sql)
    return caught.value.title, caught.value.value, caught.value.hint


def covered(answer: OneTimeAnswer) -> tuple[float, float, float, bool]:
    """Return the start and end of an answer and its watermark in seconds, and True if the answer covers less than its RANGE."""
    covers = answer.covers
    assert covers is not None
    return covers.start_us / SECOND, covers.end_us / SECOND, covers.watermark_us / SECOND, answer.is_short


def fed(*queries: str) -> Run:
    """Return a class that has taken one row per second for 20 seconds."""
    rows = (
        row(second, k=second % 2, g="ab"[second % 4 // 2], x=float(second), n=second) for second in range(20)
    )
    return feed(class_of(*queries), *rows)


def test_answer_covers_the_range_up_to_the_pane_of_the_watermark() -> None:
    run = fed("SELECT AVG(x) AS mean FROM t [RANGE 10 SECONDS SLIDE 2 SECONDS]")
    answer = ask(run, "SELECT AVG(x) AS mean, COUNT(*) AS n FROM t [RANGE 10 SECONDS]")
    assert (covered(answer), answer.tuples, answer.kept) == ((10, 20, 19, False), 10, 1.0)
    (found,) = answer.rows.to_pylist()
    assert (found["mean"], found["n"], found["window_end"].timestamp()) == (14.5, 10, 20)


def test_shorter_ranges_are_answered_from_the_panes_of_a_longer_window() -> None:
    run = fed("SELECT SUM(x) AS s FROM t [RANGE 10 SECONDS SLIDE 2 SECONDS]")
    found = [values(run, f"SELECT SUM(x) AS s FROM t [RANGE {length} SECONDS]") for length in (2, 4, 8)]
    assert found == [[(37.0,)], [(70.0,)], [(124.0,)]]


def test_window_without_slide_answers_the_rows_of_its_open_window() -> None:
    run = fed("SELECT COUNT(*) AS n FROM t [RANGE 15 SECONDS]")
    answer = ask(run, "SELECT COUNT(*) AS n FROM t [RANGE 15 SECONDS]")
    assert (covered(answer), answer.tuples) == ((15, 30, 19, False), 5)


def test_answer_begins_where_the_panes_begin_and_says_so() -> None:
    run = fed("SELECT COUNT(*) AS n FROM t [RANGE 6 SECONDS SLIDE 4 SECONDS]")
    assert covered(ask(run, "SELECT COUNT(*) AS n FROM t [RANGE 6 SECONDS]")) == (14, 20, 19, False)
    feed(run, row(20))
    # The next window of the running query is [18, 24), so the pane from 16 to 18 has been dropped.
    answer = ask(run, "SELECT COUNT(*) AS n FROM t [RANGE 6 SECONDS]")
    assert (covered(answer), answer.tuples) == ((18, 22, 20, True), 3)


def test_query_that_was_added_later_answers_only_from_its_first_complete_pane() -> None:
    run = fed("SELECT COUNT(*) AS n FROM t [RANGE 2 SECONDS]")
    add(run, "q1", "SELECT MAX(x) AS top FROM t [RANGE 10 SECONDS SLIDE 2 SECONDS]")
    asked = "SELECT MAX(x) AS top FROM t [RANGE 10 SECONDS]"
    assert (
        refusal(run, asked)[0]
        == "the panes that can answer this query have only begun, so no pane is complete yet"
    )
    feed(run, row(20), row(21, x=99.0))
    answer = ask(run, asked)
    assert (covered(answer), answer.tuples, answer.rows["top"].to_pylist()) == ((20, 22, 21, True), 2, [99.0])


def test_panes_that_were_made_later_answer_only_from_their_first_complete_pane() -> None:
    run = fed("SELECT COUNT(*) AS n FROM t [RANGE 10 SECONDS]")
    add(run, "q1", "SELECT k, COUNT(*) AS n FROM t [RANGE 10 SECONDS SLIDE 2 SECONDS] GROUP BY k")
    feed(run, row(19), row(20), row(21))
    # The panes lack earlier rows of the second 19, so the answer leaves out the pane from 18 to 20.
    answer = ask(run, "SELECT k, COUNT(*) AS n FROM t [RANGE 10 SECONDS] GROUP BY k")
    assert (covered(answer), answer.tuples) == ((20, 22, 21, True), 2)


def test_group_by_fewer_columns_combines_groups() -> None:
    run = fed(BY_GROUP)
    assert values(run, "SELECT k, AVG(x) AS m FROM t [RANGE 10 SECONDS] GROUP BY k") == [(0, 14.0), (1, 15.0)]
    assert values(run, "SELECT g, MAX(n) AS m FROM t [RANGE 4 SECONDS] GROUP BY g") == [("a", 17), ("b", 19)]
    assert values(run, "SELECT SUM(x) AS s, COUNT(x) AS c FROM t [RANGE 4 SECONDS]") == [(70.0, 4)]


def test_condition_on_group_keys_selects_groups() -> None:
    run = fed(BY_GROUP)
    asked = "SELECT MAX(n) AS top, COUNT(*) AS c FROM t [RANGE 10 SECONDS] WHERE k = 1 AND g <> 'a'"
    assert values(run, asked) == [(19, 3)]
    assert ask(run, asked).tuples == 3
    assert values(run, f"{asked} GROUP BY g HAVING COUNT(*) > 1") == [(19, 3)]


def test_having_and_expressions_are_computed_from_the_answer() -> None:
    run = fed(BY_GROUP)
    asked = "SELECT k, AVG(x) + 1 AS m FROM t [RANGE 10 SECONDS] GROUP BY k HAVING AVG(x) > 14.5"
    assert values(run, asked) == [(1, 16.0)]
    assert values(run, asked.replace("14.5", "100")) == []
    assert ask(run, asked.replace("14.5", "100")).tuples == 10


def test_without_rows_a_count_is_0_and_a_grouped_answer_is_empty() -> None:
    run = fed(BY_GROUP)
    assert values(run, "SELECT COUNT(*) AS c, AVG(x) AS m FROM t [RANGE 2 SECONDS] WHERE k = 7") == [
        (0, None)
    ]
    assert values(run, "SELECT k, AVG(x) AS m FROM t [RANGE 2 SECONDS] WHERE k = 7 GROUP BY k") == []
    before = ask(class_of(BY_GROUP), "SELECT AVG(x) AS m FROM t [RANGE 2 SECONDS]")
    assert (before.rows.num_rows, before.covers, before.tuples, before.is_short) == (0, None, 0, False)


def test_late_and_shed_rows_lower_the_kept_fraction() -> None:
    run = fed("SELECT COUNT(*) AS c FROM t [RANGE 10 SECONDS SLIDE 2 SECONDS]")
    feed(run, row(18.5), row(19))
    answer = ask(run, "SELECT COUNT(*) AS c FROM t [RANGE 10 SECONDS]")
    assert (answer.tuples, answer.kept) == (11, 11 / 12)


def test_query_over_a_select_query_is_answered_from_the_panes_of_its_stream() -> None:
    run = class_of(
        "SELECT ts, x FROM t WHERE k = 1", "SELECT SUM(x) AS s FROM t [RANGE 10 SECONDS] WHERE k = 1"
    )
    feed(run, row(1, x=4.0), row(2, x=5.0, k=2), row(3, x=6.0))
    catalog = CATALOG.with_queries(run.runner.network.queries.values())
    query = plan_query("", "SELECT SUM(x) AS s FROM q0 [RANGE 10 SECONDS]", catalog)
    assert answered_once(query, run.runner.network).rows["s"].to_pylist() == [10.0]


KEEPS = "q0 keeps AVG(x), MAX(n) by k, g for 10 SECONDS"
REMEDY = "add a continuous query with this SELECT and a window of at least 10 SECONDS"
NO_PANES = "no running query keeps panes with the condition, the grouping and the aggregates of this query"


@pytest.mark.parametrize(
    "asked",
    [
        "SELECT MIN(x) AS m FROM t [RANGE 10 SECONDS]",
        "SELECT AVG(x * 2) AS m FROM t [RANGE 10 SECONDS]",
        "SELECT n, AVG(x) AS m FROM t [RANGE 10 SECONDS] GROUP BY n",
        "SELECT AVG(x) AS m FROM t [RANGE 10 SECONDS] WHERE x > 0",
    ],
)
def test_query_that_no_panes_fit_is_refused_with_the_panes_that_exist(asked: str) -> None:
    assert refusal(fed(BY_GROUP), asked) == (NO_PANES, None, f"{KEEPS}. To get this answer, {REMEDY}")


def test_condition_of_a_running_query_must_be_part_of_the_one_time_query() -> None:
    run = fed("SELECT MAX(n) AS m FROM t [RANGE 10 SECONDS] WHERE x > 5")
    title, _, hint = refusal(run, "SELECT MAX(n) AS m FROM t [RANGE 10 SECONDS]")
    assert (title, hint.partition(".")[0]) == (
        NO_PANES,
        "q0 keeps MAX(n) of the rows that meet its condition for 10 SECONDS",
    )
    assert values(run, "SELECT MAX(n) AS m FROM t [RANGE 10 SECONDS] WHERE 5 < x") == [(19,)]


def test_range_that_is_too_long_is_refused_with_the_range_that_is_kept() -> None:
    run = fed(BY_GROUP, "SELECT COUNT(*) AS n FROM t [RANGE 1 MINUTE]")
    title, value, hint = refusal(run, "SELECT AVG(x) AS m FROM t [RANGE 1 HOUR]")
    assert (title, value) == (
        "the running queries keep only 10 SECONDS of stream t for such a query",
        "1 HOUR",
    )
    remedy = "add a continuous query with this SELECT and a window of at least 1 HOUR"
    assert hint == f"ask for [RANGE 10 SECONDS], or {remedy}"


def test_range_that_is_no_multiple_of_a_pane_is_refused_with_the_nearest_ranges() -> None:
    title, value, hint = refusal(fed(BY_GROUP), "SELECT AVG(x) AS m FROM t [RANGE 5 SECONDS]")
    assert title == "RANGE is not a multiple of 2 SECONDS, the length of the panes that are kept"
    assert (value, hint) == ("5 SECONDS", "ask for [RANGE 4 SECONDS] or [RANGE 6 SECONDS]")


@pytest.mark.parametrize(
    ("asked", "title"),
    [
        ("SELECT x FROM t", "a one-time query must aggregate the rows of one window"),
        (
            "SELECT AVG(x) AS m FROM t [ROWS 10]",
            "a one-time query needs a window of time, not a window of rows",
        ),
        (
            "SELECT COUNT(*) AS n FROM (SELECT ts FROM t UNION ALL SELECT ts FROM s) AS u [RANGE 10 SECONDS]",
            "a one-time query cannot read a join, a union, or the answers of windows",
        ),
        (
            "SELECT AVG(x) AS m FROM s [RANGE 10 SECONDS]",
            "no running query aggregates stream s in windows of time",
        ),
    ],
)
def test_query_of_another_form_is_refused(asked: str, title: str) -> None:
    assert refusal(fed(BY_GROUP), asked)[0] == title


def test_sketches_of_finer_groups_are_not_combined() -> None:
    run = fed("SELECT k, APPROX_COUNT_DISTINCT(x) AS d FROM t [RANGE 10 SECONDS] GROUP BY k")
    assert values(run, "SELECT k, APPROX_COUNT_DISTINCT(x) AS d FROM t [RANGE 10 SECONDS] GROUP BY k") == [
        (0, 5),
        (1, 5),
    ]
    assert refusal(run, "SELECT APPROX_COUNT_DISTINCT(x) AS d FROM t [RANGE 10 SECONDS]")[0] == NO_PANES


def test_failing_expression_of_the_answer_is_an_error() -> None:
    run = fed(BY_GROUP)
    asked = "SELECT CAST(g || 'x' AS int64) AS i, COUNT(*) AS c FROM t [RANGE 10 SECONDS] GROUP BY g"
    assert refusal(run, asked)[0].startswith("an expression of SELECT or HAVING failed: ")


def test_work_of_an_answer_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    run = fed(BY_GROUP)
    asked = "SELECT k, g, MAX(n) AS m FROM t [RANGE 10 SECONDS] GROUP BY k, g"
    for name, most, title in (
        ("GROUPS_MAX", 3, "a one-time query can have at most 3 groups"),
        ("WORK_MAX", 100, "the panes of this query are larger than a one-time query can combine"),
        ("PANES_MAX", 4, "a one-time query can combine at most 4 panes"),
    ):
        monkeypatch.setattr(one_time, name, most)
        assert refusal(run, asked)[0] == title


def test_class_in_shards_answers_only_queries_that_group_by_its_key() -> None:
    run = fed(BY_GROUP)
    assert ask(run, "SELECT k, AVG(x) AS m FROM t [RANGE 10 SECONDS] GROUP BY k", key="k").tuples == 10
    with pytest.raises(InvalidInput, match="groups tuples of different shards together"):
        ask(run, "SELECT AVG(x) AS m FROM t [RANGE 10 SECONDS]", key="k")
