"""Panes: short stretches of event time from which all windows over one input and the same group keys are combined.

Event time is divided into panes of equal length. A pane holds one array per measure (such as a sum), with one
element per group. A train is added to its panes once, however many windows there are. A window that closes combines the
panes it covers. The aggregates of all readers (the windows) are computed from these measures:

    rows, count(x), sum(x), min(x), max(x), moments(x) (count, mean and squared deviations)
    values(x): all values, for medians, distinct counts, first and last
    distinct(x), quantile(x), frequent(x): sketches (`engine.data.sketches`) instead of all values
    scaled rows, scaled count(x), scaled sum(x): each tuple is counted e times (see below)
    error rows, error count(x), error sum(x): the standard errors of the scaled measures
    norm(x): √Σ x²·e, for the error if each tuple stands for more than e (`engine.windows.pane_aggregates.estimated`)

A tuple that was kept with probability k stands for e = 1/k tuples. It adds x²·e·(e − 1) to the variance of an estimated
sum (Horvitz and Thompson), and e·(e − 1) to the variance of an estimated count.
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
# Bytes that Python uses for a pane, besides its arrays.
PANE_BYTES = 1000
# Bytes that Python uses for one count of missing rows; there is one per pane and window end.
MISSED_BYTES = 200
# Bytes that a pane uses for each stored value besides the value itself: for the number of its group and for its time.
LISTED_BYTES = 16
# Number of tuples before shedding that a tuple stands for: one number for all tuples, or an array with a number for each.
Each = float | Array
# Figure that a pane holds for each group: its name, such as "sum", and the position of its column (None if it counts tuples).
Measure = tuple[str, int | None]


@dataclass(frozen=True, slots=True)
class MissingRows:
    """Numbers of late and dropped rows, counted before shedding."""

    rows: float = 0.0
    dropped: float = 0.0
    """Number of missing rows that were dropped from a queue; all other missing rows were late."""

    def __add__(self, other: MissingRows) -> MissingRows:
        return MissingRows(self.rows + other.rows, self.dropped + other.dropped)


NOTHING_MISSING = MissingRows()


@dataclass(slots=True)
class Pane:
    """Aggregated tuples of one stretch of event time."""

    measures: dict[Measure, Array] = field(default_factory=dict)
    values: dict[Measure, list[tuple[Codes, Any, Array]]] = field(default_factory=dict)
    sketches: dict[Measure, Sketches] = field(default_factory=dict)
    tuples: int = 0
    offered: float = 0.0  # Number of tuples before shedding, estimated by the kept fractions of the trains
    bytes: int = PANE_BYTES

    @property
    def held(self) -> int:
        """Bytes of the arrays and sketches; kept values do not count, because other panes hold them too."""
        return PANE_BYTES + self.sketched + sum([state.nbytes for state in self.measures.values()])

    def groups(self, measure: Measure) -> int:
        """Return the number of groups that the array of a measure has room for."""
        state = self.measures.get(measure)
        return 0 if state is None else state.shape[-1]

    def keep(self, live: Codes, mapped: Codes) -> None:
        """Keep only the groups with the code numbers `live`; `mapped` has the new code number of each group."""
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
        """Bytes that the sketches of the pane take."""
        return sum([sketch.bytes for sketch in self.sketches.values()])


class PaneStore:
    """Store of the panes for one input and one set of group keys; all windows over this input and these keys share it."""

    def __init__(self, pane: int, time: int, keys: Sequence[int], key_types: Sequence[DataType]) -> None:
        self.pane = pane
        self.index = KeyIndex(key_types)
        self.panes: dict[int, Pane] = {}
        self.measures: set[Measure] = set()
        self._time, self._keys = time, tuple(keys)
        self._floors: dict[str, int] = {}
        # Event time from which each reader's measures count every tuple; readers that are not listed miss no tuple.
        self._begins: dict[str, int] = {}
        # Numbers of missing rows, each with two keys: the number of the rows' pane, and the first window end that counts the rows.
        self._missed: dict[tuple[int, int], MissingRows] = {}
        self.holding = Holding()
        self.holding.compact = self.compact
        self._bytes = 0  # Bytes of all panes
        self._beside = 0  # Bytes of combined panes that are kept for windows that are answered later
        self._known = Sizes()
        self._compact_at = FEW_KEYS
        # Number of keys after the last search for unused keys; 0 if panes were removed since then.
        self._settled = 0
        self.recodings = 0  # Number of times that the code numbers of groups have changed

    def add(self, train: Train) -> None:
        """Add a train's tuples to their panes."""
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
        """Count late and dropped rows for the windows that would contain these rows and are not closed yet."""
        numbers = late.columns[self._time].data // self.pane
        # A window that ends at the watermark is closed already, so the first open end is later.
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
        """Return the numbers of rows that are missing in the window from `start` to `end`."""
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
        return self.index, self.panes, self._floors, self._missed, self._begins

    def restore(self, state: Any) -> None:
        self.index, self.panes, self._floors, self._missed, *begins = copy.deepcopy(state)
        # States saved by older versions lack the times from which readers count every tuple.
        self._begins = begins[0] if begins else {}
        self.recodings += 1
        self._bytes = sum(pane.bytes for pane in self.panes.values())
        self._compact_at, self._settled = FEW_KEYS, 0
        self._tell()

    def youngest(self, start: int, end: int) -> list[Pane]:
        """Return the existing panes with numbers from `start` up to `end` - 1, the youngest first."""
        panes = (self.panes.get(number) for number in range(end - 1, start - 1, -1))
        return [pane for pane in panes if pane is not None]

    def keep_beside(self, size: int) -> None:
        """Set the bytes of the combined panes that are kept for windows answered later; these bytes count as state of the pane store."""
        self._beside = size
        self._tell()

    def fresh_from(self) -> int | None:
        """Return the time after the last pane; None without panes."""
        return (max(self.panes) + 1) * self.pane if self.panes else None

    def needs_from(self, reader: str, time: int) -> None:
        """Record that a reader does not need tuples before `time` any more, and remove the panes that no reader needs."""
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

    def begin(self, reader: str, time: int) -> None:
        """Record that a new reader's measures may lack tuples before `time`, which the class took before the reader existed."""
        self._begins[reader] = time

    def complete_from(self, reader: str) -> int:
        """Return the first event time from which the panes hold a reader's measures of every tuple that the class has taken."""
        return max(self._floors.get(reader, NO_PROGRESS), self._begins.get(reader, NO_PROGRESS))

    def forget(self, reader: str) -> None:
        self._floors.pop(reader, None)
        self._begins.pop(reader, None)

    def compact(self) -> None:
        """Forget the keys without tuples in any pane; all other keys get new code numbers."""
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
        """Report the held bytes and groups to the memory account; the single group of a pane store without keys is not counted."""
        if self._keys:
            self.holding.set_keys(len(self.index), self.index.bytes)
        self.holding.set_state(self._bytes + self._beside + MISSED_BYTES * len(self._missed))

    def _codes(self, columns: Sequence[Values]) -> Codes:
        """Return the code number of each tuple's group; NO_CODE if the group is new and there is no room for it."""
        if not self._keys:
            return self.index.codes([columns[self._time]])
        keys = [columns[key] for key in self._keys]
        return self.holding.codes(self.index, keys, self._sizes(columns).width)

    def _add_to(self, number: int, codes: Codes, columns: Sequence[Values], kept: float) -> None:
        """Add tuples to a pane as far as there is room; refuse the other tuples."""
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
        """Return the number of groups for which the pane has room, and the positions of the tuples that fit into the pane.

        All other tuples are counted as refused.
        """
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
    """Bytes that a pane's measures use: `width` bytes per group, and for each tuple the values of the columns at `places`."""

    widths: dict[Measure, int] = field(default_factory=dict)
    places: tuple[int, ...] = ()
    width: int = 0
    sketches: tuple[tuple[str, int], ...] = ()
    measures: int = 0

    def listed(self, columns: Sequence[Values]) -> int:
        """Return the bytes that the tuples take in measures that keep every value, each with the number of its group and its time."""
        return sum([columns[place].data.nbytes + LISTED_BYTES * len(columns[place]) for place in self.places])

    def sketched(self, columns: Sequence[Values]) -> int:
        """Return the maximum number of bytes by which the tuples would grow the sketches."""
        return sum([growth_max(name, columns[one]) for name, one in self.sketches])

    def growth(self, pane: Pane, groups: int, columns: Sequence[Values]) -> int:
        """Return the bytes (without sketches) that adding the tuples would use if the pane had `groups` groups."""
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
    """Add tuples to a pane's measures, such as counts and sums; `codes` has the group of each tuple."""
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
    """Combine panes, in their order, into a new pane with these measures; the old panes stay unchanged."""
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
                    mine: Any = whole.sketches[measure]  # Sketches of one measure are all of one kind
                    mine.merge(pane.sketches[measure])
    return whole


