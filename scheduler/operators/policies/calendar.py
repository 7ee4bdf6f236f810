"""A calendar queue (Brown 1988): a priority queue of events by time, with amortised constant time to add and remove.

Times are mapped to the days of a year. Each day has a page with the entries of that day, in this year or later ones, in no order.

1. `due(now)` removes and returns exactly the entries with times up to `now`, each once.
2. If the clock goes back, no additional entry becomes due. An entry that is added for a past time is due at once.
"""

from __future__ import annotations

import math

Entry = tuple[float, int]


class Calendar:
    """Calendar queue of entries with a time and a number."""

    def __init__(self, day_s: float, days: int) -> None:
        self._per_s = 1.0 / day_s
        self._days = days
        self._pages: list[list[Entry]] = [[] for _ in range(days)]
        # Day at which the next search begins; None before the first call of `due`.
        self._today: int | None = None
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, at: float, number: int) -> None:
        day = math.floor(at * self._per_s)
        if self._today is not None and day < self._today:
            day = self._today
        self._pages[day % self._days].append((at, number))
        self._count += 1

    def due(self, now: float) -> list[Entry]:
        last = math.floor(now * self._per_s)
        first = last - self._days + 1
        if self._today is not None:
            last = max(last, self._today)
            first = max(first, self._today)
        self._today = last
        due: list[Entry] = []
        if not self._count:
            return due
        for day in range(first, last + 1):
            page = self._pages[day % self._days]
            later = [entry for entry in page if entry[0] > now]
            if len(later) < len(page):
                due.extend(entry for entry in page if entry[0] <= now)
                page[:] = later
        self._count -= len(due)
        return due
