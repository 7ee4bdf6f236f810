"""Sketches for approximate aggregates: panes keep sketches, in bounded memory, instead of every value. There are three kinds.

    distinct: HyperLogLog of 2^12 registers (Apache DataSketches), with a standard error of 1.6%.
    quantile: counts by logarithmic bins (DDSketch; Masson, Rim, Lee 2019), with an error of at most 1% of the value.
    frequent: 768 counters (Apache DataSketches' frequent items, after Misra and Gries), with an error of 0.35% of the tuples.

Numbered properties:
1. The answers of `distinct` and `quantile` depend on the values only: not on their order, on how they are divided
   into trains and panes, or on chance. Other sketches do not have this property: KLL and REQ sketches use random numbers;
   t-digests, and DataSketches' estimate of an HLL that was never merged with another, depend on the order.
2. `frequent` is exact while a group has at most 768 values in each pane. With more values, panes remove rare values, and
   counts are too low by the removed counts. Which values are removed depends on the order of the tuples, but not on how the
   tuples are divided into trains.
3. A copy of a sketch, also a serialized copy, continues exactly as the original does.
4. `bytes` grows by at most `growth_max` of the added column.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import datasketches
import numpy as np
import numpy.typing as npt

from engine.data.keys import Codes, distinct
from engine.data.schema import DataType, TypeKind
from engine.data.train import Values

Array = npt.NDArray[Any]
Whole = npt.NDArray[np.int64]

# Number of registers as a power of two: 2^12 registers of one byte each have a standard error of 1.04/√4096.
LG_REGISTERS = 12
REGISTERS_BYTES = datasketches.hll_sketch.get_max_updatable_serialization_bytes(
    LG_REGISTERS, datasketches.HLL_8
)
# Number of entries of the table of a `frequent` sketch, as a power of two; three quarters of the entries are used.
# In a larger table, the positions of entries would decide which entries are removed.
# A copy of a sketch has its entries at other positions, so it would give other answers than the original.
LG_COUNTERS = 10
COUNTERS = 3 << (LG_COUNTERS - 2)
# Bytes that Python and DataSketches use for a `distinct` sketch, and for each entry while the sketch has few entries.
SKETCH_BYTES, ENTRY_BYTES = 240, 24
COUNTER_BYTES, HEADER_BYTES = 128, 32
# Maximum length of a number as text.
NUMBER_TEXT = 32
BIN_BYTES = 16
QUANTILE_ERROR = 0.01
LOG_GAMMA = float(np.log((1 + QUANTILE_ERROR) / (1 - QUANTILE_ERROR)))
# Numbers of the bins that hold the values 1, infinity and NaN; a larger value is in a bin with a larger number.
# NaN is above all numbers, and numbers too small for a float of full precision count as 0.
BIN_OF_ONE, BIN_OF_INFINITY, BIN_OF_NAN = 40_000, 100_000, 100_001
BINS = 1 << 18
TINY = float(np.finfo(np.float64).tiny)


class DistinctSketches:
    """Sketches that count distinct values, by group."""

    def __init__(self) -> None:
        self._sketches: dict[int, Any] = {}
        self.bytes = 0

    def add(self, codes: Codes, column: Values) -> None:
        inverse, listed = distinct(column)
        values = hashable(listed)
        for code, places in seen(codes, inverse, len(values)):
            sketch = self._sketches.get(code)
            if sketch is None:
                sketch = self._sketches[code] = datasketches.hll_sketch(LG_REGISTERS, datasketches.HLL_8)
            else:
                self.bytes -= hll_bytes(sketch)
            each(sketch.update, [values[place] for place in places.tolist()])
            self.bytes += hll_bytes(sketch)

    def recoded(self, mapped: Codes) -> None:
        self._sketches = {int(mapped[code]): sketch for code, sketch in self._sketches.items()}

    def merge(self, other: DistinctSketches) -> None:
        for code, theirs in other._sketches.items():
            union = datasketches.hll_union(LG_REGISTERS)
            if code in self._sketches:
                self.bytes -= hll_bytes(self._sketches[code])
                union.update(self._sketches[code])
            union.update(theirs)
            self._sketches[code] = union.get_result(datasketches.HLL_8)
            self.bytes += hll_bytes(self._sketches[code])

    def __getstate__(self) -> Any:
        return {code: sketch.serialize_updatable() for code, sketch in self._sketches.items()}, self.bytes

    def __setstate__(self, state: Any) -> None:
        packed, self.bytes = state
        self._sketches = {
            code: datasketches.hll_sketch.deserialize(sketch) for code, sketch in packed.items()
        }

    def of(self, code: int) -> Any:
        return self._sketches.get(code)


class FrequentSketches:
    """Sketches that count how often each value occurs, by group; values are stored as texts."""

    def __init__(self) -> None:
        self._sketches: dict[int, Any] = {}
        self._merged: dict[int, Counter[str]] = {}
        self.type: DataType | None = None  # Type of the values
        self.bytes = 0

    def add(self, codes: Codes, column: Values) -> None:
        self.type = column.type
        inverse, listed = distinct(column)
        texts = listed if column.type.kind is TypeKind.STRING else [str(value) for value in listed]
        order = np.argsort(codes, kind="stable")  # A stable sort keeps the order of arrival within a group
        ordered, places = codes[order], inverse[order]
        for code, part in by_code(ordered, places):
            sketch = self._sketches.get(code)
            if sketch is None:
                sketch = self._sketches[code] = datasketches.frequent_strings_sketch(LG_COUNTERS)
            else:
                self.bytes -= counters_bytes(sketch)
            values, counts = np.unique(part, return_counts=True)
            if sketch.num_active_items + len(values) <= COUNTERS:
                for place, count in zip(values.tolist(), counts.tolist(), strict=True):
                    sketch.update(texts[place], count)
            else:
                # Values are added one by one, so that the ends of trains do not influence which values are removed.
                each(sketch.update, [texts[place] for place in part.tolist()])
            self.bytes += counters_bytes(sketch)

    def recoded(self, mapped: Codes) -> None:
        self._sketches = {int(mapped[code]): sketch for code, sketch in self._sketches.items()}

    def merge(self, other: FrequentSketches) -> None:
        """Add the counts of `other` to the counters in `_merged`. Unlike sketches, these counters never remove a value.

        The counters hold at most the values of all panes that are merged.
        """
        self.type = other.type
        for code in {*other._sketches, *other._merged}:
            self._merged.setdefault(code, Counter()).update(other.counts(code))

    def counts(self, code: int) -> Mapping[str, int]:
        """Return the values that are still held, each with its count."""
        counts = Counter(self._merged.get(code, ()))
        sketch = self._sketches.get(code)
        if sketch is not None:
            everything = sketch.get_frequent_items(datasketches.NO_FALSE_NEGATIVES, 0)
            counts.update({text: count for text, count, _, _ in everything})
        return counts

    def __getstate__(self) -> Any:
        packed = {code: sketch.serialize() for code, sketch in self._sketches.items()}
        return packed, self._merged, self.type, self.bytes

    def __setstate__(self, state: Any) -> None:
        packed, self._merged, self.type, self.bytes = state
        read = datasketches.frequent_strings_sketch.deserialize
        self._sketches = {code: read(sketch) for code, sketch in packed.items()}


class QuantileSketches:
    """Sketches that count values by logarithmic bin, with all groups in one array."""

    def __init__(self) -> None:
        # Sorted numbers, each of which combines a group and a bin.
        self._places: Whole = np.empty(0, np.int64)
        self._counts: Whole = np.empty(0, np.int64)
        self._parts: list[
            tuple[Whole, Whole]
        ] = []  # Bins and counts that are not merged into `_places` and `_counts` yet
        self._waiting = 0

    @property
    def bytes(self) -> int:
        return BIN_BYTES * (len(self._places) + self._waiting)

    def add(self, codes: Codes, column: Values) -> None:
        places = codes * BINS + (bins_of(column.data) + BINS // 2)
        self._take(*np.unique(places, return_counts=True))

    def recoded(self, mapped: Codes) -> None:
        places, counts = self.summed()
        self._places, self._counts = mapped[places // BINS] * BINS + places % BINS, counts

    def merge(self, other: QuantileSketches) -> None:
        self._take(*other.summed())

    def summed(self) -> tuple[Whole, Whole]:
        """Return sorted numbers, each of which combines a group and a bin, and the number of values for each."""
        if self._parts:
            places = np.concatenate([self._places, *(part for part, _ in self._parts)])
            counts = np.concatenate([self._counts, *(part for _, part in self._parts)])
            self._places, self._counts = sums(places, counts)
            self._parts, self._waiting = [], 0
        return self._places, self._counts

    def __deepcopy__(self, memo: Any) -> QuantileSketches:
        other = QuantileSketches()
        # The copy can share the arrays of the original, because arrays are replaced, never written to.
        other._places, other._counts = self.summed()
        return other

    def _take(self, places: Whole, counts: Whole) -> None:
        self._parts.append((places, counts))
        self._waiting += len(places)
        if self._waiting > len(self._places):
            self.summed()


Sketches = DistinctSketches | FrequentSketches | QuantileSketches
"""Sketches of one column in one pane: `add` takes the group codes of values, none of which is NULL."""
SKETCHES: dict[str, type[Sketches]] = {
    "distinct": DistinctSketches,
    "frequent": FrequentSketches,
    "quantile": QuantileSketches,
}


def growth_max(name: str, column: Values) -> int:
    """Return the maximum number of bytes by which adding a column can grow the sketches of this kind."""
    if name == "quantile":
        return BIN_BYTES * len(column)
    if name == "distinct":
        return (SKETCH_BYTES + ENTRY_BYTES) * len(column)
    text = column.data.nbytes if column.type.kind is TypeKind.STRING else NUMBER_TEXT * len(column)
    return int(text) + (SKETCH_BYTES + COUNTER_BYTES + HEADER_BYTES) * len(column)


def distinct_counts(sketches: DistinctSketches, groups: Codes) -> Whole:
    """Return the estimated number of distinct values of each group."""
    return np.array([distinct_count(sketches.of(code)) for code in groups.tolist()], np.int64)


def distinct_count(sketch: Any) -> int:
    if sketch is None:
        return 0
    union = datasketches.hll_union(LG_REGISTERS)
    union.update(sketch)
    # Merging a HyperLogLog sketch, even with itself, makes its estimate independent of the order in which values were added.
    union.update(union.get_result(datasketches.HLL_8))
    estimate: float = union.get_estimate()
    return round(estimate)


def most_frequent(sketches: FrequentSketches, groups: Codes, most: int) -> list[str | None]:
    """Return the most frequent values of each group, in the format of `engine.windows.pane_aggregates.top`."""
    texts: list[str | None] = []
    for code in groups.tolist():
        counts = sketches.counts(code)
        ranked = sorted(counts.items(), key=lambda item: (-item[1], rank_of(item[0], sketches.type)))
        texts.append(", ".join(f"{text}:{count}" for text, count in ranked[:most]) or None)
    return texts


def rank_of(text: str, type_: DataType | None) -> Any:
    """Return the sort key of equally frequent values: the value itself, with NaN as the largest."""
    if type_ is None or type_.kind is TypeKind.STRING:
        return text
    if type_.is_float:
        return text == "nan", float(text)
    return text == "True" if type_.kind is TypeKind.BOOLEAN else int(text)


def quantiles(sketches: QuantileSketches, groups: Codes, part: float) -> tuple[Array, Array]:
    """Return two arrays: for each group, the quantile of its values at the fraction `part`, and True if the group has values.

    The error of each value is at most 1%.
    """
    places, counts = sketches.summed()
    upto = np.cumsum(counts)
    starts, ends = (np.searchsorted(places, (groups + more) * BINS) for more in (0, 1))
    before = np.concatenate([[0], upto])
    totals = before[ends] - before[starts]
    ranks = np.floor(part * np.maximum(totals - 1, 0)).astype(np.int64)
    where = np.searchsorted(upto, before[starts] + ranks, side="right")
    is_known = totals > 0
    values = np.zeros(len(groups))
    values[is_known] = values_of(places[where[is_known]] % BINS - BINS // 2)
    return values, is_known


def sums(places: Whole, counts: Whole) -> tuple[Whole, Whole]:
    """Return each place once, in order, with the sum of its counts; a place combines a group and a bin."""
    order = np.argsort(places, kind="stable")
    places, counts = places[order], counts[order]
    starts = np.flatnonzero(np.concatenate([[True], places[1:] != places[:-1]]))
    return (places[starts], np.add.reduceat(counts, starts)) if len(places) else (places, counts)


def bins_of(data: Array) -> Whole:
    values = data.astype(np.float64, copy=False)
    sizes = np.abs(values)
    with np.errstate(divide="ignore", invalid="ignore"):
        places = np.ceil(np.log(sizes) / LOG_GAMMA) + BIN_OF_ONE
    places = np.where(sizes < TINY, 0.0, np.where(np.isinf(sizes), BIN_OF_INFINITY, places))
    return np.where(np.isnan(values), BIN_OF_NAN, np.copysign(places, values)).astype(np.int64)


def values_of(bins: Whole) -> Array:
    """Return one value for each bin; every value in the bin differs from that value by at most the fraction `QUANTILE_ERROR`."""
    sizes = np.abs(bins)
    with np.errstate(over="ignore"):
        values = np.exp((sizes - BIN_OF_ONE) * LOG_GAMMA) * (1 - QUANTILE_ERROR)
    values = np.minimum(values, np.finfo(np.float64).max)
    values = np.where(sizes == 0, 0.0, np.where(sizes == BIN_OF_INFINITY, np.inf, values))
    return np.where(bins == BIN_OF_NAN, np.nan, np.copysign(values, bins))


def seen(codes: Codes, inverse: Codes, values: int) -> Iterator[tuple[int, Codes]]:
    """Yield each group's code number with the distinct positions in `inverse`; all positions are less than `values`."""
    both = np.unique(codes * values + inverse)
    return by_code(both // values, both % values)


def by_code(codes: Codes, values: Codes) -> Iterator[tuple[int, Codes]]:
    """Yield each group number in the sorted array `codes` once, with the elements of `values` that belong to the group."""
    starts = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))
    return zip(codes[starts].tolist(), np.split(values, starts[1:]), strict=True)


def hashable(values: list[Any]) -> list[Any]:
    """Return the values in a form that DataSketches can hash, because DataSketches ignores empty texts and refuses booleans."""
    return [0 if value == "" else int(value) if isinstance(value, bool) else value for value in values]


def each(update: Any, values: Sequence[Any]) -> None:
    """Call `update` for each value, as fast as Python allows."""
    deque(map(update, values), 0)


def hll_bytes(sketch: Any) -> int:
    """Return the bytes counted for a sketch: at least its real size, and at most ENTRY_BYTES more for each new value."""
    return SKETCH_BYTES + int(min(REGISTERS_BYTES, ENTRY_BYTES * sketch.get_estimate()))


def counters_bytes(sketch: Any) -> int:
    """Return the bytes counted for a sketch: its serialized size plus the overhead of its table and entries."""
    counters = (COUNTER_BYTES - 24) * sketch.num_active_items
    return int(SKETCH_BYTES + sketch.get_serialized_size_bytes() + counters)
