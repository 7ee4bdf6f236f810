"""Rows that gateways reject: their counts and last reason per stream, and where they are shown."""

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


# -- counts of rejected rows -----------------------------------------------------------------------------------


def test_a_stream_with_only_rejected_rows_is_a_problem() -> None:
    intakes = Intakes()
    intakes.note(0.0, [])
    intakes.note(5.0, [report(0, no_time=150)])
    intake = intakes.by_stream["readings"]
    assert (intake.accepted, intake.rejected, intake.rejected_now) == (0, 150, 1.0)
    assert (intake.last_reason, intake.reasons) == (NO_TIME, {NO_TIME: 150})
    assert list(stream_problems(intakes.by_stream.values())) == [PROBLEM]


def test_rows_rejected_before_the_first_poll_are_counted_but_are_no_problem() -> None:
    intakes = Intakes()
    intakes.note(0.0, [report(0, no_time=150)])
    intake = intakes.by_stream["readings"]
    assert (intake.rejected, intake.rejected_now, intake.last_reason) == (150, 0.0, NO_TIME)


def test_the_problem_of_rejected_rows_stays_without_input_and_ends_when_rows_are_accepted() -> None:
    intakes = Intakes()
    intakes.note(0.0, [report(1000)])
    intakes.note(5.0, [report(1010, no_time=30)])
    intakes.note(5.0 + 9 * WINDOW_S, [report(1010, no_time=30)])
    assert intakes.by_stream["readings"].rejected_now == 0.75
    intakes.note(6.0 + 9 * WINDOW_S, [report(1110, no_time=30)])
    assert intakes.by_stream["readings"].rejected_now == 0.0


def test_the_last_reason_shown_is_the_reason_of_the_latest_rejected_rows() -> None:
    intakes = Intakes()
    intakes.note(0.0, [report(0, no_time=150)])
    intakes.note(5.0, [report(0, no_time=150, no_fit=1)])
    assert intakes.by_stream["readings"].last_reason == NO_FIT
    intakes.note(10.0, [report(9, no_time=150, no_fit=1)])
    assert intakes.by_stream["readings"].last_reason == NO_FIT


def test_a_restarted_gateway_keeps_the_count_of_rejected_rows() -> None:
    intakes = Intakes()
    intakes.note(0.0, [report(1000, no_time=10)])
    intakes.note(5.0, [report(1, no_time=13)])  # A restarted gateway counts accepted rows from 0.
    intake = intakes.by_stream["readings"]
    assert (intake.rejected, intake.rejected_now) == (13, 0.75)


def test_counts_of_several_gateways_are_added_per_stream() -> None:
    intakes = Intakes()
    intakes.note(0.0, [])
    intakes.note(5.0, [report(30, no_time=5), report(60, no_time=5)])
    intake = intakes.by_stream["readings"]
    assert (intake.accepted, intake.reasons, intake.rejected_now) == (90, {NO_TIME: 10}, 0.1)


# -- API and tables that show the counts ------------------------------------------------------------------------


@pytest.fixture
def rejecting(tmp_path: Path) -> Iterator[tuple[Served, Metering]]:
    """Return a service and its metrics. Two streams have rejected rows since the first poll of the service."""
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


def test_the_service_counts_rejected_rows_by_feed_and_by_stream(rejecting: tuple[Served, Metering]) -> None:
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


def test_the_feeds_table_shows_rejected_rows_and_their_reason() -> None:
    line = {"name": "repairs", "rows": 0, "offered": 0, "late": 0, "rejected": 150, "rejected_now": 1.0}
    status = {
        "name": "repairs",
        "state": "running",
        "rows_per_s": 0.0,
        "streams": [line | {"last_reason": NO_TIME}],
    }
    assert "rejected" in feeds_table([status]).heads  # type: ignore[union-attr]  # the table is not None here
    assert [text.plain for text in rejections([status])] == [
        "repairs: 150 rows rejected, 100% of the last minute of input: no event time: ts"
    ]


def test_the_ledger_table_lists_rejected_rows_below_the_accounts() -> None:
    ledger = {
        "items": [],
        "closes": True,
        "given_up": [],
        "rejected_at_gateways": [{"stream": "repairs", "rows": 150, "reason": NO_TIME}],
    }
    assert ledger_table(ledger).caption == (
        "no class has reported yet\n[yellow]150 rows of repairs were rejected before any class[/]: no event time: ts"
    )
