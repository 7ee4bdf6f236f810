"""Conversion of the columns that a producer sends to the columns of a stream. A schema policy says which differences are accepted.

- The policy `reject` accepts none: the producer must send exactly the stream's columns, in any order.
- The policy `ignore` drops sent columns that the stream does not have.
- The policy `addNullable` fills columns that are not sent with NULL, except the event time.

Case is ignored in names. A sent type may differ from the declared type if conversion keeps the meaning of values: a number in
a wider type, a timestamp in another unit, a category as its text. A row without an event time, or with a value that does not
fit its column, is not published but becomes a dead row; all other rows are accepted. All checks work on whole columns.

The producer's event-time column may have another name than the stream's. If the stream declares event time as a number of
milliseconds, timestamps may be sent; they are rounded down to the stream's unit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.gateway.batch_validation import not_accepted
from configs.errors import nearest
from engine.data.schema import DataType, Field, StreamSchema, TypeKind
from services.ingest.deadletters import DeadRows
from services.ingest.messages import SchemaPolicy

NO_EVENT_TIME = "no event time"
DOES_NOT_FIT = "does not fit"

UNIT_NS: Mapping[str, int] = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
US_NS = 1000
INT64_MAX = 2**63 - 1
# Largest integer, by float type, up to which the type represents every integer exactly.
EXACT: Mapping[TypeKind, int] = {TypeKind.FLOAT32: 2**24, TypeKind.FLOAT64: 2**53}


@dataclass(frozen=True, slots=True)
class Conversion:
    """Conversion of values from the Arrow type that a producer sends to the type of a stream's column."""

    convert: Callable[[pa.Array], pa.Array] = lambda array: array
    """Function that converts an array in which all values fit the column."""
    bad: Callable[[pa.Array], pa.Array | None] = lambda array: None
    """Function that marks the values of an array that do not fit the column, or returns None if all values fit."""


@dataclass(frozen=True, slots=True)
class IngestColumn:
    """Column of a stream, with the number of the sent column that supplies its values."""

    field: Field
    source: int | None
    """Index of the sent column; None if the column is filled with NULL."""
    conversion: Conversion
    is_time: bool


@dataclass(frozen=True)
class Mapped:
    """Conversion of all record batches that a producer sends with one schema."""

    arrow: pa.Schema
    columns: Sequence[IngestColumn]

    def take(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, list[DeadRows]]:
        """Return the rows of a valid batch in the stream's schema, and the dead rows, which do not fit the stream."""
        batch, dead = self._set_apart(batch)
        arrays = [
            pa.nulls(batch.num_rows, column.field.type.arrow)
            if column.source is None
            else column.conversion.convert(batch.column(column.source))
            for column in self.columns
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow), dead

    def _set_apart(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, list[DeadRows]]:
        bad_rows = []
        for column in self.columns:
            if column.source is None:
                continue
            array = batch.column(column.source)
            if column.is_time and array.null_count:
                bad_rows.append((NO_EVENT_TIME, column, array.is_null()))
            bad = column.conversion.bad(array)
            if bad is not None:
                bad_rows.append((DOES_NOT_FIT, column, bad.fill_null(False)))
        if not bad_rows:
            return batch, []
        left = pa.array(np.ones(batch.num_rows, bool))
        dead = []
        for reason, column, bad in bad_rows:
            rows = batch.filter(pc.and_(left, bad))
            left = pc.and_not(left, bad)
            if rows.num_rows:
                dead.append(DeadRows(reason, column.field.name, rows))
        return batch.filter(left), dead


