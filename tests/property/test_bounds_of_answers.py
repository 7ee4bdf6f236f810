"""Every route answers without a server error if figures are at the bounds of the API's models, or beyond by a
rounding error. The figures come from units, mirrors and shards with extreme inputs: utilities that are first
uneven and then equal, weights of any size, and ratios of exactly 0 and 1. The figures pass through all
stages: `Worth`, reports, the control plane, the watch, and the routes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.host.unit_quality import UnitWorth
from actors.messages.unit_messages import Figures, UnitCounts, UnitReport
from configs.classes.utility import UtilityGraph, UtilityPoint
from engine.measure.answer_quality import AnswerQuality
from engine.measure.ideal_cost import Alone
from loadshed.ledger import TupleLedger
from scheduler.mirrors.change_rates import Interests
from scheduler.mirrors.poller import MirrorCore, MirrorStatistics, PollOutcome
from services.api.app import make_app
from services.api.openapi import describe
from services.api.routes import live
from services.common.weir_home import Home
from services.ingest.progress import FeedProgress, State
from services.mirror.poll_loop import MirrorProgress, rate_of
from services.watch.quality import worth_of
from services.watch.watch import Watch
from tests.support.api import Api, api_over
from tests.support.watched import QUERY, InProcess, declared

DOCUMENTS = """
{kind: Stream, name: ticks, columns: {ts: timestamp, value: int64}, time: ts}
---
{kind: Stream, name: Readings, columns: {ts: timestamp, sensor: int32, temp: float64}, time: ts}
---
{kind: Stream, name: taps, columns: {timestamp: timestamp, value: int64}, time: timestamp,
 source: {format: rate, options: {rowsPerSecond: 5}}}
