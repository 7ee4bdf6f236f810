"""Rows that a caller brings, as Arrow: from a JSON array of objects, from objects a line each, or from an Arrow stream.

In JSON a timestamp is ISO 8601 with its zone, or microseconds since 1970; a decimal is a string or a number; a column that is
left out is NULL. A row that cannot be is set apart by its reason, and the others go on. NotReadable is what is no body of
its kind at all. What is accepted takes no more memory than some times what was sent: nothing in it unpacks.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal, DecimalException, Inexact, InvalidOperation
from typing import Any, TypeVar

import orjson
import pyarrow as pa

from actors.gateway.batch_validation import is_plain
from configs.errors import InvalidInput
from engine.data.schema import DataType, StreamSchema, TypeKind

ROWS_MAX = 200_000
# Reasons that are told apart; those of rows beyond are counted as OTHERS.
REASONS_MAX = 50
OTHERS = "other reasons"
NOT_JSON, NOT_AN_OBJECT = "not JSON", "not an object"
UNKNOWN, TWICE, DOES_NOT_FIT = "no such column", "column given twice", "does not fit"
NAME_SHOWN = 80
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
FLOAT32_MAX = 3.4028235e38
EXACT = Context(prec=38, traps=[Inexact, InvalidOperation])
Value = TypeVar("Value")
NOT_A_VALUE = (ValueError, OverflowError, DecimalException)
# What Arrow takes as it is, by what it is to be.
DIRECT: Mapping[TypeKind, frozenset[type]] = {
    TypeKind.BOOLEAN: frozenset({bool, type(None)}),
    TypeKind.INT32: frozenset({int, type(None)}),
    TypeKind.INT64: frozenset({int, type(None)}),
    TypeKind.FLOAT64: frozenset({int, float, type(None)}),
    TypeKind.STRING: frozenset({str, type(None)}),
}
# One value of these may stand for many bytes, or for none.
UNPACKING = (
    pa.types.is_dictionary,
    pa.types.is_run_end_encoded,
    pa.types.is_string_view,
    pa.types.is_binary_view,
    pa.types.is_nested,
)


class NotReadable(InvalidInput):
    """Not a body of its kind."""


class TooMany(InvalidInput):
    """More than one request may bring."""


@dataclass
class Brought:
    """Rows, and how many were set apart why."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    rejected: Counter[str] = field(default_factory=Counter)

    @property
    def rows(self) -> int:
        return sum(batch.num_rows for batch in self.batches)

    def reject(self, reason: str, column: str = "") -> None:
        text = f"{reason}: {column[:NAME_SHOWN]}" if column else reason
        self.rejected[text if text in self.rejected or len(self.rejected) < REASONS_MAX else OTHERS] += 1


def from_json(stream: StreamSchema, body: bytes) -> Brought:
    check_many(body.count(b"{") + body.count(b"["))
    try:
        values = orjson.loads(body)
    except orjson.JSONDecodeError as problem:
        raise NotReadable(f"not valid JSON: {problem}", hint="send an array of objects") from None
    if not isinstance(values, list):
        raise NotReadable("not an array", hint="send an array of objects, or NDJSON as application/x-ndjson")
    check_many(len(values))
    return of_objects(stream, values, Brought())


def from_lines(stream: StreamSchema, body: bytes) -> Brought:
    check_many(max(body.count(b"\n"), body.count(b"{") + body.count(b"[")))
    brought, values = Brought(), []
    for line in body.split(b"\n"):
        if not line.strip():
            continue
        try:
            values.append(orjson.loads(line))
        except orjson.JSONDecodeError:
            brought.reject(NOT_JSON)
    return of_objects(stream, values, brought)


def from_arrow(body: bytes) -> Brought:
    """Whatever columns it has: the stream's door says which of them will do."""
    try:
        for message in pa.ipc.MessageReader.open_stream(body):
            if message.type == "record batch" and not is_plain(message.metadata):
                raise NotReadable("the batches are compressed", hint="send them as they are")
        with pa.ipc.open_stream(body) as reader:
            check_types(reader.schema)
            brought = Brought()
            for batch in reader:
                check_many(brought.rows + batch.num_rows)
                batch.validate(full=True)
                brought.batches.append(batch)
    except (pa.ArrowException, OSError, ValueError, EOFError, struct.error) as problem:
        what = f"not a sound Arrow stream: {str(problem)[:200]}"
        raise NotReadable(what, hint="send the IPC stream format") from None
    return brought


def check_many(rows: int) -> None:
    if rows > ROWS_MAX:
        raise TooMany("too many rows at once", value=rows, hint=f"send {ROWS_MAX:,} at most")


