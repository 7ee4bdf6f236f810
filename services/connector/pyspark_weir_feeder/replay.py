"""The endless replay of some files, kept in memory as Arrow.

Row k is row k mod n of the n rows that the files hold (and the split keeps), in lap k div n. Its event time

    file              is the file's, later by a lap's length for every lap; a lap is as long as its event times reach,
                      and the mean gap between two of them, so that event time goes on where the last lap ended
    file, eventRate   is the earliest of the file and k / eventRate seconds
    clock             is the moment at which the row arrives

1. The rows [a, b) are the same whenever, wherever and however often they are asked for.
2. Rows cost nothing one by one: what is given out are slices of what was read, with one column added to.
"""

from __future__ import annotations

import bisect
import gc
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pyspark_weir_feeder.conditions import STREAM_COLUMN, parse_split, with_stream
from pyspark_weir_feeder.files import File, read_files
from pyspark_weir_feeder.problems import InvalidOption, nearest

SLICE_ROWS = 65_536
"""Of a batch that is given out, at most."""
TILE_ROWS = 65_536
"""Fewer rows are kept several times over, so that short laps do not make for short slices."""

Moments = Callable[[int, int], NDArray[np.int64]]
"""Event times of the rows [first, end), in µs since 1970."""


@dataclass(frozen=True)
class Recipe:
    """What fixes the rows."""

    files: tuple[File, ...]
    split: str | None
    schema: pa.Schema
    """Of what is given out."""
    time_column: str | None

    def fingerprint(self) -> str:
        """Of which row is which: the same wherever the files lie."""
        files = [(file.uri.rsplit("/", 1)[-1], file.size) for file in self.files]
        return hashlib.sha256(repr((files, self.split)).encode()).hexdigest()[:16]


class Replay:
    def __init__(self, table: pa.Table, time_column: str | None) -> None:
        self.rows = table.num_rows
        """Of one lap."""
        self._time = None if time_column is None else table.column_names.index(time_column)
        self._lap = 0 if self._time is None else lap_length(table.column(self._time))
        self.earliest = 0 if self._time is None else integer(pc.min(table.column(self._time)))
        copies = -(-TILE_ROWS // self.rows)
        if copies > 1:
            table = self._tiled(table, copies)
        self._tile_rows, self._tile_lap = table.num_rows, self._lap * copies
        self._batches = table.combine_chunks().to_batches()
        self._starts = [0]
        for batch in self._batches:
            self._starts.append(self._starts[-1] + batch.num_rows)

    def batches(self, first: int, end: int, moments: Moments | None = None) -> Iterator[pa.RecordBatch]:
        """The rows [first, end), with the event times of `moments` if there are any."""
        while first < end:
            lap, row = divmod(first, self._tile_rows)
            place = bisect.bisect_right(self._starts, row) - 1
            rows = min(self._starts[place + 1] - row, end - first, SLICE_ROWS)
            batch = self._batches[place].slice(row - self._starts[place], rows)
            if moments is not None:
                batch = self._timed(batch, moments(first, first + rows))
            elif lap and self._time is not None:
                batch = self._with_time(batch, later(batch.column(self._time), lap * self._tile_lap))
            yield batch
            first += rows

    def _tiled(self, table: pa.Table, copies: int) -> pa.Table:
        tiled = table.take(pa.array(np.tile(np.arange(self.rows), copies)))
        if self._time is None:
            return tiled
        laps = np.repeat(np.arange(copies, dtype=np.int64), self.rows) * self._lap
        field = tiled.schema.field(self._time)
        return tiled.set_column(self._time, field, later(tiled.column(self._time), laps))

    def _timed(self, batch: pa.RecordBatch, moments: NDArray[np.int64]) -> pa.RecordBatch:
        assert self._time is not None, "event times are made for a column"
        return self._with_time(batch, pa.array(moments).view(batch.schema.field(self._time).type))

    def _with_time(self, batch: pa.RecordBatch, times: pa.Array) -> pa.RecordBatch:
        return batch.set_column(self._time, batch.schema.field(self._time), times)


@lru_cache(maxsize=2)
def load(recipe: Recipe) -> Replay:
    """Kept between micro-batches, for as long as Spark keeps the process."""
    branches = parse_split(recipe.split) if recipe.split else ()
    fields = {field.name: field for field in recipe.schema if not branches or field.name != STREAM_COLUMN}
    names = fields.keys() | {name for branch in branches for name in branch.columns}
    table = read_files(recipe.files, sorted(names), pa.schema(fields.values()))
    if branches:
        table = with_stream(table, branches)
    if not table.num_rows:
        of_split = " for which a condition of split holds" if branches else ""
        raise InvalidOption.named("path", f"there are no rows{of_split}")
    replay = Replay(as_declared(table, recipe.schema), recipe.time_column)
    # Spark has its workers collect garbage after every task, which takes them 20 ms. All there is now is there to stay.
    gc.freeze()
    return replay


def as_declared(table: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = []
    for field in schema:
        if field.name not in table.column_names:
            raise InvalidOption.named(
                "columns", f"there is no column {field.name}; {nearest(field.name, table.column_names)}"
            )
        try:
            # Spark's times are in microseconds.
            column = table[field.name].cast(options=pc.CastOptions(field.type, allow_time_truncate=True))
        except pa.ArrowException as problem:
            raise InvalidOption(f"column {field.name} cannot be read as {field.type}: {problem}") from problem
        if column.null_count and not field.nullable:
            raise InvalidOption(f"column {field.name} is declared without NULLs but has {column.null_count}")
        columns.append(column)
    return pa.table(columns, schema=schema)


def lap_length(times: pa.ChunkedArray) -> int:
    """In units of the column, at least 1."""
    count: int = len(times) - times.null_count
    if not count:
        return 1
    bounds = pc.min_max(times)
    reach = integer(bounds["max"]) - integer(bounds["min"])
    return reach + max(1, round(reach / max(1, count - 1)))


def integer(time: pa.Scalar) -> int:
    return int(time.cast(pa.int64()).as_py() or 0)


def later(times: pa.Array, by: int | NDArray[np.int64]) -> pa.Array:
    """Event times as they are in a later lap; NULL stays NULL."""
    whole = times.cast(pa.int64())
    return pc.add_checked(whole, by if isinstance(by, int) else pa.array(by)).cast(times.type)
