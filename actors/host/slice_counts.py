"""Counters of a unit for monitoring, updated after each slice and at the end of each load cycle.

Counting costs some additions per slice and some microseconds per load cycle, mostly for summing up bins of response times.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from itertools import islice

from actors.messages.unit_messages import BOUNDS, QUERIES_MAX, Qualities, ResponseCounts, UnitCounts
from engine.class_.hosted_class import HostedClass
from engine.class_.scheduled_nodes import waiting_s
from loadshed.aloma import AlomaBranch
from loadshed.manager import ManagerDecision
from loadshed.responses import ResponseStatistics

# Number of quotas: a slice that used more counts as an overrun. Finishing the current train usually takes less.
OVERRUN_QUOTAS = 2.0
PLACES = {branch: place for place, branch in enumerate(AlomaBranch)}


@dataclass(eq=False, slots=True)
class Counting:
    """Counters since the unit was opened in this process."""

    recovered: bool
    born: float = field(default_factory=time.time)
    _slices: int = 0
    _overruns: int = 0
    _overrun_s: float = 0.0
    _branches: list[int] = field(default_factory=lambda: [0] * len(PLACES))
    _at_max_drop: int = 0
    _asking: bool = False
    _reclaims: int = 0
    _overdue: int = 0
    _reclaim_s: float = 0.0
    _queue_work_s: float = 0.0
    expired: int = 0
    """Number of tuples that were dropped for their age; they also count as shed."""

    def slice_ended(self, quota_s: float, used_s: float) -> None:
        self._slices += 1
        if used_s > quota_s:
            self._overrun_s += used_s - quota_s
            self._overruns += used_s > OVERRUN_QUOTAS * quota_s

    def decided(self, explanation: ManagerDecision, reclaim: bool, cycle_s: float) -> None:
        """Count a decision of the load manager at the end of a load cycle."""
        self._branches[PLACES[explanation.after.branch]] += 1
        self._at_max_drop += explanation.at_max_drop
        self._queue_work_s = explanation.queued_work_s
        if reclaim:
            self._reclaim_s += cycle_s
            # If the class asked at the end of the previous cycle too, a whole cycle was not enough to return its capacity.
            self._overdue += self._asking
            self._reclaims += not self._asking
        self._asking = reclaim

    def told(self, hosted: HostedClass, now: float, quality: Qualities) -> UnitCounts:
        ages = [waiting_s(hosted.runner.network.source(stream), now) for stream in hosted.queries.schemas]
        return UnitCounts(
            pid=os.getpid(),
            born=self.born,
            recovered=self.recovered,
            slices=self._slices,
            overruns=self._overruns,
            overrun_s=self._overrun_s,
            branches=tuple(self._branches),
            at_max_drop=self._at_max_drop,
            reclaims=self._reclaims,
            reclaims_overdue=self._overdue,
            reclaim_s=self._reclaim_s,
            answered=answered(hosted.times.total),
            results=dict(islice(hosted.runner.answers.counts.items(), QUERIES_MAX)),
            queue_bytes=hosted.runner.network.account.queued,
            queue_age_s=max(ages, default=0.0),
            queue_work_s=self._queue_work_s,
            quality=quality,
            expired=self.expired,
        )


def answered(responses: ResponseStatistics) -> ResponseCounts:
    target_s = responses.target_s
    within = responses.counts([part * target_s for part in BOUNDS])
    return ResponseCounts(target_s, responses.count, responses.within_target, responses.sum_s, within)
