"""Answers of queries as Arrow batches, for readers on other machines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from actors.host.answer_reader import AnswerReader, units_of
from actors.runtime.run_dirs import RunDirs
from configs.errors import InvalidInput, WeirError
from engine.class_.steps import Answer
from engine.data.schema import DataType, TypeKind
from engine.data.train import merged, values_to_arrow
from services.ingest.columns import type_text

SEQ, KEPT = "_seq", "_kept"
# Columns that precede the query's own columns: the row's number (_seq), and the fraction of its input that was kept (_kept).
OWN = (pa.field(SEQ, pa.int64(), nullable=False), pa.field(KEPT, pa.float64(), nullable=False))
# Number of rows at which a message is complete; rows that a class committed together are never divided between messages.
MESSAGE_ROWS = 50_000
DECIMAL = re.compile(r"decimal\((\d+), (\d+)\)")


@dataclass(eq=False)
class AnswersForgotten(WeirError):
    """Error for a requested row that is no longer kept; `next` is the number of the first later row that is kept."""

    next: int = 0


@dataclass(frozen=True, slots=True)
class UnitRows:
    """Range of the rows of a query that one unit still keeps."""

    unit: str
    first: int
    next: int
    mark: str
    """Identifier of these answers, which changes when the query is declared again and its rows are numbered from the start."""


def units(dirs: RunDirs, class_name: str, query: str) -> list[UnitRows]:
    """Return the kept rows of the query in each shard of the class."""
    kept_units = units_of(dirs, class_name)
    if not kept_units:
        raise InvalidInput("this node keeps no answers of this class", "class", class_name)
    rows = []
    for unit in kept_units:
        reader = AnswerReader(dirs, unit)
        mark = reader.described(query).mark  # called only to raise an error if the query is unknown
        rows.append(UnitRows(unit, *reader.kept(query), mark))
    return rows


def schema_of(dirs: RunDirs, unit: str, query: str) -> pa.Schema:
    """Return the schema of the answers: `_seq` and `_kept`, then the query's columns."""
    return schema_with(AnswerReader(dirs, unit).columns(query))


def schema_with(columns: Iterable[tuple[str, str]]) -> pa.Schema:
    return pa.schema([*OWN, *(pa.field(name, arrow_of(kind)) for name, kind in columns)])


def columns_of(schema: pa.Schema) -> list[tuple[str, str]]:
    """Return name and type of the query's own columns, without `_seq` and `_kept`."""
    return [(field.name, type_text(field.type)) for field in list(schema)[len(OWN) :]]


def rows(dirs: RunDirs, unit: str, query: str, first: int, following: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows from `first` up to, not including, `following`, each once; raise AnswersForgotten if a row is not kept."""
    schema, expected = schema_of(dirs, unit, query), first
    gathered: list[pa.RecordBatch] = []
    for answer in AnswerReader(dirs, unit).answers(query, first - 1) if first < following else ():
        if answer.first > expected:
            break
        gathered.append(batch_of([answer], schema).slice(0, following - expected))
        expected += gathered[-1].num_rows
        if sum(batch.num_rows for batch in gathered) >= MESSAGE_ROWS:
            yield from joined(gathered)
            gathered = []
        if expected == following:
            break
    yield from joined(gathered)
    if expected < following:
        raise missing(dirs, unit, query, expected)


def batch_of(answers: Sequence[Answer], schema: pa.Schema) -> pa.RecordBatch:
    """Return consecutive answers as one batch, because the fixed cost of a batch exceeds the cost of its rows."""
    trains = [answer.train for answer in answers]
    together, first = merged(trains), answers[0].first
    numbers = np.arange(first, first + len(together), dtype=np.int64)
    kept = np.repeat([train.kept for train in trains], [len(train) for train in trains])
    columns = [values_to_arrow(column) for column in together.columns]
    return pa.RecordBatch.from_arrays([numbers, kept, *columns], schema=schema)


def missing(dirs: RunDirs, unit: str, query: str, number: int) -> WeirError:
    kept, following = AnswerReader(dirs, unit).kept(query)
    if number >= following:
        return InvalidInput(
            "the query has not answered this row yet", "to", number, f"ask for rows up to {following}"
        )
    what = f"row {number} of {query} is no longer kept; the first kept row is {kept}"
    return AnswersForgotten(
        what, unit, hint="continue from that row, or raise results_bytes to keep more rows", next=kept
    )


def joined(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Return the rows in as few batches as possible."""
    if len(batches) < 2:
        return batches
    joined_batches: list[pa.RecordBatch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined_batches


def arrow_of(kind: str) -> pa.DataType:
    digits = DECIMAL.fullmatch(kind)
    if digits is None:
        return DataType(TypeKind(kind)).arrow
    return DataType(TypeKind.DECIMAL, int(digits[1]), int(digits[2])).arrow
