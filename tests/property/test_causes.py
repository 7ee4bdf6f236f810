"""The arrival time in a window's answer is that of the tuple that closed the window, for any cut of the input into trains.

1. Over one stream, a window is closed by the first tuple that is past its end by the stream's lateness, even
   if a filter drops the tuple.
2. Over joined streams, the arrival of the answer is the latest arrival among the closing tuples of the streams.
3. The answer of a window that the clock closes has the clock's time as its arrival.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.class_.runner import ClassRunner
from engine.data.train import Arrivals, Train, same_arrival, train_from_arrow
from engine.data.watermark_causes import STEPS_MAX
from engine.sql import plan_query
from tests.support.query_grammar import HALF_SECOND_US
from tests.support.query_runs import CATALOG, SCHEMAS, TABLES, Row, batch_of, lateness, train_rows

UNION = "SELECT ts, x FROM s WHERE x > 0 UNION ALL SELECT ts, x FROM t"
JOIN = (
    "SELECT s.ts AS ts, t.x AS x FROM s JOIN t ON s.k = t.k AND t.ts BETWEEN s.ts - {low} AND s.ts + {high}"
)
TWO, ONE = "INTERVAL '2 seconds'", "INTERVAL '1 second'"
WINDOWED = "SELECT count(*) AS c FROM ({}) AS q [RANGE 4 SECONDS SLIDE 2 SECONDS]"
# Streams that close the windows of each query. The number says by how many half seconds a stream must be past the end of a window.
QUERIES: Mapping[str, Mapping[str, int]] = {
    "SELECT count(*) AS c FROM s [RANGE 4 SECONDS SLIDE 2 SECONDS] WHERE x > 0": {"s": 0},
    "SELECT k, count(*) AS c FROM s [RANGE 2 SECONDS] GROUP BY k": {"s": 0},
    WINDOWED.format("SELECT s.ts AS ts, label FROM s JOIN places p ON s.k = p.k WHERE n > 0"): {"s": 0},
    WINDOWED.format("SELECT s.ts AS ts, label FROM s LEFT JOIN places p ON s.k = p.k"): {"s": 0},
    "SELECT sum(c) AS c FROM (SELECT window_end AS e, count(*) AS c FROM s [RANGE 1 SECOND] WHERE x > 0) AS q"
    " [RANGE 4 SECONDS SLIDE 2 SECONDS]": {"s": 0},
    "SELECT sum(c) AS c FROM (SELECT window_end AS e, count(*) AS c FROM s [RANGE 4 SECONDS]) AS q"
    " [RANGE 3 SECONDS SLIDE 1 SECOND]": {"s": 0},
    WINDOWED.format(UNION): {"s": 0, "t": 0},
    WINDOWED.format(JOIN.format(low=TWO, high=ONE)): {"s": 4, "t": 2},
}

Reading = tuple[int, int, float]  # Tuple of a stream: time in half seconds, key, value
some_rows = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 1), st.sampled_from([-1.0, 1.0])), min_size=1, max_size=40
)
rows = st.one_of(some_rows, some_rows.map(sorted), some_rows.map(sorted))


def rows_of(some: Sequence[Reading]) -> list[Row]:
    return [
        {"ts": at * HALF_SECOND_US, "id": 0, "k": k, "g": "a", "x": x, "n": k, "b": True, "d": None}
        for at, k, x in some
    ]


class Answered:
    """Class with one query. The arrival time in the answer of each window is stored by the end of the window."""

    def __init__(self, sql: str, train_max: int = 10_000) -> None:
        self.arrivals: dict[int, float] = {}
        self.runner = ClassRunner(self._take, train_max=train_max, tables=TABLES)
        self.runner.add(plan_query("q", sql, CATALOG))

    def _take(self, query: str, train: Train) -> None:
        for (_, end, *_), at in zip(train_rows(train), train.arrival.tolist(), strict=True):
            assert self.arrivals.setdefault(end, at) == at

    def offer(self, name: str, some: Sequence[Row], arrival: Arrivals) -> None:
        if some and self.runner.network.source(name) is not None:
            schema = SCHEMAS[name].schema
            self.runner.offer(name, train_from_arrow(batch_of(name, some), schema, arrival))

    def step(self, steps: int) -> None:
        # The clock advances by 1 with each reading. Each operator call reads the clock once, so a slice of n seconds runs n calls.
        ticks = itertools.count()
        self.runner.run(steps, lambda: 0.0, lambda: float(next(ticks)))

    def restored(self, sql: str, train_max: int) -> Answered:
        other = Answered(sql, train_max)
        other.arrivals = dict(self.arrivals)
        other.runner.restore(self.runner.snapshot())
        return other

    def drain(self) -> Answered:
        self.step(10**9)
        return self


@pytest.mark.parametrize("cut", [1, 2, 3, 4])
def test_a_window_closed_by_a_filtered_tuple_has_the_arrival_of_that_tuple(cut: int) -> None:
    answered = Answered("SELECT count(*) AS c FROM t [RANGE 10 SECONDS] WHERE x > 0")
    some = rows_of([(2, 0, 1.0), (18, 0, 1.0), (24, 0, -1.0), (30, 0, 1.0)])
    arrivals = np.array([1.0, 2.0, 100.0, 101.0])
    for start in range(0, len(some), cut):
        answered.offer("t", some[start : start + cut], arrivals[start : start + cut])
    assert answered.drain().arrivals == {10_000_000: 100.0}


def test_a_window_closed_by_the_clock_has_the_clocks_time_as_arrival() -> None:
    answered = Answered("SELECT count(*) AS c FROM t [RANGE 10 SECONDS] WHERE x > 0")
    answered.offer("t", rows_of([(2, 0, 1.0), (28, 0, 1.0)]), np.array([1.0, 2.0]))
    answered.drain().runner.advance("t", 20_000_000, 7.0)
    answered.drain()
    answered.offer("t", rows_of([(50, 0, 1.0)]), np.array([8.0]))
    answered.drain().runner.finish(9.0)
    assert answered.drain().arrivals == {10_000_000: 2.0, 20_000_000: 7.0, 30_000_000: 9.0}


def reached(some: Sequence[Row], name: str, arrivals: Arrivals, time: int, end: float) -> float:
    """Return the arrival time of the first tuple that moves the watermark to `time` or beyond, or `end` if no tuple does."""
    passed = (
        at for row, at in zip(some, arrivals.tolist(), strict=True) if row["ts"] - lateness(name) >= time
    )
    return next(passed, end)


@pytest.mark.parametrize("sql", QUERIES)
def test_a_window_has_the_arrival_of_its_closing_tuple_however_the_input_is_cut(sql: str) -> None:
    @settings(max_examples=60)
    @given(
        rows,
        rows,
        st.lists(st.tuples(st.booleans(), st.integers(1, 6), st.integers(0, 3))),
        st.integers(1, 9),
        st.booleans(),
        st.integers(0, 5),
    )
    def agrees(
        left: list[Reading],
        right: list[Reading],
        cuts: list[tuple[bool, int, int]],
        train_max: int,
        together: bool,
        restore_at: int,
    ) -> None:
        data = {"s": rows_of(left), "t": rows_of(right)}
        # The arrivals of the two streams alternate, or all tuples arrive at one moment.
        at: dict[str, Arrivals] = {
            name: np.array([2.0 * place + (name == "t") for place in range(len(one))])
            for name, one in data.items()
        }
        if together:
            at = {name: same_arrival(float(len(name)), len(one)) for name, one in data.items()}
        answered, sent = Answered(sql, train_max), {"s": 0, "t": 0}
        for turn, (first, size, steps) in enumerate([*cuts, (True, 99, 0), (False, 99, 0)]):
            if turn == restore_at:
                answered = answered.restored(sql, train_max)
            name = "s" if first else "t"
            part = slice(sent[name], sent[name] + size)
            sent[name] += size
            answered.offer(name, data[name][part], at[name][part])
            answered.step(steps)
        answered.drain().runner.finish(1000.0)
        answered.drain()
        waits = QUERIES[sql]
        assert answered.arrivals == {
            end: max(
                reached(data[name], name, at[name], end + wait * HALF_SECOND_US, 1000.0)
                for name, wait in waits.items()
            )
            for end in answered.arrivals
        }

    agrees()


@settings(max_examples=60)
@given(rows, st.lists(st.integers(0, 40), min_size=1, max_size=60), st.sampled_from([1, 7, 50]))
def test_a_class_without_turns_queues_a_bounded_number_of_clock_advances(
    some: list[Reading], times: list[int], again: int
) -> None:
    """Check that several turns, one after each advance of the clock, give the same windows and arrivals as one turn at the end."""
    found = []
    for in_turns in (True, False):
        answered = Answered(WINDOWED.format(UNION))
        for name in ("s", "t"):
            answered.offer(name, rows_of(some), np.arange(len(some), dtype=np.float64))
        answered.drain()
        for round_, time in enumerate(times * again):
            for name in ("s", "t"):
                answered.runner.advance(name, time * HALF_SECOND_US, 100.0 + round_)
            if in_turns:
                answered.drain()
        waiting = [node.queue[-1] for node in answered.runner.network.nodes if node.queue]
        assert max((len(train.causes) for train in waiting), default=0) <= min(len(times), STEPS_MAX)
        found.append(answered.drain().arrivals)
    assert found[0] == found[1]


def test_if_more_clock_advances_wait_than_are_kept_a_window_has_the_arrival_of_the_earliest_kept_advance() -> (
    None
):
    answered = Answered(WINDOWED.format(UNION))
    seconds = 2 * STEPS_MAX
    some = rows_of([(2 * second, 0, 1.0) for second in range(4)])
    for name in ("s", "t"):
        answered.offer(name, some, np.zeros(len(some)))
    answered.drain()
    for second in range(1, seconds + 1):
        for name in ("s", "t"):
            answered.runner.advance(name, 2 * second * HALF_SECOND_US, float(second))
    waiting = [len(node.queue[-1].causes) for node in answered.runner.network.nodes if node.queue]
    assert waiting == [STEPS_MAX, STEPS_MAX]
    arrivals = answered.drain().arrivals
    assert arrivals[4_000_000] == seconds - STEPS_MAX + 1
