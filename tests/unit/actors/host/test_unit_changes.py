"""A unit follows every change of its class's declaration, while it runs or after a restart over its log, and keeps answering."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from actors.host.answer_reader import AnswerReader
from actors.host.inbox import ArrivedPiece
from actors.host.unit import HostedUnit
from actors.log.commit_format import answers_of, is_snapshot
from actors.log.segment_log import Reader, SegmentWriter
from actors.log.train_format import batch_parts
from actors.messages.unit_messages import Unit
from actors.runtime.run_dirs import RunDirs
from configs.classes.live_class import LiveClass, LiveSettings
from engine.class_.class_input import ENDED_MAX
from engine.data.schema import StreamSchema
from engine.data.train import train_from_arrow

A = "CREATE STREAM a (ts int64, k int32, v float64, WATERMARK FOR ts AS ts)"
B = "CREATE STREAM b (ts int64, k int32, w float64, WATERMARK FOR ts AS ts)"
OTHER_B = "CREATE STREAM b (ts int64, k int32, w float64, x int64)"
QUERIES = {"qa": "SELECT v FROM a", "qb": "SELECT w FROM b"}
SETTINGS = LiveSettings.model_validate({"idle_after_s": None, "snapshot_s": 1000.0})


def declared(**changes: Any) -> LiveClass:
    base = {"name": "t", "priority": 1, "delay_target_ms": 300, "streams": (A, B), "queries": QUERIES}
    return LiveClass.model_validate(base | changes)


ONE_QUERY = {"streams": (A,), "queries": {"qa": QUERIES["qa"]}}


@contextmanager
def opened(dirs: RunDirs, one: LiveClass) -> Iterator[HostedUnit]:
    """Open a unit; at the end, close it without a last snapshot, as if the unit were killed."""
    unit = HostedUnit(Unit(one, 0, 1.0, 1.0), SETTINGS, dirs)
    try:
        yield unit
    finally:
        unit.close(at_rest=False)


def arrive(unit: HostedUnit, stream: str, number: int, rows: int = 3) -> None:
    """Publish a batch, and offer it to the unit as the ingest thread does."""
    schema: StreamSchema = unit.hosted.queries.schemas[stream]
    numbers = np.arange(number * rows, (number + 1) * rows)
    columns = {
        one.name: pa.array(numbers * (1000 if one.name == "ts" else 1)).cast(one.type.arrow)
        for one in schema.schema.fields
    }
    train = train_from_arrow(pa.RecordBatch.from_pydict(columns), schema.schema, time.monotonic())
    log = SegmentWriter(unit.input.dirs.stream(stream))
    log.append(*batch_parts(float(train.arrival[0]), train))
    log.close()
    piece = unit.intake.feeds[stream].door.admit(number, train, 0)
    unit.inbox.let_in[stream] += len(piece.train)
    unit.inbox.pieces_in += 1
    unit.inbox.arrived.append(ArrivedPiece(piece, (number + 1) * rows))


def work(unit: HostedUnit) -> None:
    while unit.run(1.0)[1] or unit.hosted.repeating:
        pass


def answers(dirs: RunDirs, query: str) -> list[float]:
    """Return the first column of a query's answers, as readers of the log find them."""
    found: list[float] = []
    for _, payload in Reader(dirs.class_log("t")).frames(0):
        if not is_snapshot(payload):
            for answer in answers_of(payload, query):
                assert answer.first == len(found)
                found += answer.train.columns[0].data.tolist()
    return found


def changed(unit: HostedUnit, one: LiveClass) -> Unit:
    return replace(unit.unit, declared=one)


def test_a_class_stops_reading_a_stream_when_its_last_query_over_the_stream_is_removed(dirs: RunDirs) -> None:
    with opened(dirs, declared()) as unit:
        arrive(unit, "a", 0)
        arrive(unit, "b", 0)
        work(unit)
        fewer = changed(unit, declared(**ONE_QUERY))
        assert unit.can_become(fewer)
        unit.become(fewer)
        assert unit.streams_changed() == ([], ["b"])
        arrive(unit, "a", 1)
        work(unit)
        assert not unit.hosted.replay.mismatches
    assert answers(dirs, "qa") == [0, 1, 2, 3, 4, 5]
    assert answers(dirs, "qb") == [0, 1, 2]


