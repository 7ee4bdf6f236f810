"""How good the answers of one query have been: their response times, what they were worth by them, and their staleness.

Answers are measured when they are handed out, at settle points, around the operators that made them. A train whose tuples
arrived at one moment costs the same whatever its length.

1. Nothing that is kept grows with the number of answers.
2. Without a graph nobody has said what answers are worth; then only the other two are measured.
3. Staleness is told since the arrival of the first input that led to an answer.
4. Another graph values what comes from then on; what there is keeps the worth that it had.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from configs.utility import UtilityGraph
from engine.train import is_same
from loadshed.responses import ResponseStatistics
from loadshed.staleness import Staleness
from loadshed.utility import UtilityStatistics


class QueryQuality:
    """From the moment on when the query was added, in this process."""

    __slots__ = ("_since", "_staleness", "responses", "utility")

    def __init__(self, graph: UtilityGraph | None = None) -> None:
        self.responses = ResponseStatistics()
        self.utility = None if graph is None else UtilityStatistics(graph)
        # Who answers first may not be who came first, so there is no beginning before which nothing counts.
        self._staleness = Staleness(-math.inf)
        self._since = math.inf

    def answered(self, arrival: npt.NDArray[np.float64], now: float) -> None:
        """Answers are handed out; when what caused each of them arrived."""
        if is_same(arrival):
            oldest, count = float(arrival[0]), len(arrival)
            self.responses.add_same(now - oldest, count)
            if self.utility is not None:
                self.utility.add_same(now - oldest, count)
        else:
            oldest, response = float(arrival.min()), now - arrival
            self.responses.add_array(response, 0.0)
            if self.utility is not None:
                self.utility.add_array(response)
        self._since = min(self._since, oldest)
        self._staleness.served((oldest,), now)

    def value(self, graph: UtilityGraph) -> None:
        """What answers are worth from now on."""
        before, self.utility = self.utility, UtilityStatistics(graph)
        if before is not None:
            self.utility.include(before)

    @property
    def answers(self) -> int:
        return self.responses.count

    @property
    def stale_s(self) -> float:
        """Time for which the output has been behind what had arrived for it."""
        return self._staleness.stale_s

    def stale_share(self, now: float) -> float:
        """The same as a part of the time."""
        return min(1.0, max(0.0, self.stale_s / (now - self._since))) if now > self._since else 0.0
