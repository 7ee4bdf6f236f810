"""Inference of the columns, types and event time of an undeclared stream from a file of rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from configs.errors import InvalidInput, UnknownName, nearest
from engine.data.schema import DECIMAL_DIGITS_MAX, TIMESTAMP, DataType, Field, Schema, StreamSchema, TypeKind
from engine.sql import PlanningError, parse_create_stream
from engine.sql.create import LATENESS_MAX_US, MILLISECOND_US
from engine.sql.windows import told

SECOND_US = 1_000_000
SMALL_INTEGERS = ("int8", "int16", "uint8", "uint16")


@dataclass(frozen=True)
class Inferred:
    """Inferred stream, and its rows in types that streams support."""

    stream: StreamSchema
    rows: pa.Table
    left_out: Mapping[str, str]
    """Types of the columns that are left out because streams do not support them, by column."""


def infer(name: str, table: pa.Table, time: str | None) -> Inferred:
    """Return the stream that fits the rows of a file. The event time of the stream is the column `time`, or else the only timestamp column."""
    rows, left_out = fitting(table)
    check_names(name, rows)
    place = time_place(name, rows.schema, time)
    if place is not None and pa.types.is_integer(rows.schema.field(place).type):
        column = rows.schema.field(place).name
        rows = rows.set_column(place, column, rows.column(place).cast(pa.int64()))
    schema = Schema(tuple(Field(field.name, type_of(field.type, field.name)) for field in rows.schema))
    if place is None:
        return Inferred(StreamSchema(name, schema), rows, left_out)
    unit_us = 1 if schema.fields[place].type == TIMESTAMP else MILLISECOND_US
    lateness_us = disorder_us(rows.column(place), unit_us)
    return Inferred(StreamSchema(name, schema, place, lateness_us, unit_us), rows, left_out)


def check_names(name: str, rows: pa.Table) -> None:
    """Raise InvalidInput if there are no columns, or if two names differ only in case."""
    if not rows.column_names:
        raise InvalidInput(
            "the file has no column of a type that streams support",
            f"--input {name}",
            hint="write columns of numbers, texts, booleans or timestamps",
        )
    names: set[str] = set()
    for column in rows.column_names:
        if column.lower() in names:
            raise InvalidInput(
                "two columns have the same name", f"--input {name}", column, "rename one of the two columns"
            )
        names.add(column.lower())


def time_place(name: str, schema: pa.Schema, time: str | None) -> int | None:
    """Return the index of the event time: the column `time`, or else the only timestamp column, if any."""
    option = f"--time {name}.{time}"
    if time is not None:
        for place, field in enumerate(schema):
            if field.name.lower() != time.lower():
                continue
            if pa.types.is_timestamp(field.type) or pa.types.is_integer(field.type):
                return place
            hint = "name a column of timestamps, or of integers with milliseconds since 1970"
            raise InvalidInput(
                "this column cannot be the event time, because it contains no times",
                option,
                str(field.type),
                hint,
            )
        raise UnknownName("the file has no column of this name", option, None, nearest(time, schema.names))
    candidates = [place for place, field in enumerate(schema) if pa.types.is_timestamp(field.type)]
    if len(candidates) > 1:
        names = [schema.field(place).name for place in candidates]
        hint = "choose the event time: " + " or ".join(f"--time {name}.{column}" for column in names)
        raise InvalidInput(
            "the file has several columns of timestamps, so the event time must be chosen",
            f"--input {name}",
            ", ".join(names),
            hint,
        )
    return candidates[0] if candidates else None


def disorder_us(times: pa.ChunkedArray, unit_us: int) -> int:
    """Return the longest time by which a row is older than a row before it, rounded up to a whole second or millisecond."""
    times_us = times.drop_null().cast(pa.int64()).to_numpy()
    if not len(times_us):
        return 0
    behind_us = int((np.maximum.accumulate(times_us) - times_us).max()) * unit_us
    unit = SECOND_US if behind_us >= SECOND_US else MILLISECOND_US
    return min(math.ceil(behind_us / unit) * unit, LATENESS_MAX_US)


def create_stream(stream: StreamSchema) -> str:
    """Return the CREATE STREAM statement of a stream."""
    lines = [f"{quoted(field.name)} {field.type}" for field in stream.schema.fields]
    if stream.time is not None:
        time = quoted(stream.schema.fields[stream.time].name)
        behind = f" - INTERVAL '{told(stream.lateness_us).lower()}'" if stream.lateness_us else ""
        lines.append(f"WATERMARK FOR {time} AS {time}{behind}")
    columns = ",\n  ".join(lines)
    return f"CREATE STREAM {quoted(stream.name)} (\n  {columns}\n);"


def quoted(name: str) -> str:
    """Return a name as SQL text, in double quotes if the name needs quotes."""
    if name.isidentifier() and name.upper() != "WATERMARK":
        try:
            behind = f"{name} - INTERVAL '1 second'"
            parse_create_stream(f"CREATE STREAM {name} ({name} int32, WATERMARK FOR {name} AS {behind})")
        except PlanningError as problem:
            if not problem.title.startswith("event time"):
                return '"' + name + '"'
        return name
    return '"' + name.replace('"', '""') + '"'


def fitting(table: pa.Table) -> tuple[pa.Table, Mapping[str, str]]:
    """Return the table converted to supported types, and the types of columns that cannot be converted."""
    names, columns, left_out = list[str](), list[pa.ChunkedArray](), dict[str, str]()
    for field, column in zip(table.schema, table.columns, strict=True):
        converted = fitted(column)
        if converted is None:
            left_out[field.name] = str(field.type)
        else:
            names.append(field.name)
            columns.append(converted)
    return pa.Table.from_arrays(columns, names=names), left_out


def fitted(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Return the column in a type that streams support; None if there is no such type."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    type_ = column.type
    if pa.types.is_timestamp(type_) or pa.types.is_date(type_):
        # Timestamps of streams have microseconds, so smaller fractions of a second are removed.
        return pc.cast(
            pc.cast(column, pa.timestamp("us", tz=getattr(type_, "tz", None)), safe=False), TIMESTAMP.arrow
        )
    if pa.types.is_time(type_) or pa.types.is_null(type_) or pa.types.is_large_string(type_):
        return column.cast(pa.string())
    if str(type_) in SMALL_INTEGERS:
        return column.cast(pa.int32())
    if str(type_) in ("uint32", "uint64"):
        return first_cast(column, pa.int64(), pa.float64())
    if pa.types.is_float16(type_):
        return column.cast(pa.float32())
    if pa.types.is_decimal(type_) and (
        type_.precision > DECIMAL_DIGITS_MAX or not pa.types.is_decimal128(type_)
    ):
        scale = min(type_.scale, DECIMAL_DIGITS_MAX)
        return first_cast(column, pa.decimal128(DECIMAL_DIGITS_MAX, scale), pa.float64())
    return column if kind_of(type_) is not None else None


def first_cast(column: pa.ChunkedArray, *types: pa.DataType) -> pa.ChunkedArray:
    """Return the column in the first type of the list that can hold all of its values; the last type of the list can hold any value."""
    for type_ in types[:-1]:
        try:
            return column.cast(type_)
        except pa.ArrowInvalid:
            continue
    return column.cast(types[-1])


def kind_of(arrow: pa.DataType) -> DataType | None:
    """Return Weir's type for an Arrow type; None if there is no such type."""
    if pa.types.is_decimal128(arrow):
        return DataType(TypeKind.DECIMAL, arrow.precision, arrow.scale)
    if pa.types.is_timestamp(arrow):
        return TIMESTAMP
    names = {"bool": "boolean", "float": "float32", "double": "float64"}
    kind = names.get(str(arrow), str(arrow))
    return DataType(TypeKind(kind)) if kind in set(TypeKind) and kind != TypeKind.DECIMAL else None


def type_of(arrow: pa.DataType, column: str) -> DataType:
    """Return Weir's type for an Arrow type, or raise InvalidInput."""
    type_ = kind_of(arrow)
    if type_ is None:
        raise InvalidInput(
            "a column of the table has a type that tables do not support",
            column,
            str(arrow),
            "cast the column to another type",
        )
    return type_


def times_of(options: Sequence[str]) -> Mapping[str, str]:
    """Return the columns of `--time` options by lower-case stream name; a column without a stream is under ""."""
    times: dict[str, str] = {}
    for option in options:
        stream, _, column = option.rpartition(".")
        if not column:
            raise InvalidInput(
                "the value must be COLUMN or STREAM.COLUMN", "--time", option, "for example --time ts"
            )
        times[stream.lower()] = column
    return times
