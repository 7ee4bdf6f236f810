"""A class's network: operators that queries share, and a query's answers while other queries are added and removed."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from configs.classes.limits import ClassLimits
from configs.classes.policies import policy_of
from configs.errors import InvalidInput
from engine.class_.runner import ClassRunner
from engine.data.schema import INT64, STRING, Field, Schema, TableSchema
from engine.data.train import train_from_arrow
from engine.network.row_losses import late_rows
from engine.plan.plan import Query
from engine.sql import plan_query
from tests.support.class_networks import SECOND, add, class_of, feed, nodes, row
from tests.support.query_grammar import Statement
from tests.support.query_runs import CATALOG, Run, planned, train_rows

SHORT = "SELECT window_end, count(*) AS c FROM t [RANGE 1 SECOND]"
LONG = "SELECT window_end, count(*) AS c FROM t [RANGE 10 SECONDS SLIDE 5 SECONDS]"


def failures(run: Run) -> dict[str, int]:
    """Return how many tuples and pairs have failed in all operators, for each reason of failure."""
    failed: Counter[str] = Counter()
    for node in run.runner.network.nodes:
        failed.update(getattr(node.operator, "failed", {}))
    return dict(failed)


def counts(run: Run, query: str) -> list[tuple[float, int]]:
    """Return (end in seconds, count) for each answer of a query with the columns window_start, window_end, c."""
    return [(end / SECOND, count) for _, end, count in run.rows(query)]


# -- shared operators --------------------------------------------------------------------------------------


def test_equal_queries_with_different_names_share_an_operator() -> None:
    run = class_of("SELECT x + 1 AS a FROM t WHERE k = 1", "SELECT v.x + 1 AS b FROM t AS v WHERE v.k = 1")
    assert nodes(run) == ["source:t", "select"]
    feed(run, row(0))
    assert run.rows("q0") == run.rows("q1") == [(2.0,)]


def test_windows_with_the_same_input_and_group_share_their_panes() -> None:
    lengths = ["2 SECONDS", "6 SECONDS SLIDE 2 SECONDS", "3 SECONDS", "5 SECONDS SLIDE 1 SECOND"]
    run = class_of(*(f"SELECT k, sum(x) AS s FROM t [RANGE {one}] GROUP BY k" for one in lengths))
    assert nodes(run).count("panes") == 1
    assert nodes(run).count("window") == len(lengths)


def test_windows_over_a_query_share_its_operators_and_a_pane_store() -> None:
    inner = plan_query("inner_query", "SELECT ts, x FROM t WHERE k = 1", CATALOG)
    outer = [
        plan_query(
            f"w{size}",
            f"SELECT sum(x) AS s FROM inner_query [RANGE {size} SECONDS]",
            CATALOG.with_query(inner),
        )
        for size in (4, 6)
    ]
    names = nodes(Run([inner, *outer]))
    assert [names.count(one) for one in ("source:t", "select", "panes", "window")] == [1, 1, 1, 2]


def test_ten_thousand_queries_share_their_operators() -> None:
    run = Run([], limits=ClassLimits(queries=10_000))
    plans: dict[str, Query] = {}
    for place in range(10_000):
        sql = f"SELECT k, avg(x) AS a FROM t [RANGE {1 + place % 50} SECONDS SLIDE 1 SECOND] WHERE n < {place % 20} GROUP BY k"
        if sql not in plans:
            plans[sql] = plan_query("q", sql, CATALOG)
        run.runner.add(replace(plans[sql], name=f"q{place}"))
    names = nodes(run)
    # The queries have 20 different conditions. Queries with the same condition share one operator for panes.
    # There are 100 different pairs of a condition and a window length.
    assert [names.count(one) for one in ("source:t", "filter", "panes", "window")] == [1, 20, 20, 100]


# -- estimated selectivities of operators ------------------------------------------------------------------


def test_the_selectivity_estimate_of_a_window_stays_steady_between_two_window_ends() -> None:
    run, groups, train_size, trains_per_s = (
        class_of("SELECT k, sum(x) AS s FROM t [RANGE 10 SECONDS] GROUP BY k"),
        5,
        20,
        5,
    )
    (source,) = run.runner.scheduled.believed().network.sources
    selectivities = []
    for train in range(100 * trains_per_s):
        run.offer(
            "t", [row((train + one / train_size) / trains_per_s, k=one % groups) for one in range(train_size)]
        )
        run.step(10**6)
        selectivities.append(run.runner.scheduled.believed().segments[source].selectivity)
    per_tuple = groups / (10 * trains_per_s * train_size)
    known = selectivities[40 * trains_per_s :]
    assert per_tuple / 4 < min(known) <= max(known) < 4 * per_tuple


# -- adding and removing queries ----------------------------------------------------------------------------


@pytest.mark.parametrize("queries", [(SHORT, LONG), (LONG, SHORT)])
def test_a_short_window_that_closes_keeps_the_panes_of_a_long_window(queries: tuple[str, str]) -> None:
    run = class_of(*queries)
    run.offer("t", [row(0), row(3), row(20)])
    run.finish()
    long = f"q{queries.index(LONG)}"
    assert counts(run, long) == [(5, 2), (10, 2), (25, 1), (30, 1)]


def test_a_union_of_a_long_and_a_short_window_keeps_the_panes_of_the_long_window() -> None:
    run = class_of(f"{LONG} UNION ALL {SHORT}")
    feed(run, *(row(second) for second in range(12))).finish()
    tens = [(end / SECOND, count) for start, end, count in run.rows("q0") if end - start == 10 * SECOND]
    assert tens == [(5, 5), (10, 10), (15, 7), (20, 2)]


def test_a_query_named_like_a_removed_query_does_not_get_its_windows() -> None:
    run = class_of(SHORT, SHORT)
    run.runner.remove("q0")
    add(run, "q0", LONG)
    feed(run, *(row(second) for second in range(11))).finish()
    assert counts(run, "q0") == [(5, 5), (10, 10), (15, 6), (20, 1)]
    assert counts(run, "q1") == [(second + 1, 1) for second in range(11)]


def test_removing_a_query_removes_only_its_own_operators() -> None:
    run = class_of(SHORT, LONG, "SELECT x FROM t WHERE k = 1")
    before = nodes(run)
    run.runner.remove("q2")
    assert [one for one in before if one not in nodes(run)] == ["select"]
    run.runner.remove("q0")
    run.runner.remove("q1")
    assert nodes(run) == []
    feed(run, row(0))


def test_a_select_added_while_running_starts_with_new_input() -> None:
    run = feed(class_of("SELECT x FROM t"), row(0, x=1.0))
    add(run, "late", "SELECT x * 2 AS y FROM t")
    feed(run, row(1, x=2.0))
    assert (run.rows("q0"), run.rows("late")) == ([(1.0,), (2.0,)], [(4.0,)])


def test_adding_queries_one_by_one_gives_the_same_operator_estimates_as_adding_them_at_once() -> None:
    joined = "SELECT l.n FROM t AS l JOIN t AS r ON l.k = r.k AND r.ts BETWEEN l.ts AND l.ts"
    queries = ["SELECT x FROM t WHERE k = 1", LONG, "SELECT n FROM s", joined, f"{SHORT} WHERE k = 1", SHORT]
    grown, other = class_of(), class_of()
    for place, sql in enumerate(queries):
        for one in (grown, other):
            add(one, f"q{place}", sql)
        grown.runner.scheduled.believed()
    assert grown.runner.scheduled.believed() == other.runner.scheduled.believed()
    assert grown.runner.scheduled.believed().segments == other.runner.scheduled.believed().segments


def test_adding_a_query_keeps_the_measurements_of_running_operators() -> None:
    run = feed(class_of("SELECT x FROM t"), *(row(second) for second in range(200)))
    before = run.runner.scheduled.believed().estimates
    taken = [run.runner.scheduled.tuples[place] for place in range(len(before))]
    add(run, "late", "SELECT n FROM t WHERE k = 1")
    assert run.runner.scheduled.believed().estimates[: len(before)] == before
    assert [run.runner.scheduled.tuples[place] for place in range(len(before) + 1)] == [*taken, 0]


def test_queued_input_reaches_queries_that_were_added_after_the_input_arrived() -> None:
    run = class_of("SELECT x FROM t", "SELECT n FROM s")
    run.step(1)
    run.offer("t", [row(0, x=1.0)])
    add(run, "late", "SELECT x FROM t WHERE k = 1")
    run.offer("t", [row(1, x=2.0)])
    run.offer("s", [row(0, n=1, b=None, d=None)])
    run.runner.scheduled.believed()
    run.runner.remove("q1")
    run.offer("t", [row(2, x=3.0)])
    add(run, "later", "SELECT x + 1 AS y FROM t")
    run.finish()
    assert run.rows("q0") == run.rows("late") == [(1.0,), (2.0,), (3.0,)]
    assert run.rows("later") == [(2.0,), (3.0,), (4.0,)]


def test_a_window_added_while_running_starts_after_the_existing_panes() -> None:
    run = feed(class_of(LONG), row(0, x=-5.0), row(3))
    add(
        run,
        "late",
        "SELECT window_end, count(*) AS c, min(x) AS least FROM t [RANGE 10 SECONDS SLIDE 5 SECONDS]",
    )
    assert nodes(run).count("panes") == 1
    feed(run, row(4, x=2.0), row(6, x=3.0), row(12, x=4.0)).finish()
    assert [(end / SECOND, count, least) for _, end, count, least in run.rows("late")] == [
        (15, 2, 3.0),
        (20, 1, 4.0),
    ]
    assert counts(run, "q0") == [(5, 3), (10, 4), (15, 2), (20, 1)]


def test_first_and_last_of_a_row_window_use_event_time() -> None:
    run = class_of("SELECT first(n) AS a, last(n) AS b FROM s [ROWS 2 SLIDE 1]")
    for second, n in ((2, 1), (1, 2), (3, 3)):
        run.offer("s", [row(second, n=n, b=None, d=None)])
    run.finish()
    assert run.rows("q0") == [(1, 1), (2, 1), (2, 3)]


# -- rows that fail -----------------------------------------------------------------------------------------


def test_a_failed_row_is_counted_and_other_rows_are_processed() -> None:
    run = class_of(
        "SELECT window_end, sum(v) AS c FROM (SELECT ts, CAST(g AS int32) AS v FROM t) AS f [RANGE 1 SECOND]"
    )
    feed(run, row(0, g="1"), row(0, g="2"), row(1, g="x"))
    assert counts(run, "q0") == [(1, 3)]
    failed = [getattr(node.operator, "failed", None) for node in run.runner.network.nodes]
    assert [dict(one) for one in failed if one] == [{"text is not a int32": 1}]


def test_an_overflow_fails_only_its_row() -> None:
    run = class_of("SELECT n * 4 AS m FROM t", "SELECT n FROM t WHERE n + 1 > 0")
    run.offer("t", [row(0, n=1), row(0, n=2**63 - 1), row(0, n=3)])
    run.finish()
    assert (run.rows("q0"), run.rows("q1")) == ([(4,), (12,)], [(1,), (3,)])


PAIRS = "SELECT l.n AS a, r.n AS b FROM t AS l JOIN t AS r ON l.k = r.k"


@pytest.mark.parametrize(
    "query",
    [
        f"{PAIRS} AND r.ts BETWEEN l.ts AND l.ts WHERE l.n + r.n > 0",
        "SELECT l.n AS a, r.n AS b FROM t [RANGE 1 SECOND] AS l JOIN t [RANGE 1 SECOND] AS r"
        " ON l.k = r.k AND l.n + r.n > 0 AND r.ts = l.ts",
    ],
)
def test_a_failed_pair_is_counted_and_other_pairs_are_joined(query: str) -> None:
    run = class_of(query)
    run.offer("t", [row(0, n=1), row(0, n=2**62), row(5, n=2**62)])
    run.finish()
    assert sorted(run.rows("q0")) == [(1, 1), (1, 2**62), (2**62, 1)]
    assert failures(run) == {"addition overflows int64": 2}


def test_two_tuples_that_do_not_match_cannot_fail_as_a_pair() -> None:
    run = class_of(
        "SELECT l.n AS a, r.n AS b FROM t [RANGE 10 SECONDS SLIDE 10 SECONDS] AS l"
        " JOIN t [RANGE 10 SECONDS SLIDE 10 SECONDS] AS r ON l.k = r.k AND l.n + r.n < 0 AND l.ts < r.ts"
    )
    feed(run, row(9, n=2**62), row(12, n=2**62)).finish()
    assert (run.rows("q0"), failures(run)) == ([], {})


def test_a_failed_row_of_a_table_join_is_counted() -> None:
    rooms = TableSchema("rooms", Schema((Field("k", INT64), Field("room", STRING))))
    table = train_from_arrow(pa.table({"k": [1, 1, 1], "room": ["7", "x", "9"]}), rooms.schema, 0.0)
    sql = "SELECT t.n, rooms.room FROM t JOIN rooms ON t.k = rooms.k AND CAST(rooms.room AS int64) > t.n"
    run = Run([])
    run.runner = ClassRunner(
        lambda query, train: run.answers.setdefault(query, []).append(train), tables={"rooms": table}
    )
    run.runner.add(plan_query("q0", sql, CATALOG.with_entry(rooms)))
    feed(run, row(0, n=8)).finish()
    assert (run.rows("q0"), failures(run)) == ([(8, "9")], {"text is not a int64": 1})


def test_late_row_filtered_by_an_inner_query_does_not_reach_the_outer_query() -> None:
    inner = "SELECT ts, x + 1 AS y, g AS text FROM t WHERE k > 5"
    sql = "SELECT count(*) AS c FROM inner_rows [RANGE 1 SECOND] WHERE text LIKE 'a%'"
    run = Run(planned({"q": Statement(sql, "", needs={"inner_rows": inner})}))
    run.offer("t", [row(0, k=6), row(5, k=6), row(1, k=1)])
    run.finish()
    assert counts(run, "q") == [(1, 1), (6, 1)]


def test_tuples_without_event_time_are_refused_and_counted() -> None:
    run = class_of(SHORT, "SELECT x FROM t")
    run.offer("t", [row(0, ts=None), row(-3, x=2.0), row(0, ts=None), row(1, x=3.0)])
    run.offer("t", [row(0, ts=None)])
    run.finish()
    assert (counts(run, "q0"), run.rows("q1")) == ([(-2, 1), (2, 1)], [(2.0,), (3.0,)])
    assert late_rows(run.runner.network.nodes) == {"source:t": 3}


@pytest.mark.parametrize("policy", ["fas", "bsd:clusters=4,processing=clustered", "hnr:sharing=max"])
def test_answers_do_not_depend_on_the_policy_when_queries_are_added_and_removed(policy: str) -> None:
    def answers(name: str) -> list[list[tuple[Any, ...]]]:
        run = Run([])
        run.runner = ClassRunner(run._take, policy_of(name), train_max=2, tables={})
        run.runner.add(
            *planned({"q0": Statement(SHORT, ""), "q1": Statement("SELECT x FROM t WHERE n > 0", "")})
        )
        for second in range(6):
            run.offer("t", [row(second, x=float(place)) for place in range(3)])
            run.step(2)
            if second == 2:
                add(run, "q2", "SELECT k FROM t WHERE n > 0")
            if second == 4:
                run.runner.evict("t", 2)
                run.runner.remove("q1")
        run.finish()
        return [sorted(run.rows(query)) for query in ("q0", "q2")]

    assert answers(policy) == answers("rr")
    assert all(answers(policy))


def test_nan_is_larger_than_any_number() -> None:
    run = class_of(
        "SELECT k, min(x) AS a, max(x) AS b, count(DISTINCT x) AS c FROM t [RANGE 4 SECONDS SLIDE 1 SECOND] GROUP BY k"
    )
    nan = float("nan")
    run.offer(
        "t", [row(0, k=1, x=nan), row(0, k=1, x=2.0), row(1, k=1, x=nan), row(1, k=2, x=nan), row(3, k=3)]
    )
    run.finish()
    found = [
        (key, repr(least), repr(most), count)
        for _, end, key, least, most, count in run.rows("q0")
        if end == 4 * SECOND
    ]
    assert sorted(found) == [(1, "2.0", "nan", 2), (2, "nan", "nan", 1), (3, "1.0", "1.0", 1)]


# -- event time, arrival and kept fraction ------------------------------------------------------------------


def test_tuples_without_a_key_still_advance_the_time_of_a_join() -> None:
    join = "SELECT l.ts AS ts, l.k FROM t AS l JOIN t AS r ON l.k = r.k AND r.ts BETWEEN l.ts AND l.ts"
    run = class_of(f"SELECT window_end, count(*) AS c FROM ({join}) AS j [RANGE 1 SECOND]")
    feed(run, row(0), row(5, k=None))
    assert counts(run, "q0") == [(1, 1)]


def test_empty_inner_windows_still_advance_the_time_of_an_outer_window() -> None:
    inner = "SELECT window_start AS a, window_end AS b, count(*) AS c FROM t [RANGE 1 SECOND]"
    run = class_of(f"SELECT window_end, sum(c) AS c FROM ({inner} WHERE k = 1) AS j [RANGE 2 SECONDS]")
    feed(run, row(0), row(1.5, k=2), row(6, k=2))
    assert counts(run, "q0") == [(2, 1)]


def test_an_outer_window_closes_although_no_inner_window_closes() -> None:
    inner = "SELECT window_start AS a, window_end AS b, count(*) AS c FROM t [RANGE 4 SECONDS]"
    run = class_of(f"SELECT sum(c) AS c FROM ({inner}) AS j [RANGE 3 SECONDS SLIDE 1 SECOND]")
    feed(run, *(row(second) for second in range(7)))
    assert counts(run, "q0") == [(5, 4), (6, 4)]


def test_a_selected_tuple_keeps_its_arrival_and_a_pair_has_the_later_arrival() -> None:
    run = class_of(
        "SELECT n FROM t", "SELECT l.n FROM t AS l JOIN t AS r ON l.ts = r.ts - INTERVAL '1 second'"
    )
    feed(run, row(0, n=1), row(0.5, n=2), row(1, n=3))
    arrivals = {
        name: [
            (*values, at) for one in trains for values, at in zip(train_rows(one), one.arrival, strict=True)
        ]
        for name, trains in run.answers.items()
    }
    assert arrivals == {"q0": [(1, 1.0), (2, 2.0), (3, 3.0)], "q1": [(1, 3.0)]}


def test_a_window_result_has_the_arrival_of_the_tuple_that_closed_it() -> None:
    run = class_of(SHORT)
    for second in (0, 0.5, 1, 1.2, 3):
        run.offer("t", [row(second)])
    run.step(10**6)
    closed = [
        (end / SECOND, at)
        for one in run.answers["q0"]
        for (_, end, _), at in zip(train_rows(one), one.arrival, strict=True)
    ]
    assert closed == [(1, 3.0), (2, 5.0)]


def test_a_window_result_carries_the_kept_fraction_of_its_input() -> None:
    run = class_of(LONG)
    run.offer("t", [row(0), row(1)], kept=0.5)
    run.offer("t", [row(2), row(3)], kept=1.0)
    run.offer("t", [row(20)], kept=0.25)
    run.step(10**6)
    assert [one.kept for one in run.answers["q0"]] == [pytest.approx(4 / 6)]


def test_a_refused_query_leaves_no_trace() -> None:
    runner = ClassRunner(lambda query, train: None)
    rooms = TableSchema("rooms", Schema((Field("k", INT64), Field("room", STRING))))
    joined = plan_query(
        "joined", "SELECT t.x, rooms.room FROM t JOIN rooms ON t.k = rooms.k", CATALOG.with_entry(rooms)
    )
    with pytest.raises(InvalidInput, match="the table has not been loaded"):
        runner.add(plan_query("fine", "SELECT x FROM t", CATALOG), joined)
    assert (runner.network.nodes, dict(runner.network.queries)) == ([], {})
