"""Queries with a start or an end: which queries run at a given time, and when that changes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from configs.documents.declarations import QueryDeclaration, Ref, documents_of
from services.catalog.catalog import Catalog, Desired
from services.catalog.run_times import LINGER_S, runs_of
from services.common.weir_home import Home
from tests.support.clock import Clock

BASE = """
{kind: Stream, name: ticks, columns: {ts: timestamp, x: int64}, time: ts, watermark: 5 seconds}
---
{kind: Stream, name: other, columns: {x: int64}}
---
{kind: Tenant, name: acme, priority_class: gold}
---
{kind: Query, tenant: acme, name: all, sql: SELECT * FROM other}
"""
SOON, LATER = "1970-01-01T00:03:20Z", "1970-01-01T00:05:00Z"
SOON_S, LATER_S = 200.0, 300.0
LATENESS_S = 5.0


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def catalog(tmp_path: Path, clock: Clock) -> Iterator[Catalog]:
    with closing(Catalog(Home(tmp_path), clock)) as found:
        found.apply(documents_of(BASE), "x")
        yield found


def query(name: str, sql: str, fields: str) -> str:
    return f"---\n{{kind: Query, tenant: acme, name: {name}, sql: {sql}, {fields}}}\n"


def queries(desired: Desired) -> list[str]:
    (class_,) = desired.classes
    return list(class_.queries)


def state_of(catalog: Catalog, name: str, now_s: float) -> object:
    ref = Ref("Query", name, "acme")
    return runs_of(catalog.state(), [ref], now_s)[ref]["state"]


def test_query_joins_its_class_at_its_start_and_leaves_some_seconds_after_its_stop(
    catalog: Catalog, clock: Clock
) -> None:
    text = query("q", "SELECT x FROM ticks", f"start: {SOON}, stop: {LATER}, weight: 2")
    catalog.apply(documents_of(text), "x")
    waiting = catalog.desired()
    assert (queries(waiting), waiting.until_s) == (["all"], SOON_S)
    assert len(waiting.classes[0].streams) == 1
    clock.now = SOON_S - 0.5
    assert catalog.is_desired(waiting)
    clock.now = SOON_S
    assert not catalog.is_desired(waiting)
    active = catalog.desired()
    gone_s = LATER_S + LINGER_S + LATENESS_S
    assert (queries(active), active.until_s) == (["all", "q"], gone_s)
    assert active.classes[0].weights == {"q": 2.0}
    clock.now = gone_s - 0.5
    assert catalog.is_desired(active)
    clock.now = gone_s
    assert not catalog.is_desired(active)
    ended = catalog.desired()
    assert (queries(ended), ended.until_s, ended.classes[0].weights) == (["all"], math.inf, {})
    assert [state_of(catalog, "q", at) for at in (100, SOON_S, LATER_S - 1, LATER_S, gone_s)] == [
        "waiting",
        "active",
        "active",
        "ended",
        "ended",
    ]


def test_class_is_left_out_until_its_first_query_starts_and_keeps_its_streams_after_the_last_has_ended(
    catalog: Catalog, clock: Clock
) -> None:
    catalog.delete(Ref("Query", "all", "acme"), "x")
    text = query("q", "SELECT x FROM ticks", f"start: {SOON}, stop: {LATER}")
    catalog.apply(documents_of(text), "x")
    assert catalog.desired().classes == ()
    clock.now = SOON_S
    (active,) = catalog.desired().classes
    clock.now = LATER_S + 60
    (ended,) = catalog.desired().classes
    assert (list(ended.queries), ended.streams) == ([], active.streams)


def test_lifetime_without_a_start_counts_from_the_declaration_and_applying_again_changes_nothing(
    catalog: Catalog, clock: Clock
) -> None:
    documents = documents_of(query("q", "SELECT x FROM ticks", "lifetime: 2m"))
    assert [change.action for change in catalog.diff(documents)] == ["created"]
    (created,) = catalog.apply(documents, "x")
    assert created.after["start"] == "1970-01-01T00:01:40Z"
    clock.now = 150.7
    assert [change.action for change in catalog.apply(documents, "x")] == ["unchanged"]
    longer = documents_of(query("q", "SELECT x FROM ticks", "lifetime: 5m"))
    (changed,) = catalog.apply(longer, "x")
    assert (changed.fields, changed.after["start"]) == (("lifetime",), "1970-01-01T00:01:40Z")
    stored = catalog.get(Ref("Query", "q", "acme")).declaration
    assert isinstance(stored, QueryDeclaration)
    assert stored.stop_at == datetime.fromtimestamp(400, UTC)
    forever = documents_of(query("q", "SELECT x FROM ticks", "weight: 1"))
    assert catalog.apply(forever, "x")[0].action == "changed"
    assert catalog.apply(documents, "x")[0].after["start"] == "1970-01-01T00:02:30Z"


def test_query_waits_for_the_query_that_it_reads_and_ends_with_it(catalog: Catalog, clock: Clock) -> None:
    text = query("a", "SELECT x FROM ticks", f"start: {SOON}, stop: {LATER}")
    text += query("b", "SELECT x FROM a", "weight: 1")
    text += query("c", "SELECT x FROM b", "stop: 1970-01-01T00:04:00Z")
    catalog.apply(documents_of(text), "x")
    assert queries(catalog.desired()) == ["all"]
    assert [state_of(catalog, name, 100) for name in "abc"] == ["waiting"] * 3
    clock.now = SOON_S
    assert queries(catalog.desired()) == ["all", "a", "b", "c"]
    clock.now = 240 + LINGER_S + LATENESS_S
    assert queries(catalog.desired()) == ["all", "a", "b"]
    assert [state_of(catalog, name, 250) for name in "abc"] == ["active", "active", "ended"]
    clock.now = LATER_S + LINGER_S + LATENESS_S
    assert queries(catalog.desired()) == ["all"]
    assert [state_of(catalog, name, LATER_S) for name in "abc"] == ["ended"] * 3


def test_query_that_would_end_before_the_query_that_it_reads_starts_never_runs(
    catalog: Catalog, clock: Clock
) -> None:
    text = query("a", "SELECT x FROM ticks", f"start: {LATER}")
    text += query("b", "SELECT x FROM a", "stop: 1970-01-01T00:04:58Z")
    catalog.apply(documents_of(text), "x")
    clock.now = LATER_S
    assert queries(catalog.desired()) == ["all", "a"]


def test_forecast_leaves_out_queries_that_have_ended(catalog: Catalog, clock: Clock) -> None:
    catalog.apply(documents_of(query("q", "SELECT x FROM ticks", f"stop: {LATER}")), "x")
    state = catalog.state()
    assert catalog.without_ended(state) is state
    clock.now = LATER_S + 60
    assert list(catalog.without_ended(state).class_of("acme").queries) == ["all"]
    assert list(state.class_of("acme").queries) == ["all", "q"]


def test_state_is_shown_only_for_queries_with_a_start_or_an_end(catalog: Catalog) -> None:
    catalog.apply(documents_of(query("q", "SELECT x FROM ticks", f"stop: {LATER}")), "x")
    refs = [Ref("Query", name, "acme") for name in ("all", "q")]
    shown = {"state": "active", "start": None, "stop": datetime.fromtimestamp(LATER_S, UTC)}
    assert runs_of(catalog.state(), refs, 100.0) == {refs[1]: shown}
