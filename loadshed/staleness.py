"""Staleness of an output: the fraction of time in which it lagged behind its input (Sharaf §4.1.1).

An output is stale from the arrival of an input that leads to an answer until that answer is emitted. Input that leads to no
answer does not make it stale, but this is known only afterwards. So each answer adds the interval from the arrival of its cause
to its own departure. The staleness is the length of the union of these intervals divided by the elapsed time.

1. The order of answers does not matter, nor do repeated intervals.
2. Time before the beginning does not count, nor does an answer that left before its cause arrived (a clock jumped back).
3. Memory is bounded: at most KEPT separate stale intervals are remembered. If an answer's interval reaches back beyond the
   oldest of them, only the part after it counts, so the result is never too high.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from scheduler.ratios import ratio

# Maximum number of remembered stale intervals. Only the last interval matters if answers leave in the order of their arrivals.
KEPT = 128


class OutputStaleness:
    """Staleness of one output since the time `since`."""

    def __init__(self, since: float) -> None:
        self.since = since
        self.stale_s = 0.0
        """Seconds for which the output has been stale."""
        self._border = since  # Start of the counted time; earlier stale time is ignored
        # Remembered stale intervals, which neither touch nor overlap.
        self._starts: list[float] = []
        self._ends: list[float] = []

    def served(self, arrivals: Iterable[float], departure: float) -> None:
        """Add answers that leave at `departure`, with the arrival times of their causes."""
        starts, ends = self._starts, self._ends
        start, end = max(min(arrivals, default=departure), self._border), departure
        if end <= start:
            return
        first, after = bisect_left(ends, start), bisect_right(starts, end)
        if first < after:  # Overlapping intervals are merged.
            start, end = min(start, starts[first]), max(end, ends[after - 1])
            for place in range(first, after):
                self.stale_s -= ends[place] - starts[place]
        starts[first:after], ends[first:after] = [start], [end]
        self.stale_s += end - start
        if len(starts) > KEPT:
            del starts[0]
            self._border = ends.pop(0)

    def served_each(self, intervals: Iterable[tuple[float, float]]) -> None:
        """Call `served` for each pair of arrival and departure. The method is fast if the pairs are in the order of departure."""
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
        """Return the stale fraction of the time since the beginning."""
        return ratio(self.stale_s, now - self.since)
