"""Windows with SLIDE AT MOST, compared with DuckDB's answers for windows that end every half second.

1. The answer at an end equals that of a window with an exact SLIDE at that end, for all groups.
2. Answers are as frequent as SLIDE AT MOST requires: no two successive answers are further apart than the
   bound, if windows have tuples.
3. Without late sharing, the answers do not depend on how the input is cut into trains.
4. Windows with an exact SLIDE in the same class answer as usual.
5. A restored class keeps the same ends. Changed settings and removed queries break no bound.
6. Windows with an exact SLIDE give bit-identical answers, whether each window is combined separately or all
   windows by common scans.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configs.classes.periodic_schedules import PeriodicKind
from configs.classes.window_settings import WindowSettings
from engine.class_.runner import ClassRunner
from engine.data.schema import FLOAT64, INT64
from engine.data.train import Train, Values, same_arrival, values_to_arrow
from engine.sql import SqlCatalog, parse_create_stream, plan_query
from tests.support.query_grammar import BASE, HALF_SECOND_US, Grouped, Statement, Window, aggregates, wheres
from tests.support.query_runs import (
    Cuts,
    Rows,
    Run,
    cuts,
    difference,
    every_stream,
    expected,
    load,
    pieces,
    planned,
)


@dataclass(frozen=True)
class Bounded:
    """Query with a window. With SLIDE AT MOST, the DuckDB form of the query has a window that ends every half second."""

    statement: Statement
    range: int  # Length of the window, in half seconds
    slide: int
    at_most: bool
    unit_us: int

    @property
    def step(self) -> int:
        return HALF_SECOND_US // self.unit_us


@st.composite
def bounded(draw: st.DrawFn) -> list[Bounded]:
    """Draw queries with different windows over the same input and groups."""
    source = BASE[draw(st.sampled_from(["s", "e"]))]
    keys = draw(st.sampled_from([(), ("k",), ("g", "k")]))
    grouped = Grouped(source, keys, draw(wheres(source)))
    found = []
    for place in range(draw(st.integers(1, 4))):
        slide, more = draw(st.integers(1, 6)), draw(st.sampled_from([0, 1, 2, 5, 9]))
        outputs = draw(st.lists(aggregates(source), min_size=1, max_size=2))
        window = Window("RANGE", slide + more, slide)
        every = grouped.over(Window("RANGE", slide + more, 1), outputs, "")
        own = grouped.over(window, outputs, "")
        at_most = place == 0 or draw(st.booleans())
        weir = own.weir.replace(" SLIDE ", " SLIDE AT MOST ") if at_most else own.weir
        found.append(
            Bounded(
                Statement(weir, every.duck if at_most else own.duck),
                slide + more,
                slide,
                at_most,
                source.unit_us,
            )
        )
    return found


modes = st.builds(
    WindowSettings,
    schedule=st.sampled_from(["none", "aggressive", "conservative", "hybrid"]),
    late=st.sampled_from(["off", "late", "late-pending"]),
)


def started(some: Sequence[Bounded], how: Cuts, windows: WindowSettings) -> Run:
    run = Run([], how.train_max)
    run.runner.network.windows = windows
    known = queries(some)
    run.runner.add(*known)
    run.answers = {query.name: [] for query in known}
    return run


def queries(some: Sequence[Bounded]) -> Any:
    return planned({f"q{place}": one.statement for place, one in enumerate(some)})


def check(run: Run, name: str, one: Bounded) -> None:
    found, wanted = run.rows(name), expected(one.statement)
    if not one.at_most:
        assert not difference(found, wanted), one
        return
    ends = {row[1] for row in found}
    assert not difference(found, [row for row in wanted if row[1] in ends]), one
    assert all(end % one.step == 0 for end in ends)
    in_a_row, last = 0, None
    for end in sorted({row[1] for row in wanted}):
        in_a_row = in_a_row + 1 if last is not None and end == last + one.step else 1
        in_a_row, last = 0 if end in ends else in_a_row, end
        assert in_a_row < one.slide, (one, end, sorted(ends))


@pytest.mark.slow
@settings(max_examples=80)
@given(bounded(), every_stream, cuts, cuts, modes)
def test_windows_with_slide_at_most_have_right_answers_at_least_as_often_as_declared(
    some: list[Bounded], rows: Rows, how: Cuts, other: Cuts, windows: WindowSettings
) -> None:
    load(rows)
    runs = []
    for one in (how, other):
        run = started(some, one, windows)
        for name, part, steps in pieces(rows, one):
            run.offer(name, part)
            run.step(steps)
        run.finish()
        runs.append(run)
        for place, query in enumerate(some):
            check(run, f"q{place}", query)
    if windows.late == "off":
        for place in range(len(some)):
            assert not difference(runs[0].rows(f"q{place}"), runs[1].rows(f"q{place}"))


@settings(max_examples=50)
@given(bounded(), every_stream, cuts, modes, modes, st.integers(0, 12), st.data())
def test_windows_stay_within_slide_at_most_after_a_restart_changed_settings_or_a_removed_query(
    some: list[Bounded],
    rows: Rows,
    how: Cuts,
    windows: WindowSettings,
    later: WindowSettings,
    after: int,
    data: st.DataObject,
) -> None:
    load(rows)
    run = started(some, how, windows)
    gone = data.draw(st.integers(0, len(some) - 1))
    change = data.draw(st.sampled_from(["restart", "settings", "query"]))
    for place, (name, part, steps) in enumerate(pieces(rows, how)):
        if place == after:
            match change:
                case "restart":
                    run = restarted(run, some, how, windows)
                case "settings":
                    run.runner.network.windows = later
                case "query":
                    run.runner.remove(f"q{gone}")
        run.offer(name, part)
        run.step(steps)
    run.finish()
    for place, one in enumerate(some):
        if change != "query" or place != gone:
            check(run, f"q{place}", one)


def restarted(run: Run, some: Sequence[Bounded], how: Cuts, windows: WindowSettings) -> Run:
    """Return a new class that continues from the old class's snapshot."""
    snapshot = run.runner.snapshot()
    other = started(some, how, windows)
    other.answers = {name: list(trains) for name, trains in run.answers.items()}
    run.finish()
    other.runner.restore(snapshot)
    other.now = run.now
    return other


