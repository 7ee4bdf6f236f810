"""From the columns that a producer sends to those of the stream.

    reject        the same columns in any order
    ignore        what the stream does not have is dropped
    addNullable   what is not sent is NULL, but never the event time

Names are without regard to case. Types may differ where every value that fits keeps its meaning: a number in a wider
type, a timestamp in another unit, a category as its text. A row with a value that does not fit, or without an event
time, is set apart; the others go on. All of this is decided for whole columns: no row is looked at by itself.

The event time may have another name, and be a timestamp where the stream counts milliseconds: what is finer than the
stream's unit is cut off.
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
# Whole numbers up to here have a float of their own.
EXACT: Mapping[TypeKind, int] = {TypeKind.FLOAT32: 2**24, TypeKind.FLOAT64: 2**53}
INTEGER_BITS: Mapping[TypeKind, int] = {TypeKind.INT32: 32, TypeKind.INT64: 64}


@dataclass(frozen=True, slots=True)
class Conversion:
    """How values of one Arrow type become a column's."""

    convert: Callable[[pa.Array], pa.Array]
    """Of values that are not bad."""
    bad: Callable[[pa.Array], pa.Array | None] = lambda array: None
    """Which values do not fit; None if all do."""


@dataclass(frozen=True, slots=True)
class IngestColumn:
    """A column of the stream."""

    field: Field
    source: int | None
    """Its place among what is sent; None: it is NULL."""
    conversion: Conversion
    is_time: bool


@dataclass(frozen=True)
class Mapped:
    """What becomes of batches of one schema."""

    stream: StreamSchema
    arrow: pa.Schema
    columns: Sequence[IngestColumn]

    def take(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, list[DeadRows]]:
        """The rows as the stream has them, and those that cannot be; for a batch that is sound."""
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
                dead.append(DeadRows(reason, column.field.name, [rows]))
        return batch.filter(left), dead


def mapped(
    stream: StreamSchema,
    sql: str,
    given: pa.Schema,
    policy: SchemaPolicy | None,
    timestamp_column: str | None,
) -> Mapped:
    """Raise NotAccepted if the columns are not the stream's. Without a policy, hints name no options of a connector."""
    places = places_of(stream, given)
    sources = {field.name.lower(): places.get(field.name.lower()) for field in stream.schema.fields}
    time = None if stream.time is None else stream.schema.fields[stream.time]
    if timestamp_column is not None:
        if time is None:
            what = "the stream has no event time, so none can be sent"
            raise not_accepted(stream, timestamp_column, what, "leave out the option timestampColumn")
        if timestamp_column.lower() not in places:
            what = "the column of the event time is not among those sent"
            raise not_accepted(stream, timestamp_column, what, nearest(timestamp_column, given.names))
        sources[time.name.lower()] = places[timestamp_column.lower()]
    if policy != "ignore":
        refuse_unknown(stream, sql, given, set(sources.values()), policy)
    columns = []
    for field in stream.schema.fields:
        source, is_time = sources[field.name.lower()], field is time
        if source is None and (is_time or policy != "addNullable"):
            raise missing(stream, field, is_time, policy)
        conversion = Conversion(lambda array: array)
        if source is not None:
            conversion = conversion_of(stream, field, given.field(source).type, is_time)
        columns.append(IngestColumn(field, source, conversion, is_time))
    return Mapped(stream, stream.schema.arrow, columns)


def places_of(stream: StreamSchema, given: pa.Schema) -> dict[str, int]:
    places: dict[str, int] = {}
    for place, name in enumerate(given.names):
        if name.lower() in places:
            raise not_accepted(stream, name, "two columns of one name are sent", "send every column once")
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
        raise not_accepted(stream, field.name, "the stream has no such column", hint)


def missing(stream: StreamSchema, field: Field, is_time: bool, policy: SchemaPolicy | None) -> Exception:
    hint = "send it, or have it filled with NULL with the option schemaPolicy=addNullable"
    if is_time:
        hint = "send it, or name the column that has the event time with the option timestampColumn"
    if policy is None:
        hint = "add the column"
    return not_accepted(stream, field.name, f"the column is missing; expected {field.type}", hint)


def type_text(given: pa.DataType) -> str:
    """The type of a column that would take it."""
    if pa.types.is_decimal(given):
        return f"decimal({given.precision}, {given.scale})"
    if pa.types.is_timestamp(given):
        return "timestamp"
    if is_text(given):
        return "string"
    names = {
        type_.arrow: type_.kind.value
        for type_ in map(DataType, TypeKind)
        if type_.kind is not TypeKind.DECIMAL
    }
    return names.get(given, "…")


# -- types -------------------------------------------------------------------------------------------------------


def conversion_of(stream: StreamSchema, field: Field, given: pa.DataType, is_time: bool) -> Conversion:
    target = field.type
    conversion = None
    if pa.types.is_timestamp(given):
        conversion = of_timestamps(given, target, stream.time_unit_us, is_time)
    elif given == target.arrow:
        conversion = Conversion(lambda array: array)
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
        what = f"{given} where {target} ({target.arrow}) is expected"
        raise not_accepted(stream, field.name, what, remedy(given, target))
    return conversion


def remedy(given: pa.DataType, target: DataType) -> str:
    if pa.types.is_timestamp(given) and target.kind is TypeKind.TIMESTAMP:
        return "write it with a time zone, as in 2026-11-19T16:10:00Z, or cast it to TIMESTAMP"
    return f"cast it to {target.arrow}"


def is_text(given: pa.DataType) -> bool:
    if pa.types.is_dictionary(given):
        return is_text(given.value_type)
    return bool(
        pa.types.is_string(given) or pa.types.is_large_string(given) or pa.types.is_string_view(given)
    )


def of_timestamps(
    given: pa.TimestampType, target: DataType, time_unit_us: int, is_time: bool
) -> Conversion | None:
    """A timestamp without a time zone is no moment."""
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
    if is_time:  # has no NULLs left
        return Conversion(lambda array: pa.array(ticks(array).to_numpy() // parts).view(target.arrow))
    return Conversion(
        lambda array: pc.divide(ticks(array), parts).view(target.arrow),
        lambda array: some(pc.not_equal(pc.multiply(pc.divide(ticks(array), parts), parts), ticks(array))),
    )


def ticks(array: pa.Array) -> pa.Array:
    return array.view(pa.int64())


def of_integers(given: pa.DataType, target: DataType) -> Conversion | None:
    if target.is_integer:
        most = 2 ** (INTEGER_BITS[target.kind] - 1) - 1
        return Conversion(lambda array: array.cast(target.arrow), beyond(given, -most - 1, most))
    if target.is_float:
        most = EXACT[target.kind]
        return Conversion(lambda array: array.cast(target.arrow), beyond(given, -most, most))
    if target.kind is TypeKind.DECIMAL:
        most = 10 ** (target.precision - target.scale) - 1
        # Arrow asks for as many digits as the integers could have.
        wide = pa.decimal128(min(38, 20 + target.scale), target.scale)
        return Conversion(lambda array: array.cast(wide).cast(target.arrow), beyond(given, -most, most))
    return None


def beyond(given: pa.DataType, low: int, high: int) -> Callable[[pa.Array], pa.Array | None]:
    """Which integers are not from `low` to `high`."""
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
