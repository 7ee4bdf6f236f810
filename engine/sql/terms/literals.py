"""Reads constants from SQL texts: numbers and intervals.

Numbers have DuckDB's types: int32 or, for larger numbers, int64; decimal with a point; float64 with an exponent.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal

from sqlglot import exp

from engine.data.schema import DECIMAL_DIGITS_MAX, FLOAT64, INT32, INT64, decimal
from engine.plan.plan import Literal
from engine.sql.dialect import UNIT_NAMES, UNITS_TOLD, UNITS_US
from engine.sql.errors import Text

INT32_MAX, INT64_MAX = 2**31 - 1, 2**63 - 1
INTERVAL_PART = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*")
INTERVAL_MAX_US = 10**17  # Longest interval: about 3,000 years, far below the limit of int64


def number(text: Text, node: exp.Literal) -> Literal:
    written = node.name
    if "e" in written.lower():
        return Literal(_finite(text, node), FLOAT64)
    whole, _, fraction = written.partition(".")
    if "." in written:
        if not (whole + fraction).isdecimal():
            raise text.error(node, "this is not a number", written)
        digits = len(whole.lstrip("0") or "0") + len(fraction)
        if digits > DECIMAL_DIGITS_MAX:
            return Literal(_finite(text, node), FLOAT64)
        return Literal(int(whole + fraction), decimal(digits, len(fraction)))
    if not written.isdecimal():
        raise text.error(node, "this is not a number", written)
    if len(written) > 19 or int(written) > INT64_MAX:
        raise text.error(
            node, "this number does not fit into int64", written, "write it with an exponent: 1e20"
        )
    value = int(written)
    return Literal(value, INT32 if value <= INT32_MAX else INT64)


def _finite(text: Text, node: exp.Literal) -> float:
    try:
        value = float(node.name)
    except ValueError:
        raise text.error(node, "this is not a number", node.name) from None
    if not math.isfinite(value):
        raise text.error(node, "this number does not fit into float64", node.name)
    return value


def interval_us(text: Text, node: exp.Expr) -> int | None:
    """Return the length of an interval in microseconds; None if the expression is not an interval."""
    match node:
        case exp.Paren():
            return interval_us(text, node.this)
        case exp.Neg():
            length = interval_us(text, node.this)
            return None if length is None else -length
        case exp.Interval():
            return _interval_us(text, node)
    return None


def _interval_us(text: Text, node: exp.Interval) -> int:
    example = "INTERVAL '10 seconds'"
    amount, unit = node.this, node.args.get("unit")
    sign = 1
    while isinstance(amount, exp.Neg | exp.Paren):
        sign, amount = -sign if isinstance(amount, exp.Neg) else sign, amount.this
    if not isinstance(amount, exp.Literal):
        raise text.error(node, "the length of an interval must be a constant", hint=example)
    written = amount.name + (f" {unit.name}" if unit else "")
    total, end = Decimal(0), 0
    while end < len(written):
        part = INTERVAL_PART.match(written, end)
        if part is None:
            raise text.error(node, "this is not an interval", written.lower(), example)
        name = part[2].upper()
        if name.rstrip("S") in ("MONTH", "YEAR", "QUARTER"):
            raise text.error(
                node, "months and years have no fixed length", written.lower(), "INTERVAL '30 days'"
            )
        if name not in UNIT_NAMES:
            raise text.error(node, "the interval has an unknown unit of time", part[2], UNITS_TOLD)
        total += Decimal(part[1]) * UNITS_US[name.removesuffix("S")]
        if abs(total) > INTERVAL_MAX_US:
            raise text.error(node, "this interval is too long", written.lower())
        end = part.end()
    if not end:
        raise text.error(node, "the text of this interval is empty", hint=example)
    if total != int(total):
        raise text.error(node, "an interval must be a whole number of microseconds", written.lower())
    return sign * int(total)
