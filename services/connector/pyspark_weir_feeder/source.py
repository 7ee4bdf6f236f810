"""Spark data source of the feeder: a streaming source with offsets, partitions and readers.

Offsets are computed from the clock and name exact rows. So a micro-batch that Spark repeats has the same rows. Spark creates
readers in several processes: to plan the query, to plan each micro-batch, and in Python workers. Workers keep the files in
memory between micro-batches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from pyspark_weir_feeder.arrivals import Arrivals, schedule_of
from pyspark_weir_feeder.columns import declared_schema, time_column_of
from pyspark_weir_feeder.files import find_files
from pyspark_weir_feeder.offsets import Bounds, Offset, advanced, due, rescheduled, rows_between
from pyspark_weir_feeder.options import Options, Planned, read_options
from pyspark_weir_feeder.problems import ChangedReplay, InvalidOption
from pyspark_weir_feeder.replay import Moments, Recipe, Replay, fingerprint_of, load

PARTITION_ROWS = 1_000_000
"""Maximum number of rows that one task reads. Each task takes some milliseconds, and needs memory for the files."""


class DefaultSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "weir_feeder"

    def schema(self) -> StructType:
        return declared_schema(read_options(self.options))

    def streamReader(self, schema: StructType) -> FeederReader:
        return FeederReader(read_options(self.options), schema)


@dataclass(frozen=True)
class ReplayRows(InputPartition):
    """Range of the rows of the replay that one task reads."""

    first: int
    end: int
    offset: Offset
    """End offset of the micro-batch, which contains the schedule of the rows' arrival."""
    planned: Planned
    """Options that determine the event times of the rows."""
    recipe: Recipe | None
    """Recipe of the rows; None if it equals the recipe of the reader."""


def clock_us() -> int:
    return time.time_ns() // 1_000


class FeederReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: Options, schema: StructType, now_us: Callable[[], int] = clock_us) -> None:
        arrow = to_arrow_schema(schema, timezone="UTC")
        self._options = options
        self._recipe = Recipe(
            files=find_files(options.paths, options.file_format),
            split=options.split,
            schema=arrow,
            time_column=time_column_of(options, arrow),
        )
        self._replay = self._recipe.fingerprint()
        self._arrivals = fingerprint_of(options.arrivals)
        self._planned = options.planned(self._recipe.time_column)
        self._now_us = now_us
        self._initial: Offset | None = None
        self._last: Offset | None = None
        self._stop_us: int | None = None
        """Time in µs up to which rows are read with Trigger.AvailableNow; None with other triggers."""

    def initialOffset(self) -> dict[str, Any]:
        # Spark may ask several times for the initial offset before the first rows are due, and must always get the same offset.
        if self._initial is None:
            self._initial = self._beginning(self._now_us())
        return self._initial.to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable() if self._options.max_rows is None else ReadMaxRows(self._options.max_rows)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        max_rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        self._last = self._scheduled(Offset.from_json(start))
        schedule = schedule_of(self._options.arrivals)
        return advanced(self._last, self._until_us(), schedule, self._bounds(max_rows)).to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        if self._last is None:
            return None
        row = due(self._last, self._until_us(), schedule_of(self._options.arrivals), self._bounds(None))
        return replace(self._last, row=max(row, self._last.row)).to_json()

    def prepareForTriggerAvailableNow(self) -> None:
        self._stop_us = self._now_us()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[ReplayRows]:
        last = Offset.from_json(end)
        recipe = self._recipe_of(last)
        planned = last.planned or self._planned
        if last.planned is None and planned.event_time == "clock" and last.arrivals != self._arrivals:
            raise ChangedReplay(
                "the micro-batch to be repeated was planned with other arrivals, which an older feeder did not store; "
                "set the earlier options arrivals, rate, … and seed until the micro-batch has been repeated"
            )
        rows = rows_between(Offset.from_json(start), last)
        return [
            ReplayRows(first, min(first + PARTITION_ROWS, rows.stop), last, planned, recipe)
            for first in rows[::PARTITION_ROWS]
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, ReplayRows), "partitions() returns ReplayRows only"
        if partition.recipe is None and partition.offset.replay != self._replay:
            raise ChangedReplay(
                "the files have changed since the query began; restore the files, or start with a new checkpoint"
            )
        replay = load(partition.recipe or self._recipe)
        return replay.batches(partition.first, partition.end, moments(replay, partition))

    def _beginning(self, now_us: int) -> Offset:
        return Offset(
            row=0,
            missed=0,
            began_us=now_us,
            base=0,
            arrivals=self._arrivals,
            replay=self._replay,
            planned=self._planned,
        )

    def _scheduled(self, start: Offset) -> Offset:
        """Return the offset `start` for the next micro-batch. If the options have changed, the offset is adapted to the new options."""
        if start.replay != self._replay:
            if start.planned is None or start.planned.has_files_of(self._planned):
                raise other_rows()
            return self._beginning(self._until_us())
        if start.arrivals != self._arrivals:
            start = rescheduled(start, self._until_us(), self._arrivals)
        return replace(start, planned=self._planned)

    def _recipe_of(self, last: Offset) -> Recipe | None:
        """Return the recipe (files, options and columns) of the micro-batch that ends at `last`; None if this reader has the same recipe."""
        if last.replay == self._replay:
            return None
        planned = last.planned
        if planned is None or planned.has_files_of(self._planned):
            raise other_rows()
        where = ",".join(planned.paths)
        try:
            files = find_files(planned.paths, planned.file_format)
        except InvalidOption as problem:
            raise files_gone(where) from problem
        recipe = replace(self._recipe, files=files, split=planned.split, time_column=planned.time_column)
        if recipe.fingerprint() != last.replay:
            raise files_gone(where)
        return recipe

    def _until_us(self) -> int:
        return self._now_us() if self._stop_us is None else self._stop_us

    def _bounds(self, max_rows: int | None) -> Bounds:
        rows = None if self._options.loop else load(self._recipe).rows
        return Bounds(rows, max_rows, self._options.catch_up_s)


def moments(replay: Replay, rows: ReplayRows) -> Moments | None:
    """Return the function that returns the event times of the rows; None if the files contain the event times."""
    planned = rows.planned
    if planned.event_time == "clock":
        return lambda first, end: arrived(planned.arrivals, rows, first, end)
    rate = planned.event_rate
    return None if rate is None else lambda first, end: replay.earliest + evenly(rate, first, end)


def other_rows() -> ChangedReplay:
    return ChangedReplay(
        "the checkpoint does not fit the files: the files have changed, but option path and option split have not; "
        "restore the files, or start with a new checkpoint"
    )


def files_gone(where: str) -> ChangedReplay:
    return ChangedReplay(
        f"the micro-batch to be repeated was planned with the files at {where}, which are gone or have changed; "
        "restore the files until the micro-batch has been repeated, or start with a new checkpoint"
    )


def arrived(arrivals: Arrivals, rows: ReplayRows, first: int, end: int) -> NDArray[np.int64]:
    times = schedule_of(arrivals).times(first - rows.offset.base, end - rows.offset.base)
    return rows.offset.began_us + (times * 1e6).astype(np.int64)


def evenly(rate: float, first: int, end: int) -> NDArray[np.int64]:
    return (np.arange(first, end) * (1e6 / rate)).astype(np.int64)
