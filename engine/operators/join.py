"""Symmetric joins of two streams: pairs of tuples with equal keys and a limited distance in event time.

Each side stores a tuple for as long as later tuples of the other side can match it. A pair is found once, when the
later of its two tuples is processed, and carries the arrival time of that tuple. Each side is an operator with its own
cost, selectivity and priority; both operators share one `JoinState`. A pair for which the condition fails (an overflow, an
impossible cast) is left out and counted with its reason.

    in: tuples of one side                  out: pairs of these tuples with stored tuples of the other side
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from engine.data.held_state import FEW_KEYS, Holding
from engine.data.keys import Codes, KeyIndex
from engine.data.schema import DataType, Schema
from engine.data.train import Mask, Places, Train, Values, counting_dropped, progress, taken
from engine.data.watermark_causes import NO_PROGRESS, Meeting
from engine.expressions.compiler import Condition, RowFailures
from engine.operators.join_state import TOO_MANY_PAIRS, StoredTuples, Times
from engine.operators.protocol import Progressive
from engine.plan.plan import IntervalJoin, WindowJoin, time_of


class Side:
    """One side of a join: its stored tuples, and the positions of its key and time columns."""

    def __init__(self, schema: Schema, keys: tuple[int, ...], time: int) -> None:
        self.keys, self.time = keys, time
        self.stored = StoredTuples(schema, time)


class JoinState:
    """State that both sides of a join share. The join pairs tuples if the right time minus the left time is from `low` to `high`."""

    def __init__(self, plan: IntervalJoin | WindowJoin, low: int, high: int) -> None:
        self.sides = (
            Side(plan.left.schema, plan.left_keys, time_of(plan.left).place),
            Side(plan.right.schema, plan.right_keys, time_of(plan.right).place),
        )
        self.low, self.high = low, high
        self.index = KeyIndex(key_types(plan.left.schema, plan.left_keys))
        # Memory accounts of both sides; the account of the left side includes the keys of both sides.
        self.holdings = Holding(), Holding()
        self.holdings[0].compact = self.compact
        self._compact_at = FEW_KEYS
        # Number of keys after unused keys were last removed; 0 if stored tuples have been dropped since then.
        self._settled = 0
        # The watermark of pairs is below the watermarks of both inputs, so that no pair has an event time before the watermark.
        self.progress = Meeting((max(0, -low), max(0, high)))
        self.tell()

    def tell(self) -> None:
        """Update the memory account of each side of the join with the bytes of the tuples that this side stores now."""
        for holding, side in zip(self.holdings, self.sides, strict=True):
            if holding.state != side.stored.bytes:
                holding.set_state(side.stored.bytes)

    def bytes_of_keys(self, more: int) -> int:
        """Return the mean number of bytes of keys per stored tuple after `more` tuples are added."""
        return self.index.bytes // (more + 1 + sum([len(side.stored) for side in self.sides]))

    def expire(self, side: int, before: int) -> None:
        """Drop a side's stored tuples with event times before `before`."""
        stored = self.sides[side].stored
        held = len(stored)
        stored.forget(before)
        if len(stored) < held:
            self._settled = 0

    def restored(self) -> None:
        """Update all counts of memory after a snapshot has replaced the stored tuples or the keys."""
        self._compact_at, self._settled = FEW_KEYS, 0
        if self.sides[0].keys:
            self.holdings[0].set_keys(len(self.index), self.index.bytes)
        self.tell()

    def compact(self) -> None:
        """Forget the keys without stored tuples; the remaining keys get new code numbers."""
        if not self.sides[0].keys or len(self.index) == self._settled:
            return
        alive = np.zeros(len(self.index), bool)
        for side in self.sides:
            alive[side.stored.codes()] = True
        if not alive.all():
            self.index.keep(alive.nonzero()[0])
            for side in self.sides:
                side.stored.recode(alive.cumsum() - 1)
            self.holdings[0].set_keys(len(self.index), self.index.bytes)
        self._settled = len(self.index)
        self._compact_at = max(FEW_KEYS, 2 * len(self.index))

    def codes(self, keys: Sequence[Values]) -> Codes:
        """Return the code number of each key; NO_CODE for a new key for which there is no room."""
        if not self.index.in_range and len(self.index) >= self._compact_at:
            self.compact()
        return self.holdings[0].codes(self.index, keys)


def key_types(schema: Schema, keys: Sequence[int]) -> list[DataType]:
    return [schema.fields[key].type for key in keys]


