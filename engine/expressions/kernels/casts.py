"""CAST between all types; a value that does not fit into the new type is marked, and then fails its row or becomes NULL.

Arrow parses numbers in the simplest notation; Python parses all other texts row by row.
"""

from __future__ import annotations

import decimal
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.data.schema import INT32, DataType, TypeKind
from engine.expressions.kernels.arithmetic import divided, limits, outside, rounded
from engine.expressions.kernels.kernel import Array, Checked, Kernel, any_or_none, mask_of


def build_cast(source: DataType, target: DataType) -> Kernel:
    reason = f"a {source} does not fit {target}"
    if target.kind is TypeKind.STRING:
        return Kernel(writer(source))
    if source.kind is TypeKind.STRING:
        return Kernel(reader(target), f"text is not a {target}")
    if target.kind is TypeKind.BOOLEAN:
        return Kernel(lambda values: values != 0)
    if source.kind is TypeKind.BOOLEAN:
        kernel = build_number_cast(INT32, target, reason)
        return Kernel(lambda values: kernel.apply(values.astype(np.int32)), kernel.reason, kernel.noisy)
    return build_number_cast(source, target, reason)


def build_number_cast(source: DataType, target: DataType, reason: str) -> Kernel:
    dtype = target.numpy
    match source.kind, target.kind:
        case TypeKind.DECIMAL, TypeKind.DECIMAL:
            return rescaling(source, target, reason)
        case TypeKind.DECIMAL, _ if target.is_float:
            return Kernel(lambda values: decimals_to_floats(values, source.scale, dtype))
        case TypeKind.DECIMAL, _:
            unit = 10**source.scale
            return Kernel(lambda values: narrowed(divided(values, unit), target), reason)
        case _, TypeKind.DECIMAL if source.is_float:
            return Kernel(lambda values: floats_to_decimals(values, target), reason, noisy=True)
        case _, TypeKind.DECIMAL:
            whole = DataType(TypeKind.DECIMAL, 10 if source.kind is TypeKind.INT32 else 19, 0)
            kernel = rescaling(whole, target, reason)
            return Kernel(lambda values: kernel.apply(values.astype(np.int64)), kernel.reason)
        case TypeKind.INT64, TypeKind.INT32:
            return Kernel(lambda values: narrowed(values, target), reason)
        case TypeKind.FLOAT64, TypeKind.FLOAT32:
            return Kernel(floats_to_singles, reason, noisy=True)
        case _ if source.is_float and target.is_integer:
            return Kernel(lambda values: floats_to_integers(values, target), reason, noisy=True)
    return Kernel(lambda values: values.astype(dtype))


def narrowed(values: Array, target: DataType) -> Checked:
    low, high = limits(target)
    return values.astype(target.numpy), None, outside(values, low, high)


def rescaling(source: DataType, target: DataType, reason: str) -> Kernel:
    """Return a kernel that changes the scale of a decimal; lost digits are rounded, halves away from zero."""
    more = target.scale - source.scale
    if more < 0:
        unit, limit = 10**-more, limits(target)
        if source.precision + more < target.precision:
            return Kernel(lambda values: divided(values, unit))

        def lower(values: Array) -> Checked:
            result = divided(values, unit)
            return result, None, outside(result, *limit)

        return Kernel(lower, reason)
    unit = 10**more
    if source.precision + more <= target.precision:
        return Kernel(lambda values: values * unit if unit > 1 else values)
    most = 10 ** (target.precision - more) - 1

    def raise_(values: Array) -> Checked:
        bad = outside(values, -most, most)
        return np.multiply(values, unit), None, bad

    return Kernel(raise_, reason)


