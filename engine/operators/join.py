"""Joins of two streams within a bound of event time, symmetric and indexed by key.

    in: tuples of one side                  out: pairs with the other side's tuples so far

Each side keeps its tuples as long as a later one of the other side can still meet them. A pair is found once, by
whichever of its tuples comes later, and carries that one's arrival. The two sides are operators of their own
(each has its own cost, selectivity and priority) over one `JoinState`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.keys import Codes, KeyIndex
from engine.schema import DataType, Schema
from engine.train import (
    NO_PROGRESS,
    Arrivals,
    Mask,
    Places,
    Train,
    Values,
    concatenated,
    is_same,
    progress,
    same_arrival,
)

Times = npt.NDArray[np.int64]
# Which of the pairs (left place, right place) satisfy a condition on both sides' columns.
Residual = Callable[[Train], Mask]

# A run shorter than this is merged with the next: probing one more run would cost more than copying it. Longer ones
# are merged when there are more than a few, by doubling.
SHORT_RUN, RUNS_MAX = 4096, 8
# Without an index a run is scanned, which is quicker for less than a FEWth of its length, and not more often than this.
FEW, INDEX_AT = 4, 3
# Expired tuples are dropped from a merged run when this part or less of it is alive; copying costs more than they do.
ALIVE = 0.75


@dataclass(slots=True)
class Run:
    """Some stored tuples of one side, with an index by key made when first probed."""

    train: Train
    codes: Codes
    times: Times
    latest: int
    index: KeyOrder | None = None  # made when it pays
    probed: int = 0

    def __len__(self) -> int:
        return len(self.times)

    def matches(self, codes: Codes, times: Times, low: int, high: int, size: int) -> tuple[Places, Places]:
        """Pairs (probe, stored) of equal code, the stored tuple's time minus the probe's in [low, high]."""
        self.probed += 1
        if self.index is None and self.probed < INDEX_AT and FEW * len(codes) < len(self):
            # Not worth an index yet: look the stored tuples up among the few probing ones.
            stored, probe = KeyOrder(codes, size).pairs(self.codes)
        else:
            if self.index is None or self.index.size < size:
                self.index = KeyOrder(self.codes, size)
            probe, stored = self.index.pairs(codes)
        gap = self.times.take(stored) - times.take(probe)
        close = ((gap >= low) & (gap <= high)).nonzero()[0]
        return probe.take(close), stored.take(close)


class KeyOrder:
    """Tuples in the order of their codes, with where each code begins."""

    def __init__(self, codes: Codes, size: int) -> None:
        self.size = size
        self._order = np.argsort(narrow(codes, size), kind="stable")
        self._count = np.bincount(codes, minlength=size)
        self._first = np.cumsum(self._count) - self._count

    def pairs(self, codes: Codes) -> tuple[Places, Places]:
        """Every pair (probe, indexed) of equal code."""
        count = self._count.take(codes)
        probes = (count > 0).nonzero()[0]
        count, first = count.take(probes), self._first.take(codes.take(probes))
        probe = np.repeat(probes, count)
        # 0, 1, 2 … within each probe's stretch of the order
        within = np.arange(len(probe)) + np.repeat(first - np.cumsum(count) + count, count)
        return probe, self._order.take(within)


def narrow(codes: Codes, size: int) -> npt.NDArray[Any]:
    """The codes in the smallest type that holds them: a stable sort of 16 bits is a radix sort."""
    return codes.astype(np.uint16) if size <= 1 << 16 else codes


@dataclass
class Side:
    """One side's stored tuples."""

    schema: Schema
    keys: tuple[int, ...]
    time: int
    runs: list[Run] = field(default_factory=list)
    watermark: int = NO_PROGRESS
    _floor: int = NO_PROGRESS  # older tuples meet nobody any more

    def add(self, run: Run) -> None:
        """Keep a run; runs grow by merging, so that there are few and each tuple is copied a few times only."""
        runs = self.runs
        runs.append(run)
        while len(runs) > 1 and (
            len(runs[-2]) < SHORT_RUN or (len(runs) > RUNS_MAX and len(runs[-2]) < 2 * len(runs[-1]))
        ):
            runs[-2:] = [self._merged(runs[-2:])]

    def expire(self, before: int) -> None:
        """Forget tuples older than `before`: whole runs at once, the rest when runs are merged."""
        self.runs = [run for run in self.runs if run.latest >= before]
        self._floor = before

    def _merged(self, runs: Sequence[Run]) -> Run:
        train = concatenated([run.train for run in runs], self.schema)
        codes = np.concatenate([run.codes for run in runs])
        times = np.concatenate([run.times for run in runs])
        alive = times >= self._floor
        latest = max(run.latest for run in runs)
        if int(np.count_nonzero(alive)) < ALIVE * len(times):
            places = alive.nonzero()[0]
            return Run(train.take(places), codes.take(places), times.take(places), latest)
        return Run(train, codes, times, latest)


