"""Lookup join: joins each tuple with the newest row of another stream that has an equal key and no later event time.

Two operators share one `LookUp`. A tuple of time t finds the row of its key with the largest time ≤ t; if several rows
have this time, it finds the row that arrived last. So a tuple waits until the stream's watermark has passed t. Which row
it finds depends neither on trains nor on how the two streams interleave.

    in: tuples that look up                 out: each tuple with its row; outer join: also tuples without a row
    in: rows of the stream                  out: the tuples that waited for these rows, with their rows

| kept | how long |
|---|---|
| tuples that look up | until the stream's watermark has passed them, or `release` answers them with the rows held then |
| the newest row of each key up to the horizon | until another row of the key replaces it |
| every row after the horizon | until the horizon passes it |

No tuple before the horizon can look up any more. If there is no room for rows after the horizon, only the newest row of
each key is kept and the rows are counted; a later tuple may then find no row. If there is no room for a new key or
for another waiting tuple, that row or tuple is refused and counted.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.data.held_state import Holding, train_bytes
from engine.data.keys import Codes, KeyIndex
from engine.data.schema import Schema, TypeKind
from engine.data.train import (
    Arrivals,
    LateRows,
    Places,
    Train,
    Values,
    empty_values,
    is_same,
    merged,
    progress,
    same_arrival,
    taken,
)
from engine.data.watermark_causes import NO_PROGRESS, Causes, Meeting, Moment, arrival_of
from engine.expressions.compiler import Condition
from engine.operators.join import key_mask, key_types, satisfying, without_mask, without_null_keys
from engine.operators.join_state import ROOM_MIN, Fixed, StoredColumn, Texts, Times
from engine.operators.outer_join import UnmatchedRows
from engine.operators.protocol import Progressive
from engine.plan.plan import EventTime, LastJoin, time_of

NOWHERE = -1
# Time later than every event time, in any unit.
END = 2**62
NEVER = np.iinfo(np.int64).min
# Bytes that a row takes in `_codes`, `_times` and `_places`, in addition to its columns.
LATER_BYTES = 24
HISTORY_FULL = "no room for earlier rows of keys in LAST BY"


class LastRows:
    """Stored rows of the looked-up stream; the *horizon* is the event time before which no tuple will look up any more.

    Of the rows up to the horizon, only the newest row of each key is stored. Later rows are all stored. Times are in µs.
    """

    def __init__(self, schema: Schema, keys: Sequence[int], time: EventTime) -> None:
        self._schema, self._keys, self._time = schema, tuple(keys), time
        self.index = KeyIndex(key_types(schema, keys))
        self._columns: list[StoredColumn] = []
        self._room = self._end = 0
        self._place: Places = np.full(0, NOWHERE, np.intp)
        """Position of each key's newest row up to the horizon, by code of the key; NOWHERE for keys without such a row."""
        self._at: Times = np.full(0, NEVER, np.int64)
        """Event time in µs of each key's newest row up to the horizon, by code of the key."""
        self._horizon = NEVER
        # Rows after the event time `_horizon`, which `_sort` orders by key and time.
        self._codes: Codes = np.empty(0, np.intp)
        self._times: Times = np.empty(0, np.int64)
        self._places: Places = np.empty(0, np.intp)
        self._is_sorted = True
        self._width = LATER_BYTES + sum(
            1 + field.type.numpy.itemsize for field in schema.fields if field.type.kind is not TypeKind.STRING
        )

    @property
    def bytes(self) -> int:
        texts = sum(column.bytes for column in self._columns if isinstance(column, Texts))
        return self._width * self._room + self._place.nbytes + self._at.nbytes + texts

    def add(self, train: Train, holding: Holding) -> None:
        """Store the rows of a train, as far as there is room."""
        train = without_null_keys(train, self._keys)
        codes = holding.codes(
            self.index, [without_mask(train.columns[key]) for key in self._keys], self._width
        )
        if self.index.refused:
            fitting = np.flatnonzero(codes >= 0)
            holding.refuse_keys(len(codes) - len(fitting))
            train, codes = train.take(fitting), codes.take(fitting)
        # While rows are copied to new arrays, both the old and the new arrays take memory.
        needed = train_bytes(train) + 2 * self._width * len(train)
        if needed > holding.room and len(self._times):
            self._forget_history(holding)
        if not len(train) or len(admitted := holding.admitted(train, 2 * self._width)) == 0:
            return
        train, codes = admitted, codes[: len(admitted)]
        if len(self.index) > len(self._place):
            more = max(ROOM_MIN, 2 * len(self.index)) - len(self._place)
            self._place = np.concatenate([self._place, np.full(more, NOWHERE, np.intp)])
            self._at = np.concatenate([self._at, np.full(more, NEVER, np.int64)])
        if self._end + len(train) > self._room:
            self._move(len(train))
        for column, values in zip(self._columns, train.columns, strict=True):
            column.write(values, self._end)
        places = np.arange(self._end, self._end + len(train))
        self._end += len(train)
        self._codes = np.concatenate([self._codes, codes])
        self._times = np.concatenate([self._times, in_us(train, self._time)])
        self._places = np.concatenate([self._places, places])
        self._is_sorted = False
        self._settle()
        holding.set_state(self.bytes)

    def pass_horizon(self, horizon: int) -> None:
        """Set the event time before which no tuple will look up any more; the caller ensures that this is true."""
        if horizon > self._horizon:
            self._horizon = min(horizon, END)
            self._settle()

    def find(self, keys: Sequence[Values], times: Times) -> Places:
        """Return, for each tuple with these keys and times, the position of the row that the tuple finds, or NOWHERE."""
        codes = self.index.known(keys)
        found = np.full(len(codes), NOWHERE, np.intp)
        known = np.flatnonzero(codes < min(len(self.index), len(self._place)))
        if len(known):
            mine, at = codes.take(known), times.take(known)
            early = np.where(self._at.take(mine) <= at, self._place.take(mine), NOWHERE)
            later = self._found_later(mine, at)
            found[known] = np.where(later != NOWHERE, later, early)
        return found

    def take(self, places: Places) -> list[Values]:
        if not self._columns:
            return [empty_values(field) for field in self._schema.fields]
        return [column.take(places) for column in self._columns]

    def _found_later(self, codes: Codes, times: Times) -> Places:
        """Return, for each tuple, the position of the newest row after the event time `_horizon` and up to the tuple's time, or NOWHERE."""
        if not len(self._times):
            return np.full(len(codes), NOWHERE, np.intp)
        self._sort()
        moments = np.unique(self._times)
        # The code number of a key and the rank of an event time are combined into one number, so that one search compares both.
        most = len(moments) + 1
        rows = self._codes * most + np.searchsorted(moments, self._times, "right")
        wanted = codes * most + np.searchsorted(moments, times, "right")
        at = np.searchsorted(rows, wanted, "right") - 1
        near = np.maximum(at, 0)
        is_own = (at >= 0) & (self._codes.take(near) == codes)
        return np.where(is_own, self._places.take(near), NOWHERE)

    def _sort(self) -> None:
        """Sort the rows after the event time `_horizon` by key, time and arrival; of rows with equal key and time, keep only the last."""
        if self._is_sorted:
            return
        order = np.lexsort((self._places, self._times, self._codes))
        codes, times = self._codes.take(order), self._times.take(order)
        last = np.append((codes[1:] != codes[:-1]) | (times[1:] != times[:-1]), True)
        self._codes, self._times = codes[last], times[last]
        self._places = self._places.take(order)[last]
        self._is_sorted = True

    def _settle(self) -> None:
        """Keep only the newest row of each key among the rows up to the event time `_horizon`."""
        passed = self._times <= self._horizon
        if not passed.any():
            return
        self._sort()
        passed = self._times <= self._horizon
        codes, times, places = self._codes[passed], self._times[passed], self._places[passed]
        # The newest row of a key replaces the stored row of this key, unless the stored row has a later time.
        last = np.append(codes[1:] != codes[:-1], True)
        codes, times, places = codes[last], times[last], places[last]
        newer = times >= self._at.take(codes)
        self._place[codes[newer]], self._at[codes[newer]] = places[newer], times[newer]
        left = ~passed
        self._codes, self._times, self._places = self._codes[left], self._times[left], self._places[left]

    def _forget_history(self, holding: Holding) -> None:
        """Keep only the newest row of each key, and count the rows after the event time `_horizon` as refused."""
        rows = len(self._times)
        horizon, self._horizon = self._horizon, END
        self._settle()
        self._horizon = horizon
        holding.refused[HISTORY_FULL] += rows
        self._move(0)
        holding.set_state(self.bytes)

    def _move(self, more: int) -> None:
        """Move the rows that can still be found to new arrays with room for `more` rows; drop the other rows."""
        if not self._columns:
            self._room = max(ROOM_MIN, 2 * more)
            self._columns = [
                Texts(field.type) if field.type.kind is TypeKind.STRING else Fixed(field.type, self._room)
                for field in self._schema.fields
            ]
            return
        self._sort()
        held = np.flatnonzero(self._place != NOWHERE)
        order = np.sort(np.concatenate([self._place[held], self._places]))
        self._room = max(ROOM_MIN, 2 * len(order) + 2 * more)
        for column in self._columns:
            column.move(order, self._room)
        self._place[held] = np.searchsorted(order, self._place[held])
        self._places = np.searchsorted(order, self._places)
        self._end = len(order)


