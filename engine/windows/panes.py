"""Panes: what windows of every range and slide over one input and group are made of.

Event time is cut into panes of a common length; each holds one array per measure, indexed by group code. A train is
added to its panes once, whatever windows there are; a window that closes combines the panes it covers. The measures
are those from which the aggregates of all readers can be had:

    rows, count(x), sum(x), min(x), max(x), moments(x) (mean and squared deviations), and values(x): everything, for
    medians, distinct counts, first and last
    distinct(x), quantile(x), frequent(x): sketches (`engine.data.sketches`), in place of everything
    scaled rows, count(x), sum(x): each tuple as often as it stands for, having been kept; and error rows, count(x),
    sum(x): their standard errors. A tuple kept with the chance k stands for e = 1/k, and adds x²·e·(e − 1) to the
    variance of an estimated sum (Horvitz and Thompson), 1·e·(e − 1) to that of a count.
    norm(x): √Σ x²·e, from which the error follows if each tuple stands for more than e (`engine.windows.pane_aggregates.estimated`)
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.data.held_state import FEW_KEYS, Holding
from engine.data.keys import Codes, KeyIndex
from engine.data.schema import DataType, TypeKind
from engine.data.sketches import SKETCHES, Sketches, growth_max
from engine.data.train import LateRows, Places, Train, Values, stands_for
from engine.data.watermark_causes import NO_PROGRESS

Array = npt.NDArray[Any]
HALF, LOWER = 32, (1 << 32) - 1
# What Python takes for a pane, beside its arrays.
PANE_BYTES = 1000
# What Python takes for the count of late rows of one pane and end.
MISSED_BYTES = 200
# What a kept value takes, beside itself.
LISTED_BYTES = 16
# How many tuples before shedding one stands for: all of them for as many, or each for its own number.
Each = float | Array
# A measure and the column it is of; None for the tuples themselves.
Measure = tuple[str, int | None]


@dataclass(frozen=True, slots=True)
class MissingRows:
    """Rows that were not taken, before shedding."""

    rows: float = 0.0
    dropped: float = 0.0
    """Those of them that were dropped from a queue; the others were late."""

    def __add__(self, other: MissingRows) -> MissingRows:
        return MissingRows(self.rows + other.rows, self.dropped + other.dropped)


NOTHING_MISSING = MissingRows()


@dataclass(slots=True)
class Pane:
    """One stretch of event time."""

    measures: dict[Measure, Array] = field(default_factory=dict)
    values: dict[Measure, list[tuple[Codes, Any, Array]]] = field(default_factory=dict)
    sketches: dict[Measure, Sketches] = field(default_factory=dict)
    tuples: int = 0
    offered: float = 0.0  # tuples before shedding, as the kept fraction of the trains tells
    bytes: int = PANE_BYTES

    @property
    def held(self) -> int:
        """What its arrays and sketches take, the values of others left out."""
        return PANE_BYTES + self.sketched + sum([state.nbytes for state in self.measures.values()])

    def groups(self, measure: Measure) -> int:
        """For how many groups there is room in a measure."""
        state = self.measures.get(measure)
        return 0 if state is None else state.shape[-1]

    def keep(self, live: Codes, mapped: Codes) -> None:
        """Measures of the live groups alone; `mapped` tells each its new code."""
        for measure, state in self.measures.items():
            known = live[: np.searchsorted(live, state.shape[-1])]
            self.measures[measure] = state[..., known]
            self.bytes += self.measures[measure].nbytes - state.nbytes
        for chunks in self.values.values():
            chunks[:] = [(mapped[codes], data, times) for codes, data, times in chunks]
        for sketches in self.sketches.values():
            sketches.recoded(mapped)

    @property
    def sketched(self) -> int:
        """What its sketches take."""
        return sum([sketch.bytes for sketch in self.sketches.values()])


class PaneStore:
    """The panes of one input and group, shared by every window over them."""

    def __init__(self, pane: int, time: int, keys: Sequence[int], key_types: Sequence[DataType]) -> None:
        self.pane = pane
        self.index = KeyIndex(key_types)
        self.panes: dict[int, Pane] = {}
        self.measures: set[Measure] = set()
        self._time, self._keys = time, tuple(keys)
        self._floors: dict[str, int] = {}
        # By pane and the number of the first end that a window can still close at.
        self._missed: dict[tuple[int, int], MissingRows] = {}
        self.holding = Holding()
        self.holding.compact = self.compact
        self._bytes = 0  # of all panes
        self._beside = 0  # of what has been put together of them
        self._known = Sizes()
        self._compact_at = FEW_KEYS
        self._settled = 0  # keys when they were last looked through, if no pane has gone since
        self.recodings = 0  # how often codes have become others

    def add(self, train: Train) -> None:
        """Account a train's tuples to their panes."""
        times = train.columns[self._time].data
        codes = self._codes(train.columns)
        numbers = times // self.pane
        low, high = int(numbers.min()), int(numbers.max())
        if low == high:
            self._add_to(low, codes, train.columns, train.kept)
            return
        for number in np.unique(numbers).tolist():
            places = np.flatnonzero(numbers == number)
            part = tuple(column.take(places) for column in train.columns)
            self._add_to(number, codes.take(places), part, train.kept)

    def miss(self, late: LateRows) -> None:
        """Count late and dropped rows for the windows that are still to be closed and would have held them."""
        numbers = late.columns[self._time].data // self.pane
        # A window that ends at the watermark has been closed.
        ends = late.behind // self.pane + 1
        floor = min(self._floors.values(), default=NO_PROGRESS) // self.pane
        places, inverse = np.unique(np.stack([numbers, ends]), axis=1, return_inverse=True)
        rows = np.bincount(inverse.ravel(), late.offered)
        dropped = np.bincount(inverse.ravel(), late.offered * late.shed)
        for number, end, *more in zip(*places.tolist(), rows.tolist(), dropped.tolist(), strict=True):
            if number >= floor and ((number, end) in self._missed or self.holding.room >= MISSED_BYTES):
                self._missed[number, end] = self._missed.get((number, end), NOTHING_MISSING) + MissingRows(
                    *more
                )
        self._tell()

    def missed(self, start: int, end: int) -> MissingRows:
        """Return what a window with these bounds lacks."""
        found = NOTHING_MISSING
        first, last = start // self.pane, end // self.pane
        for (number, least_end), missing in self._missed.items():
            if first <= number < last and least_end <= last:
                found += missing
        return found

    @property
    def has_keys(self) -> bool:
        return bool(self._keys)

    def snapshot(self) -> Any:
        return self.index, self.panes, self._floors, self._missed

    def restore(self, state: Any) -> None:
        self.index, self.panes, self._floors, self._missed = copy.deepcopy(state)
        self.recodings += 1
        self._bytes = sum(pane.bytes for pane in self.panes.values())
        self._compact_at, self._settled = FEW_KEYS, 0
        self._tell()

    def youngest(self, start: int, end: int) -> list[Pane]:
        """The panes with tuples of which the numbers lie in [start, end), the youngest first."""
        panes = (self.panes.get(number) for number in range(end - 1, start - 1, -1))
        return [pane for pane in panes if pane is not None]

    def keep_beside(self, size: int) -> None:
        """So much is held for the store's readers, beside the panes."""
        self._beside = size
        self._tell()

    def fresh_from(self) -> int | None:
        """The time after all panes so far; None if there are none."""
        return (max(self.panes) + 1) * self.pane if self.panes else None

    def needs_from(self, reader: str, time: int) -> None:
        """A reader will not look at anything before `time` again; what nobody needs is forgotten."""
        self._floors[reader] = time
        floor = min(self._floors.values()) // self.pane
        if self._missed:
            self._missed = {place: rows for place, rows in self._missed.items() if place[0] >= floor}
        gone = [number for number in self.panes if number < floor]
        for number in gone:
            self._bytes -= self.panes.pop(number).bytes
        if gone:
            self._settled = 0
            if not self.index.in_range and len(self.index) >= self._compact_at:
                self.compact()
            self._tell()

    def forget(self, reader: str) -> None:
        self._floors.pop(reader, None)

    def compact(self) -> None:
        """Forget the keys of which no pane has a tuple; all codes change."""
        size = len(self.index)
        if not self._keys or size == self._settled:
            return
        alive = np.zeros(size, bool)
        for pane in self.panes.values():
            rows = pane.measures.get(("rows", None))
            if rows is not None:
                alive[: len(rows)] |= rows > 0
        live = np.flatnonzero(alive)
        if len(live) < size:
            self.index.keep(live)
            self.recodings += 1
            mapped = np.cumsum(alive) - 1
            for pane in self.panes.values():
                pane.keep(live, mapped)
            self._bytes = sum(pane.bytes for pane in self.panes.values())
        self._settled, self._compact_at = len(live), max(FEW_KEYS, 2 * len(live))
        self._tell()

    def _tell(self) -> None:
        """What is held now; without keys there is one group, which is not worth a word."""
        if self._keys:
            self.holding.set_keys(len(self.index), self.index.bytes)
        self.holding.set_state(self._bytes + self._beside + MISSED_BYTES * len(self._missed))

    def _codes(self, columns: Sequence[Values]) -> Codes:
        """The group codes of tuples; NO_CODE for those of new groups for which there is no room."""
        if not self._keys:
            return self.index.codes([columns[self._time]])
        keys = [columns[key] for key in self._keys]
        return self.holding.codes(self.index, keys, self._sizes(columns).width)

    def _add_to(self, number: int, codes: Codes, columns: Sequence[Values], kept: float) -> None:
        """Add tuples to a pane, as far as there is room."""
        pane = self.panes.get(number)
        if pane is None:
            if self.holding.room < PANE_BYTES:
                self.holding.refuse_bytes(len(codes))
                return
            pane = self.panes[number] = Pane()
            self._grown_by(PANE_BYTES)
        groups, sizes = len(self.index), self._sizes(columns)
        growth = sizes.growth(pane, groups, columns)
        if growth + sizes.sketched(columns) > self.holding.room or self.index.refused:
            pane.offered += len(codes) * stands_for(kept)
            groups, places = self._fitting(pane, sizes, codes, columns)
            codes, columns = codes.take(places), [column.take(places) for column in columns]
            pane.offered -= len(codes) * stands_for(kept)
            growth = sizes.growth(pane, groups, columns)
        if not len(codes):
            return
        before = pane.sketched
        accumulate(
            pane,
            self.measures,
            groups=groups,
            codes=codes,
            columns=columns,
            time=self._time,
            each=stands_for(kept),
        )
        growth += pane.sketched - before
        if growth:
            pane.bytes += growth
            self._grown_by(growth)

    def _fitting(
        self, pane: Pane, sizes: Sizes, codes: Codes, columns: Sequence[Values]
    ) -> tuple[int, Places]:
        """For how many groups there is room in the pane, and the tuples that can be added; the others are counted."""
        holding = self.holding
        places = np.flatnonzero(codes >= 0)
        if len(places) < len(codes):
            holding.refuse_keys(len(codes) - len(places))
        held = min(pane.groups(one) for one in sizes.widths)
        groups = min(len(self.index), held + holding.room // sizes.width)
        fitting = places[codes[places] < groups]
        listed = sizes.listed(columns) + sizes.sketched(columns)
        if listed:
            room = holding.room - (groups - held) * sizes.width
            fitting = fitting[: max(0, room * len(codes) // listed)]
        if len(fitting) < len(places):
            holding.refuse_bytes(len(places) - len(fitting))
        return groups, fitting

    def _sizes(self, columns: Sequence[Values]) -> Sizes:
        if self._known.measures < len(self.measures):
            self._known = sizes_of(self.measures, columns)
        return self._known

    def _grown_by(self, size: int) -> None:
        self._bytes += size
        self.holding.set_state(self._bytes + self._beside)


@dataclass(frozen=True, slots=True)
class Sizes:
    """What measures take: so much for a group, and for a tuple its values in the columns at the places."""

    widths: dict[Measure, int] = field(default_factory=dict)
    places: tuple[int, ...] = ()
    width: int = 0
    sketches: tuple[tuple[str, int], ...] = ()
    measures: int = 0

    def listed(self, columns: Sequence[Values]) -> int:
        """What tuples take in the measures that keep every value, with its code and its time."""
        return sum([columns[place].data.nbytes + LISTED_BYTES * len(columns[place]) for place in self.places])

    def sketched(self, columns: Sequence[Values]) -> int:
        """The most that sketches of the tuples would take."""
        return sum([growth_max(name, columns[one]) for name, one in self.sketches])

    def growth(self, pane: Pane, groups: int, columns: Sequence[Values]) -> int:
        """What adding the tuples would take, if the pane is to have so many groups; beside sketches."""
        growth = self.listed(columns) if self.places else 0
        for measure, width in self.widths.items():
            state = pane.measures.get(measure)
            if state is None:
                growth += groups * width
            elif state.shape[-1] < groups:
                growth += (groups - state.shape[-1]) * width
        return growth


def sizes_of(measures: Iterable[Measure], columns: Sequence[Values]) -> Sizes:
    widths, places, sketches = {}, [], []
    for measure in measures:
        name, place = measure
        if name == "values":
            assert place is not None
            places.append(place)
        elif name in SKETCHES:
            assert place is not None
            sketches.append((name, place))
        else:
            widths[measure] = START[name](1, None if place is None else columns[place].type).nbytes
    every = len(widths) + len(places) + len(sketches)
    return Sizes(widths, tuple(places), sum(widths.values()), tuple(sketches), every)


def accumulate(
    pane: Pane,
    measures: Iterable[Measure],
    groups: int,
    codes: Codes,
    columns: Sequence[Values],
    time: int | None,
    each: Each,
) -> None:
    """Add tuples with the given group codes to a pane's measures."""
    pane.tuples += len(codes)
    pane.offered += len(codes) * each if isinstance(each, float) else float(each.sum())
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
        if name in SKETCHES:
            assert column is not None
            if len(where):
                sketches = pane.sketches.get(measure)
                if sketches is None:
                    sketches = pane.sketches[measure] = SKETCHES[name]()
                sketches.add(where, column if chosen is None else column.take(chosen))
            continue
        state = pane.measures.get(measure)
        kind = None if column is None else column.type
        if state is None or state.shape[-1] < groups:
            state = pane.measures[measure] = grown(name, kind, state, groups)
        if name in ADD:
            ADD[name](state, where, data)
        else:
            theirs = each if isinstance(each, float) or chosen is None else each.take(chosen)
            ESTIMATE[name](state, where, data, theirs)


def merged_panes(panes: Iterable[Pane], measures: Collection[Measure]) -> Pane:
    """Several panes as one with these measures, combined in their order; those given stay as they are."""
    whole, own = Pane(), set[Measure]()
    with np.errstate(over="ignore", invalid="ignore"):
        for pane in panes:
            whole.tuples += pane.tuples
            whole.offered += pane.offered
            for measure in measures:
                state = pane.measures.get(measure)
                if state is not None:
                    ours = whole.measures.get(measure)
                    whole.measures[measure] = state if ours is None else folded_in(measure[0], ours, state)
                elif measure in pane.values:
                    if measure not in own:
                        own.add(measure)
                        whole.values[measure] = []
                    whole.values[measure] += pane.values[measure]
                elif measure in pane.sketches:
                    if measure not in own:
                        own.add(measure)
                        whole.sketches[measure] = SKETCHES[measure[0]]()
                    whole.sketches[measure].merge(pane.sketches[measure])
    return whole


def folded_in(name: str, ours: Array, theirs: Array) -> Array:
    """One measure of two panes, of which one may not know the youngest groups yet."""
    fold = FOLD.get(name, np.add)
    if ours.shape == theirs.shape:
        return fold(ours, theirs)
    both = min(ours.shape[-1], theirs.shape[-1])
    longer = ours if ours.shape[-1] > both else theirs
    return np.concatenate([fold(ours[..., :both], theirs[..., :both]), longer[..., both:]], axis=-1)


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
    if kind.kind is TypeKind.BOOLEAN:
        return largest
    limits = np.iinfo(np.int32 if kind.kind is TypeKind.INT32 else np.int64)
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
    state[:] = merged_moments(state, np.stack([count, mean, spread]))


def merged_moments(ours: Array, theirs: Array) -> Array:
    """Counts, means and squared deviations of disjoint parts as one (Chan et al.); no cancellation."""
    (count, mean, spread), (other_count, other_mean, other_spread) = ours, theirs
    total = np.maximum(count + other_count, 1)
    delta = other_mean - mean
    spread = spread + other_spread + delta**2 * count * other_count / total
    return np.stack([count + other_count, mean + delta * other_count / total, spread])


def add_scaled_count(state: Array, codes: Codes, data: Array | None, each: Each) -> None:
    state += weighted(codes, None, each, len(state))


def add_scaled_sum(state: Array, codes: Codes, data: Array | None, each: Each) -> None:
    assert data is not None
    with np.errstate(over="ignore", invalid="ignore"):
        if state.ndim == 1:
            state += weighted(codes, data, each, len(state))
        else:
            whole = data.astype(np.int64, copy=False)
            state[0] += weighted(codes, whole >> HALF, each, state.shape[1])
            state[1] += weighted(codes, whole & LOWER, each, state.shape[1])


def weighted(codes: Codes, data: Array | None, each: Each, size: int) -> Array:
    """Sums of the data by group, without data counts, each value as often as its tuple stands for."""
    if isinstance(each, float):
        return np.bincount(codes, data, minlength=size) * each
    return np.bincount(codes, each if data is None else data * each, minlength=size)


def add_count_error(state: Array, codes: Codes, data: Array | None, each: Each) -> None:
    add_error(state, codes, np.ones(len(codes)), each)


def add_error(state: Array, codes: Codes, data: Array | None, each: Each) -> None:
    assert data is not None
    if isinstance(each, float) and each == 1.0:
        return
    values = data
    if not isinstance(each, float):
        shed = np.flatnonzero(each > 1.0)
        codes, values, each = codes.take(shed), values.take(shed), each.take(shed)
    add_root(state, codes, values, each * (each - 1))


def add_norm(state: Array, codes: Codes, data: Array | None, each: Each) -> None:
    assert data is not None
    add_root(state, codes, data, each)


def add_root(state: Array, codes: Codes, data: Array, weights: Each) -> None:
    """Add x²·w to the square of what is kept.

    Roots are kept, and squares taken of what is near 1, so that no square overflows on the way to a root.
    """
    values = np.abs(data.astype(np.float64, copy=False))
    largest = values.max(initial=0.0, where=np.isfinite(values)) or 1.0
    with np.errstate(over="ignore"):
        parts = (values / largest) ** 2 * weights
        roots = largest * np.sqrt(np.bincount(codes, parts, minlength=len(state)))
    state[:] = root_of_squares(state, roots)


def root_of_squares(left: Array, right: Array) -> Array:
    """√(left² + right²); NaN if either is, which hypot(inf, NaN) would not be."""
    return np.where(np.isnan(left) | np.isnan(right), np.nan, np.hypot(left, right))


START: dict[str, Callable[[int, DataType | None], Array]] = {
    "rows": lambda size, _: np.zeros(size, np.int64),
    "count": lambda size, _: np.zeros(size, np.int64),
    "sum": start_sum,
    "min": start_min,
    "max": start_max,
    "moments": start_moments,
    "scaled rows": lambda size, _: np.zeros(size),
    "scaled count": lambda size, _: np.zeros(size),
    "scaled sum": lambda size, kind: start_sum(size, kind).astype(np.float64),
    "error rows": lambda size, _: np.zeros(size),
    "error count": lambda size, _: np.zeros(size),
    "error sum": lambda size, _: np.zeros(size),
    "norm": lambda size, _: np.zeros(size),
}
ADD: dict[str, Callable[[Array, Codes, Array | None], None]] = {
    "rows": add_rows,
    "count": add_rows,
    "sum": add_sum,
    "min": add_min,
    "max": add_max,
    "moments": add_moments,
}
ESTIMATE: dict[str, Callable[[Array, Codes, Array | None, Each], None]] = {
    "scaled rows": add_scaled_count,
    "scaled count": add_scaled_count,
    "scaled sum": add_scaled_sum,
    "error rows": add_count_error,
    "error count": add_count_error,
    "error sum": add_error,
    "norm": add_norm,
}
# How what two panes hold becomes one; what is not named is added.
FOLD: dict[str, Callable[[Array, Array], Array]] = {
    "min": np.fmin,
    "max": np.maximum,
    "moments": merged_moments,
    "error rows": root_of_squares,
    "error count": root_of_squares,
    "error sum": root_of_squares,
    "norm": root_of_squares,
}
