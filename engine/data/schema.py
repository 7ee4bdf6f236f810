"""Types, fields and schemas of streams and tables.

There are eight kinds of value. A train (`engine/data/train.py`) stores strings in Arrow arrays, and all other values in numpy
arrays: decimals and timestamps as int64, booleans as bool, and each other kind as the numpy type of the same name.

    decimal(p, s), p ≤ 18        the value times 10^s
    timestamp                    microseconds since the epoch, UTC
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa


class TypeKind(StrEnum):
    """Kind of value, named as its SQL type."""

    BOOLEAN = "boolean"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    DECIMAL = "decimal"
    STRING = "string"
    TIMESTAMP = "timestamp"


DECIMAL_DIGITS_MAX = 18
_NUMPY = {
    TypeKind.BOOLEAN: np.dtype(np.bool_),
    TypeKind.INT32: np.dtype(np.int32),
    TypeKind.INT64: np.dtype(np.int64),
    TypeKind.FLOAT32: np.dtype(np.float32),
    TypeKind.FLOAT64: np.dtype(np.float64),
    TypeKind.DECIMAL: np.dtype(np.int64),
    TypeKind.TIMESTAMP: np.dtype(np.int64),
}
_ARROW = {
    TypeKind.BOOLEAN: pa.bool_(),
    TypeKind.INT32: pa.int32(),
    TypeKind.INT64: pa.int64(),
    TypeKind.FLOAT32: pa.float32(),
    TypeKind.FLOAT64: pa.float64(),
    TypeKind.STRING: pa.string(),
    TypeKind.TIMESTAMP: pa.timestamp("us", tz="UTC"),
}


@dataclass(frozen=True, slots=True)
class DataType:
    """Type of a column: its kind, and for decimals the number of all digits and the number of digits after the point."""

    kind: TypeKind
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        return (
            f"decimal({self.precision}, {self.scale})" if self.kind is TypeKind.DECIMAL else self.kind.value
        )

    @property
    def is_integer(self) -> bool:
        return self.kind in (TypeKind.INT32, TypeKind.INT64)

    @property
    def is_float(self) -> bool:
        return self.kind in (TypeKind.FLOAT32, TypeKind.FLOAT64)

    @property
    def is_numeric(self) -> bool:
        return self.is_integer or self.is_float or self.kind is TypeKind.DECIMAL

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """Numpy type that stores the values; strings have no numpy type, because Arrow stores them."""
        return _NUMPY[self.kind]

    @property
    def arrow(self) -> pa.DataType:
        if self.kind is TypeKind.DECIMAL:
            return pa.decimal128(self.precision, self.scale)
        return _ARROW[self.kind]


BOOLEAN = DataType(TypeKind.BOOLEAN)
INT32 = DataType(TypeKind.INT32)
INT64 = DataType(TypeKind.INT64)
FLOAT32 = DataType(TypeKind.FLOAT32)
FLOAT64 = DataType(TypeKind.FLOAT64)
STRING = DataType(TypeKind.STRING)
TIMESTAMP = DataType(TypeKind.TIMESTAMP)


def decimal(precision: int, scale: int) -> DataType:
    return DataType(TypeKind.DECIMAL, precision, scale)


@dataclass(frozen=True, slots=True)
class Field:
    """Column of a schema: its name and type."""

    name: str
    type: DataType


@dataclass(frozen=True)
class Schema:
    """Fields in order; no two names differ only in upper and lower case."""

    fields: tuple[Field, ...]

    def __len__(self) -> int:
        return len(self.fields)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields)

    def index(self, name: str) -> int | None:
        """Return the position of the column with this name, without regard to case, or None."""
        wanted = name.lower()
        return next((place for place, field in enumerate(self.fields) if field.name.lower() == wanted), None)

    @property
    def arrow(self) -> pa.Schema:
        return pa.schema([pa.field(field.name, field.type.arrow) for field in self.fields])


@dataclass(frozen=True)
class StreamSchema:
    """Declaration of a stream: its columns, its event time, and how late its tuples may be."""

    name: str
    schema: Schema
    time: int | None = None  # Position of the event-time column, on which the watermark is declared
    lateness_us: int = 0  # Largest event time seen minus the watermark, in microseconds
    time_unit_us: int = 1  # Microseconds per unit of event time: 1 for timestamps, 1000 for milliseconds


@dataclass(frozen=True)
class TableSchema:
    """Declaration of a static table, for joins with a stream."""

    name: str
    schema: Schema
