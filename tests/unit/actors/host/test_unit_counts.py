"""Counts of slices, decisions and answers that a unit reports for metrics."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.host.slice_counts import Counting
from actors.messages.unit_messages import BOUNDS, Qualities, ResponseCounts, UnitCounts
from actors.runtime.run_dirs import RunDirs
from loadshed.aloma import AlomaBranch, Control
from loadshed.manager import ManagerDecision
from loadshed.monitors import Verdict
from loadshed.responses import ResponseStatistics
from tests.unit.actors.host.test_hosted_unit import DECLARED, arrive, made, repeat

ALL = DECLARED.model_copy(update={"queries": {"all": "SELECT sensor, temp FROM readings"}})
TIMES = st.floats(1e-6, 1e4)


@given(st.lists(TIMES), st.lists(TIMES, min_size=1).map(sorted))
def test_counts_of_answers_within_a_response_time_are_exact_to_1_percent_of_the_response_time(
    responses: list[float], bounds: list[float]
) -> None:
    statistics = ResponseStatistics()
    statistics.add(responses, 0.0)
    for bound, found in zip(bounds, statistics.counts(bounds), strict=True):
        assert sum(one <= bound / 1.011 for one in responses) <= found
        assert found <= sum(one <= bound * 1.011 for one in responses)


def explained(branch: AlomaBranch, at_max_drop: bool = False) -> ManagerDecision:
    control = Control(0.5, branch=branch)
    return ManagerDecision(0.0, "gold", 1.0, 1.0, Verdict(), 0.25, control, control, False, at_max_drop)


def counted(unit_counting: Counting, dirs: RunDirs) -> UnitCounts:
    with made(dirs) as unit:
        return replace(unit_counting.told(unit.hosted, 0.0, Qualities()), results={})


def test_slices_and_decisions_are_counted(dirs: RunDirs) -> None:
    counting = Counting(recovered=False, born=7.0)
    for used_s in (0.5, 1.5, 3.0):
        counting.slice_ended(1.0, used_s)
    for branch, reclaim in (
        (AlomaBranch.HOLD, True),
        (AlomaBranch.DROP_MORE, True),
        (AlomaBranch.WAIT, False),
        (AlomaBranch.HOLD, True),
    ):
        counting.decided(explained(branch, at_max_drop=branch is AlomaBranch.DROP_MORE), reclaim, 0.25)
    branches = {AlomaBranch.HOLD: 2, AlomaBranch.DROP_MORE: 1, AlomaBranch.WAIT: 1}
    assert counted(counting, dirs) == UnitCounts(
        os.getpid(),
        7.0,
        recovered=False,
        slices=3,
        overruns=1,
        overrun_s=2.5,
        branches=tuple(branches.get(one, 0) for one in AlomaBranch),
        at_max_drop=1,
        reclaims=2,
        reclaims_overdue=1,
        reclaim_s=0.25 + 0.25 + 0.25,
        answered=ResponseCounts(target_s=0.001),
        queue_work_s=0.25,
    )


def test_reports_carry_counts_of_answers_and_the_life_of_the_unit(dirs: RunDirs) -> None:
    with made(dirs, declared=ALL) as unit:
        for number in range(3):
            arrive(unit, number, 100)
            unit.run(1.0)
        report = unit.end_cycle(now := unit.hosted.runner.answers.handed_out_at + 1)
        assert report is not None
        assert report.counted is not None
        first = report.counted
        assert (first.recovered, first.slices, sum(first.branches), first.queue_age_s) == (False, 3, 1, 0.0)
        assert first.results == {"all": report.figures.results}
        assert first.answered.count == report.figures.results > 0
        (quality,) = first.quality
        assert (quality.query, quality.answers) == ("all", report.figures.results)
        assert (quality.utility, quality.missed) == pytest.approx(
            (report.figures.utility["mean"] * quality.answers, report.figures.utility["missed"])
        )
        assert quality.response_s == pytest.approx(first.answered.sum_s)
        assert 0 < quality.stale_s <= quality.response_s
        assert list(first.answered.within) == sorted(first.answered.within)
        assert len(first.answered.within) == len(BOUNDS)
        arrive(unit, 3, 10)
        report = unit.end_cycle(now + 2)
        assert report is not None
        assert report.counted is not None
        assert report.counted.queue_age_s > 0
    with made(dirs, declared=ALL) as unit:
        repeat(unit)
        report = unit.end_cycle(now + 3)
        assert report is not None
        assert report.counted is not None
        again = report.counted
        assert (again.recovered, again.answered.count, again.results) == (True, 0, first.results)
        assert again.quality.answers in ((), (0,))
        assert again.life != first.life
