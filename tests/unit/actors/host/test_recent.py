"""Statistics of the last seconds, which views show as current figures. Each second has its own statistics."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from actors.host.recent_latency import PIECE_S, RECENT_S, Recent, RecentFigures, RecentFlow
from loadshed.ledger import TupleLedger
from loadshed.responses import ResponseStatistics

CYCLE_S = 0.25


def statistics_of(*responses_s: float) -> ResponseStatistics:
    found = ResponseStatistics()
    found.add(list(responses_s), 0.0)
    return found


def test_the_first_answers_of_a_unit_appear_in_its_recent_figures_at_once() -> None:
    recent = Recent(0.0, 0)
    assert recent.figures == RecentFigures()
    assert not recent.end_cycle(0.1, 0, statistics_of())
    assert not recent.end_cycle(0.2, 10, statistics_of(*[0.04] * 10))
    assert recent.figures.results_per_s == pytest.approx(50)
    assert recent.figures.mean_ms == pytest.approx(40)
    assert recent.figures.p99_ms == pytest.approx(40, rel=0.01)


def test_recent_figures_show_new_response_times_within_a_second_and_forget_old_ones() -> None:
    recent, results, pieces = Recent(0.0, 0), 0, 0
    shown: list[float] = []
    piece = ResponseStatistics()
    for cycle in range(1, 41):
        now = cycle * CYCLE_S
        response_s = 0.01 if now <= 2 else 0.1
        piece.add([response_s] * 5, 0.0)
        results += 5
        if recent.end_cycle(now, results, piece):
            piece, pieces = ResponseStatistics(), pieces + 1
            shown.append(recent.figures.mean_ms)
    assert pieces == 10 * CYCLE_S * 4 / PIECE_S
    assert shown[:3] == pytest.approx([10, 10, 10 * 2 / 3 + 100 / 3])
    assert shown[1 + int(RECENT_S) + 1 :] == pytest.approx([100] * (10 - 7))
    assert recent.figures.results_per_s == pytest.approx(20)


def test_merged_response_statistics_equal_the_statistics_of_all_values() -> None:
    one, other, both = statistics_of(0.1, 0.2), statistics_of(0.3), statistics_of(0.1, 0.2, 0.3)
    one.include(other)
    assert one.response_ms() == pytest.approx(both.response_ms())
    assert one.count == 3


def test_response_statistics_received_in_read_only_memory_can_be_extended() -> None:
    """Unpickle statistics from read-only buffers, as Ray passes arrays."""
    before, buffers = ResponseStatistics(0.1), list[pickle.PickleBuffer]()
    before.add_array(np.full(1000, 0.05), 0.001)
    before.add([0.2], 0.001)
    written = pickle.dumps(before, 5, buffer_callback=buffers.append)
    after: ResponseStatistics = pickle.loads(written, buffers=[bytes(one.raw()) for one in buffers])
    assert after.response_ms() == before.response_ms()
    after.add_same(0.05, 10)
    assert (after.count, before.count) == (1011, 1001)


def test_the_recent_shed_fraction_is_steady_if_shedding_alternates_between_load_cycles() -> None:
    flow, shed, shown = RecentFlow(0.0, {}), 0, list[float]()
    for cycle in range(1, 81):
        shed += 100 * (cycle % 2)
        ledger = TupleLedger(offered=100 * cycle, delivered=100 * cycle - shed, shed=shed)
        flow.end_cycle(cycle * CYCLE_S, {"s": ledger})
        shown.append(flow.shed)
    assert shown[8:] == pytest.approx([0.5] * 72)
