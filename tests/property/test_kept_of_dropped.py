"""Rows dropped from a source's queue lower the kept fraction of exactly those windows that the rows belong to."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.network.node import MISSING_MAX
from tests.property.test_kept_of_late import INPUTS, SECOND, WINDOWS
from tests.support.query_grammar import Statement
from tests.support.query_runs import Cuts, Row, Run, cuts, lateness, pieces, planned, rows_of, train_rows

Window = tuple[int, int]
Drops = list[int]


class Model:
    """Model of the windows, which processes rows one at a time, and counts the rows, late rows and dropped rows of each window."""

    def __init__(self, range_s: int, slide_s: int, tuples: Callable[[int], int]) -> None:
        self.range_us, self.slide_us, self.tuples = range_s * SECOND, slide_s * SECOND, tuples
        self.queued: deque[Row] = deque()
        self.gone: list[Row] = []
        self.latest: int | None = None
        self.inside, self.late, self.dropped = Counter[Window](), Counter[Window](), Counter[Window]()

    def take(self, count: int) -> None:
        """Count the rows that were dropped from the front of the queue, and process the `count` oldest queued rows."""
        if count:
            self._lose()
        for _ in range(count):
            row, mark = self.queued.popleft(), self._watermark()
            is_late = mark is not None and row["ts"] < mark
            self._count(row, self.late if is_late else self.inside, mark if is_late else None)
            self.latest = row["ts"] if self.latest is None else max(self.latest, row["ts"])

    def drop(self, count: int) -> None:
        self.gone += [self.queued.popleft() for _ in range(count)]

    def finish(self) -> None:
        self._lose()

    def _lose(self) -> None:
        for row in self.gone:
            self._count(row, self.dropped, self._watermark())
        self.gone = []

    def _watermark(self) -> int | None:
        return None if self.latest is None else self.latest - lateness("s")

    def _count(self, row: Row, found: Counter[Window], closed_upto: int | None) -> None:
        if row["k"] is None or row["k"] < 1:
            return
        end = (row["ts"] // self.slide_us + 1) * self.slide_us
        while end - self.range_us <= row["ts"]:
            if closed_upto is None or end > closed_upto:
                found[end - self.range_us, end] += self.tuples(row["k"])
            end += self.slide_us


@pytest.mark.parametrize("source", INPUTS)
@pytest.mark.parametrize("keep", [1.0, 0.5])
@given(rows_of("s"), rows_of("s"), cuts, st.lists(st.integers(0, 8), max_size=12), st.sampled_from(WINDOWS))
def test_rows_dropped_from_a_queue_are_missing_from_their_windows(
    keep: float, source: str, first: list[Row], second: list[Row], how: Cuts, drops: Drops, window: Window
) -> None:
    relation, tuples = INPUTS[source]
    sql = (
        "SELECT window_start, window_end, count(*) AS c, SCALED(count(*)) AS scaled, SCALED_ERROR(count(*)) AS error"
        f" FROM {relation} [RANGE {window[0]} SECONDS SLIDE {window[1]} SECONDS] AS w WHERE k >= 1"
    )
    run, model = Run(planned({"q": Statement(sql, "")})), Model(*window, tuples)
    node = run.runner.network.source("s")
    assert node is not None

    def step(steps: int) -> None:
        run.step(steps)
        assert node is not None
        model.take(len(model.queued) - node.tuples)

    some = iter(drops)
    for _, part, steps in pieces({"s": [*first, *second], "t": [], "e": []}, how):
        run.offer("s", part, keep)
        model.queued += part
        model.drop(run.runner.evict("s", next(some, 0)))
        step(steps % 5)
    model.drop(run.runner.evict("s", next(some, 0)))
    step(10**9)
    model.finish()
    run.finish()
    found = []
    for train in run.answers["q"]:
        answers = [(start, end) for start, end, *_ in train_rows(train)]
        found += answers
        kept = {one: kept_of(one, model, keep) for one in answers}
        # A train with the answers of several windows has the lowest kept fraction of these windows.
        assert train.kept == pytest.approx(min(kept.values()))
        assert train.kept < 1.0 or not any(model.dropped[one] for one in answers)
        for *bounds, count, scaled, error in train_rows(train):
            have = model.inside[tuple(bounds)]
            each = (have + model.dropped[tuple(bounds)]) / have / keep
            assert (count, scaled) == (have, pytest.approx(have * each))
            assert error == pytest.approx(math.sqrt(have * each * (each - 1)))
    assert sorted(found) == sorted(one for one, count in model.inside.items() if count)


def kept_of(window: Window, model: Model, keep: float) -> float:
    have = model.inside[window]
    return keep * have / (have + model.late[window] + model.dropped[window])


ROWS: Mapping[str, str] = {
    "rows": "SELECT id FROM s",
    "row windows": "SELECT count(*) AS c FROM s [ROWS 3 SLIDE 3]",
}


@pytest.mark.parametrize("sql", ROWS.values(), ids=ROWS)
@given(st.integers(1, 20), st.integers(0, 19))
def test_dropped_rows_lower_the_kept_fraction_of_the_first_row_window_after_them(
    sql: str, count: int, drop: int
) -> None:
    rows: list[Row] = [
        {"id": place, "ts": place, "k": 1, "g": "a", "x": 0.0, "n": 1, "b": True, "d": None}
        for place in range(count)
    ]
    run = Run(planned({"q": Statement(sql, "")}), train_max=1)
    run.offer("s", rows)
    gone = run.runner.evict("s", min(drop, count - 1))
    run.finish()
    fractions = [train.kept for train in run.answers["q"] for _ in range(len(train))]
    size = 1 if "id" in sql else 3
    assert fractions == pytest.approx([size / (size + gone), *[1.0] * len(fractions)][: len(fractions)])


@given(st.integers(1, 20_000))
def test_the_kept_fraction_is_exact_with_bounded_memory_however_many_rows_are_dropped(count: int) -> None:
    run = Run(planned({"q": Statement("SELECT count(*) AS c FROM s [RANGE 1 SECOND]", "")}))
    row: Row = {"id": 0, "ts": 0, "k": 1, "g": "a", "x": 0.0, "n": 1, "b": True, "d": None}
    run.offer("s", [row] * count)
    assert run.runner.evict("s", count) == count
    run.offer("s", [row])
    node = run.runner.network.source("s")
    assert node is not None
    assert node.missing is not None
    assert len(node.missing) <= MISSING_MAX
    run.finish()
    assert [train.kept for train in run.answers["q"]] == pytest.approx([1 / (1 + count)])


@given(st.lists(st.sampled_from([-1.5, 0.0, 2.0]), min_size=2, max_size=9), st.integers(1, 8))
def test_the_error_of_a_scaled_sum_includes_rows_dropped_from_the_queue(
    values: list[float], drop: int
) -> None:
    sql = "SELECT SCALED(sum(x)) AS total, SCALED_ERROR(sum(x)) AS error FROM s [RANGE 1 SECOND]"
    run = Run(planned({"q": Statement(sql, "")}))
    row: Row = {"id": 0, "ts": 0, "k": 1, "g": "a", "n": 1, "b": True, "d": None}
    run.offer("s", [row | {"x": value} for value in values], 0.5)
    gone = run.runner.evict("s", min(drop, len(values) - 1))
    run.finish()
    left = values[gone:]
    each = len(values) / len(left) / 0.5
    error = math.sqrt(sum(value**2 for value in left) * each * (each - 1))
    ((*_, total, found),) = run.rows("q")
    assert (total, found) == (pytest.approx(sum(left) * each), pytest.approx(error))
