"""Arrival times of a replay's rows: at a constant rate, at a rate that changes at given times, Poisson, or ON/OFF bursts.

The models are those of Weir's simulator. A schedule computes two results without computing all earlier arrivals, so that a
query that has run for days resumes at once:

    due(elapsed_s)       number of rows that have arrived before the moment `elapsed_s`
    times(first, end)    arrival times of these rows, in seconds since the start, ascending

1. `due(t)` is the number of arrival times below t, independent of earlier calls.
2. The same settings give the same arrival times in every process.

Poisson arrivals are drawn in pieces, which are intervals of equal length. The number of rows of a piece is Poisson-distributed,
and their times are uniform within the piece. Each piece has its own random generator, seeded with the seed and the number of the
piece. ON/OFF arrivals are Poisson arrivals in the time spent ON, into which the OFF periods are then inserted. The lengths of
ON and OFF periods are Pareto-distributed.
"""

from __future__ import annotations

import bisect
import itertools
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

Kind = Literal["constant", "poisson", "bursts", "steps"]
Moments = NDArray[np.float64]

PIECE_ROWS = 16_384
"""Mean number of rows per piece: drawing and sorting the rows of a piece takes less than a millisecond."""
PAGE_PIECES = 1_024
PAGE_PERIODS = 1_024

# Purposes for which random numbers are drawn. The number of the purpose is part of the seed of a random generator.
COUNTS, PLACES, PERIODS = range(3)


@dataclass(frozen=True)
class Arrivals:
    """Settings that determine all arrival times. Settings that the kind of arrivals does not use are 0."""

    kind: Kind
    seed: int
    rate: float = 0.0
    on_s: float = 0.0
    off_s: float = 0.0
    alpha: float = 0.0
    steps: tuple[tuple[float, float], ...] = ()
    """Pairs of a second, and of the rate from this second on in rows per second. The seconds are in ascending order, the first is 0."""


class Schedule(Protocol):
    def due(self, elapsed_s: float) -> int: ...

    def times(self, first: int, end: int) -> Moments: ...


@lru_cache(maxsize=4)
def schedule_of(arrivals: Arrivals) -> Schedule:
    """Return the schedule of the settings. Schedules are cached, because each schedule stores the random numbers that it has drawn."""
    match arrivals.kind:
        case "constant":
            return Steps(((0.0, arrivals.rate),), arrivals.seed)
        case "steps":
            return Steps(arrivals.steps, arrivals.seed)
        case "poisson":
            return Poisson(arrivals.rate, arrivals.seed)
        case "bursts":
            return Bursts(arrivals.rate, arrivals.on_s, arrivals.off_s, arrivals.alpha, arrivals.seed)


class Steps:
    """Schedule of rows with equal gaps of 1/rate. If the rate changes within a gap, the rest of the gap follows the new rate."""

    def __init__(self, steps: Sequence[tuple[float, float]], seed: int) -> None:
        self._starts = np.array([start for start, _ in steps], dtype=np.float64)
        self._rates = np.array([rate for _, rate in steps], dtype=np.float64)
        rows = np.diff(self._starts) * self._rates[:-1]
        self._rows_before = np.concatenate(([0.0], np.cumsum(rows)))
        # A random offset delays all rows by a part of a gap, so that streams with equal rates do not have rows at the same moments.
        self._phase = random.Random(seed).random()

    def due(self, elapsed_s: float) -> int:
        if elapsed_s <= 0:
            return 0
        step = int(np.searchsorted(self._starts, elapsed_s, side="right")) - 1
        rows = self._rows_before[step] + (elapsed_s - self._starts[step]) * self._rates[step]
        return settled(max(0, math.ceil(rows - self._phase)), elapsed_s, self.times)

    def times(self, first: int, end: int) -> Moments:
        rows = np.arange(first, end) + self._phase
        step = np.searchsorted(self._rows_before, rows, side="right") - 1
        # If the last rate is 0, the remaining rows never arrive, and their times are infinite or NaN.
        with np.errstate(divide="ignore", invalid="ignore"):
            moments: Moments = self._starts[step] + (rows - self._rows_before[step]) / self._rates[step]
        return moments


