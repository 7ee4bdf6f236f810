"""Steadiness of an output: how evenly its answers leave over time (MavStream §6.4).

Time is divided into intervals of equal length, one second by default, and the answers of each interval are counted. The *unevenness* is
the standard deviation of these counts divided by their mean. It is 0 if each interval has the same number of answers, and grows if many
answers come at once. Because it is divided by the mean, outputs with different numbers of answers can be compared.

Properties (`tests/property/test_steadiness.py`):
1. The result depends only on the number of answers in each whole interval; intervals without answers count too.
2. The last interval counts only when it is over.
3. Memory does not grow with time.
4. An answer that leaves before an earlier answer left (a clock jumped back) counts in the interval of the earlier answer.
"""

from __future__ import annotations

from math import sqrt

INTERVAL_S = 1.0


class OutputSteadiness:
    """Counts of the answers of one output in equal intervals since the time `since`."""

    def __init__(self, since: float = 0.0, interval_s: float = INTERVAL_S) -> None:
        self._since = since
        self._interval_s = interval_s
        self._place = 0  # Number of the interval that is counted now
        self._count = 0  # Answers in this interval
        # Sum and sum of squares of the counts of earlier intervals.
        self._sum = self._squares = 0

    def answered(self, count: int, now: float) -> None:
        """Add answers that leave at the time `now`."""
        place = self._whole(now)
        if place > self._place:
            self._sum += self._count
            self._squares += self._count * self._count
            self._place, self._count = place, 0
        self._count += count

    def unevenness(self, now: float) -> float:
        """Return the standard deviation of the counts divided by their mean; 0 if no interval has answers."""
        intervals, total, squares = self._whole(now), self._sum, self._squares
        if intervals > self._place:
            total, squares = total + self._count, squares + self._count * self._count
        if not total:
            return 0.0
        # With the counts as integers, the variance has no rounding error before this division.
        return sqrt(max(0, max(intervals, self._place) * squares - total * total)) / total

    def _whole(self, now: float) -> int:
        """Return the number of whole intervals that are over at the time `now`."""
        return max(0, int((now - self._since) // self._interval_s))
