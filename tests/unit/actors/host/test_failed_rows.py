"""Rows that fail in a query or exceed its limits: these rows are counted by operator and reason, and shown as problems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pytest

from actors.host.failure_counts import FailureCounts
from actors.host.recent_latency import LATE_PIECE_S as PIECE_S
from actors.host.recent_latency import LATE_S as WINDOW_S
from actors.messages.unit_messages import FAILURES_MAX, Failure, Figures, UnitCounts
from configs.classes.limits import ClassLimits
from configs.classes.live_class import LiveClass
from engine.class_.runner import ClassRunner
from engine.data.train import train_from_arrow
from engine.sql import SqlCatalog, parse_create_stream, plan_query
from loadshed.aloma import AlomaBranch
from services.cli.tables.class_tables import class_view_table, quality_table
from services.watch.class_views import ClassView, as_json, view_told
from services.watch.losses import QUERIES_NAMED, failures_together, query_losses, query_problems
from services.watch.sentences import in_words
from services.watch.states import ClassState, Condition
from tests.support.metered import Metered, metering
from tests.support.watched import declared

TRIPS = "CREATE STREAM trips (ts timestamp, station string, n int64, WATERMARK FOR ts AS ts)"
STREAM = parse_create_stream(TRIPS)
CATALOG = SqlCatalog.of(streams=[STREAM])
CAST = "SELECT CAST(station AS INT) AS s FROM trips"
NOT_A_NUMBER = "text is not a int32"
FAILED = Failure("select", ("s",), NOT_A_NUMBER, 150, 1.0)


def runner_of(*statements: str, groups: int = 1000) -> ClassRunner:
    runner = ClassRunner(lambda query, train: None, limits=ClassLimits(groups=groups))
    runner.add(*(plan_query(f"q{number}", sql, CATALOG) for number, sql in enumerate(statements)))
    return runner


def push(runner: ClassRunner, stations: Sequence[str], second: int = 0) -> None:
    begin = 1_000_000 * second
    columns = {
        "ts": pa.array(range(begin, begin + len(stations)), pa.timestamp("us", tz="UTC")),
        "station": pa.array(stations),
        "n": pa.array(range(len(stations))),
    }
    batch = pa.table(columns).cast(STREAM.schema.arrow).combine_chunks()
    runner.offer("trips", train_from_arrow(batch, STREAM.schema, 0.0))
    runner.run(1.0, lambda: 0.0, lambda: 0.0)


def view(figures: Figures, *failures: Failure, state: ClassState = ClassState.WITHIN_TARGET) -> ClassView:
    settings = LiveClass(name="acme", priority=1, delay_target_ms=300, streams=(TRIPS,), queries={"s": CAST})
    return ClassView(
        settings, 1.0, 1.0, 0.0, 0.0, figures, 1, False, condition=Condition(state, ""), failures=failures
    )


# Tests of counts of failed rows.


def test_failed_rows_of_a_query_are_counted_with_their_reason() -> None:
    runner, counts = runner_of(CAST), FailureCounts()
    assert counts.end_cycle(0.0, runner) == ()
    push(runner, ["Main St"] * 150)
    (failure,) = counts.end_cycle(PIECE_S, runner)
    assert (failure.queries, failure.reason, failure.rows, failure.part) == (("q0",), NOT_A_NUMBER, 150, 1.0)


def test_rows_beyond_the_group_limit_are_counted_as_failed() -> None:
    runner = runner_of("SELECT station, count(*) AS n FROM trips [RANGE 1 HOUR] GROUP BY station", groups=7)
    counts = FailureCounts()
    counts.end_cycle(0.0, runner)
    push(runner, [f"station {number}" for number in range(100)])
    (failure,) = counts.end_cycle(PIECE_S, runner)
    assert (failure.queries, failure.reason, failure.rows) == (("q0",), "too many groups (limit 7)", 93)
    assert failure.part == pytest.approx(0.93)


def test_the_failed_part_of_a_querys_input_covers_the_last_minute() -> None:
    runner, counts = runner_of(CAST), FailureCounts()
    counts.end_cycle(0.0, runner)
    push(runner, ["1"] * 1000)
    assert counts.end_cycle(10.0, runner) == ()
    push(runner, ["1"] * 30 + ["x"] * 10, second=1)
    (failure,) = counts.end_cycle(20.0, runner)
    assert (failure.rows, failure.part) == (10, 0.25)
    push(runner, ["1"] * 10, second=2)
    # The counts are read every few seconds, and once more before the class falls asleep.
    assert counts.end_cycle(20.1, runner)[0].part == 0.25
    assert counts.end_cycle(20.2, runner, is_last=True)[0].part == 0.2
    push(runner, ["1"] * 10, second=3)
    (failure,) = counts.end_cycle(20.2 + 2 * WINDOW_S, runner)
    assert (failure.rows, failure.part) == (10, 0.0)


def test_failure_of_a_shared_operator_names_all_its_queries() -> None:
    runner, counts = runner_of(CAST, CAST), FailureCounts()
    counts.end_cycle(0.0, runner)
    push(runner, ["x"])
    assert [failure.queries for failure in counts.end_cycle(PIECE_S, runner)] == [("q0", "q1")]


def test_report_lists_a_bounded_number_of_failures_and_the_largest_first() -> None:
    statements = [
        f"SELECT CAST(station AS INT) + {number} AS s FROM trips WHERE n < {number}"
        for number in range(1, 31)
    ]
    runner, counts = runner_of(*statements), FailureCounts()
    counts.end_cycle(0.0, runner)
    push(runner, ["x"] * 30)
    failures = counts.end_cycle(PIECE_S, runner)
    assert len(failures) == FAILURES_MAX
    assert failures[0].rows == 30


# Tests of problems, and of the places where problems are shown.


def test_failed_rows_of_the_units_of_a_class_are_added_and_the_largest_failed_part_is_shown() -> None:
    found = failures_together([[FAILED], [replace(FAILED, rows=50, part=0.1)], []])
    assert found == (replace(FAILED, rows=200),)


def test_failed_parts_of_one_operator_are_added_but_of_several_operators_the_largest_counts() -> None:
    failures = [
        Failure("select", ("s",), "overflow", 30, 0.3),
        Failure("select", ("s",), NOT_A_NUMBER, 40, 0.4),
        Failure("window", ("s",), "too many groups (limit 7)", 20, 0.5),
    ]
    (loss,) = query_losses(failures)
    assert (loss.rows, loss.part, loss.reason) == (90, 0.7, "too many groups (limit 7)")


def test_the_list_of_problems_names_a_bounded_number_of_queries_with_failed_rows() -> None:
    assert list(query_problems("acme", [FAILED, replace(FAILED, queries=("t",), part=0.01)])) == [
        f"acme/s: rows fail ({NOT_A_NUMBER}); see weir query quality acme"
    ]
    many = [replace(FAILED, operator=f"select {number}", queries=(f"s{number}",)) for number in range(9)]
    assert len(list(query_problems("acme", many))) == QUERIES_NAMED + 1


def test_failed_rows_of_a_class_are_shown_in_every_view() -> None:
    system = Metered()
    system.declare(declared("gold"))
    system.cycle(
        "gold",
        0.2,
        failures=(replace(FAILED, queries=("q",)),),
        counted=UnitCounts(1, 0.0, False, branches=(0,) * len(AlomaBranch)),
    )
    with metering(system) as metered:
        series = metered.told()
        (shown,) = metered.watch.view().classes.values()
        problem = f"gold/q: rows fail ({NOT_A_NUMBER}); see weir query quality gold"
        assert metered.watch.losses() == [problem]
    assert shown.condition == Condition(
        ClassState.LOSING, f"100% of the rows of query q fail: {NOT_A_NUMBER}"
    )
    assert series['weir_query_failed_ratio{priority_class="",query="q",tenant="gold"}'] == 1.0
    assert series['weir_query_failed_tuples_total{priority_class="",query="q",tenant="gold"}'] == 150
    assert series["weir_problems"] == 1
    assert f"100% of the rows of query q fail: {NOT_A_NUMBER} (150 rows in all)" in in_words(shown)
    assert view_told(as_json(shown) | {"lossless": False, "units": 1}).failures == shown.failures


def test_class_and_query_tables_show_failed_rows() -> None:
    answering = Figures(results_per_s=3.0, p95_ms=4.0)
    for part, caption in ((0.12, "failed rows: 12% of s in acme"), (0.001, "")):
        shown = view(answering, replace(FAILED, part=part))
        assert class_view_table("", [shown]).caption == caption
    line = {
        "query": "s",
        "answers": 0,
        "mean_ms": 0.0,
        "deadline_ms": 300.0,
        "slowdown": 0.0,
        "utility": {"mean": 1.0, "missed": 0},
        "staleness": 0.0,
        "tardiness": None,
        "failed": 150,
        "failed_now": 1.0,
        "failed_reason": NOT_A_NUMBER,
    }
    table = quality_table({"tenant": "acme", "items": [line]})
    assert table.caption == f"s: 100% of its rows in the last minute of input failed: {NOT_A_NUMBER}"
    assert str(table.rows[0][-1]) == "150"
