"""Answers of queries as Arrow batches, which the Flight server sends to readers on other machines."""

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
# The two columns before the columns of the query. `_seq` is the number of the answer row.
# `_kept` is the fraction of an answer's input rows that were neither dropped nor late.
OWN = (pa.field(SEQ, pa.int64(), nullable=False), pa.field(KEPT, pa.float64(), nullable=False))
# A message to a reader is sent as soon as the message has this many answer rows.
# A message may have more rows, because rows that a class committed together stay together.
MESSAGE_ROWS = 50_000
DECIMAL = re.compile(r"decimal\((\d+), (\d+)\)")


@dataclass(eq=False)
class AnswersForgotten(WeirError):
    """Error for a requested row that is no longer stored. The field `next` is the number of the first stored row."""

    next: int = 0


@dataclass(frozen=True, slots=True)
class UnitRows:
    """Range of a query's rows that one unit still stores."""

    unit: str
    first: int
    next: int
    mark: str
    """Identifier of the query's answers. A query that is declared again has a new identifier, and its rows are numbered from 0."""


def units(dirs: RunDirs, class_name: str, query: str) -> list[UnitRows]:
    """Return the range of the query's rows that each unit of the class still stores."""
    kept_units = units_of(dirs, class_name)
    if not kept_units:
        raise InvalidInput("this node keeps no answers of this class", "class", class_name)
    rows = []
    for unit in kept_units:
        reader = AnswerReader(dirs, unit)
        rows.append(UnitRows(unit, *reader.kept(query), reader.described(query).mark))
    return rows


def schema_of(dirs: RunDirs, unit: str, query: str) -> pa.Schema:
    """Return the schema of a query's answers: `_seq` and `_kept`, then the columns of the query."""
    return schema_with(AnswerReader(dirs, unit).columns(query))


def schema_with(columns: Iterable[tuple[str, str]]) -> pa.Schema:
    return pa.schema([*OWN, *(pa.field(name, arrow_of(kind)) for name, kind in columns)])


def columns_of(schema: pa.Schema) -> list[tuple[str, str]]:
    """Return the names and types of the query's columns, without `_seq` and `_kept`."""
    return [(field.name, type_text(field.type)) for field in list(schema)[len(OWN) :]]


def rows(dirs: RunDirs, unit: str, query: str, first: int, following: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows numbered `first` to `following - 1`; raise AnswersForgotten if a row is no longer stored."""
    schema, expected = schema_of(dirs, unit, query), first
    gathered: list[pa.RecordBatch] = []
    for answer in AnswerReader(dirs, unit).answers(query, first - 1) if first < following else ():
        if answer.first > expected:
            break
        gathered.append(batch_of([answer], schema).slice(0, following - expected))
        expected += gathered[-1].num_rows
        if sum(batch.num_rows for batch in gathered) >= MESSAGE_ROWS:
            yield from joined(gathered, schema)
            gathered = []
        if expected == following:
            break
    yield from joined(gathered, schema)
    if expected < following:
        raise missing(dirs, unit, query, expected)


def batch_of(answers: Sequence[Answer], schema: pa.Schema) -> pa.RecordBatch:
    """Return consecutive answers as one record batch. Fewer batches are faster, because each batch has a fixed cost."""
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
            "the query has not returned this row yet", "to", number, f"ask for rows up to {following}"
        )
    what = f"row {number} of {query} is no longer kept; the first kept row is {kept}"
    hint = f"continue from row {kept}, or raise results_bytes to keep more rows"
    return AnswersForgotten(what, unit, hint=hint, next=kept)


def joined(batches: list[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the batches in as few batches as possible."""
    yield from pa.Table.from_batches(batches, schema).combine_chunks().to_batches()


def arrow_of(kind: str) -> pa.DataType:
    digits = DECIMAL.fullmatch(kind)
    if digits is None:
        return DataType(TypeKind(kind)).arrow
    return DataType(TypeKind.DECIMAL, int(digits[1]), int(digits[2])).arrow
