"""Quality of one query's answers: response time, utility, slowdown and staleness; for windows also tardiness.

Answers are measured when they are delivered, outside the operators that made them. If all tuples of a train arrived at
one moment, the train is measured once, whatever its length, and several such trains are measured together.

1. Memory does not grow with the number of answers.
2. Without a utility graph, utility is not measured.
3. Staleness counts from the arrival of the first input that led to an answer.
4. A new graph applies to later answers; earlier answers keep the utility that they had.
5. Slowdown is response time over T, the cost of an answer that waits for nothing (Sharaf §3.2). For pairs of a join,
   slowdown is 1 + (D − D_ideal)/T (§3.4.1.2): a pair's response time begins with the later tuple, so earlier work for the
   earlier tuple is not included. T is measured too; answers are compared with the T after the calls that made them.
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

# Number of trains that are measured together; measuring each train by itself with numpy takes several times as long.
TOGETHER = 128
# Number of trains below which measuring one by one is faster than numpy.
FEW = 12


class AnswerQuality:
    """Statistics of one query's answers in this process, since the query was added."""

    def __init__(
        self,
        graph: UtilityGraph | None = None,
        slack_s: Callable[[], float] | None = None,
        weight: float = 1.0,
    ) -> None:
        """Create empty statistics.

        For a query with a window, `slack_s` returns the response time in seconds after which an answer is late.
        """
        self.weight = weight  # Weight of the query's staleness, compared with other queries
        self.slack_s = slack_s  # Function that returns the seconds after which an answer is late
        self.tardiness = None if slack_s is None else AnswerTardiness()
        self._responses = ResponseStatistics()
        self._utility = None if graph is None else UtilityStatistics(graph)
        # The arrival time of the first input that led to an answer is not known yet; `_measure` sets this time.
        self._staleness = OutputStaleness(-math.inf)
        self._since = math.inf
        self.slowdown = 0.0  # Sum of the slowdowns of all answers up to the last call of `slowed`
        # Sum of the response times of all measured answers, and that sum at the last call of `slowed`.
        self._response_s = self._slowed_s = 0.0
        self._slowed = 0  # Number of answers up to the last call of `slowed`
        # Trains that are still to be measured and have one arrival time: arrival time, delivery time, and number of answers.
        self._waiting: list[tuple[float, float, int]] = []

    def answered(self, arrival: npt.NDArray[np.float64], now: float) -> None:
        """Count answers that are delivered now; `arrival` has, for each answer, the arrival time of the tuple that caused it."""
        if self.tardiness is not None and self.slack_s is not None:
            if is_same(arrival):
                self.tardiness.add_same(now - float(arrival[0]), self.slack_s(), len(arrival))
            else:
                self.tardiness.add_array(now - arrival, self.slack_s())
        if is_same(arrival):
            self._waiting.append((float(arrival[0]), now, len(arrival)))
            if len(self._waiting) == TOGETHER:
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
        """Set the utility graph for later answers."""
        before, self._utility = self.utility, UtilityStatistics(graph)
        if before is not None:
            self._utility.include(before)

    def slowed(self, ideal_s: float, apart_s: float = 0.0) -> None:
        """Add to `slowdown` the slowdowns of all answers since the last call.

        `ideal_s` is the cost of an answer that waits for nothing. `apart_s` is the part of this cost that is spent before the
        arrival of the tuple that causes the answer; for example, the cost of storing the other tuple of a pair.
        """
        self._measure()
        if ideal_s > 0:
            count = self._responses.count
            took_s = self._response_s - self._slowed_s + (count - self._slowed) * apart_s
            self.slowdown += took_s / ideal_s
            self._slowed_s, self._slowed = self._response_s, count

    @property
    def has_answers(self) -> bool:
        return bool(self._waiting) or self._responses.count > 0

    @property
    def responses(self) -> ResponseStatistics:
        self._measure()
        return self._responses

    @property
    def utility(self) -> UtilityStatistics | None:
        """Utility of the answers; None without a graph."""
        self._measure()
        return self._utility

    @property
    def stale_s(self) -> float:
        """Seconds during which an input that led to an answer was still waiting."""
        self._measure()
        return self._staleness.stale_s

    def stale_share(self, now: float) -> float:
        """Return the fraction of the time, since the first input that led to an answer, for which the output was stale."""
        # Reading `stale_s` may set an earlier `_since`, so `stale_s` is read first.
        stale_s = self.stale_s
        return ratio(stale_s, now - self._since)

    def _measure(self) -> None:
        """Measure the answers delivered since the last call."""
        if not self._waiting:
            return
        arrivals, departures, sizes = zip(*self._waiting, strict=True)
        if len(sizes) < FEW:
            for arrived, left, count in self._waiting:
                self._responses.add_same(left - arrived, count)
                self._response_s += max(0.0, left - arrived) * count
                if self._utility is not None:
                    self._utility.add_same(left - arrived, count)
        else:
            counts = np.array(sizes, dtype=np.int64)
            response = np.array(departures) - np.array(arrivals)
            self._responses.add_counted(response, counts)
            self._response_s += max(0.0, float((response * counts).sum()))
            if self._utility is not None:
                self._utility.add_counted(response, counts)
        self._since = min(self._since, min(arrivals))
        self._staleness.served_each(zip(arrivals, departures, strict=True))
        self._waiting.clear()