def mapped(
    stream: StreamSchema,
    sql: str,
    given: pa.Schema,
    policy: SchemaPolicy | None,
    timestamp_column: str | None,
) -> Mapped:
    """Return the conversion of batches that have the schema `given`; raise NotAccepted if the columns do not match those of the stream.

    Without a policy, the batch does not come from the Spark connector. So the hints in errors name no option of the connector.
    """
    places = places_of(stream, given)
    sources = {field.name.lower(): places.get(field.name.lower()) for field in stream.schema.fields}
    time = None if stream.time is None else stream.schema.fields[stream.time]
    if timestamp_column is not None:
        if time is None:
            what = "a column for the event time was given, but the stream has no event time"
            raise not_accepted(stream, timestamp_column, what, "leave out the option timestampColumn")
        if timestamp_column.lower() not in places:
            what = "the event-time column is not among the sent columns"
            raise not_accepted(stream, timestamp_column, what, nearest(timestamp_column, given.names))
        sources[time.name.lower()] = places[timestamp_column.lower()]
    if policy != "ignore":
        refuse_unknown(stream, sql, given, set(sources.values()), policy)
    columns = []
    for field in stream.schema.fields:
        source, is_time = sources[field.name.lower()], field is time
        if source is None and (is_time or policy != "addNullable"):
            raise missing(stream, field, is_time, policy)
        conversion = Conversion()
        if source is not None:
            conversion = conversion_of(stream, field, given.field(source).type, is_time)
        columns.append(IngestColumn(field, source, conversion, is_time))
    return Mapped(stream.schema.arrow, columns)


def places_of(stream: StreamSchema, given: pa.Schema) -> dict[str, int]:
    places: dict[str, int] = {}
    for place, name in enumerate(given.names):
        if name.lower() in places:
            raise not_accepted(
                stream, name, "two columns of the same name are sent", "send every column once"
            )
        places[name.lower()] = place
    return places


def refuse_unknown(
    stream: StreamSchema, sql: str, given: pa.Schema, used: set[int | None], policy: SchemaPolicy | None
) -> None:
    for place, field in enumerate(given):
        if place in used:
            continue
        drop = "; or drop it with the option schemaPolicy=ignore" if policy else "; or leave the column out"
        hint = nearest(field.name, stream.schema.names) + drop
        if policy == "addNullable":
            column = f"{field.name} {type_text(field.type)}"
            hint = f"drop the stream and declare it with the column: {sql.replace('(', f'({column}, ', 1)}"
        raise not_accepted(stream, field.name, "the stream has no column of this name", hint)


def missing(stream: StreamSchema, field: Field, is_time: bool, policy: SchemaPolicy | None) -> Exception:
    hint = "send the column, or set the option schemaPolicy=addNullable to fill it with NULL"
    if is_time:
        hint = "send the column, or name the event-time column with the option timestampColumn"
    if policy is None:
        hint = "add the column"
    return not_accepted(stream, field.name, f"the column is missing; expected {field.type}", hint)


def type_text(given: pa.DataType) -> str:
    """Return the SQL type of a column that accepts values of this Arrow type, or `…` if no SQL type does."""
    if pa.types.is_decimal(given):
        return f"decimal({given.precision}, {given.scale})"
    if pa.types.is_timestamp(given):
        return "timestamp"
    if is_text(given):
        return "string"
    simple_kinds = (kind for kind in TypeKind if kind is not TypeKind.DECIMAL)
    return next((kind.value for kind in simple_kinds if DataType(kind).arrow == given), "…")


def conversion_of(stream: StreamSchema, field: Field, given: pa.DataType, is_time: bool) -> Conversion:
    target = field.type
    conversion = None
    if pa.types.is_timestamp(given):
        conversion = of_timestamps(given, target, stream.time_unit_us, is_time)
    elif given == target.arrow:
        conversion = Conversion()
    elif pa.types.is_null(given):
        conversion = Conversion(lambda array: pa.nulls(len(array), target.arrow))
    elif target.kind is TypeKind.STRING and is_text(given):
        conversion = Conversion(lambda array: array.cast(pa.string()))
    elif pa.types.is_integer(given):
        conversion = of_integers(given, target)
    elif given in (pa.float16(), pa.float32()) and target.is_float:
        conversion = Conversion(lambda array: array.cast(target.arrow))
    elif pa.types.is_decimal(given) and target.kind is TypeKind.DECIMAL and target.scale >= given.scale:
        conversion = of_decimals(given, target)
    if conversion is None:
        what = f"type {given}; expected {target} ({target.arrow})"
        hint = f"cast the column to {target.arrow}"
        if pa.types.is_timestamp(given) and target.kind is TypeKind.TIMESTAMP:
            hint = "write timestamps with a time zone, as in 2026-11-19T16:10:00Z, or cast them to TIMESTAMP"
        raise not_accepted(stream, field.name, what, hint)
    return conversion


