"""Spark readers of a query's rows. The column `_seq` numbers the rows of each unit, which is a shard of the class.

An offset contains, for each unit, the number of the next row to read. A unit that appears later is read from its first row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from pyspark_weir.client import GatewayClient, ShardAnswers
from pyspark_weir.errors import DataLoss, OptionError
from pyspark_weir.options import ReadOptions

Offset = dict[str, int]
LOSS_HINT = "read more often, or set failOnDataLoss=false to continue without the lost rows"


@dataclass
class UnitSpan(InputPartition):
    """Range of the rows of a unit that one task reads."""

    unit: str
    begin: int
    end: int


def schema_of(options: ReadOptions) -> StructType:
    schema = GatewayClient(options.connection).schema(options.class_, options.query)
    return from_arrow_schema(schema.remove_metadata())


class RowsReader:
    """Base class of both readers, which lists the units and reads ranges of their rows."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        # Spark accepts a batch only if its schema is exactly the requested schema.
        self._schema = to_arrow_schema(schema, timezone="UTC")
        self._gateway = GatewayClient(options.connection)

    def units(self) -> list[ShardAnswers]:
        return self._gateway.units(self._options.class_, self._options.query)

    def started(self, units: list[ShardAnswers]) -> Offset:
        match self._options.starting:
            case "earliest":
                return {unit.name: unit.first for unit in units}
            case "latest":
                return {unit.name: unit.next for unit in units}
            case number:
                return {unit.name: min(int(number), unit.next) for unit in units}

    def spans(self, start: Offset, end: Offset) -> list[UnitSpan]:
        begin = dict.fromkeys(end, 0)
        for name in sorted(start.keys() & end.keys()):
            if start[name] <= end[name]:
                begin[name] = start[name]
            else:
                self.lost(
                    f"unit {name}: the gateway has rows up to {end[name]}, but rows up to {start[name]} were read before"
                )
        return [UnitSpan(name, begin[name], end[name]) for name in sorted(end) if begin[name] < end[name]]

    def lost(self, what: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLoss(f"{what}; {LOSS_HINT}", 0)

    def read(self, span: InputPartition) -> Iterator[pa.RecordBatch]:
        # If there is no partition to read, Spark passes a partition without rows, which is not a UnitSpan.
        if not isinstance(span, UnitSpan):
            return
        begin = span.begin
        while begin < span.end:
            try:
                for batch in self._gateway.rows(span.unit, self._options.query, begin, span.end):
                    yield self.shaped(batch)
                return
            except DataLoss as forgotten:
                self.lost(str(forgotten))
                begin = max(forgotten.kept, begin + 1)

    def shaped(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        missing = [name for name in self._schema.names if name not in batch.schema.names]
        if missing:
            raise OptionError(
                f"schema: query {self._options.query} has no column {missing[0]}; "
                f"its columns are {', '.join(batch.schema.names)}"
            )
        columns = [batch.column(field.name).cast(field.type) for field in self._schema]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


class BatchReader(RowsReader, DataSourceReader):
    """Reader of `spark.read.format("weir")`, which returns the rows that the gateway stores when Spark plans the query."""

    def partitions(self) -> list[UnitSpan]:
        units = self.units()
        return self.spans(self.started(units), {unit.name: unit.next for unit in units})


class StreamReader(RowsReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reader of `spark.readStream.format("weir")`."""

    _target: Offset | None = None
    """Offset up to which rows are read with Trigger.AvailableNow; None with other triggers."""

    def initialOffset(self) -> Offset:
        return self.started(self.units())

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.rows_max) if self._options.rows_max else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self.reportLatestOffset()

    def reportLatestOffset(self) -> Offset:
        return {unit.name: unit.next for unit in self.units()}

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        units = self.units()
        target = {unit.name: unit.next for unit in units} if self._target is None else self._target
        # If the gateway does not list a unit at the moment, the offset of the unit stays the same.
        end = {**start, **target}
        if isinstance(limit, ReadMaxRows):
            first = {unit.name: unit.first for unit in units}
            begin = {name: start.get(name, first.get(name, 0)) for name in end}
            return limited(begin, end, limit.max_rows)
        return end

    def partitions(self, start: Offset, end: Offset) -> list[UnitSpan]:
        return self.spans(start, end)


def limited(begin: Offset, end: Offset, rows_max: int) -> Offset:
    """Return the end offset of a micro-batch of at most `rows_max` rows.

    The limit is shared equally between units. If a unit has fewer rows than its part of the limit, other units get more.
    """
    offset: Offset = {}
    in_order = sorted(end, key=lambda name: (end[name] - begin[name], name))
    for place, name in enumerate(in_order):
        part = -(-rows_max // (len(in_order) - place))
        offset[name] = min(end[name], begin[name] + part)
        rows_max -= max(offset[name] - begin[name], 0)
    return offset
