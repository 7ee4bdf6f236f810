"""History of all classes: one sample per second of the last minutes.

Numbered properties:
1. There are at most SAMPLES_MAX samples, and fewer if they would need more than BYTES_MAX.
2. A rate is measured over the time since the previous sample. In its first sample since its start, a class has no rates.
3. Unknown values are None: response times of a class without answers, and all figures of a class that did not exist.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from services.watch.class_views import ClassView

if TYPE_CHECKING:
    from services.watch.watch import View

SAMPLES_MAX = 600
BYTES_MAX = 64 << 20
# Number of decimals to which a value is rounded; plots show fewer decimals.
DECIMALS = 6

FIGURES = (
    "share",
    "original",
    "headroom",
    "load",
    "admitted",
    "used",
    "drop",
    "queued",
    "mean_ms",
    "p50_ms",
    "p95_ms",
    "p99_ms",
    "offered_per_s",
    "delivered_per_s",
    "lost_per_s",
    "results_per_s",
    "utility",
    "missed",
    "staleness",
    "slowdown",
    "tardy",
    "lent",
    "borrowed",
)
Values = npt.NDArray[np.float32]
Series = Mapping[str, Sequence[float | None]]


class HistoryCounts(NamedTuple):
    """Counts of a class since it was started."""

    offered: int
    delivered: int
    lost: int
    results: int
    used_s: float


@dataclass(frozen=True, slots=True)
class HistorySample:
    """Figures of all classes at one moment."""

    at: float
    """Time in seconds since 1970."""
    places: Mapping[str, int]
    """Row number of each class in `values`. Consecutive samples with the same classes share one mapping, to save memory."""
    values: Values
    """Table with a row per class and a column per figure."""


@dataclass(frozen=True)
class Past:
    """History of some classes."""

    at: Sequence[float]
    classes: Mapping[str, Series]
    """Values by class and figure: one for each time in `at`."""


class HistoryStore:
    """Store of the last samples, written by one thread and read by several."""

    def __init__(self, samples_max: int = SAMPLES_MAX, bytes_max: int = BYTES_MAX) -> None:
        self._samples_max, self._bytes_max = samples_max, bytes_max
        self._lock = threading.Lock()
        self._samples: deque[HistorySample] = deque()
        self._bytes = 0
        self._counts: dict[str, HistoryCounts] = {}

    def note(self, view: View) -> None:
        """Add a sample, and drop the oldest samples if there is no room."""
        before = self._samples[-1] if self._samples else None
        gone_s = 0.0 if before is None else view.at - before.at
        lanes = sum(view.system.nodes.values())
        counts = {name: counts_of(class_) for name, class_ in view.classes.items()}
        rows = [
            row_of(class_, lanes, rates_of(self._counts.get(name), counts[name], gone_s))
            for name, class_ in view.classes.items()
        ]
        values = np.array(rows, dtype=np.float32).reshape(len(rows), len(FIGURES))
        is_same = before is not None and list(before.places) == list(view.classes)
        places = (
            before.places if before and is_same else {name: place for place, name in enumerate(view.classes)}
        )
        self._counts = counts
        with self._lock:
            self._samples.append(HistorySample(view.at, places, values))
            self._bytes += values.nbytes
            while len(self._samples) > 1 and self._is_full():
                self._bytes -= self._samples.popleft().values.nbytes

    def past(self, seconds: float, names: Sequence[str]) -> Past:
        """Return the history of these classes over the last `seconds`."""
        with self._lock:
            samples = list(self._samples)
        if samples:
            since = samples[-1].at - seconds
            samples = [sample for sample in samples if sample.at > since]
        return Past([sample.at for sample in samples], {name: series_of(samples, name) for name in names})

    def _is_full(self) -> bool:
        return len(self._samples) > self._samples_max or self._bytes > self._bytes_max


def counts_of(view: ClassView) -> HistoryCounts:
    figures = view.figures
    lost = figures.shed + figures.late + figures.rejected + figures.failed
    return HistoryCounts(figures.offered, figures.delivered, lost, figures.results, figures.used_s)


def rates_of(before: HistoryCounts | None, now: HistoryCounts, gone_s: float) -> Sequence[float]:
    """Return rates per second in the order of the fields of `HistoryCounts`; unknown rates are NaN."""
    # Rates are unknown if counts have fallen: the counts of a class that was removed and declared again start at 0.
    if before is None or gone_s <= 0 or now.offered < before.offered or now.results < before.results:
        return (math.nan,) * 5
    return [(new - old) / gone_s for old, new in zip(before, now, strict=True)]


def row_of(view: ClassView, lanes: int, rates: Sequence[float]) -> list[float]:
    """Return the values of a class in the order of FIGURES."""
    figures = view.figures
    offered, delivered, lost, results, used = rates
    load = 0.0 if view.asleep else figures.load
    # Without recent answers, response times are unknown: the last response times are out of date.
    response_ms = [figures.mean_ms, figures.p50_ms, figures.p95_ms, figures.p99_ms]
    quality = [figures.utility_now, figures.missed_now, figures.staleness_now, figures.slowdown_now]
    quality.append(figures.tardy_now if figures.tardiness else math.nan)
    if view.asleep or not figures.p50_ms:
        response_ms, quality = [math.nan] * 4, [math.nan] * 5
    moved = (view.share - view.original) * lanes
    return [
        view.share,
        view.original,
        figures.headroom,
        load,
        load * (1 - view.drop),
        used,
        view.drop,
        figures.queued,
        *response_ms,
        offered,
        delivered,
        lost,
        results,
        *quality,
        max(0.0, -moved),
        max(0.0, moved),
    ]


def series_of(samples: Sequence[HistorySample], name: str) -> Series:
    table = np.full((len(samples), len(FIGURES)), np.nan)
    for number, sample in enumerate(samples):
        place = sample.places.get(name)
        if place is not None:
            table[number] = sample.values[place]
    columns = np.round(table, DECIMALS).T.tolist()
    return {
        figure: [None if math.isnan(value) else value for value in column]
        for figure, column in zip(FIGURES, columns, strict=True)
    }