def check_types(schema: pa.Schema) -> None:
    for column in schema:
        if any(unpacks(column.type) for unpacks in UNPACKING):
            raise InvalidInput(
                "columns of that type are not taken", column.name, str(column.type), "send plain values"
            )


# -- objects -----------------------------------------------------------------------------------------------------


def of_objects(stream: StreamSchema, found: Sequence[Any], brought: Brought) -> Brought:
    fields = stream.schema.fields
    names = [column.name.lower() for column in fields]
    rows = [row for row_given in found if (row := row_of(row_given, set(names), brought)) is not None]
    left = [True] * len(rows)
    columns = [
        column_of(column.type, [row.get(name) for row in rows])
        for column, name in zip(fields, names, strict=True)
    ]
    for column, (_, bad) in zip(fields, columns, strict=True):
        for place in bad:
            if left[place]:
                left[place] = False
                brought.reject(DOES_NOT_FIT, column.name)
    batch = pa.RecordBatch.from_arrays([array for array, _ in columns], schema=stream.schema.arrow)
    batch = batch if all(left) else batch.filter(pa.array(left, pa.bool_()))
    if batch.num_rows:
        brought.batches.append(batch)
    return brought


def row_of(one: Any, names: set[str], brought: Brought) -> dict[str, Any] | None:
    """By names in small letters; None if it is none of the stream's."""
    if not isinstance(one, dict):
        brought.reject(NOT_AN_OBJECT)
        return None
    if one.keys() <= names:
        return one
    row = {key.lower(): value for key, value in one.items()}
    unknown = next((key for key in one if key.lower() not in names), None)
    if unknown is not None:
        brought.reject(UNKNOWN, unknown)
        return None
    if len(row) < len(one):
        brought.reject(TWICE)
        return None
    return row


def column_of(type_: DataType, values: Sequence[Any]) -> tuple[pa.Array, Iterable[int]]:
    """The values, and the places of those that do not fit, which are NULL."""
    if set(map(type, values)) <= DIRECT.get(type_.kind, frozenset()):
        try:
            return pa.array(values, type_.arrow), ()
        except (pa.ArrowException, OverflowError):
            pass  # one of them is too large
    convert, converted, bad = CONVERSIONS[type_.kind], [], []
    for place, value in enumerate(values):
        try:
            converted.append(None if value is None else convert(type_, value))
        except NOT_A_VALUE:
            converted.append(None)
            bad.append(place)
    if type_.kind is TypeKind.TIMESTAMP:
        return pa.array(converted, pa.int64()).view(type_.arrow), bad
    return pa.array(converted, type_.arrow), bad


def boolean(_: DataType, value: Any) -> bool:
    return typed(value, bool)


def whole(type_: DataType, value: Any) -> int:
    number = typed(value, int)
    most = 1 << (31 if type_.kind is TypeKind.INT32 else 63)
    if not -most <= number < most:
        raise ValueError
    return number


def real(type_: DataType, value: Any) -> float:
    number = float(value) if type(value) in (int, float) else typed(value, float)
    is_changed = isinstance(value, int) and int(number) != value
    if is_changed or (type_.kind is TypeKind.FLOAT32 and abs(number) > FLOAT32_MAX):
        raise ValueError
    return number


def text(_: DataType, value: Any) -> str:
    return typed(value, str)


def exact(type_: DataType, value: Any) -> Decimal:
    if type(value) not in (str, int, float):
        raise ValueError
    number = EXACT.quantize(Decimal(str(value)), Decimal(1).scaleb(-type_.scale))
    if abs(number) >= Decimal(10) ** (type_.precision - type_.scale):
        raise ValueError
    return number


def moment(type_: DataType, value: Any) -> int:
    if type(value) is int:
        return whole(type_, value)
    moment_given = datetime.fromisoformat(typed(value, str))
    if moment_given.tzinfo is None:  # no moment
        raise ValueError
    return (moment_given - EPOCH) // MICROSECOND


def typed(value: Any, wanted: type[Value]) -> Value:
    if type(value) is not wanted:
        raise ValueError
    return value


CONVERSIONS: Mapping[TypeKind, Callable[[DataType, Any], Any]] = {
    TypeKind.BOOLEAN: boolean,
    TypeKind.INT32: whole,
    TypeKind.INT64: whole,
    TypeKind.FLOAT32: real,
    TypeKind.FLOAT64: real,
    TypeKind.STRING: text,
    TypeKind.DECIMAL: exact,
    TypeKind.TIMESTAMP: moment,
}
