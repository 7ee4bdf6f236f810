"""Quality of answers: the QoS graphs that classes and queries declare, for the scheduler and for statistics of answers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configs.classes.live_class import LiveClass
from configs.classes.utility import UtilityGraph, points_in
from configs.classes.window_settings import WindowSettings
from configs.errors import InvalidInput
from configs.yaml_loading import parse_model
from engine.class_.door import Piece
from engine.class_.hosted_class import HostedClass
from engine.class_.runner import ClassRunner
from engine.class_.scheduled_nodes import FIRST_ESTIMATE
from engine.data.schema import INT64
from engine.data.train import Train, Values, same_arrival, train_from_arrow
from engine.measure.answer_quality import TOGETHER, AnswerQuality
from engine.network.node import QueuedOperator
from engine.sql import SqlCatalog, parse_create_stream, plan_query
from loadshed.responses import ResponseStatistics
from tests.support.query_grammar import Statement
from tests.support.query_runs import SCHEMAS, Cuts, Rows, batch_of, cuts, every_stream, planned, ran

STREAM = "CREATE STREAM readings (ts int64, sensor int32, temp float64, WATERMARK FOR ts AS ts)"
HOT = "SELECT sensor, temp FROM readings WHERE temp > 0"


def graph(text: str) -> UtilityGraph:
    return UtilityGraph.model_validate({"points": points_in(text, "")})


def declared(queries: dict[str, str], utilities: dict[str, str] | None = None, **more: Any) -> LiveClass:
    fields = {"name": "gold", "priority": 1, "delay_target_ms": 100, "streams": (STREAM,), "queries": queries}
    graphs = {name: points_in(text, "") for name, text in (utilities or {}).items()}
    return parse_model(LiveClass, {**fields, "utilities": graphs, **more})


@dataclass
class World:
    """Hosted class with a clock that the test sets."""

    settings: LiveClass
    now: float = 0.0
    hosted: HostedClass = field(init=False)
    batch: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.hosted = HostedClass(self.settings, 1000)

    def bring(self, arrived: float, rows: int) -> Train:
        schema = self.hosted.queries.schemas["readings"]
        time = 1000 * self.batch + np.arange(rows)
        columns = {
            "ts": time,
            "sensor": pa.array(np.arange(rows), pa.int32()),
            "temp": np.ones(rows),
        }
        train = train_from_arrow(pa.RecordBatch.from_pydict(columns), schema.schema, arrived)
        self.hosted.take(Piece("readings", self.batch, rows, 0, 0, train, None))
        self.batch += 1
        return train

    def answer(self, at: float) -> None:
        self.now = at
        self.hosted.run(1.0, lambda: self.now, lambda: 0.0)

    def worth_of_roots(self) -> list[UtilityGraph | None]:
        network = self.hosted.runner.scheduled.believed().network
        return [network.operators[root].utility for root in network.roots]


def test_answers_are_valued_by_the_graph_of_their_query_or_class() -> None:
    world = World(declared({"q": HOT, "r": HOT}, {"q": "50:1,150:0"}))
    world.bring(arrived=1.0, rows=3)
    world.answer(at=1.08)
    world.bring(arrived=2.0, rows=1)
    world.answer(at=2.15)
    q, r = (world.hosted.runner.answers.quality[name] for name in ("q", "r"))
    assert q.utility is not None
    assert r.utility is not None
    assert (q.utility.mean, q.utility.missed) == pytest.approx(((3 * 0.7 + 0) / 4, 4))
    # Query r has no graph. By the delay target of the class, its utility is 1 up to 100 ms and 0 from 200 ms on.
    assert (r.utility.mean, r.utility.missed) == pytest.approx(((3 * 1 + 0.5) / 4, 1))
    assert (q.responses.count, q.stale_s, q.stale_share(11.0)) == pytest.approx((4, 0.23, 0.023))


def test_the_qos_graph_of_a_class_is_a_step_at_its_delay_target_unless_declared() -> None:
    world = World(declared({"q": HOT}, utility=points_in("10:1,20:0.25", "")))
    assert world.worth_of_roots() == [graph("10:1,20:0.25")]
    assert World(declared({"q": HOT})).worth_of_roots() == [UtilityGraph.step(100)]


def test_queries_with_the_same_answers_are_scheduled_by_the_most_urgent_graph() -> None:
    world = World(declared({"q": HOT}, {"q": "50:1,150:0"}))
    assert world.worth_of_roots() == [graph("50:1,150:0")]
    world.hosted.set_queries({"q": HOT, "r": HOT})
    assert world.worth_of_roots() == [graph("50:1,150:0")]
    world.hosted.queries.value(declared({"q": HOT, "r": HOT}, {"q": "50:1,150:0", "r": "20:1,30:0"}))
    assert world.worth_of_roots() == [graph("20:1,30:0")]
    world.hosted.set_queries({"q": HOT})
    assert world.worth_of_roots() == [graph("50:1,150:0")]


def test_a_changed_graph_applies_to_later_answers() -> None:
    world = World(declared({"q": HOT}))
    world.bring(arrived=1.0, rows=1)
    world.answer(at=1.05)
    world.hosted.queries.value(declared({"q": HOT}, {"q": "10:1,20:0"}))
    world.bring(arrived=2.0, rows=1)
    world.answer(at=2.05)
    found = world.hosted.runner.answers.quality["q"].utility
    assert found is not None
    assert (found.mean, found.missed, found.count) == (0.5, 1, 2)


def test_answers_repeated_after_a_crash_are_not_measured_again() -> None:
    world = World(declared({"q": HOT}))
    state = world.hosted.state()
    train = world.bring(arrived=1.0, rows=3)
    world.answer(at=1.05)
    commit = world.hosted.committed()
    assert commit is not None
    again = World(declared({"q": HOT}))
    again.hosted.recover(state, [commit], lambda stream, number: train)
    again.answer(at=50.0)
    assert (
        again.hosted.runner.answers.counts["q"],
        again.hosted.runner.answers.quality["q"].responses.count,
    ) == (3, 0)
    again.batch = 1
    again.bring(arrived=60.0, rows=2)
    again.answer(at=60.05)
    found = again.hosted.runner.answers.quality["q"]
    assert (found.responses.count, found.stale_s) == pytest.approx((2, 0.05))


def test_a_graph_for_an_unknown_query_is_refused() -> None:
    with pytest.raises(InvalidInput, match="utilities: the class has no query of this name"):
        declared({"q": HOT}, {"Q": "10:1"})


def length_of_union(intervals: list[tuple[float, float]]) -> float:
    """Return the total time that at least one of the intervals covers."""
    length, reached = 0.0, float("-inf")
    for begin, end in sorted(intervals):
        length += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return length


TRAINS = st.lists(
    # Each generated tuple describes a train of answers by five values.
    # Values 1 to 3 are the seconds of pause before the train, the response time in seconds, and the number of answers.
    # Value 4 is True if all answers of the train have one arrival time.
    # Value 5 is the time T of an answer that waits for nothing, or None if the test does not report T after the train.
    st.tuples(
        st.floats(0, 2),
        st.floats(0, 1.5),
        st.integers(1, 200),
        st.booleans(),
        st.sampled_from([None, 0.0, 1e-6, 0.02]),
    ),
    min_size=1,
    max_size=2 * TOGETHER,
)


@settings(deadline=None, max_examples=50)
@given(TRAINS, st.booleans())
def test_quality_covers_all_answers_however_trains_are_cut(
    trains: list[tuple[float, float, int, bool, float | None]], is_read_meanwhile: bool
) -> None:
    worth, now = graph("200:1,400:0.5,900:0"), 100.0
    quality, responses, intervals = AnswerQuality(worth), ResponseStatistics(), list[tuple[float, float]]()
    waiting, slowdowns = list[float](), list[float]()
    for pause, took, count, is_same, ideal_s in trains:
        now += pause
        arrived = now - took
        quality.answered(same_arrival(arrived, count) if is_same else np.full(count, arrived), now)
        responses.add([now - arrived] * count, 0.0)
        intervals.append((arrived, now))
        waiting += [now - arrived] * count
        if ideal_s is not None:
            quality.slowed(ideal_s)
            if ideal_s:  # While T is unknown (0), the slowdown of the answers cannot be computed.
                slowdowns += [one / ideal_s for one in waiting]
                waiting.clear()
        if is_read_meanwhile:
            assert quality.stale_s == pytest.approx(length_of_union(intervals), abs=1e-6)
    assert quality.slowdown == pytest.approx(math.fsum(slowdowns))
    counts = [count for _, _, count, *_ in trains]
    times = [end - begin for begin, end in intervals]
    assert quality.utility is not None
    assert quality.utility.count == sum(counts)
    assert quality.utility.sum == pytest.approx(
        sum(count * worth.utility_at(one) for count, one in zip(counts, times, strict=True))
    )
    missed = sum(count for count, one in zip(counts, times, strict=True) if one > worth.deadline_s)
    assert quality.utility.missed == missed
    assert quality.responses.response_ms() == pytest.approx(responses.response_ms())
    assert quality.stale_s == pytest.approx(length_of_union(intervals), abs=1e-6)


# -- time of an answer that waits for nothing -----------------------------------------------------------------------------------

COSTED = {
    name: Statement(text, "", needs)
    for name, text, needs in (
        ("hot", "SELECT id, x FROM s WHERE x > 0", {}),
        (
            "both",
            "SELECT a.id, b.id AS other FROM s [RANGE 5 SECONDS] a JOIN t [RANGE 5 SECONDS] b ON a.k = b.k",
            {},
        ),
        ("read_on", "SELECT x FROM warm WHERE x > 1", {"warm": "SELECT id, x FROM s WHERE x > 0"}),
    )
}


def standing_above(node: QueuedOperator) -> set[QueuedOperator]:
    """Return the operator `node` and all operators that feed it. For a join, operators of both sides are included."""
    found, looked = set[QueuedOperator](), [node]
    while looked:
        one = looked.pop()
        if one not in found:
            found.add(one)
            looked += [*one.upstream, *([] if one.partner is None else [one.partner])]
    return found


@settings(deadline=None, max_examples=15)
@given(every_stream, cuts)
def test_the_ideal_time_of_an_answer_is_the_sum_of_mean_operator_costs(rows: Rows, how: Cuts) -> None:
    runner = ran(COSTED, rows, how).runner
    place = {id(node): number for number, node in enumerate(runner.network.nodes)}

    def cost(node: QueuedOperator) -> float:
        calls, tuples = (
            runner.scheduled.calls[place[id(node)]],
            runner.scheduled.tuples[place[id(node)]],
        )
        if node.partner is not None:  # For joins, a call without tuples counts as a call with one tuple.
            return FIRST_ESTIMATE.cost_s if node.mean_cost_s is None else node.mean_cost_s
        # By the clock of this test, each operator call takes 1 s.
        return calls / tuples if calls else FIRST_ESTIMATE.cost_s

    expected = dict[str, float]()
    for node in runner.network.nodes:
        for query in node.outputs:
            alone = math.fsum(map(cost, standing_above(node)))
            expected[query] = min(alone, expected.get(query, math.inf))
    assert {query: alone.ideal_s for query, alone in runner.scheduled.alone().items()} == pytest.approx(
        expected
    )
    assert expected.keys() == {*COSTED, "read_on_warm"}


class Ticking:
    """Clock that advances by 1 s whenever the processor time is read."""

    now = 0.0

    def cpu(self) -> float:
        self.now += 1.0
        return self.now


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id, x FROM s WHERE k = 1",
        "SELECT a.id, b.id AS other FROM s [RANGE 5 SECONDS] a JOIN t [RANGE 5 SECONDS] b ON a.k = b.k",
        # Tuples of one side of the join pass through more operators than tuples of the other side.
        "SELECT a.id, b.id AS other FROM (SELECT id, ts, k + 1 AS k FROM s WHERE id >= 0) [RANGE 5 SECONDS] a"
        " JOIN t [RANGE 5 SECONDS] b ON a.k = b.k + 1",
    ],
)
@pytest.mark.parametrize("order", ["stst", "tsts", "stts", "tsst"])
def test_waiting_for_a_join_partner_is_not_slowdown(sql: str, order: str) -> None:
    clock, runner = Ticking(), ClassRunner(lambda query, train: None, train_max=1)
    runner.add(*planned({"q": Statement(sql, "")}))
    for number, stream in enumerate(order):
        # Each tuple arrives long after the tuple before was processed. Tuples 0 and 1 are partners, and so are 2 and 3.
        clock.now += 100
        rest = {"g": "a", "x": 1.0, "n": 1, "b": True, "d": Decimal(1)}
        batch = batch_of(stream, [{"id": number, "ts": number, "k": 1 + number // 2, **rest}])
        runner.offer(stream, train_from_arrow(batch, SCHEMAS[stream].schema, clock.now))
        clock.now -= 1  # The first operator call advances the clock by 1 s.
        runner.run(math.inf, lambda: clock.now, clock.cpu)
    quality = runner.answers.quality["q"]
    quality.slowed(*runner.scheduled.alone()["q"])
    assert quality.responses.count == (2 if "JOIN" in sql else 1)
    assert quality.slowdown == pytest.approx(quality.responses.count)


# -- windows ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("slide", "slack_s"),
    # Without SLIDE AT MOST, an answer is tardy if it comes more than one pane (2 s) after the end of its window.
    # With SLIDE AT MOST 6 s and an actual slide of 2 s, answers may come another 4 s later.
    [("SLIDE 2 SECONDS", 2.0), ("SLIDE AT MOST 6 SECONDS", 6.0)],
)
def test_window_answers_are_tardy_one_pane_after_the_latest_allowed_end(slide: str, slack_s: float) -> None:
    catalog = SqlCatalog.of(
        [parse_create_stream("CREATE STREAM s (ts int64, x int64, WATERMARK FOR ts AS ts)")]
    )
    texts = {
        "short": "SELECT COUNT(*) AS n FROM s [RANGE 300 SECONDS SLIDE 2 SECONDS]",
        "asked": f"SELECT COUNT(*) AS n FROM s [RANGE 300 SECONDS {slide}]",
        "plain": "SELECT x FROM s",
    }
    runner = ClassRunner(lambda query, train: None, windows=WindowSettings(schedule="aggressive"))
    runner.add(*(plan_query(name, text, catalog) for name, text in texts.items()))
    times = np.array([0, 1000, 12_000], np.int64)
    runner.offer("s", Train((Values(INT64, times), Values(INT64, times)), same_arrival(100.0, 3)))
    took_s = slack_s + 0.25
    runner.run(1e9, lambda: 100.0 + took_s, lambda: 0.0)
    asked = runner.answers.quality["asked"].tardiness
    assert asked is not None
    assert asked.answers == runner.answers.counts["asked"] == 6
    assert (asked.tardy, asked.sum_s, asked.max_s, asked.mean_s) == pytest.approx((6, 1.5, 0.25, 0.25))
    assert runner.answers.quality["plain"].tardiness is None
    runner.answers.quality["asked"].answered(np.array([100.0, 101.0]), 100.5 + slack_s)
    assert (asked.answers, asked.tardy, asked.sum_s, asked.max_s) == pytest.approx((8, 7, 2.0, 0.5))
