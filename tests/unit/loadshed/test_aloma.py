"""ALoMa's decision for each row of its decision table, and for each size of the step by which headroom changes."""

import math
from dataclasses import replace
from typing import Literal

import pytest

from loadshed.aloma import (
    LEAST_HEADROOM,
    AlomaBranch,
    Control,
    ShedLimits,
    bounded,
    decide,
    queue_limit,
    stepped,
)
from loadshed.monitors import Verdict

NORMAL = Verdict()
ACCUMULATING = Verdict(accumulating=True)
FALLING = Verdict(accumulating=True, falling=True)
LATE = Verdict(over_target=True)
CRITICAL = Verdict(over_target=True, critical=True)
CRITICAL_AND_RISING = Verdict(over_target=True, critical=True, rising=True)
LATE_AND_RISING = Verdict(over_target=True, rising=True)

LIMITS = ShedLimits(max_drop=0.95, headroom_max=4.0)
ABOVE, BELOW = 1.25, 0.8
UP, DOWN = stepped(1.0, ABOVE), stepped(1.0, BELOW)


@pytest.mark.parametrize(
    ("load", "keep", "verdict", "branch", "headroom_after", "keep_after"),
    [
        # rows of the decision table for a load above the headroom
        (ABOVE, 1.0, LATE, AlomaBranch.DROP_MORE, 1.0, 0.8),
        (ABOVE, 0.5, LATE, AlomaBranch.DROP_MORE, 1.0, 0.4),
        (1.005, 1.0, LATE, AlomaBranch.DROP_MORE, 1.0, 0.99),
        (ABOVE, 1.0, CRITICAL_AND_RISING, AlomaBranch.DROP_MORE, 1.0, 0.8),
        (ABOVE, 0.5, ACCUMULATING, AlomaBranch.WAIT, 1.0, 0.5),
        (ABOVE, 0.5, FALLING, AlomaBranch.RAISE_AND_EASE, UP, 0.505),
        (ABOVE, 1.0, FALLING, AlomaBranch.WAIT, 1.0, 1.0),
        (ABOVE, 1.0, NORMAL, AlomaBranch.RAISE, UP, 1.0),
        (ABOVE, 0.5, NORMAL, AlomaBranch.RAISE, UP, 0.5),
        # rows of the decision table for a load within the headroom
        (BELOW, 0.5, CRITICAL_AND_RISING, AlomaBranch.LOWER_AND_DROP, DOWN, 0.495),
        (BELOW, 0.5, CRITICAL, AlomaBranch.WAIT, 1.0, 0.5),
        (BELOW, 0.5, LATE_AND_RISING, AlomaBranch.WAIT, 1.0, 0.5),
        (BELOW, 0.5, ACCUMULATING, AlomaBranch.EASE, 1.0, 0.625),
        (BELOW, 0.5, NORMAL, AlomaBranch.EASE, 1.0, 0.625),
        (BELOW, 0.9, NORMAL, AlomaBranch.EASE, 1.0, 1.0),
        (1.0, 0.5, NORMAL, AlomaBranch.EASE, 1.0, 0.505),
        (0.0, 0.05, NORMAL, AlomaBranch.EASE, 1.0, 1.0),
        (BELOW, 1.0, ACCUMULATING, AlomaBranch.WAIT, 1.0, 1.0),
        (BELOW, 1.0, NORMAL, AlomaBranch.WAIT, 1.0, 1.0),
    ],
)
def test_each_row_of_the_decision_table_gives_its_branch_headroom_and_keep(
    load: float, keep: float, verdict: Verdict, branch: AlomaBranch, headroom_after: float, keep_after: float
) -> None:
    after = decide(Control(1.0, keep), load, verdict, LIMITS)
    assert replace(after, keep=round(after.keep, 12)) == Control(headroom_after, keep_after, branch, streak=1)


@pytest.mark.parametrize(
    ("gap", "closed"), [(0.001, 1.0), (0.01, 1.0), (0.1, 0.346), (1.0, 0.067), (10.0, 0.01)]
)
@pytest.mark.parametrize("sign", [1, -1])
def test_headroom_moves_to_a_near_load_at_once_and_towards_a_far_load_slowly(
    sign: int, gap: float, closed: float
) -> None:
    load = 2.0 + sign * 2.0 * gap
    assert (stepped(2.0, load) - 2.0) / (load - 2.0) == pytest.approx(closed, abs=5e-4)