def folded_in(name: str, ours: Array, theirs: Array) -> Array:
    """Combine one measure of two panes; either array may be shorter, because its pane was filled before the newest groups existed."""
    fold = FOLD.get(name, np.add)
    if ours.shape == theirs.shape:
        return fold(ours, theirs)
    both = min(ours.shape[-1], theirs.shape[-1])
    longer = ours if ours.shape[-1] > both else theirs
    return np.concatenate([fold(ours[..., :both], theirs[..., :both]), longer[..., both:]], axis=-1)


def grown(name: str, kind: DataType | None, state: Array | None, size: int) -> Array:
    """Return the array of a measure with room for `size` groups, with the old values copied."""
    fresh = START[name](size, kind)
    if state is not None:
        fresh[..., : state.shape[-1]] = state
    return fresh


def start_sum(size: int, kind: DataType | None) -> Array:
    """Return zeros for sums. The upper and lower 32 bits of integers are summed in two separate rows, so that no sum overflows."""
    return np.zeros(size) if kind is None or kind.is_float else np.zeros((2, size), np.int64)


def extreme(kind: DataType, largest: bool) -> Any:
    """Return the largest or smallest value of the type; NaN is larger than any number, as in SQL's order."""
    if kind.is_float:
        return np.nan if largest else -np.inf
    if kind.kind is TypeKind.BOOLEAN:
        return largest
    limits = np.iinfo(np.int32 if kind.kind is TypeKind.INT32 else np.int64)
    return limits.max if largest else limits.min


