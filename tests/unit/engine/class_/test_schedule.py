"""Windows with SLIDE AT MOST: their actual slides, their ends, and the windows that share a scan."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from configs.classes.periodic_schedules import Late, PeriodicKind
from configs.classes.window_settings import WindowSettings
from engine.class_.runner import ClassRunner
from engine.data.held_state import FEW_KEYS
from engine.data.schema import INT64
from engine.data.train import Train, Values, same_arrival
from engine.operators.windows import WindowOperator
from engine.sql import SqlCatalog, parse_create_stream, plan_query

STREAM = parse_create_stream("CREATE STREAM s (ts int64, x int64, WATERMARK FOR ts AS ts)")
SECOND = 1000
FAR = 10**9
# Windows of Golab's example, each as its length and its greatest slide in seconds.
GOLAB = [(10, 2), (5, 2), (6, 2), (15, 3), (12, 3), (20, 5), (30, 5)]
Bound = tuple[int, int] | tuple[int, int, str]


class Class:
    """Class with one query per window. A query returns the largest x of its window; query q0 uses the first window."""

    def __init__(self, bounds: Sequence[Bound], settings: WindowSettings) -> None:
        self.answers: dict[str, list[tuple[int, int]]] = {}
        self.runner = ClassRunner(self._answer, windows=settings)
        self.runner.add(*(query_of(place, *one) for place, one in enumerate(bounds)))

    def _answer(self, query: str, train: Train) -> None:
        found = zip(train.columns[1].data.tolist(), train.columns[2].data.tolist(), strict=True)
        self.answers.setdefault(query, []).extend((end // SECOND, most) for end, most in found)

    def offer(self, *seconds: int) -> None:
        times = np.array(seconds, np.int64) * SECOND
        self.runner.offer(
            "s", Train((Values(INT64, times), Values(INT64, times)), same_arrival(0.0, len(times)))
        )
        self.runner.run(1e9, lambda: 0.0, lambda: 0.0)

    def ends(self, place: int) -> list[int]:
        return [end for end, _ in self.answers.get(f"q{place}", [])]

    @property
    def windows(self) -> list[WindowOperator]:
        return [one.operator for one in self.runner.network.nodes if isinstance(one.operator, WindowOperator)]

    @property
    def periods(self) -> list[int]:
        return [one._schedule.period(one._reader) for one in self.windows]


def query_of(place: int, range_: int, slide: int, kind: str = "AT MOST") -> Any:
    text = f"SELECT window_start, window_end, MAX(x) AS hi FROM s [RANGE {range_} SECONDS SLIDE {kind} {slide} SECONDS]"
    return plan_query(f"q{place}", text, SqlCatalog.of([STREAM]))


@pytest.mark.parametrize(
    ("schedule", "short", "long"),
    [
        ("none", [2, 2, 2, 3, 3, 5, 5], [2, 3, 5]),
        ("conservative", [2, 2, 2, 3, 3, 5, 5], [2, 3, 5]),
        ("aggressive", [2, 2, 2, 2, 2, 2, 2], [2, 2, 2]),
        # An answer costs as much as four panes. For short windows, additional answers cost more than a shared scan saves.
        ("hybrid", [2, 2, 2, 3, 3, 5, 5], [2, 2, 5]),
    ],
)
def test_each_schedule_gives_windows_the_slides_of_golabs_example(
    schedule: PeriodicKind, short: list[int], long: list[int]
) -> None:
    settings = WindowSettings(schedule=schedule)
    assert Class(GOLAB, settings).periods == short
    assert Class([(50, 2), (60, 3), (300, 5)], settings).periods == long


def test_a_window_keeps_its_exact_slide_and_other_windows_adapt() -> None:
    one = Class([(30, 3, ""), (30, 4)], WindowSettings())
    assert one.periods == [3, 3]
    one.offer(*range(13))
    assert (one.ends(0), one.ends(1)) == ([3, 6, 9, 12], [3, 6, 9, 12])
    assert one.answers["q0"] == one.answers["q1"] == [(end, (end - 1) * SECOND) for end in (3, 6, 9, 12)]


def test_results_of_a_scan_are_kept_until_shorter_windows_have_used_them() -> None:
    one = Class([(2, 1), (5, 1), (5, 1, ""), (3, 1)], WindowSettings())
    assert len({id(window._schedule) for window in one.windows}) == 1
    one.offer(*range(8))
    assert [one.ends(place) for place in range(4)] == [list(range(1, 8))] * 4
    for place in range(4):
        assert one.answers[f"q{place}"] == [(end, (end - 1) * SECOND) for end in range(1, 8)]
    assert not one.windows[0]._schedule._scans._left


@pytest.mark.parametrize(
    ("late", "ends"),
    [
        ("off", [[2, 4, 6, 8, 10, 12, 14, 16, 18, 20]] * 2),
        ("late", [[2, 4, 6, 8, 10, 12, 14, 16, 18, 20], [4, 8, 12, 16, 20]]),
        ("late-pending", [[2, 4, 6, 8, 10, 12, 14, 16, 18, 20], [4, 8, 12, 16, 20]]),
    ],
)
def test_a_window_that_runs_late_slides_by_its_declared_maximum(late: Late, ends: list[list[int]]) -> None:
    one = Class([(9, 2), (20, 5)], WindowSettings(schedule="aggressive", late=late))
    one.offer(*range(21))
    assert [one.ends(place) for place in range(2)] == ends
    one.offer(21, 22)
    one.offer(23, 24)
    assert [one.ends(place)[len(ends[place]) :] for place in range(2)] == [[22, 24], [22, 24]]


def test_windows_in_a_long_gap_between_tuples_have_no_answers_and_cost_no_time() -> None:
    one = Class([(4, 2), (6, 3)], WindowSettings(late="late"))
    one.offer(1, 10**9, 10**9 + 9)
    assert all(end < 10 or end > 10**9 for place in range(2) for end in one.ends(place))
    assert min(one.ends(0)) <= 3
    assert min(end for end in one.ends(0) if end > 10) <= 10**9 + 2


def test_a_window_uses_shared_panes_that_do_not_divide_its_declared_maximum_slide() -> None:
    one = Class([(6, 2, "")], WindowSettings())
    one.runner.add(query_of(1, 12, 5))
    assert one.periods == [1, 2]
    assert {window._store.pane for window in one.windows} == {2 * SECOND}


def test_window_ends_added_by_changed_settings_are_answered_before_event_time_advances() -> None:
    one = Class([(20, 10), (4, 2)], WindowSettings(schedule="none"))
    one.offer(0, 7)
    one.runner.network.windows = WindowSettings(schedule="aggressive")
    one.offer(7)
    assert one.ends(0) == [2, 4, 6]


def test_results_of_a_scan_are_used_for_the_right_keys_although_older_keys_expired() -> None:
    """Check the answers of a shorter window that uses the scan of a longer window, if keys have changed since that scan."""
    keyed = parse_create_stream("CREATE STREAM t (ts int64, k int64, WATERMARK FOR ts AS ts)")
    answers: dict[str, set[tuple[int, int, int]]] = {}

    def sink(query: str, train: Train) -> None:
        columns = [column.data.tolist() for column in train.columns[1:]]
        answers.setdefault(query, set()).update(zip(*columns, strict=True))

    runner = ClassRunner(sink)
    ranges, keys, seconds, each_s = (3, 2, 1), 2 * FEW_KEYS, 12, 3
    texts = [
        f"SELECT window_end, k, COUNT(*) AS n FROM t [RANGE {one} SECONDS SLIDE AT MOST 1 SECOND] GROUP BY k"
        for one in ranges
    ]
    runner.add(
        *(
            plan_query(f"q{one}", text, SqlCatalog.of([keyed]))
            for one, text in zip(ranges, texts, strict=True)
        )
    )
    for second in range(seconds):
        # All keys change every three seconds. Keys that are far apart get new numbers, which change when keys expire.
        own = (np.arange(keys, dtype=np.int64) + second // each_s * keys) * FAR
        times = np.full(keys, second * SECOND)
        runner.offer("t", Train((Values(INT64, times), Values(INT64, own)), same_arrival(0.0, keys)))
        runner.run(1e9, lambda: 0.0, lambda: 0.0)
    for one in ranges:
        found = {(end, key // FAR // keys, n) for end, key, n in answers[f"q{one}"]}
        within = {end: range(max(0, end - one), end) for end in range(1, seconds)}
        counts = {end: Counter(second // each_s for second in some) for end, some in within.items()}
        assert found == {
            (end * SECOND, epoch, n) for end, some in counts.items() for epoch, n in some.items()
        }
