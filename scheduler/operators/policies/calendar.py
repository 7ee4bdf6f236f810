"""A calendar queue (Brown 1988): what is to happen, by when; putting in and taking out take constant time, amortised.

Times fall on the days of a year; a day's page lists what falls on it, in this year or a later one, in no order.

1. `due(now)` takes out everything whose time has come, each once, and nothing else.
2. When time goes back nothing is due that was not due before; what is put in for a time that has gone by is due at once.
"""

from __future__ import annotations

import math

Entry = tuple[float, int]


class Calendar:
    """Entries of a time and a number."""

    def __init__(self, day_s: float, days: int) -> None:
        self._per_s = 1.0 / day_s
        self._days = days
        self._pages: list[list[Entry]] = [[] for _ in range(days)]
        self._today: int | None = (
            None  # nothing on a day before it is looked at again; None: nobody has looked yet
        )
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
            if page:
                self._turn(page, now, due)
        self._count -= len(due)
        return due

    def _turn(self, page: list[Entry], now: float, found: list[Entry]) -> None:
        later = [entry for entry in page if entry[0] > now]
        if len(later) < len(page):
            found.extend(entry for entry in page if entry[0] <= now)
            page[:] = later