class LookUp:
    """State that both operators of a lookup share: rows, waiting tuples, and the watermarks of both streams."""

    def __init__(self, plan: LastJoin, residual: Condition | None) -> None:
        self._time, self._rows_time = time_of(plan.left), time_of(plan.right)
        self.rows = LastRows(plan.right.schema, plan.right_keys, self._rows_time)
        self._keys, self._residual = plan.left_keys, residual
        self._unmatched = UnmatchedRows(plan.right.schema, plan.schema) if plan.outer else None
        # Watermarks of both streams, in the unit of the event time of the tuples that look up.
        self.progress = Meeting((0, 0))
        self.waiting: list[Train] = []
        self.holding, self.rows_holding = Holding(), Holding()
        self.failed: Counter[str] = Counter()

    @property
    def upto(self) -> int:
        """Watermark of the rows: all rows before this time have arrived."""
        return self.progress.marks[1]

    def hear_tuples(self, train: Train) -> Train:
        """Return the results of the train's tuples that need not wait, and store the tuples that have to wait."""
        watermark, causes = self.progress.hear(0, train.watermark, train.causes)
        ready = train
        if len(train):
            early = np.flatnonzero(self._times(train) >= self.upto)
            if len(early):
                ready = train.take(np.flatnonzero(self._times(train) < self.upto))
                self._wait(train.take(early))
        out = self._answers(ready) if len(ready) else None
        # Late rows are only counted as missing, so they do not wait: they are joined with the rows that have arrived.
        late = train.late
        if late is not None:
            late = late.became(*self._looked_up(late.as_train(), Counter()))
        self._pass_horizon()
        return self._told(out, watermark, causes, late)

    def hear_rows(self, train: Train) -> Train:
        """Store the rows of the train, and return the results of tuples that have waited for these rows."""
        if len(train):
            self.rows.add(train, self.rows_holding)
        mark, causes = self._in_tuples_unit(train.watermark, train.causes)
        return self._hear_rows_mark(mark, causes)

    def release(self, upto_us: int, now: float) -> Train:
        """Return the results of the waiting tuples with event times before this time, from the rows that have arrived until now."""
        upto = -(-upto_us // self._time.unit_us)
        return self._hear_rows_mark(upto, (Moment(upto, now),))

    def overdue(self, before: float) -> int | None:
        """Return the event time in µs with which `release` answers all waiting tuples that arrived by `before`.

        Return None if no such tuple waits.
        """
        latest = [
            int(in_us(train, self._time).max()) + 1
            for train in self.waiting
            if float(train.arrival[0]) <= before
        ]
        return max(latest, default=None)

    def restored(self) -> None:
        """Report the size of all rows and waiting tuples to the memory account, after a snapshot was restored."""
        self.holding.set_state(sum(map(train_bytes, self.waiting)))
        self.rows_holding.set_keys(len(self.rows.index), self.rows.index.bytes)
        self.rows_holding.set_state(self.rows.bytes)

    def _times(self, train: Train) -> Times:
        times: Times = train.columns[self._time.place].data
        return times

    def _in_tuples_unit(self, mark: int, causes: Causes) -> tuple[int, Causes]:
        """Convert the rows' watermark to the tuples' unit of time, rounded up.

        If a tuple's event time is below the converted watermark, all rows that the tuple can find have arrived.
        """
        unit, rows_unit = self._time.unit_us, self._rows_time.unit_us
        if unit == rows_unit or mark == NO_PROGRESS:
            return mark, causes
        converted = min(-(-mark * rows_unit // unit), END)
        return converted, (Moment(converted, arrival_of(causes, mark)),) if causes else ()

    def _hear_rows_mark(self, mark: int, causes: Causes) -> Train:
        before = self.upto
        arrived = arrival_of(causes, mark) if causes and mark > before else 0.0
        watermark, causes = self.progress.hear(1, mark, causes)
        out = self._released(arrived) if self.upto > before else None
        self._pass_horizon()
        return self._told(out, watermark, causes)

    def _wait(self, train: Train) -> None:
        admitted = self.holding.admitted(train)
        if len(admitted):
            admitted.watermark, admitted.causes, admitted.late = NO_PROGRESS, (), None
            self.waiting.append(admitted)
            self.holding.set_state(sum(map(train_bytes, self.waiting)))

    def _released(self, arrived: float) -> Train | None:
        """Return the results of tuples that need not wait any more.

        `arrived` is the arrival time of the row that moved the watermark past these tuples; no result has an earlier arrival time.
        """
        ready, left = [], []
        for train in self.waiting:
            is_ready = self._times(train) < self.upto
            if is_ready.all():
                ready.append(train)
                continue
            left.append(train)
            if is_ready.any():
                ready.append(train.take(np.flatnonzero(is_ready)))
                left[-1] = train.take(np.flatnonzero(~is_ready))
        if not ready:
            return None
        self.waiting = left
        self.holding.set_state(sum(map(train_bytes, left)))
        train = merged(ready)
        return self._answers(Train(train.columns, not_before(train.arrival, arrived), train.kept))

    def _pass_horizon(self) -> None:
        """Move `rows` on to the tuples' watermark, or to the event time of the oldest waiting tuple if that is earlier."""
        mark = self.progress.marks[0]
        if mark == NO_PROGRESS:
            return
        for train in self.waiting:
            mark = min(mark, int(self._times(train).min()))
        self.rows.pass_horizon(mark * self._time.unit_us)

    def _told(self, out: Train | None, watermark: int, causes: Causes, late: LateRows | None = None) -> Train:
        if out is None:
            return progress(watermark, causes, late)
        out.watermark, out.causes, out.late = watermark, causes, late
        return out

    def _answers(self, train: Train) -> Train | None:
        out, _ = self._looked_up(train, self.failed)
        return out if len(out) else None

    def _looked_up(self, train: Train, failed: Counter[str]) -> tuple[Train, Places]:
        """Return the joined rows, and for each joined row the position of its tuple in the train."""
        present = key_mask(train, self._keys)
        sources = np.arange(len(train)) if present is None else np.flatnonzero(present)
        probing = train.take(sources)
        keys = [without_mask(probing.columns[key]) for key in self._keys]
        found = self.rows.find(keys, in_us(probing, self._time))
        known = np.flatnonzero(found != NOWHERE)
        sources = sources.take(known)
        columns = [column.take(known) for column in probing.columns] + self.rows.take(found.take(known))
        pairs = Train(tuple(columns), taken(train.arrival, sources), train.kept)
        if self._residual is not None:
            holds = satisfying(pairs, self._residual, failed)
            pairs, sources = pairs.take(holds), sources[holds]
        return (pairs, sources) if self._unmatched is None else self._unmatched.added(train, pairs, sources)


class LookUpOperator(Progressive):
    """Operator that takes the tuples that look up rows."""

    def __init__(self, state: LookUp) -> None:
        self.state, self.holding, self.failed = state, state.holding, state.failed

    def process(self, train: Train) -> Train | None:
        return self.state.hear_tuples(train)

    def snapshot(self) -> Any:
        return self.state.waiting, self.state.progress.snapshot(0)

    def restore(self, state: Any) -> None:
        waiting, mark = state
        self.state.waiting = copy.deepcopy(waiting)
        self.state.progress.restore(0, mark)
        self.state.restored()


class LastRowsOperator(Progressive):
    """Operator that takes the rows that are looked up."""

    def __init__(self, state: LookUp) -> None:
        self.state, self.holding = state, state.rows_holding

    def process(self, train: Train) -> Train | None:
        return self.state.hear_rows(train)

    def snapshot(self) -> Any:
        return vars(self.state.rows), self.state.progress.snapshot(1)

    def restore(self, state: Any) -> None:
        rows, mark = state
        vars(self.state.rows).update(copy.deepcopy(rows))
        self.state.progress.restore(1, mark)
        self.state.restored()


def in_us(train: Train, time: EventTime) -> npt.NDArray[np.int64]:
    """Return the event times of a train in microseconds."""
    times: npt.NDArray[np.int64] = train.columns[time.place].data
    return times if time.unit_us == 1 else times * time.unit_us


def not_before(arrival: Arrivals, moment: float) -> Arrivals:
    """Return the arrival times, with `moment` in place of every earlier time."""
    if is_same(arrival):
        return same_arrival(max(float(arrival[0]), moment), len(arrival))
    return np.maximum(arrival, moment)
