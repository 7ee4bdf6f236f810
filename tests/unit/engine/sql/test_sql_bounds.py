"""`window_start` and `window_end` in a windowed query over another query that has columns of these names."""

from __future__ import annotations

import pytest

from engine.sql import PlanningError
from tests.support.class_networks import SECOND, class_of, feed, row
from tests.support.query_grammar import Statement
from tests.support.query_runs import Run, planned

INNER = "SELECT window_start, window_end, k, count(*) AS c FROM t [RANGE 1 SECOND] GROUP BY k"
WHOLE = [(0, 2, 2), (2, 4, 3)]
OUTER = {
    "SELECT window_start, window_end, sum(c) AS c FROM {}": WHOLE,
    "SELECT sum(c) AS c FROM {}": WHOLE,
    "SELECT sum(c) AS c FROM {} GROUP BY window_end": WHOLE,
    "SELECT window_start AS a, window_end AS b, sum(c) AS c FROM {} GROUP BY b": WHOLE,
    "SELECT window_start, window_end, sum(c) AS c FROM {} GROUP BY ALL": WHOLE,
    "SELECT sum(c) AS c FROM {} HAVING epoch_ms(window_end) > 2000": WHOLE[1:],
    "SELECT sum(c) AS c FROM {} WHERE epoch_ms(window_end) > 2000": [(2, 4, 1)],
    "SELECT sum(c) AS c FROM {} WHERE epoch_ms(q.window_end) < 2000": [(0, 2, 2)],
    "SELECT sum(epoch_ms(window_end)) AS c FROM {}": [(0, 2, 1000), (2, 4, 5000)],
    "SELECT max(epoch_ms(q.window_start)) - epoch_ms(window_start) AS c FROM {}": [(0, 2, 0), (2, 4, 0)],
    "SELECT epoch_ms(window_end) + c AS c FROM {} GROUP BY c": [(0, 2, 2002), (2, 4, 4001), (2, 4, 4002)],
    "SELECT DISTINCT window_start, window_end, c FROM {}": [(0, 2, 2), (2, 4, 1), (2, 4, 2)],
    "SELECT DISTINCT epoch_ms(window_end) AS c, k FROM {}": [(0, 2, 2000, 1), (2, 4, 4000, 1)],
}


def fed(run: Run) -> list[tuple[float, ...]]:
    """Offer five rows to the query, and return its answers with the two bounds of each window in seconds."""
    feed(run, row(0), row(0.5), row(1), row(1.5), row(2)).finish()
    return [(start / SECOND, end / SECOND, *rest) for start, end, *rest in run.rows("q0")]


@pytest.mark.parametrize("sql", OUTER)
def test_window_start_and_end_over_a_subquery_mean_the_outer_window(sql: str) -> None:
    text = sql.format(f"({INNER}) AS q [RANGE 2 SECONDS]")
    assert fed(class_of(text)) == OUTER[sql]


@pytest.mark.parametrize("sql", OUTER)
def test_window_start_and_end_over_a_named_query_mean_the_outer_window(sql: str) -> None:
    text = sql.format("inner_query [RANGE 2 SECONDS] AS q")
    assert fed(Run(planned({"q0": Statement(text, "", {"inner_query": INNER})}))) == OUTER[sql]


def test_a_query_can_group_by_the_qualified_end_of_the_inner_window() -> None:
    sql = f"SELECT q.window_end AS inner_end, sum(c) AS c FROM ({INNER}) AS q [RANGE 4 SECONDS] GROUP BY q.window_end"
    found = [(end, inner / SECOND, c) for _, end, inner, c in fed(class_of(sql))]
    assert found == [(4, 1, 2), (4, 2, 2), (4, 3, 1)]


def test_window_start_and_end_without_an_outer_time_window_mean_the_inner_window() -> None:
    assert fed(class_of(f"SELECT window_start, window_end, c FROM ({INNER}) AS q")) == [
        (0, 1, 2),
        (1, 2, 2),
        (2, 3, 1),
    ]
    rows = f"SELECT window_start, window_end, sum(c) AS c FROM ({INNER}) AS q [ROWS 2 SLIDE 1] GROUP BY ALL"
    assert fed(class_of(rows)) == [(0, 1, 2), (0, 1, 2), (1, 2, 2), (1, 2, 2), (2, 3, 1)]


def test_a_query_grouped_by_the_outer_windows_end_cannot_select_the_inner_windows_end() -> None:
    with pytest.raises(PlanningError, match="neither in GROUP BY nor inside an aggregate"):
        class_of(f"SELECT q.window_end, sum(c) FROM ({INNER}) AS q [RANGE 2 SECONDS] GROUP BY window_end")
