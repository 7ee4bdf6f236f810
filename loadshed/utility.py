"""What the answers of a query, or of a class, were worth by how long they took (Carney ch. 4), and how many came late.

Count, mean utility and missed deadlines are exact. Values are buffered and looked up on the graph by numpy in batches.

1. The mean is that of `UtilityGraph.utility_at` over all answers; without any it is 1: nobody has waited for nothing.
2. An answer has missed its deadline if it took longer than the graph's deadline; one that takes just as long has not.
3. It does not matter in which of the ways, or in which pieces, answers are added.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from configs.classes.utility import UtilityGraph
from scheduler.ratios import ratio

# Of each query, and a class may have 10,000 of them.
BUFFER_MAX = 256
# Below this many, numbers in a list are quicker than an array of their own.
FEW = 64

Array = npt.NDArray[np.float64]


class UtilityStatistics:
    """Add response times as they come; read mean and missed deadlines when needed."""

    def __init__(self, graph: UtilityGraph) -> None:
        self.graph = graph
        self._latencies = np.array(graph.latencies_s)
        self._utilities = np.array(graph.utilities)
        self._deadline_s = graph.deadline_s
        self._responses: list[float] = []
        self._count = self._missed = 0
        self._sum = 0.0

    def add(self, responses: list[float]) -> None:
        """Response times in seconds."""
        self._responses.extend(responses)
        if len(self._responses) >= BUFFER_MAX:
            self._fold()

    def add_same(self, response: float, count: int) -> None:
        """As `add`, of `count` answers with one response time."""
        self._count += count
        self._sum += self.graph.utility_at(response) * count
        self._missed += count if response > self._deadline_s else 0

    def add_counted(self, responses: Array, counts: npt.NDArray[np.int64]) -> None:
        """As `add_same` of each of them, at once."""
        self._count += int(counts.sum())
        self._sum += float((np.interp(responses, self._latencies, self._utilities) * counts).sum())
        self._missed += int(counts[responses > self._deadline_s].sum())

    def add_array(self, responses: Array) -> None:
        """As `add`, of many at once."""
        if len(responses) < FEW:
            self.add(responses.tolist())
        else:
            self._fold_in(responses)

    def include(self, other: UtilityStatistics) -> None:
        """As if its answers had been added here, valued by its graph."""
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
        # Before the first point and after the last, interp goes on with theirs, as the graph does.
        self._sum += float(np.interp(responses, self._latencies, self._utilities).sum())
        self._missed += int((responses > self._deadline_s).sum())

    @property
    def count(self) -> int:
        """Answers so far."""
        return self._count + len(self._responses)

    @property
    def sum(self) -> float:
        """Utility of all answers together."""
        self._fold()
        return self._sum

    @property
    def mean(self) -> float:
        self._fold()
        return ratio(self._sum, self._count, 1.0)

    @property
    def missed(self) -> int:
        """Answers that came after the deadline."""
        self._fold()
        return self._missed

    @property
    def missed_pct(self) -> float:
        self._fold()
        return 100.0 * self._missed / self._count if self._count else 0.0
