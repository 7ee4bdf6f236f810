"""Panes: what windows of every range and slide over one input and group are made of.

Event time is cut into panes of a common length; each holds one array per measure, indexed by group code. A train is
added to its panes once, whatever windows there are; a window that closes combines the panes it covers. The measures
are those from which the aggregates of all readers can be had:

    rows, count(x), sum(x), min(x), max(x), moments(x) (mean and squared deviations), and values(x): everything, for
    medians, distinct counts, first and last
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.keys import Codes, KeyIndex
from engine.schema import DataType, Kind
from engine.train import Train, Values

Array = npt.NDArray[Any]
# A window closes within a few trains of the one that completed it; older ones would only hold memory.
CAUSES = 8
HALF, LOWER = 32, (1 << 32) - 1
# A measure and the column it is of; None for the tuples themselves.
Measure = tuple[str, int | None]


@dataclass(slots=True)
class Pane:
    """One stretch of event time."""

    measures: dict[Measure, Array] = field(default_factory=dict)
    values: dict[Measure, list[tuple[Codes, Any, Array]]] = field(default_factory=dict)
    tuples: int = 0
    offered: float = 0.0  # tuples before shedding, as the kept fraction of the trains tells


class PaneStore:
    """The panes of one input and group, shared by every window over them."""

    def __init__(
        self, pane: int, time: int, keys: Sequence[int], key_types: Sequence[DataType], lateness: int = 0
    ) -> None:
        self.pane = pane
        self._lateness = lateness
        self.index = KeyIndex(key_types)
        self.panes: dict[int, Pane] = {}
        self.measures: set[Measure] = set()
        self._time, self._keys = time, tuple(keys)
        self._floors: dict[str, int] = {}
        # The latest trains, with their largest event times: one of them has closed what closes next.
        self._causes: deque[tuple[int, Array, Array]] = deque(maxlen=CAUSES)

    def add(self, train: Train) -> None:
        """Account a train's tuples to their panes."""
        times = train.columns[self._time].data
        codes = self.index.codes([train.columns[key] for key in self._keys] or [train.columns[self._time]])
        self._causes.append((int(times.max()), times, train.arrival))
        numbers = times // self.pane
        low, high = int(numbers.min()), int(numbers.max())
        if low == high:
            self._add_to(low, codes, train.columns, train.kept)
            return
        for number in np.unique(numbers).tolist():
            places = np.flatnonzero(numbers == number)
            part = tuple(column.take(places) for column in train.columns)
            self._add_to(number, codes.take(places), part, train.kept)

    @property
    def has_keys(self) -> bool:
        return bool(self._keys)

    def snapshot(self) -> Any:
        return copy.deepcopy((self.index, self.panes, self._floors, self._causes))

    def restore(self, state: Any) -> None:
        self.index, self.panes, self._floors, self._causes = copy.deepcopy(state)

    def cause_of(self, end: int) -> float:
        """When the tuple arrived that completed event time up to `end`; the last one, if it was the clock."""
        passed = end + self._lateness
        for latest, times, arrival in self._causes:
            if latest >= passed:
                return float(arrival[int(np.argmax(times >= passed))])
        return float(self._causes[-1][2][-1]) if self._causes else 0.0

    def window(self, start: int, end: int) -> list[Pane]:
        """The panes within [start, end) that have tuples."""
        panes = (self.panes.get(number) for number in range(start // self.pane, end // self.pane))
        return [pane for pane in panes if pane is not None]

    def fresh_from(self) -> int | None:
        """The time after all panes so far; None if there are none."""
        return (max(self.panes) + 1) * self.pane if self.panes else None

    def needs_from(self, reader: str, time: int) -> None:
        """A reader will not look at anything before `time` again; what nobody needs is forgotten."""
        self._floors[reader] = time
        floor = min(self._floors.values()) // self.pane
        for number in [number for number in self.panes if number < floor]:
            del self.panes[number]

    def forget(self, reader: str) -> None:
        self._floors.pop(reader, None)

    def _add_to(self, number: int, codes: Codes, columns: Sequence[Values], kept: float) -> None:
        pane = self.panes.get(number)
        if pane is None:
            pane = self.panes[number] = Pane()
        accumulate(pane, self.measures, len(self.index), codes, columns, self._time, kept)


def accumulate(
    pane: Pane,
    measures: Iterable[Measure],
    groups: int,
    codes: Codes,
    columns: Sequence[Values],
    time: int | None,
    kept: float,
) -> None:
    """Add tuples with the given group codes to a pane's measures."""
    pane.tuples += len(codes)
    pane.offered += len(codes) / kept if kept > 0 else len(codes)
    for measure in measures:
        name, place = measure
        column = None if place is None else columns[place]
        where, data, chosen = codes, None if column is None else column.data, None
        if column is not None and column.valid is not None:
            chosen = np.flatnonzero(column.valid)
            where, data = codes.take(chosen), column.take(chosen).data
        if name == "values":
            times = np.zeros(len(codes), np.int64) if time is None else columns[time].data
            times = times if chosen is None else times.take(chosen)
            pane.values.setdefault(measure, []).append((where, data, times))
            continue
        state = pane.measures.get(measure)
        kind = None if column is None else column.type
        if state is None or state.shape[-1] < groups:
            state = pane.measures[measure] = grown(name, kind, state, groups)
        ADD[name](state, where, data)


def grown(name: str, kind: DataType | None, state: Array | None, size: int) -> Array:
    """A measure's array with room for `size` groups."""
    fresh = START[name](size, kind)
    if state is not None:
        fresh[..., : state.shape[-1]] = state
    return fresh


def start_sum(size: int, kind: DataType | None) -> Array:
    """Of integers the upper and the lower 32 bits are summed apart, so that no sum can overflow unseen."""
    return np.zeros(size) if kind is None or kind.is_float else np.zeros((2, size), np.int64)


def start_min(size: int, kind: DataType | None) -> Array:
    assert kind is not None
    return np.full(size, extreme(kind, largest=True), kind.numpy)


def start_max(size: int, kind: DataType | None) -> Array:
    assert kind is not None
    return np.full(size, extreme(kind, largest=False), kind.numpy)


def extreme(kind: DataType, largest: bool) -> Any:
    """The largest or smallest value of the type; NaN is larger than any number, as in SQL's order."""
    if kind.is_float:
        return np.nan if largest else -np.inf
    if kind.kind is Kind.BOOLEAN:
        return largest
    limits = np.iinfo(np.int32 if kind.kind is Kind.INT32 else np.int64)
    return limits.max if largest else limits.min


def add_rows(state: Array, codes: Codes, data: Array | None) -> None:
    state += np.bincount(codes, minlength=len(state))


def add_sum(state: Array, codes: Codes, data: Array | None) -> None:
    assert data is not None
    if state.ndim == 1:
        state += np.bincount(codes, data, minlength=len(state))
    else:
        whole = data.astype(np.int64, copy=False)
        np.add.at(state[0], codes, whole >> HALF)
        np.add.at(state[1], codes, whole & LOWER)


def whole_sum(halves: Array) -> tuple[Array, Array]:
    """The sums from their halves, and which of them an int64 can hold."""
    high, low = halves[0] + (halves[1] >> HALF), halves[1] & LOWER
    return (high << HALF) + low, (high >= -(1 << HALF - 1)) & (high < 1 << HALF - 1)


def approximate_sum(halves: Array) -> Array:
    """As `whole_sum`, in floats, which hold any."""
    sums: Array = halves[0] * float(1 << HALF) + halves[1]
    return sums


def add_min(state: Array, codes: Codes, data: Array | None) -> None:
    assert data is not None
    np.fmin.at(state, codes, data)  # which takes any number before NaN


def add_max(state: Array, codes: Codes, data: Array | None) -> None:
    assert data is not None
    with np.errstate(invalid="ignore"):  # a NaN stays, and numpy would warn of it
        np.maximum.at(state, codes, data)


def start_moments(size: int, kind: DataType | None) -> Array:
    return np.zeros((3, size))  # count, mean, sum of squared deviations


def add_moments(state: Array, codes: Codes, data: Array | None) -> None:
    assert data is not None
    size = state.shape[1]
    values = data.astype(np.float64, copy=False)
    count = np.bincount(codes, minlength=size).astype(np.float64)
    with np.errstate(invalid="ignore"):
        mean = np.where(count > 0, np.bincount(codes, values, minlength=size) / np.maximum(count, 1), 0.0)
    spread = np.bincount(codes, (values - mean[codes]) ** 2, minlength=size)
    state[:] = merged_moments([state, np.stack([count, mean, spread])])


def merged_moments(parts: Sequence[Array]) -> Array:
    """Counts, means and squared deviations of disjoint parts as one (Chan et al.); no cancellation."""
    count, mean, spread = parts[0]
    for other_count, other_mean, other_spread in parts[1:]:
        total = np.maximum(count + other_count, 1)
        delta = other_mean - mean
        spread = spread + other_spread + delta**2 * count * other_count / total
        mean = mean + delta * other_count / total
        count = count + other_count
    return np.stack([count, mean, spread])


START: dict[str, Callable[[int, DataType | None], Array]] = {
    "rows": lambda size, _: np.zeros(size, np.int64),
    "count": lambda size, _: np.zeros(size, np.int64),
    "sum": start_sum,
    "min": start_min,
    "max": start_max,
    "moments": start_moments,
}
ADD: dict[str, Callable[[Array, Codes, Array | None], None]] = {
    "rows": add_rows,
    "count": add_rows,
    "sum": add_sum,
    "min": add_min,
    "max": add_max,
    "moments": add_moments,
}
