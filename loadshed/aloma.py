"""ALoMa's decision table: how headroom and drop rate change at the end of a load cycle (DILoS §III-B).

The headroom H moves only when the two monitors disagree; the drop rate moves when they agree. L is the work
admitted, κ the kept fraction (1 − drop):

             over target (OT)              accumulating (UT)                    normal
    L > H    κ·(1 − max(1%, (L−H)/L))      if shedding and falling:             H up
                                           H up, κ a little up
    L ≤ H    if critical and rising:       κ·(1 + max(1%, (H−L)/L)), up to 1    as UT
             H down, κ a little down

"A little" is 1 + round(log2 n) percent, where n is the number of cycles in a row in this branch. The change of H is

    H ← H + log2(k+1)/k·(L − H),   k = 100·|L − H|/H, at least 1

One change closes a gap of 1% completely, of 10% by 35%, and of 100% by 6.7%. The short paper prints k with a sign, so that every
decrease closes the gap at once. The authors' implementation uses the absolute value, which is the default here.

The original algorithm ignores the queue: a backlog left by a burst stays, with its delay, while input and output rates match.
Here no cycle admits more work than H·(cycle + m·target) − B, where B is the work already queued.

Properties (`tests/property/test_aloma.py`): H is positive and finite for any measurements; κ stays within
[1 − max_drop, 1]; an idle class stops shedding; a backlog is processed within the target.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from loadshed.monitors import Verdict

LEAST_DROP_STEP = 0.01
# Minimum headroom in processors. A headroom of 0 would make ratios of load to headroom NaN for ever.
LEAST_HEADROOM = 1e-4
# Largest accepted ratio of load to headroom. A larger ratio comes from a wrong measurement and would make results infinite.
LARGEST_LOAD_RATIO = 1e6


class AlomaBranch(StrEnum):
    """Branch of ALoMa's decision table: the case that applies at the end of a load cycle."""

    DROP_MORE = "drop more"
    RAISE_AND_EASE = "raise headroom and ease"
    RAISE = "raise headroom"
    LOWER_AND_DROP = "lower headroom and drop a little"
    EASE = "ease"
    WAIT = "wait"
    HOLD = "hold for reclaim"


@dataclass(frozen=True, slots=True)
class Control:
    """State of ALoMa: headroom, kept fraction, the last branch, and the number of cycles in a row in which this branch was followed."""

    headroom: float
    keep: float = 1.0
    branch: AlomaBranch = AlomaBranch.WAIT
    streak: int = 0


@dataclass(frozen=True, slots=True)
class ShedLimits:
    """Maximum drop rate and headroom of ALoMa's decisions, and the formula for changes of the headroom."""

    max_drop: float
    headroom_max: float
    step: Literal["size", "signed"] = "size"


def decide(control: Control, load: float, verdict: Verdict, limits: ShedLimits) -> Control:
    """Return the next headroom and kept fraction by the decision table. The caller then applies `queue_limit`."""
    headroom, keep = control.headroom, control.keep
    branch = choose(load, headroom, keep, verdict)
    streak = control.streak + 1 if branch is control.branch else 1
    little = (1 + round(math.log2(streak))) / 100
    match branch:
        case AlomaBranch.DROP_MORE:
            keep *= 1 - max(LEAST_DROP_STEP, (load - headroom) / load)
        case AlomaBranch.RAISE:
            headroom = stepped(headroom, load, limits.step)
        case AlomaBranch.RAISE_AND_EASE:
            headroom = stepped(headroom, load, limits.step)
            keep *= 1 + little
        case AlomaBranch.LOWER_AND_DROP:
            headroom = stepped(headroom, load, limits.step)
            keep *= 1 - little
        case AlomaBranch.EASE:
            keep = keep * max(1 + LEAST_DROP_STEP, headroom / load) if load > 0 else 1.0
        case AlomaBranch.WAIT | AlomaBranch.HOLD:
            pass
    return Control(
        headroom=bounded(headroom, limits.headroom_max),
        keep=min(max(keep, 1 - limits.max_drop), 1.0),
        branch=branch,
        streak=streak,
    )


def choose(load: float, headroom: float, keep: float, verdict: Verdict) -> AlomaBranch:
    """Return the branch of the decision table that applies to this load and these response times."""
    shedding = keep < 1
    if load > headroom:
        if verdict.over_target:
            return AlomaBranch.DROP_MORE
        if verdict.accumulating:
            return AlomaBranch.RAISE_AND_EASE if shedding and verdict.falling else AlomaBranch.WAIT
        return AlomaBranch.RAISE
    if verdict.over_target:
        return AlomaBranch.LOWER_AND_DROP if verdict.critical and verdict.rising else AlomaBranch.WAIT
    return AlomaBranch.EASE if shedding else AlomaBranch.WAIT


def stepped(headroom: float, load: float, step: Literal["size", "signed"] = "size") -> float:
    """Return the headroom after one load cycle, in which it moves towards the load."""
    load = min(load, LARGEST_LOAD_RATIO * headroom)
    gap = 100 * (load - headroom) / headroom
    k = max(1.0, abs(gap) if step == "size" else gap)
    return headroom + math.log2(k + 1) / k * (load - headroom)


def bounded(headroom: float, headroom_max: float) -> float:
    return min(max(headroom, LEAST_HEADROOM), headroom_max)


def queue_limit(
    headroom: float, offered_load: float, queued_work_s: float, cycle_s: float, allowance_s: float
) -> float:
    """Return the largest kept fraction at which the remaining queue can be processed within `allowance_s`, a part of the delay target."""
    offered_work_s = offered_load * cycle_s
    if offered_work_s <= 0:
        return 1.0
    admissible_s = headroom * (cycle_s + allowance_s) - queued_work_s
    return min(1.0, max(0.0, admissible_s / offered_work_s))
