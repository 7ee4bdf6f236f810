"""Types, fields, schemas: what a stream's tuples are made of.

Eight kinds of value. How each is held in a train (`engine/data/train.py`):

    boolean                      numpy bool
    int32 int64 float32 float64  numpy of the same name
    decimal(p, s), p ≤ 18        numpy int64 of the value times 10^s
    timestamp                    numpy int64, microseconds since the epoch, UTC
    string                       an Arrow string array
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa


class TypeKind(StrEnum):
    """A kind of value."""

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


@dataclass(frozen=True, slots=True)
class DataType:
    """A kind, with digits for decimals."""

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
        """How values are held; strings are not held by numpy."""
        return _NUMPY[self.kind]

    @property
    def arrow(self) -> pa.DataType:
        match self.kind:
            case TypeKind.BOOLEAN:
                return pa.bool_()
            case TypeKind.INT32:
                return pa.int32()
            case TypeKind.INT64:
                return pa.int64()
            case TypeKind.FLOAT32:
                return pa.float32()
            case TypeKind.FLOAT64:
                return pa.float64()
            case TypeKind.DECIMAL:
                return pa.decimal128(self.precision, self.scale)
            case TypeKind.STRING:
                return pa.string()
            case TypeKind.TIMESTAMP:
                return pa.timestamp("us", tz="UTC")


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
    """A named column."""

    name: str
    type: DataType


@dataclass(frozen=True)
class Schema:
    """Fields in order; names differ, without regard to case."""

    fields: tuple[Field, ...]

    def __len__(self) -> int:
        return len(self.fields)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields)

    def index(self, name: str) -> int | None:
        """The place of a column by name, without regard to case; None if there is none."""
        wanted = name.lower()
        return next((place for place, field in enumerate(self.fields) if field.name.lower() == wanted), None)

    @property
    def arrow(self) -> pa.Schema:
        return pa.schema([pa.field(field.name, field.type.arrow) for field in self.fields])


@dataclass(frozen=True)
class StreamSchema:
    """A stream: its columns, which of them is the event time, and how far tuples may be out of order."""

    name: str
    schema: Schema
    time: int | None = None  # the column of the watermark
    lateness_us: int = 0  # the watermark is the largest event time seen minus this
    time_unit_us: int = 1  # of the time column: 1 for timestamps, 1000 for int64 milliseconds


@dataclass(frozen=True)
class TableSchema:
    """A static table, for joins with a stream."""

    name: str
    schema: Schema
