"""Rows that gateways reject: counted by stream with the last reason, and shown wherever problems are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from configs.documents.declarations import documents_of
from loadshed.ledger import TupleLedger
from services.cli.commands.account import ledger_table
from services.cli.tables.feed_views import feeds_table, rejections
from services.client import Client
from services.watch.losses import WINDOW_S, Intakes, stream_problems
from tests.support.metered import Metered, Metering, metering, stream
from tests.support.served import Served, served
from tests.support.watched import declared

NO_TIME, NO_FIT = "no event time: ts", "does not fit: temp"
DOCUMENTS = """
{kind: Stream, name: Readings, columns: {ts: timestamp, sensor: int32, temp: float64}, time: ts,
 source: {format: json, options: {path: /data/in}, schema: "ts TIMESTAMP, sensor INT, temp DOUBLE"}}
---
{kind: Stream, name: pushed, columns: {v: int64}}
---
{kind: Tenant, name: gold, priority_class: gold}
"""
PROBLEM = (
    "stream Readings: most of its rows are rejected (no event time: ts); see weir describe stream Readings"
)


def report(accepted: int, no_time: int = 0, no_fit: int = 0) -> dict[str, Any]:
    counts = {NO_TIME: no_time, NO_FIT: no_fit}
    return stream("Readings", accepted) | {"dead": {reason: rows for reason, rows in counts.items() if rows}}


# -- counted ---------------------------------------------------------------------------------------------------


def test_stream_of_which_all_rows_are_rejected_is_a_problem_with_its_reason() -> None:
    intakes = Intakes()
    intakes.note(0.0, [])
    intakes.note(5.0, [report(0, no_time=150)])
    intake = intakes.by_stream["readings"]
    assert (intake.accepted, intake.rejected, intake.rejected_now) == (0, 150, 1.0)
    assert (intake.last_reason, intake.reasons) == (NO_TIME, {NO_TIME: 150})
    assert list(stream_problems(intakes.by_stream.values())) == [PROBLEM]


def test_rows_rejected_before_the_first_look_are_counted_and_no_problem() -> None:
    intakes = Intakes()
    intakes.note(0.0, [report(0, no_time=150)])
    intake = intakes.by_stream["readings"]
    assert (intake.rejected, intake.rejected_now, intake.last_reason) == (150, 0.0, NO_TIME)


def test_problem_lasts_while_nothing_comes_and_ends_with_rows_that_are_accepted() -> None:
    intakes = Intakes()
    intakes.note(0.0, [report(1000)])
    intakes.note(5.0, [report(1010, no_time=30)])
    intakes.note(5.0 + 9 * WINDOW_S, [report(1010, no_time=30)])
    assert intakes.by_stream["readings"].rejected_now == 0.75
    intakes.note(6.0 + 9 * WINDOW_S, [report(1110, no_time=30)])
    assert intakes.by_stream["readings"].rejected_now == 0.0


def test_last_reason_is_that_of_the_rows_that_were_rejected_last() -> None:
    intakes = Intakes()
    intakes.note(0.0, [report(0, no_time=150)])
    intakes.note(5.0, [report(0, no_time=150, no_fit=1)])
    assert intakes.by_stream["readings"].last_reason == NO_FIT
    intakes.note(10.0, [report(9, no_time=150, no_fit=1)])
    assert intakes.by_stream["readings"].last_reason == NO_FIT


def test_gateway_that_is_started_again_loses_no_count_of_rejected_rows() -> None:
    intakes = Intakes()
    intakes.note(0.0, [report(1000, no_time=10)])
    intakes.note(5.0, [report(1, no_time=13)])  # rows that were accepted count from 0
    intake = intakes.by_stream["readings"]
    assert (intake.rejected, intake.rejected_now) == (13, 0.75)


def test_gateways_of_several_nodes_are_one_stream() -> None:
    intakes = Intakes()
    intakes.note(0.0, [])
    intakes.note(5.0, [report(30, no_time=5), report(60, no_time=5)])
    intake = intakes.by_stream["readings"]
    assert (intake.accepted, intake.reasons, intake.rejected_now) == (90, {NO_TIME: 10}, 0.1)


# -- shown -----------------------------------------------------------------------------------------------------


@pytest.fixture
def rejecting(tmp_path: Path) -> Iterator[tuple[Served, Metering]]:
    """A service over two streams, of which gateways reject all rows since its first look."""
    with ExitStack() as stack:
        found = stack.enter_context(served(tmp_path / "home"))
        found.catalog.apply(documents_of(DOCUMENTS), "test")
        found.service.snapshot.refresh()
        system = Metered().declare(declared("gold"))
        system.cycle("gold", 0.2, (TupleLedger(), 0))
        metered = stack.enter_context(metering(system))
        metered.told()
        system.inflows = [report(0, no_time=150), stream("pushed", 12) | {"dead": {"does not fit: v": 3}}]
        metered.told()
        found.service.watch, found.service.nodes = metered.watch, metered.nodes
        found.service.brought = tuple
        yield found, metered


def test_service_counts_rejected_rows_by_feed_and_by_stream(rejecting: tuple[Served, Metering]) -> None:
    found, metered = rejecting
    with Client(found.url, found.key("admin")) as weir:
        (readings,) = weir.live.feed_statuses()[0]["streams"]
        assert (readings["rejected"], readings["rejected_now"], readings["last_reason"]) == (
            150,
            1.0,
            NO_TIME,
        )
        assert weir.live.stream_input("PUSHED")["reasons"] == {"does not fit: v": 3}
        ledger = weir.live.ledger()
        assert ledger["closes"]
        assert ledger["rejected_at_gateways"] == [
            {"stream": "Readings", "rows": 150, "reason": NO_TIME},
            {"stream": "pushed", "rows": 3, "reason": "does not fit: v"},
        ]
        assert PROBLEM in weir.live.system()["problems"]
    with Client(found.url, found.key("tenant:gold")) as weir:
        assert [line["stream"] for line in weir.live.ledger()["rejected_at_gateways"]] == ["Readings"]
    assert metered.told()["weir_problems"] == 1


def test_table_of_feeds_has_a_column_of_rejected_rows_and_a_line_with_the_reason() -> None:
    line = {"name": "repairs", "rows": 0, "offered": 0, "late": 0, "rejected": 150, "rejected_now": 1.0}
    status = {
        "name": "repairs",
        "state": "running",
        "rows_per_s": 0.0,
        "streams": [line | {"last_reason": NO_TIME}],
    }
    assert "rejected" in feeds_table([status]).heads  # type: ignore[union-attr]  # there is a table
    assert [text.plain for text in rejections([status])] == [
        "repairs: 150 rows rejected, 100% of the last minute of input: no event time: ts"
    ]


def test_ledger_names_streams_with_rejected_rows_below_its_accounts() -> None:
    told = {
        "items": [],
        "closes": True,
        "given_up": [],
        "rejected_at_gateways": [{"stream": "repairs", "rows": 150, "reason": NO_TIME}],
    }
    assert ledger_table(told).caption == (
        "no class has reported yet\n[yellow]150 rows of repairs were rejected before any class[/]: no event time: ts"
    )