def add_rows(state: Array, codes: Codes, data: Array | None) -> None:
    state += np.bincount(codes, minlength=len(state))


def add_sum(state: Array, codes: Codes, data: Array) -> None:
    if state.ndim == 1:
        state += np.bincount(codes, data, minlength=len(state))
    else:
        whole = data.astype(np.int64, copy=False)
        np.add.at(state[0], codes, whole >> HALF)
        np.add.at(state[1], codes, whole & LOWER)


def whole_sum(halves: Array) -> tuple[Array, Array]:
    """Return integer sums from the sums of their upper and lower 32 bits, and a mask of the sums that fit into int64."""
    high, low = halves[0] + (halves[1] >> HALF), halves[1] & LOWER
    return (high << HALF) + low, (high >= -(1 << HALF - 1)) & (high < 1 << HALF - 1)


def approximate_sum(halves: Array) -> Array:
    """Return integer sums as floats, from the sums of their upper and lower 32 bits; floats can hold sums that int64 cannot."""
    sums: Array = halves[0] * float(1 << HALF) + halves[1]
    return sums


def add_min(state: Array, codes: Codes, data: Array) -> None:
    np.fmin.at(state, codes, data)  # NumPy's fmin returns NaN only if there is no number


def add_max(state: Array, codes: Codes, data: Array) -> None:
    with np.errstate(invalid="ignore"):  # NaN counts as the maximum, and numpy would warn about NaN
        np.maximum.at(state, codes, data)


def add_moments(state: Array, codes: Codes, data: Array) -> None:
    size = state.shape[1]
    values = data.astype(np.float64, copy=False)
    count = np.bincount(codes, minlength=size).astype(np.float64)
    with np.errstate(invalid="ignore"):
        mean = np.where(count > 0, np.bincount(codes, values, minlength=size) / np.maximum(count, 1), 0.0)
    spread = np.bincount(codes, (values - mean[codes]) ** 2, minlength=size)
    state[:] = merged_moments(state, np.stack([count, mean, spread]))


def merged_moments(ours: Array, theirs: Array) -> Array:
    """Combine counts, means and squared deviations of two panes, by a formula of Chan et al. with small rounding errors."""
    (count, mean, spread), (other_count, other_mean, other_spread) = ours, theirs
    total = np.maximum(count + other_count, 1)
    delta = other_mean - mean
    spread = spread + other_spread + delta**2 * count * other_count / total
    return np.stack([count + other_count, mean + delta * other_count / total, spread])


