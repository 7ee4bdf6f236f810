"""Endless replay of files that are stored in memory as Arrow tables.

The replay repeats the n rows of the files for which a condition of `split` holds. One pass through these rows is a lap. Row k of
the replay is row k mod n of a lap, in lap number k div n. The event time of a row depends on the options:

    eventTime=file    time in the file, plus one lap length for each earlier lap. The lap length is the range of the
                      event times plus their mean gap, so that event time continues where the previous lap ended
    eventRate         earliest time in the files, plus k / eventRate seconds
    eventTime=clock   moment at which the row arrives

1. The rows [a, b) are the same in every process, however often they are read.
2. No work is done per row: returned batches are slices of the tables in memory, with at most one column replaced.
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
from pyspark_weir_feeder.problems import FeederError, InvalidOption, nearest

SLICE_ROWS = 65_536
"""Maximum number of rows of a record batch that the replay returns."""
TILE_ROWS = 65_536
"""Minimum number of rows in memory. Shorter laps are stored several times, so that returned batches do not get short."""

Moments = Callable[[int, int], NDArray[np.int64]]
"""Function that returns the event times of the rows [first, end), in µs since 1970."""


@dataclass(frozen=True)
class Recipe:
    """Files, options and columns that determine the rows of a replay."""

    files: tuple[File, ...]
    split: str | None
    schema: pa.Schema
    """Schema of the returned rows."""
    time_column: str | None

    def fingerprint(self) -> str:
        """Return a hash of the files' names and sizes and of the split. The folders of the files do not change the hash."""
        return fingerprint_of(([(file.uri.rsplit("/", 1)[-1], file.size) for file in self.files], self.split))


def fingerprint_of(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]


class Replay:
    def __init__(self, table: pa.Table, time_column: str | None) -> None:
        self.rows = table.num_rows
        """Number of rows of one lap."""
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
        """Yield the rows `first` to `end - 1` of the replay. Event times come from the function `moments` or, without it, from the files."""
        while first < end:
            lap, row = divmod(first, self._tile_rows)
            place = bisect.bisect_right(self._starts, row) - 1
            rows = min(self._starts[place + 1] - row, end - first, SLICE_ROWS)
            batch = self._batches[place].slice(row - self._starts[place], rows)
            if moments is not None:
                assert self._time is not None, "event times need a column to replace"
                times = pa.array(moments(first, first + rows)).view(batch.schema.field(self._time).type)
                batch = self._with_time(batch, times)
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

    def _with_time(self, batch: pa.RecordBatch, times: pa.Array) -> pa.RecordBatch:
        return batch.set_column(self._time, batch.schema.field(self._time), times)


@lru_cache(maxsize=2)
def load(recipe: Recipe) -> Replay:
    """Return the replay of a recipe (files, options and columns). The replay is cached until Spark ends this process."""
    branches = parse_split(recipe.split) if recipe.split else ()
    fields = {field.name: field for field in recipe.schema if not branches or field.name != STREAM_COLUMN}
    names = fields.keys() | {name for branch in branches for name in branch.columns}
    table = read_files(recipe.files, sorted(names), pa.schema(fields.values()))
    if branches:
        table = with_stream(table, branches)
    if not table.num_rows:
        of_split = " for which a condition of split holds" if branches else ""
        raise InvalidOption("path", f"the files contain no rows{of_split}")
    replay = Replay(as_declared(table, recipe.schema), recipe.time_column)
    # Spark's workers collect garbage after each task, which would take 20 ms. So existing objects are exempted from garbage collection.
    gc.freeze()
    return replay


def as_declared(table: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = []
    for field in schema:
        if field.name not in table.column_names:
            raise InvalidOption(
                "columns", f"there is no column {field.name}; {nearest(field.name, table.column_names)}"
            )
        try:
            # Times are truncated to microseconds, because Spark has no finer times.
            column = table[field.name].cast(options=pc.CastOptions(field.type, allow_time_truncate=True))
        except pa.ArrowException as problem:
            raise FeederError(f"column {field.name} cannot be read as {field.type}: {problem}") from problem
        if column.null_count and not field.nullable:
            raise FeederError(f"column {field.name} is declared NOT NULL but has {column.null_count} NULLs")
        columns.append(column)
    return pa.table(columns, schema=schema)


def lap_length(times: pa.ChunkedArray) -> int:
    """Return the length of a lap in event time, in units of the time column. The length is at least 1."""
    count: int = len(times) - times.null_count
    if not count:
        return 1
    bounds = pc.min_max(times)
    reach = integer(bounds["max"]) - integer(bounds["min"])
    return reach + max(1, round(reach / max(1, count - 1)))


def integer(time: pa.Scalar) -> int:
    return int(time.cast(pa.int64()).as_py() or 0)


def later(times: pa.Array, by: int | NDArray[np.int64]) -> pa.Array:
    """Return the event times of a later lap: the event times `times` plus `by`. NULL stays NULL."""
    whole = times.cast(pa.int64())
    return pc.add_checked(whole, by if isinstance(by, int) else pa.array(by)).cast(times.type)