class JoinSideOperator(Progressive):
    """Operator of one side of the join: 0 is the left side, 1 the right side."""

    def __init__(
        self,
        state: JoinState,
        side: int,
        residual: Condition | None = None,
        columns: tuple[int, ...] | None = None,
    ) -> None:
        self._state, self._side, self._residual = state, side, residual
        # Positions of the input columns that the join uses; None if the join uses all columns.
        self._columns = columns
        # A tuple of this side with event time t matches tuples of the other side with event times from t + low to t + high.
        self._low, self._high = (state.low, state.high) if side == 0 else (-state.high, -state.low)
        self.failed: Counter[str] = Counter()
        self.holding = state.holdings[side]

    def process(self, train: Train) -> Train | None:
        state = self._state
        out = self._met(counting_dropped(train)) if len(train) else None
        watermark, causes = state.progress.hear(self._side, train.watermark, train.causes)
        mark = state.progress.marks[self._side]
        if mark != NO_PROGRESS:
            # Later tuples of this side have event times from `mark` on.
            # Stored tuples of the other side that are too old to match a tuple from `mark` on are dropped.
            state.expire(1 - self._side, mark + self._low)
        if out is None:
            return progress(watermark, causes)
        out.watermark, out.causes = watermark, causes
        return out

    def snapshot(self) -> Any:
        state = self._state
        return state.sides[self._side], state.index, state.progress.snapshot(self._side)

    def restore(self, state: Any) -> None:
        side, index = copy.deepcopy(state[:2])
        self._state.progress.restore(self._side, state[2])
        other = self._state.sides[1 - self._side]
        self._state.sides = (side, other) if self._side == 0 else (other, side)
        self._state.index = index
        self._state.restored()

    def _met(self, train: Train) -> Train | None:
        """Store a train's tuples, and return their pairs with the stored tuples of the other side."""
        own, other = self._state.sides[self._side], self._state.sides[1 - self._side]
        columns = train.columns
        if self._columns is not None:
            columns = tuple([columns[place] for place in self._columns])
        train = without_null_keys(Train(columns, train.arrival, train.kept), own.keys)
        train, codes = self._coded(train, own)
        if not own.stored.fits(train):
            room = own.stored.prepare(train, self.holding.room, self._state.bytes_of_keys(len(train)))
            if room < len(train):
                self.holding.refuse_bytes(len(train) - room)
                train, codes = train.slice(0, room), codes[:room]
        out = self._pairs(train, codes, train.columns[own.time].data, other.stored)
        if len(train):
            own.stored.add(train, codes)
        self._state.tell()
        return out

    def _coded(self, train: Train, own: Side) -> tuple[Train, Codes]:
        """Return the tuples and the code numbers of their keys; tuples with keys for which there is no room are refused."""
        if not own.keys:
            return train, self._state.index.codes([train.columns[own.time]])
        codes = self._state.codes([without_mask(train.columns[key]) for key in own.keys])
        if not self._state.index.refused:
            return train, codes
        places = np.flatnonzero(codes >= 0)
        self.holding.refuse_keys(len(codes) - len(places))
        return train.take(places), codes.take(places)

    def _pairs(self, train: Train, codes: Codes, times: Times, other: StoredTuples) -> Train | None:
        before = other.refused
        mine, theirs = other.matches(codes, times, self._low, self._high, len(self._state.index))
        if other.refused > before:
            self.failed[TOO_MANY_PAIRS] += other.refused - before
        if not len(mine):
            return None
        halves = tuple([column.take(mine) for column in train.columns]), other.take(theirs)
        columns = (*halves[0], *halves[1]) if self._side == 0 else (*halves[1], *halves[0])
        # The arrival time of a pair is the arrival time of the later of its two tuples.
        arrival = other.arrivals(theirs, taken(train.arrival, mine))
        pairs = Train(columns, arrival, min(train.kept, other.kept(theirs)))
        if self._residual is None:
            return pairs
        chosen = satisfying(pairs, self._residual, self.failed)
        return pairs.take(chosen) if len(chosen) else None


def satisfying(pairs: Train, residual: Condition, failed: Counter[str]) -> Places:
    """Return the positions of the pairs that satisfy the condition, and count the pairs for which the condition fails."""
    failures = RowFailures()
    chosen = residual(pairs, failures).nonzero()[0]
    failed.update(failures.counts)
    return chosen


def key_mask(train: Train, keys: Sequence[int]) -> Mask | None:
    """Return a mask of the tuples that have no NULL in a key column; None if no key column has NULLs."""
    masks = [valid for key in keys if (valid := train.columns[key].valid) is not None]
    return np.logical_and.reduce(masks) if masks else None


def without_null_keys(train: Train, keys: Sequence[int]) -> Train:
    """Return the tuples without NULL in a key column; a tuple with NULL matches no tuple, because NULL equals nothing."""
    mask = key_mask(train, keys)
    return train if mask is None else train.take(np.flatnonzero(mask))


def without_mask(column: Values) -> Values:
    """Return the column without its NULL mask, for a column that has no NULLs."""
    return Values(column.type, column.data)