def add_scaled_count(state: Array, codes: Codes, data: Array | None, each: Each) -> None:
    state += weighted(codes, None, each, len(state))


def add_scaled_sum(state: Array, codes: Codes, data: Array, each: Each) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        if state.ndim == 1:
            state += weighted(codes, data, each, len(state))
        else:
            whole = data.astype(np.int64, copy=False)
            state[0] += weighted(codes, whole >> HALF, each, state.shape[1])
            state[1] += weighted(codes, whole & LOWER, each, state.shape[1])


def weighted(codes: Codes, data: Array | None, each: Each, size: int) -> Array:
    """Return the sum of the values of each group; without `data`, return the number of values. Each value is counted `each` times."""
    if isinstance(each, float):
        return np.bincount(codes, data, minlength=size) * each
    return np.bincount(codes, each if data is None else data * each, minlength=size)


def add_count_error(state: Array, codes: Codes, data: Array | None, each: Each) -> None:
    add_error(state, codes, np.ones(len(codes)), each)


def add_error(state: Array, codes: Codes, data: Array, each: Each) -> None:
    if isinstance(each, float) and each == 1.0:
        return
    values = data
    if not isinstance(each, float):
        shed = np.flatnonzero(each > 1.0)
        codes, values, each = codes.take(shed), values.take(shed), each.take(shed)
    add_root(state, codes, values, each * (each - 1))


def add_root(state: Array, codes: Codes, data: Array, weights: Each) -> None:
    """Add the square of each value, times its weight, to a sum of its group; `state` has the square roots of these sums.

    Values are divided by the largest value before they are squared, so that no square overflows.
    """
    values = np.abs(data.astype(np.float64, copy=False))
    largest = values.max(initial=0.0, where=np.isfinite(values)) or 1.0
    with np.errstate(over="ignore"):
        parts = (values / largest) ** 2 * weights
        roots = largest * np.sqrt(np.bincount(codes, parts, minlength=len(state)))
    state[:] = root_of_squares(state, roots)


def root_of_squares(left: Array, right: Array) -> Array:
    """Return √(left² + right²); NaN if either is NaN, since hypot(inf, NaN) would return infinity."""
    return np.where(np.isnan(left) | np.isnan(right), np.nan, np.hypot(left, right))


START: dict[str, Callable[[int, Any], Array]] = {
    **dict.fromkeys(("rows", "count"), lambda size, _: np.zeros(size, np.int64)),
    "sum": start_sum,
    "min": lambda size, kind: np.full(size, extreme(kind, largest=True), kind.numpy),
    "max": lambda size, kind: np.full(size, extreme(kind, largest=False), kind.numpy),
    "moments": lambda size, _: np.zeros(
        (3, size)
    ),  # Three rows per group: count, mean, sum of squared deviations
    "scaled sum": lambda size, kind: start_sum(size, kind).astype(np.float64),
    **dict.fromkeys(
        ("scaled rows", "scaled count", "error rows", "error count", "error sum", "norm"),
        lambda size, _: np.zeros(size),
    ),
}
"""Functions that return the state of a measure for groups without tuples, by number of groups and type of the column."""
ADD: dict[str, Callable[[Array, Codes, Any], None]] = {
    "rows": add_rows,
    "count": add_rows,
    "sum": add_sum,
    "min": add_min,
    "max": add_max,
    "moments": add_moments,
}
ESTIMATE: dict[str, Callable[[Array, Codes, Any, Each], None]] = {
    "scaled rows": add_scaled_count,
    "scaled count": add_scaled_count,
    "scaled sum": add_scaled_sum,
    "error rows": add_count_error,
    "error count": add_count_error,
    "error sum": add_error,
    "norm": add_root,
}
# Functions that combine a measure of two panes, by the name of the measure; all other measures are added.
FOLD: dict[str, Callable[[Array, Array], Array]] = {
    "min": np.fmin,
    "max": np.maximum,
    "moments": merged_moments,
    "error rows": root_of_squares,
    "error count": root_of_squares,
    "error sum": root_of_squares,
    "norm": root_of_squares,
}
