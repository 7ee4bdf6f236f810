"""Answers of queries as Arrow, for readers beyond this machine."""

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
# What each row has before its query's columns: its number, and the fraction of the input behind it that was neither shed nor late.
OWN = (pa.field(SEQ, pa.int64(), nullable=False), pa.field(KEPT, pa.float64(), nullable=False))
# Of one message, unless one commit has more.
MESSAGE_ROWS = 50_000
DECIMAL = re.compile(r"decimal\((\d+), (\d+)\)")


@dataclass(eq=False)
class AnswersForgotten(WeirError):
    """The row is no longer kept; `next` is the first after it that is."""

    next: int = 0


@dataclass(frozen=True, slots=True)
class UnitRows:
    """The rows of a query that are kept of one unit."""

    unit: str
    first: int
    next: int
    mark: str
    """Another one when the query has begun anew."""


def units(dirs: RunDirs, class_name: str, query: str) -> list[UnitRows]:
    """One a shard."""
    kept_units = units_of(dirs, class_name)
    if not kept_units:
        raise InvalidInput("no answers of this class are kept on this node", "class", class_name)
    rows = []
    for unit in kept_units:
        reader = AnswerReader(dirs, unit)
        mark = reader.described(query).mark  # there is such a query
        rows.append(UnitRows(unit, *reader.kept(query), mark))
    return rows


def schema_of(dirs: RunDirs, unit: str, query: str) -> pa.Schema:
    """`_seq` and `_kept`, then the query's columns."""
    return schema_with(AnswerReader(dirs, unit).columns(query))


def schema_with(columns: Iterable[tuple[str, str]]) -> pa.Schema:
    return pa.schema([*OWN, *(pa.field(name, arrow_of(kind)) for name, kind in columns)])


def columns_of(schema: pa.Schema) -> list[tuple[str, str]]:
    """The query's, by name and type."""
    return [(field.name, type_text(field.type)) for field in list(schema)[len(OWN) :]]


def rows(dirs: RunDirs, unit: str, query: str, first: int, following: int) -> Iterator[pa.RecordBatch]:
    """The rows with the numbers from `first` up to `following`, each once; RowsForgotten if they are not kept."""
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
    """Of answers that follow one another. One batch: what each costs is more than what its rows do."""
    trains = [answer.train for answer in answers]
    together, first = merged(trains), answers[0].first
    numbers = np.arange(first, first + len(together), dtype=np.int64)
    kept = np.repeat([train.kept for train in trains], [len(train) for train in trains])
    columns = [values_to_arrow(column) for column in together.columns]
    return pa.RecordBatch.from_arrays([numbers, kept, *columns], schema=schema)


def missing(dirs: RunDirs, unit: str, query: str, number: int) -> WeirError:
    kept, following = AnswerReader(dirs, unit).kept(query)
    if number >= following:
        return InvalidInput("there is no such row yet", "to", number, f"there are rows up to {following}")
    what = f"row {number} of {query} is forgotten; next kept is {kept}"
    return AnswersForgotten(what, unit, hint="read on from there, or keep more (results_bytes)", next=kept)


def joined(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """As few as can be."""
    if len(batches) < 2:
        return batches
    joined_batches: list[pa.RecordBatch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined_batches


def arrow_of(kind: str) -> pa.DataType:
    digits = DECIMAL.fullmatch(kind)
    if digits is None:
        return DataType(TypeKind(kind)).arrow
    return DataType(TypeKind.DECIMAL, int(digits[1]), int(digits[2])).arrow
