"""One-time queries over panes: each answer equals a computation over the rows that the class has taken, or the query is refused."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from configs.errors import InvalidInput
from engine.network.one_time import OneTimeAnswer, answered_once
from engine.sql import plan_query
from tests.support.class_networks import add
from tests.support.query_grammar import Statement
from tests.support.query_runs import CATALOG, SCHEMAS, Row, Run, in_time, lateness, planned, random_rows

STREAMS = ("s", "t", "e")
Figure = Callable[[Sequence[Row]], Any]


def of(column: str, compute: Callable[[list[Any]], Any], least: int = 1) -> Figure:
    """Return a function of rows that computes a figure of the known values of a column; None with fewer than `least` values."""

    def figure(rows: Sequence[Row]) -> Any:
        values = [row[column] for row in rows if row[column] is not None]
        return compute(values) if len(values) >= least else None

    return figure


FIGURES: Mapping[str, Figure] = {
    "COUNT(*)": len,
    "COUNT(x)": of("x", len, 0),
    "SUM(n)": of("n", sum),
    "SUM(x)": of("x", sum),
    "AVG(x)": of("x", statistics.fmean),
    "MIN(n)": of("n", min),
    "MAX(x)": of("x", max),
    "MAX(g)": of("g", max),
    "MEDIAN(x)": of("x", statistics.median),
    "STDDEV(x)": of("x", statistics.stdev, 2),
    "COUNT(DISTINCT g)": of("g", lambda values: len(set(values)), 0),
    "APPROX_COUNT_DISTINCT(n)": of("n", lambda values: len(set(values)), 0),
    "SUM(x * 2.0)": of("x", lambda values: 2 * sum(values)),
    "COUNT_IF(x > 0)": of("x", lambda values: sum(value > 0 for value in values), 0),
}
CONDITIONS: Mapping[str, Callable[[Row], bool]] = {
    "": lambda row: True,
    "x > 0": lambda row: row["x"] is not None and row["x"] > 0,
    "k = 1": lambda row: row["k"] == 1,
    "k = 1 AND x > 0": lambda row: row["k"] == 1 and row["x"] is not None and row["x"] > 0,
    "g <> 'a'": lambda row: row["g"] is not None and row["g"] != "a",
}


@dataclass(frozen=True)
class Window:
    """Query with one window of time over one stream; lengths are in half seconds."""

    stream: str
    figures: tuple[str, ...]
    keys: tuple[str, ...]
    condition: str
    range: int
    slide: int
    at_most: bool = False

    @property
    def sql(self) -> str:
        items = ", ".join(
            [*self.keys, *(f"{figure} AS f{place}" for place, figure in enumerate(self.figures))]
        )
        slide = f"SLIDE {'AT MOST ' if self.at_most else ''}{500 * self.slide} MILLISECONDS"
        where = f" WHERE {self.condition}" if self.condition else ""
        group = f" GROUP BY {', '.join(self.keys)}" if self.keys else ""
        return (
            f"SELECT {items} FROM {self.stream} [RANGE {500 * self.range} MILLISECONDS {slide}]{where}{group}"
        )


slides = st.integers(1, 6)
windows = st.builds(
    lambda window, times: replace(window, range=window.slide * times),
    st.builds(
        Window,
        st.sampled_from(STREAMS),
        st.lists(st.sampled_from(list(FIGURES)), min_size=1, max_size=3, unique=True).map(tuple),
        st.sampled_from([(), ("k",), ("g",), ("k", "g")]),
        st.sampled_from(list(CONDITIONS)),
        slides,
        slides,
        st.booleans(),
    ),
    st.integers(1, 4),
)


@st.composite
def questions(draw: st.DrawFn, running: Sequence[Window]) -> Window:
    """Draw a one-time query that a running window can often answer: with fewer keys, another condition, or a shorter RANGE."""
    window, other = draw(st.sampled_from(running)), draw(windows)
    keys = tuple(key for key in window.keys if draw(st.integers(0, 3)))
    figures = window.figures if draw(st.integers(0, 3)) else other.figures
    condition = window.condition if draw(st.booleans()) else other.condition
    half_seconds = window.slide * draw(st.integers(1, 5)) if draw(st.booleans()) else window.range
    asked = replace(
        window, figures=figures, keys=keys, condition=condition, range=half_seconds, at_most=False
    )
    return replace(asked, slide=asked.range)


@dataclass(frozen=True)
class Input:
    """Rows of a stream in pieces; before each piece, queries are added, and after each piece one query is asked."""

    stream: str
    pieces: tuple[tuple[Row, ...], ...]
    windows: tuple[Window, ...]
    added_before: tuple[int, ...]
    asked: tuple[Window, ...]


@st.composite
def inputs(draw: st.DrawFn) -> Input:
    stream = draw(st.sampled_from(STREAMS))
    running = tuple(replace(one, stream=stream) for one in draw(st.lists(windows, min_size=1, max_size=4)))
    rows = random_rows(
        stream,
        draw(st.integers(1, 60)),
        draw(st.sampled_from([8, 40])),
        draw(arrangements),
        draw(st.integers(0, 2**32)),
    )
    size = draw(st.integers(1, 20))
    pieces = tuple(tuple(rows[start : start + size]) for start in range(0, len(rows), size))
    added = (
        0,
        *draw(st.lists(st.integers(0, len(pieces)), min_size=len(running) - 1, max_size=len(running) - 1)),
    )
    asked = tuple(draw(questions(running)) for _ in pieces)
    return Input(stream, pieces, running, added, asked)


arrangements: st.SearchStrategy[Callable[[list[Row]], list[Row]]] = st.sampled_from(
    [lambda rows: sorted(rows, key=lambda row: row["ts"]), lambda rows: rows]
)


def steps(given_: Input) -> Iterator[tuple[Run, list[Row], Window, list[Window]]]:
    """Run the class piece by piece; after each piece, yield the class, the rows taken until then, a query to ask, and the running queries."""
    first = given_.windows[0]
    run = Run(planned({"q0": Statement(first.sql, "")}))
    taken: list[Row] = []
    running = [first]
    for place, piece in enumerate(given_.pieces):
        for number, window in enumerate(given_.windows):
            if number and given_.added_before[number] == place:
                add(run, f"q{number}", window.sql)
                running.append(window)
        run.offer(given_.stream, piece)
        run.step(10**9)
        taken += piece
        yield run, taken, given_.asked[place], running


def asked_of(run: Run, sql: str) -> tuple[OneTimeAnswer | None, str]:
    """Return the answer to a one-time query, or None and the reason why the query is refused."""
    try:
        return answered_once(plan_query("", sql, CATALOG), run.runner.network), ""
    except InvalidInput as problem:
        return None, str(problem)


def computed(window: Window, rows: Sequence[Row]) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """Compute the figures of each group directly from the rows."""
    groups: dict[tuple[Any, ...], list[Row]] = {} if window.keys else {(): []}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in window.keys), []).append(row)
    return {key: tuple(FIGURES[figure](rows) for figure in window.figures) for key, rows in groups.items()}


def answered_groups(window: Window, answer: OneTimeAnswer) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    found = {}
    for row in answer.rows.to_pylist():
        values = [value for name, value in row.items() if name not in ("window_start", "window_end")]
        found[tuple(values[: len(window.keys)])] = tuple(values[len(window.keys) :])
    assert len(found) == answer.rows.num_rows
    return found


@given(inputs())
def test_answers_equal_a_computation_over_the_rows_in_the_covered_time(given_: Input) -> None:
    unit_us = SCHEMAS[given_.stream].time_unit_us
    for run, taken, window, running in steps(given_):
        answer, problem = asked_of(run, window.sql)
        if answer is None:
            event(f"refused: {problem[:30]}")
            same = [replace(one, slide=window.slide, at_most=False) for one in running]
            assert window not in same or "only begun" in problem
            continue
        kind = (
            "same as running"
            if replace(window, slide=1) in [replace(one, slide=1, at_most=False) for one in running]
            else "other"
        )
        event(f"answered, {kind}, short {answer.is_short}")
        covers = answer.covers
        assert covers is not None
        latest = max(row["ts"] for row in taken)
        assert covers.watermark_us == (latest - lateness(given_.stream)) * unit_us < covers.end_us
        assert covers.end_us - covers.start_us <= window.range * 500_000
        assert answer.is_short == (covers.end_us - covers.start_us < window.range * 500_000)
        rows = [
            row
            for row in in_time(given_.stream, taken)
            if covers.start_us <= row["ts"] * unit_us < covers.end_us and CONDITIONS[window.condition](row)
        ]
        assert answer.tuples == len(rows)
        expected = {key: pytest.approx(figures) for key, figures in computed(window, rows).items()}
        assert answered_groups(window, answer) == expected


@given(inputs())
def test_asking_changes_no_answer_of_the_running_queries(given_: Input) -> None:
    answers = []
    for asks in (True, False):
        run = None
        for run, _, window, _ in steps(given_):
            if asks:
                asked_of(run, window.sql)
        assert run is not None
        run.finish()
        answers.append({name: run.rows(name) for name in run.answers})
    assert repr(answers[0]) == repr(answers[1])


@given(inputs())
def test_a_restored_class_answers_as_the_class_that_was_saved(given_: Input) -> None:
    for run, _, window, running in steps(given_):
        other = Run([])
        other.runner.network.expect(run.runner.network.pane_lengths)
        for place, _ in enumerate(running):
            name = list(run.runner.network.queries)[place]
            add(other, name, run.runner.network.queries[name].sql)
        other.runner.restore(run.runner.snapshot())
        assert repr(asked_of(run, window.sql)) == repr(asked_of(other, window.sql))