def is_text(given: pa.DataType) -> bool:
    if pa.types.is_dictionary(given):
        return is_text(given.value_type)
    return bool(
        pa.types.is_string(given) or pa.types.is_large_string(given) or pa.types.is_string_view(given)
    )


def of_timestamps(
    given: pa.TimestampType, target: DataType, time_unit_us: int, is_time: bool
) -> Conversion | None:
    """Return the conversion of timestamps to `target`; None if the timestamps have no time zone, or if `target` is not a type for times."""
    if given.tz is None or not (
        target.kind is TypeKind.TIMESTAMP or (is_time and target.kind is TypeKind.INT64)
    ):
        return None
    from_ns = UNIT_NS[given.unit]
    to_ns = time_unit_us * US_NS if is_time else US_NS
    if from_ns == to_ns:
        return Conversion(lambda array: ticks(array).view(target.arrow))
    if from_ns > to_ns:
        factor = from_ns // to_ns
        fits = outside(-(INT64_MAX // factor), INT64_MAX // factor, pa.int64())
        return Conversion(
            lambda array: pc.multiply(ticks(array), factor).view(target.arrow),
            lambda array: fits(ticks(array)),
        )
    parts = to_ns // from_ns
    if is_time:
        # An event-time column has no NULL, because rows without an event time were removed before.
        return Conversion(lambda array: pa.array(ticks(array).to_numpy() // parts).view(target.arrow))
    return Conversion(
        lambda array: pc.divide(ticks(array), parts).view(target.arrow),
        lambda array: some(pc.not_equal(pc.multiply(pc.divide(ticks(array), parts), parts), ticks(array))),
    )


def ticks(array: pa.Array) -> pa.Array:
    return array.view(pa.int64())


def of_integers(given: pa.DataType, target: DataType) -> Conversion | None:
    if target.is_integer:
        most = 2 ** (target.arrow.bit_width - 1) - 1
        return Conversion(lambda array: array.cast(target.arrow), beyond(given, -most - 1, most))
    if target.is_float:
        most = EXACT[target.kind]
        return Conversion(lambda array: array.cast(target.arrow), beyond(given, -most, most))
    if target.kind is TypeKind.DECIMAL:
        most = 10 ** (target.precision - target.scale) - 1
        # Values are cast to a wide decimal first, because Arrow refuses a decimal type that is too narrow for the largest integer.
        wide = pa.decimal128(min(38, 20 + target.scale), target.scale)
        return Conversion(lambda array: array.cast(wide).cast(target.arrow), beyond(given, -most, most))
    return None


def beyond(given: pa.DataType, low: int, high: int) -> Callable[[pa.Array], pa.Array | None]:
    """Return a function that marks those integers of an array that are below `low` or above `high`.

    The function returns None if the type `given` has no such integers.
    """
    bits = given.bit_width
    signed = pa.types.is_signed_integer(given)
    least, most = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    if low <= least and most <= high:
        return lambda array: None
    return outside(max(low, least), min(high, most), given)


def of_decimals(given: pa.DataType, target: DataType) -> Conversion:
    whole = target.precision - target.scale
    if whole >= given.precision - given.scale:
        return Conversion(lambda array: array.cast(target.arrow))
    most = Decimal(10) ** whole - Decimal(10) ** -given.scale
    return Conversion(lambda array: array.cast(target.arrow), outside(-most, most, given))


def outside(
    low: int | Decimal, high: int | Decimal, given: pa.DataType
) -> Callable[[pa.Array], pa.Array | None]:
    least, most = pa.scalar(low, given), pa.scalar(high, given)
    return lambda array: some(pc.or_(pc.less(array, least), pc.greater(array, most)))


def some(mask: pa.Array) -> pa.Array | None:
    return mask if pc.any(mask).as_py() else None