def decimals_to_floats(values: Array, scale: int, dtype: Any) -> Array:
    """Convert stored decimals to floats, by division by 10^scale.

    If a value has more digits than a float can hold, its whole part and its fraction are converted separately.
    """
    floats: Array = values.astype(dtype)
    if scale == 0:
        return floats
    unit = 10**scale
    exact = 2**53 if dtype == np.float64 else 2**24
    result: Array = floats / dtype.type(unit)
    large = outside(values, -exact, exact)
    if large is None:
        return result
    whole = np.sign(values) * (np.abs(values) // unit)
    parts = whole.astype(dtype) + (values - whole * unit).astype(dtype) / dtype.type(unit)
    return np.where(large, parts, result)


def floats_to_decimals(values: Array, target: DataType) -> Checked:
    scaled = rounded(values.astype(np.float64) * 10.0**target.scale)
    fits = np.abs(scaled) < 10.0**target.precision
    bad = any_or_none(~fits)
    return (scaled if bad is None else np.where(fits, scaled, 0)).astype(np.int64), None, bad


def floats_to_integers(values: Array, target: DataType) -> Checked:
    """Round to the nearest integer, halves to even."""
    whole = np.rint(values)
    bits = 31 if target.kind is TypeKind.INT32 else 63
    fits = (whole >= -(2.0**bits)) & (whole < 2.0**bits)
    bad = any_or_none(~fits)
    return (whole if bad is None else np.where(fits, whole, 0)).astype(target.numpy), None, bad


def floats_to_singles(values: Array) -> Checked:
    singles = values.astype(np.float32)
    lost = np.isinf(singles)
    return singles, None, (any_or_none(lost & np.isfinite(values)) if lost.any() else None)


def writer(source: DataType) -> Callable[[Array], pa.StringArray]:
    match source.kind:
        case TypeKind.FLOAT64:
            return lambda values: pa.array([repr(value) for value in values.tolist()], pa.string())
        case TypeKind.FLOAT32:
            # For a float32, numpy chooses the shortest digits; Python then writes the exponent as for float64.
            return lambda values: pa.array([repr(float(str(value))) for value in values], pa.string())
        case TypeKind.DECIMAL:
            return lambda values: decimals_to_text(values, source.scale)
        case TypeKind.TIMESTAMP:
            return times_to_text
    return lambda values: pc.cast(pa.array(values), pa.string())


def decimals_to_text(values: Array, scale: int) -> pa.StringArray:
    if scale == 0:
        return pc.cast(pa.array(values), pa.string())
    unit = 10**scale
    texts = [
        f"{'-' if value < 0 else ''}{abs(value) // unit}.{abs(value) % unit:0{scale}}"
        for value in values.tolist()
    ]
    return pa.array(texts, pa.string())


def times_to_text(values: Array) -> pa.StringArray:
    texts = pa.array(np.datetime_as_string(values.view("M8[us]")).tolist(), pa.string())
    spaced = pc.replace_substring(texts, pattern="T", replacement=" ", max_replacements=1)
    return pc.utf8_rtrim(pc.utf8_rtrim(spaced, characters="0"), characters=".")


SPACE = " \t\n\v\f\r"
NUMBER = re.compile(
    r"[+-]?(?:[0-9]+(?:_[0-9]+)*(?:\.(?:[0-9]+(?:_[0-9]+)*)?)?|\.[0-9]+(?:_[0-9]+)*)"
    r"(?:[eE][+-]?[0-9]+(?:_[0-9]+)*)?"
)
NOT_FINITE = re.compile(r"[+-]?(?:inf|infinity|nan)", re.IGNORECASE)
AFTER_WHOLE = re.compile(r"[.eE].*")
OTHER_BASE = re.compile(r"0[xX][0-9a-fA-F]+|0[bB][01]+")
PLAIN = {
    # Arrow parses numbers in these simple notations, and Python parses all other numbers.
    # The patterns limit the digits of integers, so that every matching integer is in the range of its type.
    TypeKind.INT32: r"^-?[0-9]{1,9}$",
    TypeKind.INT64: r"^-?[0-9]{1,18}$",
    TypeKind.FLOAT32: r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$",
    TypeKind.FLOAT64: r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$",
}
TIMESTAMP = re.compile(
    r"([0-9]{1,4})([-/])([0-9]{1,2})\2([0-9]{1,2})"
    r"(?:(?:T| +)([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?)?"
    r"(?: ?(Z|UTC)| ?([+-])([0-9]{1,2})(?::?([0-9]{2}))?)?)?",
    re.ASCII,
)
TRUE = frozenset(("true", "t", "yes", "y", "1"))
FALSE = frozenset(("false", "f", "no", "n", "0"))
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
LOSSLESS = decimal.Context(prec=10_000)
EXPONENT_MOST = 400


def reader(target: DataType) -> Callable[[pa.StringArray], Checked]:
    parse = parser(target)
    dtype = target.numpy
    pattern = PLAIN.get(target.kind)

    def read(texts: pa.StringArray) -> Checked:
        values = np.zeros(len(texts), dtype)
        rest: Any = range(len(texts))
        if pattern is not None:
            plain = mask_of(pc.match_substring_regex(texts, pattern=pattern))
            if plain.all():
                return pc.cast(texts, target.arrow).to_numpy(zero_copy_only=False), None, None
            values = pc.cast(pc.if_else(pa.array(plain), texts, "0"), target.arrow).to_numpy().copy()
            rest = np.flatnonzero(~plain).tolist()
        bad = np.zeros(len(texts), bool)
        for place in rest:
            value = parse(texts[place].as_py())
            if value is None:
                bad[place] = True
            else:
                values[place] = value
        return values, None, any_or_none(bad)

    return read


def parser(target: DataType) -> Callable[[str], Any]:
    match target.kind:
        case TypeKind.BOOLEAN:
            return parse_boolean
        case TypeKind.TIMESTAMP:
            return parse_timestamp
        case TypeKind.FLOAT32 | TypeKind.FLOAT64:
            return parse_float
    low, high = limits(target)
    integer = target.is_integer

    def parse(text: str) -> int | None:
        value = parse_scaled(text.strip(SPACE), target.scale, integer)
        return value if value is not None and low <= value <= high else None

    return parse


def parse_boolean(text: str) -> bool | None:
    word = text.lower()
    return True if word in TRUE else False if word in FALSE else None


def parse_float(text: str) -> float | None:
    text = text.strip(SPACE)
    return float(text) if NUMBER.fullmatch(text) or NOT_FINITE.fullmatch(text) else None


def parse_scaled(text: str, scale: int, integer: bool) -> int | None:
    """Return the number in a text times 10^scale, rounded with halves away from zero; None if the text is not a number."""
    if integer and OTHER_BASE.fullmatch(text):
        return int(text, 0)
    if not NUMBER.fullmatch(text):
        return None
    digits = text.replace("_", "")
    if integer and is_too_long(AFTER_WHOLE.sub("", digits)):
        return None
    number = decimal.Decimal(digits)
    # Numbers with huge exponents are not expanded, because 1e999999 would make an integer of a million digits.
    if number.adjusted() > EXPONENT_MOST:
        return None
    if number.adjusted() < -EXPONENT_MOST:
        return 0
    return int(number.scaleb(scale, LOSSLESS).to_integral_value(decimal.ROUND_HALF_UP))


def is_too_long(whole: str) -> bool:
    """Return True if the digits before the point exceed int64; DuckDB refuses such a text before it reads the exponent."""
    figures = whole.lstrip("+-0")
    return len(figures) > 19 or int(figures or 0) > 2**63 - (not whole.startswith("-"))


def parse_timestamp(text: str) -> int | None:
    match = TIMESTAMP.fullmatch(text.strip(SPACE))
    if match is None:
        return None
    year, _, month, day, hour, minute, second, fraction, _, sign, zone_hours, zone_minutes = match.groups()
    offset = timedelta(hours=int(zone_hours or 0), minutes=int(zone_minutes or 0))
    if sign == "-":
        offset = -offset
    hours, minutes, seconds = (int(part or 0) for part in (hour, minute, second))
    midnight = (hours, minutes, seconds) == (24, 0, 0)
    hours = 0 if midnight else hours
    try:
        moment = datetime(
            int(year), int(month), int(day), hour=hours, minute=minutes, second=seconds, tzinfo=UTC
        )
    except ValueError:
        return None
    micros = int((fraction or "")[:6].ljust(6, "0"))
    return (moment - EPOCH - offset) // MICROSECOND + micros + (86_400_000_000 if midnight else 0)
