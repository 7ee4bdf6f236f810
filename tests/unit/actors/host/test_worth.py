"""Reported quality of the answers of a unit's queries: over all answers, and over the last seconds."""

from __future__ import annotations

import numpy as np
import pytest

from actors.host.recent_latency import PIECE_S, RECENT_S
from actors.host.unit_quality import UnitWorth
from actors.messages.unit_messages import QUERIES_MAX, Quality
from configs.classes.utility import UtilityGraph
from engine.measure.answer_quality import AnswerQuality
from engine.measure.ideal_cost import Alone

GRAPH = UtilityGraph.step(100)
CYCLE_S = 0.25


def answer(quality: AnswerQuality, now: float, took: float, count: int = 1) -> None:
    quality.answered(np.full(count, now - took), now)


def test_first_answers_are_reported_at_once_and_later_answers_each_second() -> None:
    worth, queries = UnitWorth(), {"q": AnswerQuality(GRAPH), "r": AnswerQuality(GRAPH)}
    worth.begin(0.0, queries)
    worth.end_cycle(0.1, queries)
    assert (worth.figures.utility, list(worth.queries)) == ({}, [])
    answer(queries["q"], 0.5, took=0.15, count=4)
    worth.end_cycle(0.5, queries)
    assert worth.figures.utility == pytest.approx(
        {"mean": 0.5, "lost": 0.5, "of_queries": 0.75, "missed": 4, "missed_pct": 100}
    )
    assert worth.figures.staleness == pytest.approx({"mean": 0.5, "max": 1.0})
    q, r = worth.queries
    assert (q.query, q.answers, q.missed) == ("q", 4, 4)
    assert (q.utility, q.response_s, q.stale_s, q.staleness) == pytest.approx((2.0, 0.6, 0.15, 1.0))
    assert r == Quality("r", 0, 0.0, 0, 0.0, 0.0, 0.0)
    answer(queries["r"], 0.75, took=0.05)
    worth.end_cycle(0.75, queries)
    assert worth.figures.utility["missed_pct"] == 100
    worth.end_cycle(0.5 + PIECE_S, queries)
    assert worth.figures.utility["missed_pct"] == 80
    answer(queries["r"], 1.75, took=0.3)
    worth.end_cycle(1.75, queries, is_last=True)
    assert worth.figures.utility["missed"] == 5


def test_counts_of_a_removed_query_stay_in_the_totals() -> None:
    worth, queries = UnitWorth(), {"q": AnswerQuality(GRAPH), "r": AnswerQuality(GRAPH)}
    worth.begin(0.0, queries)
    answer(queries["q"], 0.5, took=0.15, count=4)
    answer(queries["r"], 0.5, took=0.05)
    worth.end_cycle(0.5, queries)
    assert worth.figures.utility["missed"] == 4
    del queries["q"]
    worth.end_cycle(0.5 + PIECE_S, queries)
    assert worth.figures.utility["missed"] == 4
    answer(queries["r"], 2.0, took=0.15)
    worth.end_cycle(0.5 + 2 * PIECE_S, queries)
    assert worth.figures.utility["missed"] == 5
    assert worth.figures.missed_now == 1


def test_slowdown_is_response_time_divided_by_the_current_ideal_time() -> None:
    alone = {"q": Alone(0.05), "r": Alone(0.001)}
    worth, queries = UnitWorth(lambda: alone), {"q": AnswerQuality(GRAPH), "r": AnswerQuality()}
    worth.begin(0.0, queries)
    answer(queries["q"], 0.5, took=0.15, count=4)
    answer(queries["r"], 0.5, took=0.2, count=1)
    worth.end_cycle(0.5, queries)
    assert worth.figures.slowdown == pytest.approx({"mean": (4 * 3 + 200) / 5, "of_queries": (3 + 200) / 2})
    alone["q"] = Alone(0.5)
    answer(queries["q"], 2.0, took=1.0, count=1)
    worth.end_cycle(2.0, queries)
    assert worth.figures.slowdown == pytest.approx(
        {"mean": (4 * 3 + 2 + 200) / 6, "of_queries": (14 / 5 + 200) / 2}
    )
    # Query r is not listed, because it has no QoS graph.
    assert [one.slowdown for one in worth.queries] == pytest.approx([14])
    last = 2.0 + RECENT_S + PIECE_S
    for at in (3.5, last):
        answer(queries["q"], at, took=1.5)
        worth.end_cycle(at, queries)
    assert worth.figures.slowdown_now == pytest.approx(3)
    del alone["q"]
    worth.end_cycle(last + PIECE_S, queries)
    assert worth.figures.slowdown["mean"] == pytest.approx((4 * 3 + 2 + 200 + 2 * 3) / 8)


