"""Utility of the answers of a query or class by their response times (Carney ch. 4), and number of missed deadlines.

Count, mean utility and missed deadlines are exact. Values are buffered and looked up on the graph by numpy in batches.

1. The mean is the mean of `UtilityGraph.utility_at` over all answers. Without answers it is 1.
2. An answer misses its deadline if its response time is longer than the graph's deadline, but not if it is equal.
3. The results do not depend on the method or the batches by which answers are added.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from configs.classes.utility import UtilityGraph
from scheduler.ratios import ratio

# Number of answers that are buffered per query. The number is small, since a class may have 10,000 queries.
BUFFER_MAX = 256
# Number of values below which a list is faster than an array.
FEW = 64

Array = npt.NDArray[np.float64]


class UtilityStatistics:
    """Accumulated utility and missed deadlines of answers, by a utility graph."""

    def __init__(self, graph: UtilityGraph) -> None:
        self.graph = graph
        self._latencies = np.array(graph.latencies_s)
        self._utilities = np.array(graph.utilities)
        self._deadline_s = graph.deadline_s
        self._responses: list[float] = []
        self._count = self._missed = 0
        self._sum = 0.0

    def add(self, responses: list[float]) -> None:
        """Add answers by their response times in seconds."""
        self._responses.extend(responses)
        if len(self._responses) >= BUFFER_MAX:
            self._fold()

    def add_same(self, response: float, count: int) -> None:
        """Add `count` answers with the same response time."""
        self._count += count
        self._sum += self.graph.utility_at(response) * count
        self._missed += count if response > self._deadline_s else 0

    def add_counted(self, responses: Array, counts: npt.NDArray[np.int64]) -> None:
        """Add `counts` answers for each response time."""
        self._count += int(counts.sum())
        self._sum += float((np.interp(responses, self._latencies, self._utilities) * counts).sum())
        self._missed += int(counts[responses > self._deadline_s].sum())

    def add_array(self, responses: Array) -> None:
        """Add answers by an array of response times."""
        if len(responses) < FEW:
            self.add(responses.tolist())
        else:
            self._fold_in(responses)

    def include(self, other: UtilityStatistics) -> None:
        """Add the sums of another UtilityStatistics, which may have computed them with another graph."""
        other._fold()
        self._count += other._count
        self._missed += other._missed
        self._sum += other._sum

    def _fold(self) -> None:
        if self._responses:
            responses, self._responses = np.array(self._responses), []
            self._fold_in(responses)

    def _fold_in(self, responses: Array) -> None:
        self._count += len(responses)
        # For a response time before the first or after the last point, numpy's interp and the graph return the utility of that point.
        self._sum += float(np.interp(responses, self._latencies, self._utilities).sum())
        self._missed += int((responses > self._deadline_s).sum())

    @property
    def count(self) -> int:
        """Number of answers."""
        return self._count + len(self._responses)

    @property
    def sum(self) -> float:
        """Sum of the utilities of all answers."""
        self._fold()
        return self._sum

    @property
    def mean(self) -> float:
        self._fold()
        return ratio(self._sum, self._count, 1.0)

    @property
    def missed(self) -> int:
        """Number of answers after the deadline."""
        self._fold()
        return self._missed

    @property
    def missed_pct(self) -> float:
        self._fold()
        return 100.0 * self._missed / self._count if self._count else 0.0