def test_answers_stay_readable_when_all_queries_have_ended_also_after_a_restart(dirs: RunDirs) -> None:
    ended = declared(queries={})
    with opened(dirs, declared()) as unit:
        arrive(unit, "a", 0)
        arrive(unit, "b", 0)
        work(unit)
        unit.become(changed(unit, ended))
        assert unit.streams_changed() == ([], ["a", "b"])
        assert not unit.has_input()
    for _ in range(2):
        reader = AnswerReader(dirs, "t")
        assert [reader.given(query) for query in QUERIES] == [3, 3]
        assert [reader.some(query, 1, 10).following for query in QUERIES] == [3, 3]
        with opened(dirs, ended) as unit:
            work(unit)
            assert not unit.hosted.queries.by_name
    with opened(dirs, declared()) as unit:
        work(unit)
        # A query that begins again has none of its earlier answers.
        assert [AnswerReader(dirs, "t").given(query) for query in QUERIES] == [0, 0]


@pytest.mark.parametrize("at_rest", [True, False])
def test_a_class_continues_when_a_stream_is_removed_during_a_restart(dirs: RunDirs, at_rest: bool) -> None:
    with opened(dirs, declared()) as unit:
        arrive(unit, "a", 0)
        arrive(unit, "b", 0)
        work(unit)
        if at_rest:
            unit.save()
    with opened(dirs, declared(**ONE_QUERY)) as unit:
        work(unit)
        arrive(unit, "a", 1)
        work(unit)
        assert list(unit.hosted.queries.by_name) == ["qa"]
        assert not unit.hosted.replay.mismatches
    assert answers(dirs, "qa") == [0, 1, 2, 3, 4, 5]


def test_a_stream_is_read_with_the_columns_declared_during_a_restart(dirs: RunDirs) -> None:
    with opened(dirs, declared()) as unit:
        arrive(unit, "a", 0)
        arrive(unit, "b", 0)
        work(unit)
        unit.save()
    other = declared(streams=(A, OTHER_B), queries={"qa": QUERIES["qa"], "qb": "SELECT x FROM b"})
    with opened(dirs, other) as unit:
        work(unit)
        arrive(unit, "b", 1)
        work(unit)
        assert unit.hosted.runner.answers.counts == {"qa": 3, "qb": 3}
    with opened(dirs, other) as unit:
        work(unit)
        assert unit.hosted.runner.answers.counts == {"qa": 3, "qb": 3}
        assert not unit.hosted.replay.mismatches


def test_limits_lowered_during_a_restart_apply_afterwards(dirs: RunDirs) -> None:
    with opened(dirs, declared()) as unit:
        arrive(unit, "a", 0)
        work(unit)
    low = declared(**ONE_QUERY, limits={"queries": 1, "groups": 7})
    with opened(dirs, low) as unit:
        work(unit)
        arrive(unit, "a", 1)
        work(unit)
        assert unit.hosted.runner.network.account.limits.groups == 7
    assert answers(dirs, "qa") == [0, 1, 2, 3, 4, 5]


def test_a_query_that_cannot_be_planned_is_reported_and_the_other_queries_run(dirs: RunDirs) -> None:
    bad = declared(queries=QUERIES | {"worse": "SELECT v FROM nothing", "over": "SELECT v FROM worse"})
    for recovered in (False, True):
        with opened(dirs, bad) as unit:
            work(unit)
            arrive(unit, "a", int(recovered))
            work(unit)
            assert dict(unit.hosted.queries.by_name).keys() == {"qa", "qb"}
            problems = unit.status().problems
            assert problems.keys() == {"query worse", "query over"}
            assert problems["query worse"].startswith("there is no such stream (got 'nothing')")
    assert answers(dirs, "qa") == [0, 1, 2, 3, 4, 5]