def test_tardiness_is_reported_for_all_windows_and_for_the_last_seconds() -> None:
    worth, queries = UnitWorth(), {"w": AnswerQuality(GRAPH, lambda: 0.5), "q": AnswerQuality(GRAPH)}
    worth.begin(0.0, queries)
    answer(queries["q"], 0.5, took=2.0)
    worth.end_cycle(0.5, queries)
    assert (worth.figures.tardiness, worth.figures.tardy_now) == ({}, 0)
    answer(queries["w"], 1.5, took=0.7)
    answer(queries["w"], 1.6, took=0.1, count=3)
    worth.end_cycle(2.0, queries)
    assert worth.figures.tardiness == pytest.approx({"due": 4, "tardy": 1, "mean_ms": 50, "max_ms": 200})
    assert worth.figures.tardy_now == 0.25
    for at in (3.5, 2.0 + RECENT_S + PIECE_S):
        answer(queries["w"], at, took=0.1)
        worth.end_cycle(at, queries)
    assert (worth.figures.tardiness["tardy"], worth.figures.tardy_now) == (1, 0)


def test_recent_utility_and_staleness_forget_answers_after_some_seconds() -> None:
    worth, queries = UnitWorth(), {"q": AnswerQuality(GRAPH)}
    worth.begin(0.0, queries)
    now = []
    for cycle in range(1, int(4 * RECENT_S / CYCLE_S)):
        at = cycle * CYCLE_S
        answer(queries["q"], at, took=CYCLE_S if at <= RECENT_S else 0.05)
        worth.end_cycle(at, queries)
        figures = worth.figures
        now.append((figures.utility_now, figures.missed_now, figures.staleness_now))
    assert now[0] == pytest.approx((0.0, 1.0, 1.0))
    assert now[-1] == pytest.approx((1.0, 0.0, 0.05 / CYCLE_S))
    assert worth.figures.utility["missed"] == RECENT_S / CYCLE_S


def test_adding_or_removing_a_query_adds_no_answers_to_the_recent_figures() -> None:
    worth, queries = UnitWorth(), {"q": AnswerQuality(GRAPH), "r": AnswerQuality(GRAPH)}
    worth.begin(0.0, queries)
    for query in queries.values():
        answer(query, 1.0, took=0.15, count=10)
    worth.end_cycle(1.0, queries)
    del queries["q"]
    answer(queries["r"], 2.0, took=0.05)
    worth.end_cycle(2.0, queries)
    assert (worth.figures.utility["missed"], worth.figures.utility_now, worth.figures.missed_now) == (
        20,
        1.0,
        0.0,
    )
    queries["s"] = AnswerQuality(GRAPH)
    worth.end_cycle(3.0, queries)
    answer(queries["s"], 4.0, took=0.2)
    worth.end_cycle(4.0, queries)
    assert (worth.figures.utility_now, worth.figures.missed_now) == (0.0, 1.0)
    assert [one.query for one in worth.queries] == ["r", "s"]


def test_a_report_has_a_bounded_number_of_queries() -> None:
    worth, queries = UnitWorth(), {f"q{number}": AnswerQuality(GRAPH) for number in range(QUERIES_MAX + 5)}
    worth.begin(0.0, queries)
    worth.end_cycle(PIECE_S, queries)
    assert len(worth.queries.query) == QUERIES_MAX
