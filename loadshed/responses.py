"""Statistics of response times and slowdowns of a class.

Count, mean, maximum and ℓ2 norm are exact. Percentiles are within 1%: they are computed from counts in logarithmic bins, so that
memory does not grow with the number of answers. Values are buffered and processed by numpy in batches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

BUFFER_MAX = 16_384
# Bins of 1% width from 1 µs to some 11 days; smaller and larger values are counted in the outermost bins.
LEAST_S, BIN_RATIO, BINS = 1e-6, 1.01, 2800
LOG_RATIO = math.log(BIN_RATIO)
# Number of values below which a list is faster than an array.
FEW = 64

Array = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
NO_IDEALS: Array = np.empty(0)


class ResponseStatistics:
    """Accumulated response times and slowdowns of answers, with counts within a delay target."""

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
        # The array is copied, because its memory may belong to the sender.
        self._bins = self._bins.copy()

    def add(self, responses: list[float], ideal_s: float) -> None:
        """Add answers by their response times; all have the ideal processing time `ideal_s`."""
        self._responses.extend(responses)
        self._ideals.extend([ideal_s] * len(responses))
        if len(self._responses) >= BUFFER_MAX:
            self._fold()

    def add_slowed(self, responses: list[float], slowdowns: list[float]) -> None:
        """Add answers by their response times and their slowdowns, which the caller has computed."""
        self.add(responses, 0.0)
        self._slow_sum += sum(slowdowns)
        self._slow_sum_sq += sum([slowdown * slowdown for slowdown in slowdowns])
        self._slow_max = max(self._slow_max, *slowdowns)

    def add_same(self, response: float, count: int, ideal_s: float = 0.0) -> None:
        """Add `count` answers with the same response time."""
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
        """Add `counts` answers for each response time."""
        response = np.maximum(responses, 0.0)
        self._count += int(counts.sum())
        self._within_target += int(counts[response <= self.target_s].sum())
        self._sum += float((response * counts).sum())
        self._sum_sq += float((response * response * counts).sum())
        self._max = max(self._max, float(response.max(initial=0.0)))
        np.add.at(self._bins, bins_of(response), counts)

    def add_array(self, responses: Array, ideal_s: float, apart_s: float = 0.0) -> None:
        """Add answers by an array of response times.

        `apart_s` is a part of the ideal processing time that the response times do not contain. For slowdowns, it is added to them.
        """
        if apart_s and ideal_s > 0:
            self._fold_in(responses, NO_IDEALS)
            self._slow((np.maximum(responses, 0.0) + apart_s) / ideal_s)
        elif len(responses) < FEW:
            self.add(responses.tolist(), ideal_s)
        else:
            self._fold_in(responses, np.full(len(responses), ideal_s) if ideal_s > 0 else NO_IDEALS)

    def include(self, other: ResponseStatistics) -> None:
        """Add the answers that another ResponseStatistics has counted."""
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
        # If a clock jumped back between arrival and answer, the response time is negative and counts as 0.
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
        """Number of answers."""
        return self._count + len(self._responses)

    def percentile_s(self, part: float) -> float:
        """Return the response time that a fraction `part` of the answers did not exceed."""
        self._fold()
        if not self._count:
            return 0.0
        place = int(np.searchsorted(np.cumsum(self._bins), part * self._count))
        return float(min(LEAST_S * BIN_RATIO ** (place + 0.5), self._max))

    def counts(self, bounds_s: Sequence[float]) -> tuple[int, ...]:
        """Return the number of answers within each bound; the bounds are in ascending order."""
        self._fold()
        # All answers in the bin of a bound are counted; they are within 1% of the bound.
        places = [int(math.log(max(bound, LEAST_S) / LEAST_S) / LOG_RATIO) for bound in bounds_s]
        sums = np.cumsum(self._bins)
        return tuple(int(sums[min(place, BINS - 1)]) for place in places)

    @property
    def sum_s(self) -> float:
        """Sum of all response times."""
        self._fold()
        return self._sum

    @property
    def within_target(self) -> int:
        """Number of answers within the target that applied when they were emitted."""
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
    """Return the bin of each response time."""
    place = np.log(np.maximum(responses, LEAST_S) / LEAST_S) / LOG_RATIO
    return np.minimum(place.astype(np.int64), BINS - 1)


def sum_of_squares(values: Array) -> float:
    # A dot product would be slower overall: its library (BLAS) keeps threads busy after the call, and they occupy a processor.
    return float(np.square(values).sum())
