"""Train: tuples of one schema that an operator takes in one call.

Columns are numpy arrays (Arrow arrays for strings) of equal length. A column without NULLs, which is the common and fast
case, has no mask `valid`. The data under a NULL is an arbitrary value of the type and must not be used.

`arrival` is when each tuple, or the tuple that caused it, arrived in the system. `kept` is the fraction of input that was
kept at that time. After this train, event time is complete up to `watermark`, in the unit of the stream's time column.
`causes` are the steps that led to the watermark. A train without tuples can carry this progress alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engine.data.schema import DataType, Field, Schema, TypeKind
from engine.data.watermark_causes import NO_PROGRESS, Causes

Mask = npt.NDArray[np.bool_]
Places = npt.NDArray[np.intp]


@dataclass(slots=True)
class Values:
    """Values of one column."""

    type: DataType
    # Array of numpy, or of Arrow if the values are strings; `engine.data.schema` lists the types.
    data: Any
    valid: Mask | None = None

    def __len__(self) -> int:
        return len(self.data)

    def take(self, places: Places) -> Values:
        data = (
            self.data.take(pa.array(places)) if self.type.kind is TypeKind.STRING else self.data.take(places)
        )
        return Values(self.type, data, None if self.valid is None else self.valid.take(places))

    def slice(self, start: int, stop: int) -> Values:
        return Values(
            self.type, self.data[start:stop], None if self.valid is None else self.valid[start:stop]
        )


@dataclass(slots=True)
class LateRows:
    """Rows that were late or were dropped from a queue; windows count these rows as missing."""

    columns: tuple[Values, ...]
    behind: npt.NDArray[np.int64]
    """Watermark that each row was behind when it arrived."""
    offered: npt.NDArray[np.float64]
    """Number of rows before shedding that each row stands for."""
    shed: Mask
    """True for rows that were dropped from a queue, false for late rows."""

    def __len__(self) -> int:
        return len(self.behind)

    @property
    def dropped(self) -> float:
        """Number of dropped rows, counted before shedding."""
        return float(self.offered[self.shed].sum())

    def take(self, places: Places) -> LateRows:
        columns = tuple([column.take(places) for column in self.columns])
        return LateRows(columns, self.behind.take(places), self.offered.take(places), self.shed.take(places))

    def as_train(self) -> Train:
        """Return the rows as a train for operators to compute with; their arrival times are 0."""
        return Train(self.columns, same_arrival(0.0, len(self)))

    def became(self, train: Train, sources: Places) -> LateRows:
        """Return the late rows that an operator computed from the rows of this object; `train` has the columns of the new rows.

        `sources` has, for each new row, the position of the row from which it was computed.
        """
        return replace(self.take(sources), columns=train.columns)


@dataclass(slots=True)
class Train:
    """Tuples of one schema, with their arrival times."""

    columns: tuple[Values, ...]
    arrival: npt.NDArray[np.float64]
    kept: float = 1.0
    watermark: int = NO_PROGRESS
    causes: Causes = ()
    late: LateRows | None = None
    """Rows that are missing among these tuples; they travel with the progress to the next windows."""

    def __len__(self) -> int:
        return len(self.arrival)

    def with_columns(self, columns: tuple[Values, ...]) -> Train:
        """Return the train with these columns in place of its present columns."""
        return Train(columns, self.arrival, self.kept, self.watermark, self.causes)

    def take(self, places: Places) -> Train:
        """Return the tuples at these positions, with the event-time progress of the whole train."""
        return Train(
            tuple([column.take(places) for column in self.columns]),
            taken(self.arrival, places),
            self.kept,
            self.watermark,
            self.causes,
            late=self.late,
        )

    def slice(self, start: int, stop: int) -> Train:
        """Return a part of the train; only the part with the last tuple carries the event-time progress."""
        columns = tuple(column.slice(start, stop) for column in self.columns)
        part = Train(columns, self.arrival[start:stop], self.kept)
        if stop >= len(self):
            part.watermark, part.causes, part.late = self.watermark, self.causes, self.late
        return part


Arrivals = npt.NDArray[np.float64]


def same_arrival(arrival: float, tuples: int) -> Arrivals:
    """Return an array that repeats one arrival time without using memory; `is_same` recognises such an array."""
    # np.broadcast_to would make the same array, but takes several times as long.
    return np.ndarray(tuples, np.float64, np.float64(arrival).tobytes(), strides=(0,))


def is_same(arrival: Arrivals) -> bool:
    """Return True for an array made by `same_arrival`, without reading its values."""
    return arrival.strides[0] == 0 and len(arrival) > 0


def taken(arrival: Arrivals, places: Places) -> Arrivals:
    if not is_same(arrival):
        return arrival.take(places)
    return arrival[: len(places)] if len(places) <= len(arrival) else same_arrival(arrival[0], len(places))


def progress(watermark: int, causes: Causes, late: LateRows | None = None) -> Train:
    """Return an empty train, which carries the progress of event time and perhaps late rows."""
    return Train((), np.empty(0), 1.0, watermark, causes, late=late)


def late_together(first: LateRows | None, second: LateRows | None) -> LateRows | None:
    """Return the late rows of two trains of one schema."""
    if first is None or second is None:
        return first or second
    return all_late([first, second])


def all_late(parts: Sequence[LateRows]) -> LateRows:
    """Return the late rows of several trains as one object, in the order of the trains."""
    columns = tuple(joined(column) for column in zip(*(part.columns for part in parts), strict=True))
    return LateRows(
        columns,
        np.concatenate([part.behind for part in parts]),
        np.concatenate([part.offered for part in parts]),
        np.concatenate([part.shed for part in parts]),
    )


def dropped_rows(train: Train) -> LateRows:
    """Return the tuples of a train as dropped rows.

    For example, if the kept fraction of the train is 0.5, each dropped row stands for two rows before shedding.
    """
    rows = len(train)
    each = stands_for(train.kept)
    return LateRows(
        train.columns, np.full(rows, NO_PROGRESS), np.full(rows, each), np.ones(rows, dtype=np.bool_)
    )


def thinned(late: LateRows, most: int) -> LateRows:
    """Return at most `most` rows that stand for all rows.

    As long as there are too many rows, each second row is removed, and the row before it counts for both.
    """
    while len(late) > most:
        places = np.arange(0, len(late), 2)
        late = replace(late.take(places), offered=np.add.reduceat(late.offered, places))
    return late


def counting_dropped(train: Train) -> Train:
    """Return the train with its dropped rows counted in its kept fraction.

    Operators that read the train need this fraction if none of them is a window, because only windows count dropped rows.
    """
    dropped = 0.0 if train.late is None or not len(train) else train.late.dropped
    if not dropped:
        return train
    kept = len(train) / (len(train) * stands_for(train.kept) + dropped)
    return replace(train, kept=kept, late=None)


def stands_for(kept: float) -> float:
    """Return the number of tuples before shedding for each kept tuple."""
    return 1 / kept if kept > 0 else 1.0


def values_from_arrow(array: pa.Array, type_: DataType) -> Values:
    """Convert an Arrow array to values of a type; for most types, an array without NULLs is not copied."""
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
    valid = None if array.null_count == 0 else np.asarray(array.is_valid())
    match type_.kind:
        case TypeKind.STRING:
            return Values(type_, array if valid is None else array.fill_null(""), valid)
        case TypeKind.DECIMAL:
            # Only the lower 64 of the 128 bits are used, because a decimal of 18 digits fits into them.
            halves = np.frombuffer(array.buffers()[1] or b"", np.int64)
            return Values(type_, halves[2 * array.offset : 2 * (array.offset + len(array)) : 2].copy(), valid)
        case TypeKind.TIMESTAMP:
            array = array.cast(type_.arrow).view(pa.int64())
        case TypeKind.BOOLEAN:
            filled = array if valid is None else array.fill_null(False)
            return Values(type_, filled.to_numpy(zero_copy_only=False), valid)
    filled = array if valid is None else array.fill_null(0)
    return Values(type_, filled.to_numpy(zero_copy_only=False), valid)


def values_to_arrow(values: Values) -> pa.Array:
    mask = None if values.valid is None else ~values.valid
    match values.type.kind:
        case TypeKind.STRING:
            if mask is None:
                return values.data
            return pc.if_else(pa.array(values.valid), values.data, pa.scalar(None, pa.string()))
        case TypeKind.DECIMAL:
            # All upper 64 of the 128 bits are copies of the sign bit.
            halves = np.stack([values.data, values.data >> 63], axis=1)
            found = pa.Array.from_buffers(values.type.arrow, len(values), [None, pa.py_buffer(halves)])
            return found if mask is None else pc.if_else(pa.array(values.valid), found, None)
        case TypeKind.TIMESTAMP:
            return pa.array(values.data, pa.int64(), mask=mask).view(values.type.arrow)
    return pa.array(values.data, values.type.arrow, mask=mask)


def train_from_arrow(
    batch: pa.RecordBatch | pa.Table,
    schema: Schema,
    arrival: npt.NDArray[np.float64] | float,
    kept: float = 1.0,
) -> Train:
    """Return a train of the batch's columns in the schema's order; `arrival` is one time for all rows, or one per row."""
    columns = tuple(values_from_arrow(batch.column(field.name), field.type) for field in schema.fields)
    times = same_arrival(arrival, batch.num_rows) if isinstance(arrival, float) else arrival
    return Train(columns, times, kept)


def train_to_arrow(train: Train, schema: Schema) -> pa.RecordBatch:
    arrays = [values_to_arrow(column) for column in train.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=schema.arrow)


def concatenated(trains: Sequence[Train], schema: Schema) -> Train:
    """Return the tuples of several trains as one train, in the order of the trains; the caller must set the watermark and its causes."""
    return merged(trains) if trains else empty_train(schema)


def merged(trains: Sequence[Train]) -> Train:
    """Return the tuples of one or more trains as one train; the result has a watermark only if there is one train."""
    first = trains[0]
    if len(trains) == 1:
        return first
    columns = tuple(joined([train.columns[place] for train in trains]) for place in range(len(first.columns)))
    arrival = joined_arrivals([train.arrival for train in trains])
    return Train(columns, arrival, min(train.kept for train in trains))


def joined_arrivals(parts: Sequence[Arrivals]) -> Arrivals:
    if all(is_same(part) and part[0] == parts[0][0] for part in parts):
        return same_arrival(parts[0][0], sum(map(len, parts)))
    return np.concatenate(parts)


def joined(parts: Sequence[Values]) -> Values:
    first = parts[0]
    if first.type.kind is TypeKind.STRING:
        data: Any = pa.concat_arrays([cast(pa.Array, part.data) for part in parts])
    else:
        data = np.concatenate([part.data for part in parts])
    if all(part.valid is None for part in parts):
        return Values(first.type, data)
    valid = np.concatenate([np.ones(len(part), bool) if part.valid is None else part.valid for part in parts])
    return Values(first.type, data, valid)


def empty_train(schema: Schema) -> Train:
    return Train(tuple(empty_values(field) for field in schema.fields), np.empty(0))


def empty_values(field: Field) -> Values:
    if field.type.kind is TypeKind.STRING:
        return Values(field.type, pa.array([], pa.string()))
    return Values(field.type, np.empty(0, field.type.numpy))
