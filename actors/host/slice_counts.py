"""Counters of a unit for monitoring, updated after each slice and at the end of each load cycle.

Counting costs some additions per slice and some microseconds per load cycle, mostly for summing up bins of response times.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from itertools import islice

from actors.messages.unit_messages import BOUNDS, QUERIES_MAX, Qualities, ResponseCounts, UnitCounts
from engine.class_.hosted_class import HostedClass
from engine.class_.scheduled_nodes import waiting_s
from loadshed.aloma import AlomaBranch
from loadshed.manager import ManagerDecision

# Number of quotas that a slice may use before it counts as an overrun. Finishing the current train usually takes less.
OVERRUN_QUOTAS = 2.0
PLACES = {branch: place for place, branch in enumerate(AlomaBranch)}


class Counting:
    """Counters since the unit was opened in this process."""

    def __init__(self, recovered: bool, born: float | None = None) -> None:
        """Begin to count; `born` is the start time of the unit (default: now)."""
        self.counts = UnitCounts(os.getpid(), time.time() if born is None else born, recovered)
        self._branches = [0] * len(PLACES)
        self._asking = False

    def slice_ended(self, quota_s: float, used_s: float) -> None:
        counts = self.counts
        counts.slices += 1
        if used_s > quota_s:
            counts.overrun_s += used_s - quota_s
            counts.overruns += used_s > OVERRUN_QUOTAS * quota_s

    def decided(self, explanation: ManagerDecision, reclaim: bool, cycle_s: float) -> None:
        """Count a decision of the load manager at the end of a load cycle."""
        counts = self.counts
        self._branches[PLACES[explanation.after.branch]] += 1
        counts.at_max_drop += explanation.at_max_drop
        counts.queue_work_s = explanation.queued_work_s
        if reclaim:
            counts.reclaim_s += cycle_s
            # A class that also reclaimed at the end of the previous load cycle did not get its capacity back within a cycle.
            counts.reclaims_overdue += self._asking
            counts.reclaims += not self._asking
        self._asking = reclaim

    def told(self, hosted: HostedClass, now: float, quality: Qualities) -> UnitCounts:
        ages = [waiting_s(hosted.runner.network.source(stream), now) for stream in hosted.queries.schemas]
        total = hosted.times.total
        within = total.counts([part * total.target_s for part in BOUNDS])
        answered = ResponseCounts(total.target_s, total.count, total.within_target, total.sum_s, within)
        return replace(
            self.counts,
            branches=tuple(self._branches),
            answered=answered,
            results=dict(islice(hosted.runner.answers.counts.items(), QUERIES_MAX)),
            queue_bytes=hosted.runner.network.account.queued,
            queue_age_s=max(ages, default=0.0),
            quality=quality,
        )
