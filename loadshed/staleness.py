"""How much of the time an output has been stale: behind what has arrived for it (Sharaf §4.1.1).

An output is stale from the arrival of an input that leads to an answer until that answer is there; input that leads to
none makes nothing stale. Which is which is only known afterwards: an answer tells that its output has been stale from
the arrival of what caused it until it left, and the staleness of the output is the length of the union of these
intervals, as a share of the time.

1. The order in which answers leave does not matter, nor how often an interval is told.
2. What was before the beginning does not count, nor does an answer that left before it came (a clock jumped back).
3. Memory is bounded. The union is exact unless an answer waited through more than KEPT times at which the output was
   fresh again; then only what is later than the oldest that is kept counts of it, so that the share is never too high.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from scheduler.ratios import ratio

# Separate times of staleness that are remembered. Per output answers come mostly in order of their arrival, and then
# only the last one matters.
KEPT = 128


class OutputStaleness:
    """Of one output, from `since` on."""

    def __init__(self, since: float) -> None:
        self.since = since
        self.stale_s = 0.0
        """Time for which the output has been stale."""
        self._border = since  # nothing earlier is counted any more
        # The times of staleness that are remembered, which neither touch nor overlap.
        self._starts: list[float] = []
        self._ends: list[float] = []

    def served(self, arrivals: Iterable[float], departure: float) -> None:
        """Answers that leave at `departure`, and when what caused them arrived."""
        starts, ends = self._starts, self._ends
        start, end = max(min(arrivals, default=departure), self._border), departure
        if end <= start:
            return
        first, after = bisect_left(ends, start), bisect_right(starts, end)
        if first < after:  # they become one
            start, end = min(start, starts[first]), max(end, ends[after - 1])
            for place in range(first, after):
                self.stale_s -= ends[place] - starts[place]
        starts[first:after], ends[first:after] = [start], [end]
        self.stale_s += end - start
        if len(starts) > KEPT:
            del starts[0]
            self._border = ends.pop(0)

    def served_each(self, intervals: Iterable[tuple[float, float]]) -> None:
        """As `served` of each pair of arrival and departure; quick where they come in order of departure."""
        starts, ends = self._starts, self._ends
        for start, end in intervals:
            if not starts or start < starts[-1] or end < ends[-1]:
                self.served((start,), end)
            elif start <= ends[-1]:
                self.stale_s += end - ends[-1]
                ends[-1] = end
            elif end > start:
                self.stale_s += end - start
                starts.append(start)
                ends.append(end)
                if len(starts) > KEPT:
                    del starts[0]
                    self._border = ends.pop(0)

    def share(self, now: float) -> float:
        """Part of the time since the beginning."""
        return ratio(self.stale_s, now - self.since)
