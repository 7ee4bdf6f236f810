"""Names of types in CREATE STREAM and CAST."""

from __future__ import annotations

from configs.errors import nearest
from engine.data.schema import (
    BOOLEAN,
    DECIMAL_DIGITS_MAX,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    STRING,
    TIMESTAMP,
    DataType,
    decimal,
)
from engine.sql.dialect import TypeName
from engine.sql.errors import Text

TYPES = {
    **dict.fromkeys(("boolean", "bool"), BOOLEAN),
    **dict.fromkeys(("int32", "int", "integer", "int4"), INT32),
    **dict.fromkeys(("int64", "bigint", "long"), INT64),
    **dict.fromkeys(("float32", "real", "float", "float4"), FLOAT32),
    **dict.fromkeys(("float64", "double", "double precision", "float8"), FLOAT64),
    **dict.fromkeys(("string", "varchar", "text"), STRING),
    **dict.fromkeys(("timestamp", "timestamptz"), TIMESTAMP),
}
DECIMALS = ("decimal", "numeric")
INSTEAD = {
    **dict.fromkeys(("date", "datetime", "time"), "timestamp"),
    **dict.fromkeys(("tinyint", "smallint", "int8", "int16", "uint8", "uint16"), "int32"),
    **dict.fromkeys(("uint32", "uint64", "uint", "hugeint"), "int64"),
    **dict.fromkeys(("char", "character", "bpchar"), "string"),
}


def type_named(text: Text, node: TypeName) -> DataType:
    """Return the type with this name; raise an error for an unknown name."""
    name, digits = node.name, [expression.name for expression in node.expressions]
    if name in DECIMALS:
        return _decimal(text, node, digits)
    found = TYPES.get(name)
    if found is None:
        hint = f"use {INSTEAD[name]}" if name in INSTEAD else nearest(name, [*TYPES, *DECIMALS])
        raise text.error(node, "there is no such type", name, hint)
    if digits and name != "varchar":  # The length of a varchar is ignored, as in DuckDB
        raise text.error(node, f"{name} takes no digits in parentheses", hint=name)
    return found


def _decimal(text: Text, node: TypeName, digits: list[str]) -> DataType:
    if not digits:
        return decimal(DECIMAL_DIGITS_MAX, 3)  # DuckDB also reads DECIMAL as DECIMAL(18, 3)
    if len(digits) > 2 or not all(digit.isdecimal() and len(digit) < 4 for digit in digits):
        what = "decimal takes its number of digits and, optionally, how many are after the point"
        raise text.error(node, what, hint="decimal(10, 2)")
    precision, scale = int(digits[0]), int(digits[1]) if len(digits) == 2 else 0
    if not 0 < precision <= DECIMAL_DIGITS_MAX:
        raise text.error(node, f"a decimal must have 1 to {DECIMAL_DIGITS_MAX} digits", precision)
    if scale > precision:
        raise text.error(node, "a decimal cannot have more digits after the point than in total", scale)
    return decimal(precision, scale)
