"""Response times and slowdowns of a class, exactly where that is cheap and within 1% where it is not.

Count, mean, maximum and ℓ2 norm are exact. Percentiles come from counts in logarithmic bins, so that memory stays
bounded however many answers there are. Values are buffered and folded in by numpy in batches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

BUFFER_MAX = 16_384
# Bins of 1% width from 1 µs to some 11 days; what is below or above falls into the outermost bins.
LEAST_S, BIN_RATIO, BINS = 1e-6, 1.01, 2800
LOG_RATIO = math.log(BIN_RATIO)
# Below this many, numbers in a list are quicker than an array of their own.
FEW = 64

Array = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
NO_IDEALS: Array = np.empty(0)


class ResponseStatistics:
    """Add answers as they come; read the summary when needed."""

    def __init__(self, target_s: float = math.inf) -> None:
        self.target_s = target_s
        self._count = 0
        self._within_target = 0
        self._responses: list[float] = []
        self._ideals: list[float] = []
        self._sum = self._sum_sq = self._max = 0.0
        self._slow_sum = self._slow_sum_sq = self._slow_max = 0.0
        self._bins = np.zeros(BINS, dtype=np.int64)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        # Whoever handed it over may keep the memory to himself.
        self._bins = self._bins.copy()

    def add(self, responses: list[float], ideal_s: float) -> None:
        """Response times of answers whose ideal processing time is `ideal_s`."""
        self._responses.extend(responses)
        self._ideals.extend([ideal_s] * len(responses))
        if len(self._responses) >= BUFFER_MAX:
            self._fold()

    def add_slowed(self, responses: list[float], slowdowns: list[float]) -> None:
        """As `add`, of answers whose slowdowns are not their response times by what is ideal."""
        self.add(responses, 0.0)
        self._slow_sum += sum(slowdowns)
        self._slow_sum_sq += sum([slowdown * slowdown for slowdown in slowdowns])
        self._slow_max = max(self._slow_max, *slowdowns)

    def add_same(self, response: float, count: int, ideal_s: float = 0.0) -> None:
        """As `add`, of `count` answers with one response time."""
        response = max(response, 0.0)
        self._count += count
        self._within_target += count if response <= self.target_s else 0
        self._sum += response * count
        self._sum_sq += response * response * count
        self._max = max(self._max, response)
        self._bins[min(int(math.log(max(response, LEAST_S) / LEAST_S) / LOG_RATIO), BINS - 1)] += count
        if ideal_s > 0:
            slowdown = response / ideal_s
            self._slow_sum += slowdown * count
            self._slow_sum_sq += slowdown * slowdown * count
            self._slow_max = max(self._slow_max, slowdown)

    def add_counted(self, responses: Array, counts: Counts) -> None:
        """As `add_same` of each of them, at once."""
        response = np.maximum(responses, 0.0)
        self._count += int(counts.sum())
        self._within_target += int(counts[response <= self.target_s].sum())
        self._sum += float((response * counts).sum())
        self._sum_sq += float((response * response * counts).sum())
        self._max = max(self._max, float(response.max(initial=0.0)))
        np.add.at(self._bins, bins_of(response), counts)

    def add_array(self, responses: Array, ideal_s: float, apart_s: float = 0.0) -> None:
        """As `add`, of many at once; `apart_s` of what is ideal was done before they could be made."""
        if apart_s and ideal_s > 0:
            self._fold_in(responses, NO_IDEALS)
            self._slow((np.maximum(responses, 0.0) + apart_s) / ideal_s)
        elif len(responses) < FEW:
            self.add(responses.tolist(), ideal_s)
        else:
            self._fold_in(responses, np.full(len(responses), ideal_s) if ideal_s > 0 else NO_IDEALS)

    def include(self, other: ResponseStatistics) -> None:
        """As if its answers had been added here."""
        self._fold()
        other._fold()
        self._count += other._count
        self._within_target += other._within_target
        self._sum, self._sum_sq = self._sum + other._sum, self._sum_sq + other._sum_sq
        self._max = max(self._max, other._max)
        self._slow_sum += other._slow_sum
        self._slow_sum_sq += other._slow_sum_sq
        self._slow_max = max(self._slow_max, other._slow_max)
        self._bins += other._bins

    def _fold(self) -> None:
        if self._responses:
            responses, ideals = np.array(self._responses), np.array(self._ideals)
            self._responses, self._ideals = [], []
            self._fold_in(responses, ideals)

    def _fold_in(self, responses: Array, ideal: Array) -> None:
        # A clock that jumped back between arrival and answer makes a negative time; it counts as none.
        response = np.maximum(responses, 0.0)
        self._count += len(response)
        self._within_target += int((response <= self.target_s).sum())
        self._sum += float(response.sum())
        self._sum_sq += sum_of_squares(response)
        self._max = max(self._max, float(response.max()))
        self._bins += np.bincount(bins_of(response), minlength=BINS)
        if len(ideal):
            self._slow(response[ideal > 0] / ideal[ideal > 0])

    def _slow(self, slowdown: Array) -> None:
        if len(slowdown):
            self._slow_sum += float(slowdown.sum())
            self._slow_sum_sq += sum_of_squares(slowdown)
            self._slow_max = max(self._slow_max, float(slowdown.max()))

    @property
    def count(self) -> int:
        """Answers so far."""
        return self._count + len(self._responses)

    def percentile_s(self, part: float) -> float:
        """The response time that `part` of the answers did not exceed."""
        self._fold()
        if not self._count:
            return 0.0
        place = int(np.searchsorted(np.cumsum(self._bins), part * self._count))
        return float(min(LEAST_S * BIN_RATIO ** (place + 0.5), self._max))

    def counts(self, bounds_s: Sequence[float]) -> tuple[int, ...]:
        """Answers that took no longer than each of these bounds, which ascend."""
        self._fold()
        # All of the bin that a bound falls into are counted; they are within 1% of it.
        places = [int(math.log(max(bound, LEAST_S) / LEAST_S) / LOG_RATIO) for bound in bounds_s]
        sums = np.cumsum(self._bins)
        return tuple(int(sums[min(place, BINS - 1)]) for place in places)

    @property
    def sum_s(self) -> float:
        """All response times together."""
        self._fold()
        return self._sum

    @property
    def within_target(self) -> int:
        """Answers within the target that there was when they came."""
        self._fold()
        return self._within_target

    def response_ms(self) -> dict[str, float]:
        self._fold()
        return {
            "mean": 1e3 * self._sum / self._count if self._count else 0.0,
            "p50": 1e3 * self.percentile_s(0.50),
            "p95": 1e3 * self.percentile_s(0.95),
            "p99": 1e3 * self.percentile_s(0.99),
            "max": 1e3 * self._max,
            "l2": 1e3 * math.sqrt(self._sum_sq),
        }

    def slowdown(self) -> dict[str, float]:
        self._fold()
        return {
            "mean": self._slow_sum / self._count if self._count else 0.0,
            "max": self._slow_max,
            "l2": math.sqrt(self._slow_sum_sq),
        }

    def target_met_pct(self) -> float:
        self._fold()
        return 100.0 * self._within_target / self._count if self._count else 100.0


def bins_of(responses: Array) -> Counts:
    """In which bin each of them is counted."""
    place = np.log(np.maximum(responses, LEAST_S) / LEAST_S) / LOG_RATIO
    return np.minimum(place.astype(np.int64), BINS - 1)


def sum_of_squares(values: Array) -> float:
    # Not a dot product: BLAS keeps threads spinning for the next one, and they would take a processor of their own.
    return float(np.square(values).sum())