---
{kind: Tenant, name: acme, priority_class: gold, key: sensor, shards: 3}
---
{kind: Query, tenant: acme, name: q0, sql: SELECT sensor FROM Readings WHERE temp > 0}
---
{kind: Mirror, name: prices, sql: "CREATE MIRROR prices (item string, price float64) FROM HTTP
 'http://127.0.0.1:9/{key}' KEYS ('a') BANDWIDTH 5 PER SECOND"}
"""
NAMES = {"tenant": "acme", "name": "prices"}
NAMES_OF_FEEDS = {"name": "taps"}
SHARDS, QUERIES = 3, 6
GRAPHS = (
    UtilityGraph.step(100),
    UtilityGraph(points=(UtilityPoint(latency_ms=1, utility=1), UtilityPoint(latency_ms=900, utility=0.1))),
    UtilityGraph(points=(UtilityPoint(latency_ms=50, utility=1), UtilityPoint(latency_ms=300, utility=0.3))),
)
ONE = 1 - 2**-53
EDGE = st.sampled_from([0.0, 5e-324, 0.1, 1 / 3, ONE, 1.0])
TOOK_S = st.sampled_from([0.0, 0.03, 0.07, 0.1, 0.2, 0.27, 1e5])
WEIGHTS = st.sampled_from([1e-3, 0.1, 1 / 3, 1.0, 1e3])
Answers = list[tuple[int, float, int]]
PLACES, COUNTS = st.integers(0, QUERIES - 1), st.sampled_from([1, 3, 7, 11])
UNEVEN = st.lists(st.tuples(PLACES, TOOK_S, COUNTS), min_size=1, max_size=12)
# Answers of a unit that all have the same utility, usually 1 or 0.
EVEN = st.builds(
    lambda took_s, answers: [(place, took_s, count) for place, count in answers],
    st.sampled_from([0.0, 1e5]),
    st.lists(st.tuples(PLACES, COUNTS), min_size=1, max_size=4),
)


def reported(
    graphs: list[UtilityGraph],
    weights: list[float],
    answers: list[Answers],
    alone_s: float,
    rest: dict[str, Any],
) -> tuple[Figures, UnitCounts]:
    """Return the figures of a unit that emits one item of `answers` per load cycle. Only the last cycle counts as recent."""
    queries = {
        f"q{place}": AnswerQuality(graph, (lambda: 0.1) if place % 2 else None, weight)
        for place, (graph, weight) in enumerate(zip(graphs, weights, strict=True))
    }
    worth = UnitWorth(lambda: {name: Alone(alone_s) for name in queries})
    worth.begin(0.0, queries)
    for now, piece in enumerate(answers, start=1):
        for place, took_s, count in piece:
            queries[f"q{place}"].answered(np.full(count, 9.0 * now - took_s), 9.0 * now)
        worth.end_cycle(9.0 * now, queries)
    shown = worth.figures
    figures = Figures(
        results=sum(query.responses.count for query in queries.values()),
        utility=shown.utility,
        slowdown=shown.slowdown,
        staleness=shown.staleness,
        tardiness=shown.tardiness,
        slowdown_now=shown.slowdown_now,
        utility_now=shown.utility_now,
        missed_now=shown.missed_now,
        staleness_now=shown.staleness_now,
        tardy_now=shown.tardy_now,
        **rest,
    )
    return figures, UnitCounts(1, 0.0, False, quality=worth.queries)


REST = st.fixed_dictionaries(
    {
        "keep": st.sampled_from([0.05, 0.1, 1 / 3, ONE, 1.0]),
        "headroom": st.sampled_from([1e-4, 64.0]),
        "load": st.sampled_from([0.0, 5e-324, 1e6]),
        "queued": st.sampled_from([0, 5_000_000]),
        "within_target_pct": EDGE.map(lambda part: 100.0 * part),
    }
)
UNITS = st.builds(
    reported,
    st.lists(st.sampled_from(GRAPHS), min_size=QUERIES, max_size=QUERIES),
    st.lists(WEIGHTS, min_size=QUERIES, max_size=QUERIES),
    st.tuples(UNEVEN, EVEN).map(list),
    st.sampled_from([1e-9, 0.01]),
    REST,
)


class Running:
    """Service that reports on a tenant with three shards and on a mirror. The test sets the figures of both."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.system = InProcess().declare(
            declared(
                "acme", key="sensor", shards=SHARDS, queries={f"q{place}": QUERY for place in range(QUERIES)}
            )
        )
        self.watch = Watch(self.system, clock=lambda: 0.0, wall=lambda: 2e9)
        self.mirrors: list[MirrorProgress] = []
        self.feeds: list[FeedProgress] = []
        api.service.watch, api.service.mirrors = self.watch, lambda: self.mirrors
        api.service.brought = lambda: self.feeds

    def report(self, units: list[tuple[Figures, UnitCounts]]) -> None:
        plane = self.system.world.plane
        for name, (figures, counted) in zip(self.system.managers, units, strict=True):
            account = {"readings": (TupleLedger(), figures.queued)}
            report = UnitReport(name, 1.0, 1.0, False, False, figures, accounts=account, counted=counted)
            plane.report(plane.units_of("acme")[name], [report], self.system.now)
        self.watch.look()
        self.watch.history.note(self.watch.view())

    def live_routes(self) -> dict[str, str]:
        """Return the routes about running objects by request path, which is the route's path with names in place of its parameters."""
        paths = describe(make_app(self.api.service))["paths"]
        return {
            path.format_map(NAMES_OF_FEEDS if path.startswith("/v1/feeds/") else NAMES): path
            for path, operations in paths.items()
            if "live" in operations.get("get", {}).get("tags", ())
        }


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with TemporaryDirectory() as folder, api_over(Home(Path(folder)), DOCUMENTS) as api:
        yield Running(api)


def mirrored(seed: int, rounds: int, used: float, by_bytes: bool) -> MirrorStatistics:
    """Return the statistics of a mirror in which no object has changed."""
    chance = np.random.default_rng(seed)
    core = MirrorCore(Interests(chance.random(7) + 1e-9, 100.0), 7, 50.0, by_bytes)
    for step in range(rounds):
        now = step * 0.31
        place = core.due(now)
        if place is not None:
            core.polled(place, now, PollOutcome.UNCHANGED, float(chance.random()), now)
            if used:
                core.used(place, used, now)
    return core.statistics(rounds * 0.31)