CHANGES: dict[str, Any] = {
    "name": None,
    "priority": 2.0,
    "delay_target_ms": 200.0,
    "min_share": 0.5,
    "lendable": 0.5,
    "borrow_limit": 0.5,
    "max_drop": 0.5,
    "max_age_ms": 60_000.0,
    "fed": ("a",),
    "victim": "newest",
    "objective": "memory",
    "policy": {"kind": "fcfs"},
    "train_max": 2,
    "utility": [{"latency_ms": 100, "utility": 1}, {"latency_ms": 200, "utility": 0}],
    "streams": (A, B, "CREATE STREAM c (x int64)"),
    "queries": QUERIES | {"more": "SELECT k FROM b"},
    "utilities": {"qa": [{"latency_ms": 100, "utility": 1}, {"latency_ms": 200, "utility": 0}]},
    "weights": {"qa": 2.0},
    "lossless": True,
    "key": "k",
    "shards": None,
    "limits": {"state_bytes": 1 << 20, "queries": 3, "groups": 10, "result_bytes": 1 << 20},
    "windows": {"schedule": "none"},
    "plan": {"shared": False},
}
"""Changed value for each field of a class; None for name and shards, because a change of either makes another unit."""


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("field", [name for name, change in CHANGES.items() if change is not None])
def test_a_class_keeps_answering_after_any_field_of_its_declaration_has_changed(
    dirs: RunDirs, field: str, killed: bool
) -> None:
    assert CHANGES.keys() == LiveClass.model_fields.keys()
    before, after = declared(), declared(**{field: CHANGES[field]})
    with opened(dirs, before) as unit:
        arrive(unit, "a", 0)
        arrive(unit, "b", 0)
        work(unit)
        wanted = changed(unit, after)
        if unit.can_become(wanted) and not killed:
            unit.become(wanted)
            arrive(unit, "a", 1)
            work(unit)
        elif not killed:
            unit.save()
    if killed or field in ("victim", "lossless", "max_drop", "key", "limits"):
        with opened(dirs, after) as unit:
            work(unit)
            arrive(unit, "a", 1)
            work(unit)
            assert not unit.hosted.replay.mismatches
    assert answers(dirs, "qa") == [0, 1, 2, 3, 4, 5]


def test_totals_and_rates_do_not_fall_when_a_query_with_answers_is_removed(dirs: RunDirs) -> None:
    with opened(dirs, declared()) as unit:
        for number in range(4):
            arrive(unit, "b", number)
        work(unit)
        unit.end_cycle(time.monotonic())
        before = unit.status().figures
        unit.become(changed(unit, declared(**ONE_QUERY)))
        unit.streams_changed()
        work(unit)
        unit.end_cycle(time.monotonic())
        after = unit.status().figures
        assert (before.results, before.offered, before.delivered) == (12, 12, 12)
        assert (after.results, after.offered, after.delivered) == (12, 12, 12)
        assert after.results_per_s >= 0


def test_a_removed_query_no_longer_holds_producers_back(dirs: RunDirs) -> None:
    with opened(dirs, declared()) as unit:
        arrive(unit, "b", 0)
        unit._take(time.monotonic())
        unit.inbox.held_back = True
        assert unit.input.makes_room()
        unit.end_cycle(time.monotonic())
        assert unit.status().figures.held_back == 1
        unit.become(changed(unit, declared(**ONE_QUERY)))
        unit.streams_changed()
        work(unit)
        unit.end_cycle(time.monotonic())
        assert (unit.status().figures.queued, unit.status().figures.held_back) == (0, 0)


@pytest.mark.parametrize("saved", [True, False])
def test_the_account_of_a_stream_without_queries_is_kept_and_continued(dirs: RunDirs, saved: bool) -> None:
    with opened(dirs, declared()) as unit:
        arrive(unit, "b", 0)
        work(unit)
        arrive(unit, "b", 1)
        unit._take(time.monotonic())
        unit.become(changed(unit, declared(**ONE_QUERY)))
        unit.streams_changed()
        work(unit)
        ledger, queued = unit.hosted.input.accounts()["b"]
        assert (ledger.offered, ledger.delivered, ledger.shed, queued) == (6, 3, 3, 0)
        if saved:
            unit.save()
    with opened(dirs, declared(**ONE_QUERY)) as unit:
        work(unit)
        assert unit.hosted.input.accounts()["b"] == (ledger, 0)
        assert unit.hosted.queries.answers == 3
        unit.become(changed(unit, declared()))
        more, _ = unit.streams_changed() or ((), ())
        unit.intake.feeds.update((feed.name, feed) for feed in more)
        arrive(unit, "b", 2)
        work(unit)
        again, queued = unit.hosted.input.accounts()["b"]
        assert (again.offered, again.delivered, again.shed, queued) == (9, 6, 3, 0)
        unit.end_cycle(time.monotonic())
        assert unit.status().figures.results == 6


def test_a_class_keeps_the_accounts_of_only_the_last_streams_that_it_no_longer_reads(dirs: RunDirs) -> None:
    with opened(dirs, declared()) as unit:
        for number in range(ENDED_MAX + 1):
            name = f"s{number}"
            stream = f"CREATE STREAM {name} (ts int64, v float64, WATERMARK FOR ts AS ts)"
            queries = {"qa": QUERIES["qa"], "other": f"SELECT v FROM {name}"}
            unit.become(changed(unit, declared(streams=(A, stream), queries=queries)))
            work(unit)
        unit.become(changed(unit, declared(**ONE_QUERY)))
        work(unit)
        names = [f"s{number}" for number in range(1, ENDED_MAX + 1)]
        assert list(unit.hosted.input.accounts()) == ["a", *names]
