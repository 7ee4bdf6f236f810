"""Parser of rows for a stream: from a JSON array of objects, from one JSON object per line, or from an Arrow stream.

In JSON, a timestamp is ISO 8601 with a zone or microseconds since 1970, and a decimal is a string or a number. A missing
column is NULL. A row with an error is rejected and counted by reason, and the other rows are taken. A body that cannot be
parsed at all raises NotReadable. Formats that compress are refused, so the rows take only a few times the size of the body.
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
# Maximum number of reasons for rejected rows that are counted separately; further reasons are counted as OTHERS.
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
# Python types that Arrow may convert to a column type without further checks, by column type.
DIRECT: Mapping[TypeKind, frozenset[type]] = {
    TypeKind.BOOLEAN: frozenset({bool, type(None)}),
    TypeKind.INT32: frozenset({int, type(None)}),
    TypeKind.INT64: frozenset({int, type(None)}),
    TypeKind.FLOAT64: frozenset({int, float, type(None)}),
    TypeKind.STRING: frozenset({str, type(None)}),
}
# Arrow types that could expand to much more memory than the body's size; they are refused.
UNPACKING = (
    pa.types.is_dictionary,
    pa.types.is_run_end_encoded,
    pa.types.is_string_view,
    pa.types.is_binary_view,
    pa.types.is_nested,
)


class NotReadable(InvalidInput):
    """Error raised when a body cannot be parsed in its format."""


class TooMany(InvalidInput):
    """Error raised when a body has too many rows."""


@dataclass
class Brought:
    """Parsed rows, and the number of rejected rows by reason."""

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
        raise NotReadable(f"the body is not valid JSON: {problem}", hint="send an array of objects") from None
    if not isinstance(values, list):
        raise NotReadable(
            "the body is not a JSON array", hint="send an array of objects, or NDJSON as application/x-ndjson"
        )
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
    """Return the rows of an Arrow stream with any columns; `RowDelivery` checks the columns later."""
    try:
        for message in pa.ipc.MessageReader.open_stream(body):
            if message.type == "record batch" and not is_plain(message.metadata):
                raise NotReadable("the Arrow batches are compressed", hint="send uncompressed batches")
        with pa.ipc.open_stream(body) as reader:
            check_types(reader.schema)
            brought = Brought()
            for batch in reader:
                check_many(brought.rows + batch.num_rows)
                batch.validate(full=True)
                brought.batches.append(batch)
    except (pa.ArrowException, OSError, ValueError, EOFError, struct.error) as problem:
        what = f"not a valid Arrow stream: {str(problem)[:200]}"
        raise NotReadable(what, hint="send the Arrow IPC stream format") from None
    return brought


def check_many(rows: int) -> None:
    if rows > ROWS_MAX:
        raise TooMany("the request has too many rows", value=rows, hint=f"send at most {ROWS_MAX:,} rows")


def check_types(schema: pa.Schema) -> None:
    for column in schema:
        if any(unpacks(column.type) for unpacks in UNPACKING):
            raise InvalidInput(
                "columns of this type are not supported",
                column.name,
                str(column.type),
                "send columns without nesting, dictionaries or views",
            )


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
    """Return the values of a row by lower-case column name; None if the row is rejected."""
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
    """Return the column and the indexes of the values that do not fit; the column has NULL at these indexes."""
    if set(map(type, values)) <= DIRECT.get(type_.kind, frozenset()):
        try:
            return pa.array(values, type_.arrow), ()
        except (pa.ArrowException, OverflowError):
            pass  # One of the values is too large. The loop over all values finds that value.
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
    if moment_given.tzinfo is None:  # A time without a zone defines no moment, so the value is rejected.
        raise ValueError
    return (moment_given - EPOCH) // MICROSECOND


def typed(value: Any, wanted: type[Value]) -> Value:
    if type(value) is not wanted:
        raise ValueError
    return value


CONVERSIONS: Mapping[TypeKind, Callable[[DataType, Any], Any]] = {
    TypeKind.BOOLEAN: lambda _, value: typed(value, bool),
    TypeKind.INT32: whole,
    TypeKind.INT64: whole,
    TypeKind.FLOAT32: real,
    TypeKind.FLOAT64: real,
    TypeKind.STRING: lambda _, value: typed(value, str),
    TypeKind.DECIMAL: exact,
    TypeKind.TIMESTAMP: moment,
}