ROUNDED = parse_create_stream("CREATE STREAM r (ts int64, k int64, x float64, WATERMARK FOR ts AS ts)")
OUTPUTS = [
    "SUM(x)",
    "AVG(x)",
    "STDDEV(x)",
    "MIN(x)",
    "MAX(x)",
    "COUNT(*)",
    "MEDIAN(x)",
    "APPROX_QUANTILE(x, 0.9)",
]


@st.composite
def exact_queries(draw: st.DrawFn) -> list[str]:
    """Draw queries with windows that share panes and groups, and that have SLIDE instead of SLIDE AT MOST."""
    group, found = draw(st.sampled_from([("", ""), ("k, ", " GROUP BY k")])), []
    for _ in range(draw(st.integers(2, 6))):
        slide, more = draw(st.integers(1, 4)), draw(st.integers(0, 9))
        outputs = draw(st.lists(st.sampled_from(OUTPUTS), min_size=1, max_size=3, unique=True))
        named = ", ".join(f"{one} AS o{place}" for place, one in enumerate(outputs))
        found.append(
            f"SELECT window_end, {group[0]}{named} FROM r"
            f" [RANGE {slide + more} SECONDS SLIDE {slide} SECONDS]{group[1]}"
        )
    return found


@settings(max_examples=25)
@given(
    exact_queries(),
    st.lists(st.integers(1, 40), min_size=1, max_size=12),
    st.integers(0, 2**32),
    st.sampled_from(["aggressive", "conservative", "hybrid"]),
)
def test_windows_with_exact_slides_give_bit_identical_answers_when_they_share_scans(
    texts: list[str], cut: list[int], seed: int, schedule: PeriodicKind
) -> None:
    chance, count = np.random.default_rng(seed), sum(cut)
    times = np.sort(chance.integers(0, 25_000, count))
    keys, numbers = chance.integers(0, 4, count), chance.normal(0.1, 1e3, count) ** 3
    found = []
    for kind in ("none", schedule):
        answers: dict[str, list[Any]] = {}

        def sink(query: str, train: Train, into: dict[str, list[Any]] = answers) -> None:
            rows = zip(*(values_to_arrow(one).to_pylist() for one in train.columns), strict=True)
            into.setdefault(query, []).extend(map(repr, rows))

        runner = ClassRunner(sink, windows=WindowSettings(schedule=kind))
        runner.add(
            *(plan_query(f"q{place}", text, SqlCatalog.of([ROUNDED])) for place, text in enumerate(texts))
        )
        start = 0
        for size in cut:
            columns = Values(INT64, times), Values(INT64, keys), Values(FLOAT64, numbers)
            part = tuple(one.take(np.arange(start, start + size)) for one in columns)
            runner.offer("r", Train(part, same_arrival(0.0, size)))
            runner.run(1e9, lambda: 0.0, lambda: 0.0)
            start += size
        runner.finish(0.0)
        runner.run(1e9, lambda: 0.0, lambda: 0.0)
        found.append(answers)
    assert found[0] == found[1]
    assert found[0]