MOMENTS = st.sampled_from([None, 0.0, 2e9, 4e9])
FEEDS = st.builds(
    FeedProgress,
    st.just("taps"),
    st.sampled_from(get_args(State)),
    rows=st.sampled_from([0, 2**62]),
    rows_per_s=st.sampled_from([0.0, 5e-324, 1e12]),
    batch_ms=st.sampled_from([None, 0.0, 1e9]),
    lag=st.sampled_from([None, 0.0, 1e18]),
    restarts=st.sampled_from([0, 10_000]),
    last_error=st.sampled_from([None, "", "no such path"]),
    last_error_at=MOMENTS,
    next_try_s=st.sampled_from([None, 0.0, 30.0]),
    batch_at=MOMENTS,
    event_time=MOMENTS,
)


# Figures of three shards. The figures are often equal, because the mean of different figures hides rounding errors.
SHARDED = UNITS.map(lambda unit: [unit] * SHARDS) | st.lists(UNITS, min_size=SHARDS, max_size=SHARDS)


@settings(deadline=None, max_examples=400)
@given(units=SHARDED)
def test_api_responses_accept_the_smallest_and_largest_figures_of_units(
    running: Running, units: list[tuple[Figures, UnitCounts]]
) -> None:
    """Check the API's models without HTTP, so that the test has time for many more examples."""
    running.report(units)
    view = running.watch.view()
    (seen,) = view.classes.values()
    live.status(running.watch, view, seen)
    for query in worth_of(view.system, seen.settings):
        live.quality_line(query)


@pytest.mark.slow
@settings(deadline=None, max_examples=15)
@given(
    SHARDED,
    st.builds(
        mirrored, st.integers(0, 99), st.integers(0, 60), st.sampled_from([0.0, 0.1, 1.0]), st.booleans()
    ),
    FEEDS,
)
def test_every_live_route_answers_when_figures_are_at_their_bounds(
    running: Running,
    units: list[tuple[Figures, UnitCounts]],
    statistics: MirrorStatistics,
    feed: FeedProgress,
) -> None:
    running.report(units)
    running.feeds = [feed]
    running.mirrors = [MirrorProgress("prices", 50.0, "polls", "running", statistics)]
    answers = {path: running.api("GET", path) for path in running.live_routes()}
    assert {path: answer.text for path, answer in answers.items() if answer.status_code != 200} == {}
    assert all(
        answers[path].json()["items"]
        for path in ("/v1/classes", "/v1/tenants/acme/quality", "/v1/mirroring", "/v1/feeding")
    )


def test_every_route_with_a_bounded_number_is_tested(running: Running) -> None:
    """Check that every route with a bounded number is either a live route, which another test requests, or a route of declarations."""
    found = describe(make_app(running.api.service))
    asked = set(running.live_routes().values())
    schemas = found["components"]["schemas"]
    declarations = {"declarations", "keys", "plan", "feeds"}
    others = {
        path
        for path, operations in found["paths"].items()
        for operation in operations.values()
        if path not in asked and declarations.isdisjoint(operation.get("tags", ()))
        if any(is_bounded(schemas[name]) for name in names_in(operation["responses"], schemas))
    }
    assert others == set()


def is_bounded(schema: dict[str, Any]) -> bool:
    text = json.dumps(schema)
    return '"minimum"' in text or '"maximum"' in text or '"exclusiveM' in text


def names_in(value: Any, schemas: dict[str, Any]) -> set[str]:
    """Return the names of the schemas that a value refers to, directly or through other schemas."""
    found: set[str] = set()
    values = [value]
    while values:
        match values.pop():
            case {"$ref": str(ref)}:
                name = ref.rpartition("/")[2]
                if name not in found:
                    found.add(name)
                    values.append(schemas[name])
            case dict(inner):
                values += inner.values()
            case list(inner):
                values += inner
    return found


@given(st.lists(st.tuples(st.floats(1e-3, 1.0), st.floats(0, 1e6), st.floats(0, 1e6)), max_size=5))
def test_the_used_bandwidth_is_never_negative_when_the_charge_for_a_poll_is_corrected(
    polls: list[tuple[float, float, float]],
) -> None:
    """Check that the bandwidth spent per second is not negative, though a charge is corrected when the received size is known."""
    now, spent, samples = 0.0, 0.0, [(0.0, 0.0)]
    for after_s, expected, brought in polls:
        for charge in (expected, brought - expected):
            now += after_s
            spent += charge
            samples.append((now, spent))
    for first in range(len(samples)):
        assert rate_of(samples[first:]) >= 0