class Poisson:
    """Schedule of Poisson arrivals: the gaps between rows are exponentially distributed."""

    def __init__(self, rate: float, seed: int) -> None:
        self._piece_s = PIECE_ROWS / rate
        self._seed = seed
        self._firsts = [0]
        """Number of the first row of each page that has been computed. A page consists of PAGE_PIECES pieces."""

    def due(self, elapsed_s: float) -> int:
        if elapsed_s <= 0:
            return 0
        piece = math.floor(elapsed_s / self._piece_s)
        if piece * self._piece_s > elapsed_s:
            piece -= 1
        elif (piece + 1) * self._piece_s <= elapsed_s:
            piece += 1
        return self._rows_before(piece) + int(np.searchsorted(self._moments(piece), elapsed_s))

    def times(self, first: int, end: int) -> Moments:
        piece = self._piece_of(first)
        begins = self._rows_before(piece)
        parts, have = [self._moments(piece)], self._rows_before(piece + 1)
        while have < end:
            piece += 1
            parts.append(self._moments(piece))
            have = self._rows_before(piece + 1)
        return np.concatenate(parts)[first - begins : end - begins]

    def _piece_of(self, row: int) -> int:
        while self._firsts[-1] <= row:
            self._next_page()
        page = bisect.bisect_right(self._firsts, row) - 1
        within = np.searchsorted(rows_of_page(self._seed, page), row - self._firsts[page], side="right")
        return page * PAGE_PIECES + int(within) - 1

    def _rows_before(self, piece: int) -> int:
        page, within = divmod(piece, PAGE_PIECES)
        while len(self._firsts) <= page:
            self._next_page()
        return self._firsts[page] + int(rows_of_page(self._seed, page)[within])

    def _next_page(self) -> None:
        page = len(self._firsts) - 1
        self._firsts.append(self._firsts[page] + int(rows_of_page(self._seed, page)[-1]))

    def _moments(self, piece: int) -> Moments:
        rows = rows_of_page(self._seed, piece // PAGE_PIECES)
        within = piece % PAGE_PIECES
        places = places_in_piece(self._seed, piece, int(rows[within + 1] - rows[within]))
        # Rounding could move the last row beyond the end of its piece of time, so all times are limited to just before the end.
        last = math.nextafter((piece + 1) * self._piece_s, 0.0)
        return np.minimum((piece + places) * self._piece_s, last)


class Bursts:
    """Schedule of ON/OFF bursts: rows have Poisson arrivals in ON periods, and no rows arrive in OFF periods. An ON period is first.

    If the tail index `alpha` is at most 2, the lengths of the periods have no finite variance.
    Such lengths make network traffic bursty on every time scale.
    """

    def __init__(self, rate: float, on_s: float, off_s: float, alpha: float, seed: int) -> None:
        self._within_on = Poisson(rate * (on_s + off_s) / on_s, seed)
        self._means, self._alpha, self._seed = (on_s, off_s), alpha, seed
        self._pages: list[tuple[Moments, Moments]] = []
        """Pages of ON periods: time spent ON before a period, and start of the period. A page ends with the next page's first period."""
        self._ends = (0.0, 0.0)

    def due(self, elapsed_s: float) -> int:
        if elapsed_s <= 0:
            return 0
        while self._ends[1] <= elapsed_s:
            self._next_page()
        page = bisect.bisect_right(self._pages, elapsed_s, key=lambda page: float(page[1][0])) - 1
        on_before, begins = self._pages[page]
        period = int(np.searchsorted(begins, elapsed_s, side="right")) - 1
        on_s = min(on_before[period] + (elapsed_s - begins[period]), on_before[period + 1])
        return settled(self._within_on.due(float(on_s)), elapsed_s, self.times)

    def times(self, first: int, end: int) -> Moments:
        within = self._within_on.times(first, end)
        if not len(within):
            return within
        while self._ends[0] <= within[-1]:
            self._next_page()
        low, high = (
            bisect.bisect_right(self._pages, moment, key=lambda page: float(page[0][0]))
            for moment in (within[0], within[-1])
        )
        on_before, begins = (
            np.concatenate([page[part][:-1] for page in self._pages[low - 1 : high]]) for part in (0, 1)
        )
        period = np.searchsorted(on_before, within, side="right") - 1
        moments: Moments = begins[period] + (within - on_before[period])
        return moments

    def _next_page(self) -> None:
        chance = generator(self._seed, PERIODS, len(self._pages)).random((2, PAGE_PERIODS))
        on, off = (pareto(mean, self._alpha, part) for mean, part in zip(self._means, chance, strict=True))
        on_before = np.cumsum(np.concatenate(([self._ends[0]], on)))
        begins = np.cumsum(np.concatenate(([self._ends[1]], on + off)))
        self._pages.append((on_before, begins))
        self._ends = float(on_before[-1]), float(begins[-1])


def pareto(mean: float, alpha: float, chance: Moments) -> Moments:
    """Return random lengths with a Pareto distribution, which has the mean `mean` and the tail index `alpha`."""
    variates: Moments = mean * (alpha - 1) / alpha * (1.0 - chance) ** (-1.0 / alpha)
    return variates


def settled(guess: int, elapsed_s: float, times: Callable[[int, int], Moments]) -> int:
    """Return the number of arrival times below `elapsed_s`. The search begins at `guess`, which may be slightly wrong by rounding."""
    while guess > 0 and times(guess - 1, guess)[0] >= elapsed_s:
        guess -= 1
    return next(row for row in itertools.count(guess) if not times(row, row + 1)[0] < elapsed_s)


def generator(seed: int, purpose: int, number: int) -> np.random.Generator:
    return np.random.default_rng([seed, purpose, number])


@lru_cache(maxsize=64)
def rows_of_page(seed: int, page: int) -> NDArray[np.int64]:
    """Return how many rows of a page arrive before each piece of time. A page has PAGE_PIECES pieces.

    The last entry is the number of rows in the whole page.
    """
    counts = generator(seed, COUNTS, page).poisson(PIECE_ROWS, PAGE_PIECES)
    return np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(counts)))


@lru_cache(maxsize=16)
def places_in_piece(seed: int, piece: int, rows: int) -> Moments:
    """Return the arrival times of the rows in one piece of time, in ascending order, as fractions of the length of the piece."""
    return np.sort(generator(seed, PLACES, piece).random(rows))
