"""How good the answers of one query have been: their response times, what they were worth by them, their slowdown, and their
staleness; of windows, also their tardiness.

Answers are measured when they are handed out, at settle points, around the operators that made them. Of a train whose
tuples arrived at one moment only that moment is looked at, whatever its length, and some of these are measured together.

1. Nothing that is kept grows with the number of answers.
2. Without a graph nobody has said what answers are worth; then only the other two are measured.
3. Staleness is told since the arrival of the first input that led to an answer.
4. Another graph values what comes from then on; what there is keeps the worth that it had.
5. Slowdown is response time over T, what an answer costs alone (Sharaf §3.2), and of pairs 1 + (D − D_ideal)/T: they wait for the later
   of the two, and what was done for the earlier one before that is no part of their response time (§3.4.1.2). T is measured as
   well: answers are held against what it is when they are looked at, which is after the calls that made them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from configs.classes.utility import UtilityGraph
from engine.data.train import is_same
from loadshed.responses import ResponseStatistics
from loadshed.staleness import OutputStaleness
from loadshed.tardiness import AnswerTardiness
from loadshed.utility import UtilityStatistics
from scheduler.ratios import ratio

# Trains that are measured together: for each alone, numpy would take several times as long.
TOGETHER = 128
# Fewer are measured one by one in less time.
FEW = 12


class AnswerQuality:
    """From the moment on when the query was added, in this process."""

    __slots__ = (
        "_arrivals",
        "_counts",
        "_departures",
        "_response_s",
        "_responses",
        "_since",
        "_slack_s",
        "_slowed",
        "_slowed_s",
        "_staleness",
        "_utility",
        "slowdown",
        "tardiness",
        "weight",
    )

    def __init__(
        self,
        graph: UtilityGraph | None = None,
        slack_s: Callable[[], float] | None = None,
        weight: float = 1.0,
    ) -> None:
        """`slack_s` tells how long an answer of a window may take from falling due; None without a window."""
        self.weight = weight  # how much its staleness counts beside other queries'
        self._slack_s = slack_s
        self.tardiness = None if slack_s is None else AnswerTardiness()
        self._responses = ResponseStatistics()
        self._utility = None if graph is None else UtilityStatistics(graph)
        # Who answers first may not be who came first, so there is no beginning before which nothing counts.
        self._staleness = OutputStaleness(-math.inf)
        self._since = math.inf
        self.slowdown = 0.0  # of all answers together that `slowed` has been told of
        self._response_s = self._slowed_s = 0.0  # response times of all answers, and of these
        self._slowed = 0  # how many these are
        # Trains of one arrival that are still to be measured.
        self._arrivals: list[float] = []
        self._departures: list[float] = []
        self._counts: list[int] = []

    def fall_due(self, slack_s: Callable[[], float] | None) -> None:
        """Answers come of other operators from now on."""
        self._slack_s = slack_s

    def answered(self, arrival: npt.NDArray[np.float64], now: float) -> None:
        """Answers are handed out; when what caused each of them arrived."""
        if self.tardiness is not None and self._slack_s is not None:
            if is_same(arrival):
                self.tardiness.add_same(now - float(arrival[0]), self._slack_s(), len(arrival))
            else:
                self.tardiness.add_array(now - arrival, self._slack_s())
        if is_same(arrival):
            self._arrivals.append(float(arrival[0]))
            self._departures.append(now)
            self._counts.append(len(arrival))
            if len(self._counts) == TOGETHER:
                self._measure()
            return
        oldest, response = float(arrival.min()), now - arrival
        self._responses.add_array(response, 0.0)
        self._response_s += max(0.0, float(response.sum()))
        if self._utility is not None:
            self._utility.add_array(response)
        self._since = min(self._since, oldest)
        self._staleness.served((oldest,), now)

    def value(self, graph: UtilityGraph) -> None:
        """What answers are worth from now on."""
        before, self._utility = self.utility, UtilityStatistics(graph)
        if before is not None:
            self._utility.include(before)

    def slowed(self, ideal_s: float, apart_s: float = 0.0) -> None:
        """What an answer costs alone, and how much of it not since it could be made; counts for all that have come since it was told
        last."""
        self._measure()
        if ideal_s > 0:
            count = self._responses.count
            took_s = self._response_s - self._slowed_s + (count - self._slowed) * apart_s
            self.slowdown += took_s / ideal_s
            self._slowed_s, self._slowed = self._response_s, count

    @property
    def has_answers(self) -> bool:
        return bool(self._counts) or self._responses.count > 0

    @property
    def responses(self) -> ResponseStatistics:
        self._measure()
        return self._responses

    @property
    def utility(self) -> UtilityStatistics | None:
        """None without a graph."""
        self._measure()
        return self._utility

    @property
    def stale_s(self) -> float:
        """Time for which the output has been behind what had arrived for it."""
        self._measure()
        return self._staleness.stale_s

    def stale_share(self, now: float) -> float:
        """The same as a part of the time."""
        stale_s = self.stale_s  # measures first, which may move the beginning
        return ratio(stale_s, now - self._since)

    def _measure(self) -> None:
        """What has come since it was done last."""
        if not self._counts:
            return
        if len(self._counts) < FEW:
            for arrived, left, count in zip(self._arrivals, self._departures, self._counts, strict=True):
                self._responses.add_same(left - arrived, count)
                self._response_s += max(0.0, left - arrived) * count
                if self._utility is not None:
                    self._utility.add_same(left - arrived, count)
        else:
            counts = np.array(self._counts, dtype=np.int64)
            response = np.array(self._departures) - np.array(self._arrivals)
            self._responses.add_counted(response, counts)
            self._response_s += max(0.0, float((response * counts).sum()))
            if self._utility is not None:
                self._utility.add_counted(response, counts)
        self._since = min(self._since, min(self._arrivals))
        self._staleness.served_each(zip(self._arrivals, self._departures, strict=True))
        self._arrivals.clear()
        self._departures.clear()
        self._counts.clear()