class JoinState:
    """Both sides of a join: pairs with right time − left time in [low, high]."""

    def __init__(
        self,
        schemas: tuple[Schema, Schema],
        keys: tuple[tuple[int, ...], tuple[int, ...]],
        times: tuple[int, int],
        low: int,
        high: int,
    ) -> None:
        self.sides = tuple(
            Side(schema, own, time) for schema, own, time in zip(schemas, keys, times, strict=True)
        )
        self.low, self.high = low, high
        self.index = KeyIndex(key_types(schemas[0], keys[0]))

    def watermark(self) -> int:
        """Neither time of a later pair will be before this."""
        left, right = (side.watermark for side in self.sides)
        if left == NO_PROGRESS or right == NO_PROGRESS:
            return NO_PROGRESS
        return min(left, right, right - self.high, left + self.low)


def key_types(schema: Schema, keys: Sequence[int]) -> list[DataType]:
    return [schema.fields[key].type for key in keys]


class JoinSideOperator:
    """One side of the join: 0 is the left, 1 the right."""

    def __init__(
        self,
        state: JoinState,
        side: int,
        residual: Residual | None = None,
        columns: tuple[int, ...] | None = None,
    ) -> None:
        self._state, self._side, self._residual = state, side, residual
        self._columns = columns  # which of the input's columns the join is of; None for all
        # What a tuple of this side meets on the other, relative to its own time.
        self._low, self._high = (state.low, state.high) if side == 0 else (-state.high, -state.low)

    def process(self, train: Train) -> Train | None:
        state = self._state
        own, other = state.sides[self._side], state.sides[1 - self._side]
        out = None
        if len(train):
            if self._columns is not None:
                train = train.with_columns(tuple(train.columns[place] for place in self._columns))
            train = without_null_keys(train, own.keys)
            columns = [without_mask(train.columns[key]) for key in own.keys]
            codes = state.index.codes(columns or [train.columns[own.time]])
            times: Times = train.columns[own.time].data
            out = self._pairs(train, codes, times, other)
            if len(train):
                own.add(Run(train, codes, times, int(times.max())))
        own.watermark = max(own.watermark, train.watermark)
        if own.watermark != NO_PROGRESS:
            # Later tuples of this side are at `watermark` or after: what they cannot meet, nobody will.
            other.expire(own.watermark + self._low)
        if out is None:
            return progress(state.watermark())
        out.watermark = state.watermark()
        return out

    def wants(self, time: int) -> bool:
        return True

    def snapshot(self) -> Any:
        return copy.deepcopy((self._state.sides[self._side], self._state.index))

    def restore(self, state: Any) -> None:
        side, index = copy.deepcopy(state)
        self._state.sides = tuple(
            side if place == self._side else one for place, one in enumerate(self._state.sides)
        )
        self._state.index = index

    def _pairs(self, train: Train, codes: Codes, times: Times, other: Side) -> Train | None:
        found = []
        for run in other.runs:
            mine, stored = run.matches(codes, times, self._low, self._high, len(self._state.index))
            if len(mine):
                halves = train.take(mine), run.train.take(stored)
                found.append(joined(*halves) if self._side == 0 else joined(*reversed(halves)))
        if not found:
            return None
        pairs = found[0] if len(found) == 1 else concatenated(found, joined_schema(self._state.sides))
        if self._residual is None:
            return pairs
        chosen = np.flatnonzero(self._residual(pairs))
        return pairs.take(chosen) if len(chosen) else None


def joined(left: Train, right: Train) -> Train:
    """Tuples side by side; a pair has arrived when its later half has."""
    arrival = later(left.arrival, right.arrival)
    return Train((*left.columns, *right.columns), arrival, min(left.kept, right.kept))


def later(left: Arrivals, right: Arrivals) -> Arrivals:
    if is_same(left) and is_same(right):
        return same_arrival(max(left[0], right[0]), len(left))
    return np.maximum(left, right)


def joined_schema(sides: Sequence[Side]) -> Schema:
    return Schema(tuple(field for side in sides for field in side.schema.fields))


def key_mask(train: Train, keys: Sequence[int]) -> Mask | None:
    """Which tuples have no NULL among their keys; None for all."""
    masks = [valid for key in keys if (valid := train.columns[key].valid) is not None]
    return np.logical_and.reduce(masks) if masks else None


def without_null_keys(train: Train, keys: Sequence[int]) -> Train:
    """NULL equals nothing: tuples with a NULL key join with nobody."""
    mask = key_mask(train, keys)
    return train if mask is None else train.take(np.flatnonzero(mask))


def without_mask(column: Values) -> Values:
    """A column known to have no NULL."""
    return Values(column.type, column.data)