@pytest.mark.parametrize(("load", "after"), [(1.0, 1.0), (0.2, 0.2), (1.9, 1.9), (2.2, 2.069), (4.0, 2.133)])
def test_with_the_setting_step_signed_headroom_falls_to_the_load_at_once_but_rises_slowly(
    load: float, after: float
) -> None:
    assert stepped(2.0, load, "signed") == pytest.approx(after, abs=5e-4)
    signed = decide(Control(2.0, 0.5), load, CRITICAL_AND_RISING, ShedLimits(0.95, 4.0, "signed"))
    assert signed.headroom == pytest.approx(after if load < 2.0 else 2.0, abs=5e-4)


@pytest.mark.parametrize("step", ["size", "signed"])
def test_headroom_stays_finite_when_the_load_is_extremely_high(step: Literal["size", "signed"]) -> None:
    assert 1.0 < stepped(1.0, 1e308, step) < 2.0


def test_drops_grow_in_larger_steps_while_a_decision_repeats_and_start_small_after_a_different_decision() -> (
    None
):
    control, parts = Control(1.0), []
    for load in [0.5] * 9 + [2.0] + [0.5]:
        before, control = control, decide(control, load, CRITICAL_AND_RISING, LIMITS)
        parts.append(round(100 * (1 - control.keep / before.keep)))
    assert parts[:9] == [1 + round(math.log2(n)) for n in range(1, 10)] == [1, 2, 3, 3, 3, 4, 4, 4, 4]
    assert parts[10] == 1
    assert control.streak == 1


def test_keep_rises_in_larger_steps_while_the_branch_ease_repeats() -> None:
    control, parts = Control(0.1, 0.2), []
    for _ in range(4):
        before, control = control, decide(control, 10.0, FALLING, LIMITS)
        parts.append(round(100 * (control.keep / before.keep - 1)))
    assert parts == [1, 2, 3, 3]


def test_aloma_drops_no_more_than_the_maximum_drop() -> None:
    assert decide(Control(1.0), 100.0, LATE, ShedLimits(0.3, 4.0)).keep == 0.7
    assert decide(Control(1.0), 100.0, LATE, ShedLimits(0.0, 4.0)).keep == 1.0


def test_headroom_stays_within_its_bounds() -> None:
    assert decide(Control(3.9), 1e6, NORMAL, LIMITS).headroom == 4.0
    assert decide(Control(LEAST_HEADROOM), 0.0, CRITICAL_AND_RISING, LIMITS).headroom == LEAST_HEADROOM
    assert [bounded(headroom, 2.0) for headroom in (-1.0, 0.0, 1.0, 3.0)] == [
        LEAST_HEADROOM,
        LEAST_HEADROOM,
        1.0,
        2.0,
    ]


@pytest.mark.parametrize(
    ("headroom", "offered_load", "queued_work_s", "kept"),
    [
        # In the next cycle, the queued work and the accepted work may be 0.5·(0.15 + 0.21) = 0.18 s at most.
        (0.5, 2.0, 0.0, 0.6),
        (0.5, 2.0, 0.06, 0.4),
        (0.5, 2.0, 0.18, 0.0),
        (0.5, 2.0, 9.0, 0.0),
        (0.5, 1.0, 0.0, 1.0),
        (0.5, 0.0, 9.0, 1.0),
    ],
)
def test_aloma_accepts_no_more_work_than_can_be_processed_within_the_target(
    headroom: float, offered_load: float, queued_work_s: float, kept: float
) -> None:
    limit = queue_limit(headroom, offered_load, queued_work_s, cycle_s=0.15, allowance_s=0.7 * 0.3)
    assert limit == pytest.approx(kept)


@pytest.mark.parametrize("cycle_s", [0.0, -3.0])
def test_the_input_is_not_limited_when_the_clock_stops_or_jumps_back(cycle_s: float) -> None:
    assert queue_limit(0.5, 2.0, 9.0, cycle_s, allowance_s=0.2) == 1.0
