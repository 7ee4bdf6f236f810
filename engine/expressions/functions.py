"""Scalar functions: names, argument types and result types. `engine/expressions/compiler.py` computes them.

`resolve` selects a signature by name and argument types; the caller casts each argument to the type in the signature.
The type None means a bare NULL, which gets the type of the other arguments. Names are read without regard to case, and
operators may be written as signs (`+`, `<>`, `||`).

Types of results

    ints                the wider type; `/` returns float64, `//` and `%` truncate toward zero
    ints and floats     the float type;  float32 and float64: float64
    ints and decimals   decimal; an int32 counts as decimal(10, 0), an int64 as decimal(18, 0)
    decimals and floats the float type
    decimal +, −        scale: the larger; digits before the point: the larger number plus 1
    decimal ×           scale: the sum (at most 18, or the query is refused); digits: the sum
    decimal %, common   scale: the larger; digits before the point: the larger
    decimal /           float64
    timestamp ± int64   timestamp; the integer is microseconds, which is how intervals arrive
    timestamp − timestamp   int64 microseconds

Decimals have at most 18 digits, and the scale is kept; a value that needs more digits fails its row.

A function of NULL is NULL, except for AND, OR, IS NULL, COALESCE and IN. `concat`, `greatest` and `least` skip NULLs.
NaN equals itself and is greater than every number.

What is not said above is as in DuckDB, with these differences ("there" means in DuckDB):

    x / 0, x // 0, x % 0    NULL for all types (there: infinity or NaN for floats, an error for `//`, `%` of integers)
    sqrt, ln, log10, log2   fail the row for a number without a result; so does 0 to a negative power (there: NaN
                            or ±∞, unless ieee_floating_point_ops is off)
    x // y of non-integers  refused (there: the same as `/`)
    −x of the least integer fails the row (there: a wider type)
    decimals                18 digits at most (there 38), so a row can fail only here; an int64 combined with a
                            decimal has 18 digits; round(x, n) keeps the scale of x (there it becomes n)
    sign                    int32 (there tinyint)
    timestamp − timestamp   int64 microseconds (there an interval)
    text to timestamp       an offset such as +02 is applied, as timestamps are UTC (there it is dropped); 'infinity'
                            and years outside 1 … 9999 are refused
    floats to text          every NaN is 'nan' (there also '-nan'); a float32 may have another of two equally short texts
    decimals to text        '-0.50' also for decimal(2, 2) (there '-.50')
    substring, left, right  take any int64 (there: an error beyond 32 bits)
    unneeded operands       never fail a row: branches of CASE not taken, operands after a FALSE in AND, a TRUE in OR,
                            a value in COALESCE, a match in IN (there this holds mostly, not always)
    f(NULL, y)              still fails where y fails (there it depends on the source of the NULL)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from configs.errors import InvalidInput, nearest
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
    TypeKind,
    decimal,
)


@dataclass(frozen=True)
class Signature:
    """Function for given argument types: the types that its arguments are cast to, and the type of its result."""

    name: str
    arguments: tuple[DataType, ...]
    result: DataType


class NoSuchFunction(InvalidInput):
    """Error for an unknown function name."""


class WrongArguments(InvalidInput):
    """Error for a call with too few, too many or unsuitable arguments."""


Types = Sequence[DataType | None]
Rule = Callable[[str, Types], Signature]

TRUNCATIONS = (
    "microsecond",
    "millisecond",
    "second",
    "minute",
    "hour",
    "day",
    "week",
    "month",
    "quarter",
    "year",
    "decade",
    "century",
    "millennium",
)
"""Units for `date_trunc`; a plural is read as its singular."""

TIME_PARTS = (
    "year",
    "quarter",
    "month",
    "day",
    "day_of_week",
    "day_of_year",
    "hour",
    "minute",
    "second",
)
"""Functions for the whole-number parts of a timestamp; EXTRACT and `date_part` use the same names."""

ALIASES = {
    "+": "add",
    "-": "subtract",
    "*": "multiply",
    "/": "divide",
    "//": "integer_divide",
    "div": "integer_divide",
    "%": "modulo",
    "mod": "modulo",
    "fmod": "modulo",
    "neg": "negate",
    "=": "equal",
    "==": "equal",
    "<>": "not_equal",
    "!=": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
    "||": "append",
    "ifnull": "coalesce",
    "nvl": "coalesce",
    "lcase": "lower",
    "ucase": "upper",
    "len": "length",
    "char_length": "length",
    "character_length": "length",
    "substr": "substring",
    "prefix": "starts_with",
    "suffix": "ends_with",
    "position": "strpos",
    "instr": "strpos",
    "ceiling": "ceil",
    "pow": "power",
    "log": "log10",
    "dayofmonth": "day",
    "dayofweek": "day_of_week",
    "dow": "day_of_week",
    "dayofyear": "day_of_year",
    "doy": "day_of_year",
    "datetrunc": "date_trunc",
}


def resolve(name: str, arguments: Types) -> Signature:
    """Return the signature of a function for arguments of these types; raise NoSuchFunction or WrongArguments."""
    canonical = name.lower()
    canonical = ALIASES.get(canonical, canonical)
    rule = RULES.get(canonical)
    if rule is None:
        names = [*RULES, *(alias for alias in ALIASES if alias.isidentifier())]
        raise NoSuchFunction(f"there is no function {name}", hint=nearest(name.lower(), names))
    return rule(canonical, arguments)


def castable(source: DataType, target: DataType) -> bool:
    """Return True if CAST from one type to the other exists; single values may still not fit."""
    if source == target or TypeKind.STRING in (source.kind, target.kind):
        return True
    return TypeKind.TIMESTAMP not in (source.kind, target.kind)


def common_type(types: Types) -> DataType | None:
    """Return the type to which values of all these types can be cast (branches of CASE, inputs of UNION), or None."""
    types_given = [type_ for type_ in types if type_ is not None]
    if not types_given:
        return INT32  # int32, as in DuckDB, if all values are NULL
    first = types_given[0]
    if all(given_type == first for given_type in types_given):
        return first
    if not all(given_type.is_numeric for given_type in types_given):
        return None
    if any(given_type.is_float for given_type in types_given):
        return FLOAT64 if FLOAT64 in types_given else FLOAT32
    if all(given_type.is_integer for given_type in types_given):
        return INT64
    parts = [as_decimal(given_type) for given_type in types_given]
    scale = max(part.scale for part in parts)
    return capped(max(part.precision - part.scale for part in parts) + scale, scale)


def as_decimal(type_: DataType) -> DataType:
    """Return the decimal type for the values of an integer type; of int64, it holds values of up to 18 digits."""
    if type_.kind is TypeKind.DECIMAL:
        return type_
    return decimal(10, 0) if type_.kind is TypeKind.INT32 else decimal(DECIMAL_DIGITS_MAX, 0)


def capped(digits: int, scale: int) -> DataType:
    return decimal(min(digits, DECIMAL_DIGITS_MAX), scale)


# --- rules for the signatures of functions --------------------------------------------------------------
# A rule returns the signature for a canonical function name and argument types, or raises WrongArguments.


def refuse(name: str, types: Types, place: int, wanted: str) -> WrongArguments:
    got = types[place]
    return WrongArguments(
        f"{name}: argument {place + 1} is {got}, which is not allowed", hint=f"{name} takes {wanted}"
    )


def check_count(name: str, types: Types, least: int, most: int | None, wanted: str) -> None:
    if len(types) < least or (most is not None and len(types) > most):
        count = f"{len(types)} argument" + ("" if len(types) == 1 else "s")
        raise WrongArguments(f"{name}: called with {count}", hint=f"{name} takes {wanted}")


def numbers(name: str, types: Types, wanted: str) -> list[DataType]:
    """Return the types, which must be numeric; a bare NULL gets the first known type."""
    for place, given_type in enumerate(types):
        if given_type is not None and not given_type.is_numeric:
            raise refuse(name, types, place, wanted)
    first_known = next((type_ for type_ in types if type_ is not None), INT32)
    return [first_known if type_ is None else type_ for type_ in types]


def arithmetic(name: str, types: Types) -> Signature:
    expected = "two numbers"
    if name in ("add", "subtract"):
        expected = "two numbers, or a timestamp and an interval"
        if TIMESTAMP in types and len(types) == 2:
            return timestamp_arithmetic(name, types, expected)
    check_count(name, types, 2, 2, expected)
    left, right = numbers(name, types, expected)
    common = common_type([left, right])
    assert common is not None
    if common.kind is not TypeKind.DECIMAL:
        return Signature(name, (common, common), common)
    left, right = as_decimal(left), as_decimal(right)
    match name:
        case "multiply":
            scale = left.scale + right.scale
            if scale > DECIMAL_DIGITS_MAX:
                raise WrongArguments(
                    f"multiply: {left} times {right} has {scale} digits after the point, "
                    f"but a decimal can have at most {DECIMAL_DIGITS_MAX}",
                    hint="CAST one of the factors to a decimal with fewer digits, or to double",
                )
            return Signature(name, (left, right), capped(left.precision + right.precision, scale))
        case "add" | "subtract":
            before = max(left.precision - left.scale, right.precision - right.scale)
            common = capped(before + common.scale + 1, common.scale)
    return Signature(name, (common, common), common)


def timestamp_arithmetic(name: str, types: Types, wanted: str) -> Signature:
    left, right = types
    if name == "subtract" and left == right == TIMESTAMP:
        return Signature(name, (TIMESTAMP, TIMESTAMP), INT64)
    for place, (type_, other) in enumerate([(left, right), (right, left)]):
        if (
            other == TIMESTAMP
            and not (type_ is None or type_.is_integer)
            and (type_ != TIMESTAMP or name == "add")
        ):
            raise refuse(name, types, place, wanted)
    if left == TIMESTAMP:
        return Signature(name, (TIMESTAMP, INT64), TIMESTAMP)
    if name == "subtract":
        raise refuse(name, types, 1, "the timestamp as its first argument")
    return Signature(name, (INT64, TIMESTAMP), TIMESTAMP)


def division(name: str, types: Types) -> Signature:
    check_count(name, types, 2, 2, "two numbers")
    common = common_type(numbers(name, types, "two numbers"))
    assert common is not None
    wide = common if common.is_float else FLOAT64
    return Signature(name, (wide, wide), wide)


def integer_division(name: str, types: Types) -> Signature:
    expected = "two integers; for other numbers, write floor(x / y)"
    check_count(name, types, 2, 2, expected)
    for place, type_ in enumerate(types):
        if type_ is not None and not type_.is_integer:
            raise refuse(name, types, place, expected)
    common = common_type(types)
    assert common is not None
    return Signature(name, (common, common), common)


def same_number(name: str, types: Types) -> Signature:
    check_count(name, types, 1, 1, "a number")
    (number_type,) = numbers(name, types, "a number")
    return Signature(name, (number_type,), number_type)


def rounding(name: str, types: Types) -> Signature:
    """Return the signature of rounding to a whole number; for an integer the result is float64, as in DuckDB."""
    check_count(name, types, 1, 1, "a number")
    (number_type,) = numbers(name, types, "a number")
    if number_type.is_integer:
        return Signature(name, (FLOAT64,), FLOAT64)
    return Signature(
        name,
        (number_type,),
        decimal(number_type.precision, 0) if number_type.kind is TypeKind.DECIMAL else number_type,
    )


def round_(name: str, types: Types) -> Signature:
    expected = "a number and, optionally, the number of digits after the point"
    check_count(name, types, 1, 2, expected)
    (number_type,) = numbers(name, types[:1], expected)
    if len(types) == 1:
        return Signature(
            name,
            (number_type,),
            decimal(number_type.precision, 0) if number_type.kind is TypeKind.DECIMAL else number_type,
        )
    if types[1] is not None and not types[1].is_integer:
        raise refuse(name, types, 1, expected)
    result = (
        capped(number_type.precision + 1, number_type.scale)
        if number_type.kind is TypeKind.DECIMAL
        else number_type
    )
    return Signature(name, (number_type, INT32), result)


def sign(name: str, types: Types) -> Signature:
    return Signature(name, same_number(name, types).arguments, INT32)


def floats(count: int, most: int | None = None) -> Rule:
    expected = "a number" if count == 1 else f"{count} numbers"

    def rule(name: str, types: Types) -> Signature:
        check_count(name, types, count, most or count, expected)
        numbers(name, types, expected)
        return Signature(name, (FLOAT64,) * len(types), FLOAT64)

    return rule


def comparable(name: str, types: Types, wanted: str) -> DataType:
    """Return the type in which values are compared; text compared with another type is cast to that type."""
    others = [type_ for type_ in types if type_ != STRING and type_ is not None]
    common = common_type(others) if others else STRING
    if common is None:
        place = next(
            place for place, given_type in enumerate(types) if given_type not in (None, STRING, others[0])
        )
        raise refuse(name, types, place, f"{wanted}; CAST one of the values")
    return common


def comparison(name: str, types: Types) -> Signature:
    expected = "two values of one type"
    check_count(name, types, 2, 2, expected)
    common = comparable(name, types, expected)
    return Signature(name, (common, common), BOOLEAN)


def membership(name: str, types: Types) -> Signature:
    expected = "a value and a list of values of one type"
    check_count(name, types, 2, None, expected)
    common = comparable(name, types, expected)
    return Signature(name, (common,) * len(types), BOOLEAN)


def logic(least: int, most: int | None) -> Rule:
    expected = "a condition" if most == 1 else "conditions"

    def rule(name: str, types: Types) -> Signature:
        check_count(name, types, least, most, expected)
        for place, type_ in enumerate(types):
            if type_ not in (BOOLEAN, None):
                raise refuse(name, types, place, f"{expected} (boolean)")
        return Signature(name, (BOOLEAN,) * len(types), BOOLEAN)

    return rule


def null_test(name: str, types: Types) -> Signature:
    check_count(name, types, 1, 1, "a value")
    return Signature(name, (types[0] or INT32,), BOOLEAN)


def alike(name: str, types: Types) -> Signature:
    expected = "values of one type"
    check_count(name, types, 1, None, expected)
    common = common_type(types)
    if common is None:
        typed = [type_ for type_ in types if type_ is not None]
        raise refuse(
            name,
            types,
            list(types).index(next(given_type for given_type in typed if given_type != typed[0])),
            expected,
        )
    return Signature(name, (common,) * len(types), common)


def nullif(name: str, types: Types) -> Signature:
    """Return the signature of NULLIF: the result has the first argument's type; the second is cast to the common type."""
    expected = "two values of one type"
    check_count(name, types, 2, 2, expected)
    common = comparable(name, types, expected)
    first = types[0] or common
    return Signature(name, (first, common), first)


def fixed(wanted: tuple[DataType, ...], result: DataType, optional: int = 0) -> Rule:
    """Return a rule for fixed argument types; the last `optional` arguments can be omitted, and int32 widens to int64."""
    said = ", ".join(map(str, wanted)) + (f" (the last {optional} can be left out)" if optional else "")

    def rule(name: str, types: Types) -> Signature:
        check_count(name, types, len(wanted) - optional, len(wanted), said)
        for place, (got, want) in enumerate(zip(types, wanted, strict=False)):
            fits = got is None or got == want or (got.is_integer and want == INT64)
            if not fits and not (got == STRING and want == TIMESTAMP):
                raise refuse(name, types, place, said)
        return Signature(name, wanted[: len(types)], result)

    return rule


def texts(name: str, types: Types) -> Signature:
    """Return the signature of a function that takes any values, each converted to text."""
    check_count(name, types, 1, None, "values")
    return Signature(name, (STRING,) * len(types), STRING)


def epoch_ms(name: str, types: Types) -> Signature:
    """Return the signature of epoch_ms: from timestamp to milliseconds, or from milliseconds to timestamp."""
    if len(types) == 1 and types[0] is not None and types[0].is_integer:
        return Signature(name, (INT64,), TIMESTAMP)
    return fixed((TIMESTAMP,), INT64)(name, types)


RULES: dict[str, Rule] = {
    "add": arithmetic,
    "subtract": arithmetic,
    "multiply": arithmetic,
    "modulo": arithmetic,
    "divide": division,
    "integer_divide": integer_division,
    "negate": same_number,
    "abs": same_number,
    "sign": sign,
    "round": round_,
    "floor": rounding,
    "ceil": rounding,
    "sqrt": floats(1),
    "exp": floats(1),
    "ln": floats(1),
    "log10": floats(1, 2),  # two arguments mean log(base, x)
    "log2": floats(1),
    "power": floats(2),
    "equal": comparison,
    "not_equal": comparison,
    "less": comparison,
    "less_equal": comparison,
    "greater": comparison,
    "greater_equal": comparison,
    "in": membership,
    "and": logic(1, None),
    "or": logic(1, None),
    "not": logic(1, 1),
    "is_null": null_test,
    "is_not_null": null_test,
    "coalesce": alike,
    "greatest": alike,
    "least": alike,
    "nullif": nullif,
    "like": fixed(
        (STRING, STRING, STRING), BOOLEAN, optional=1
    ),  # the third argument is the ESCAPE character
    "ilike": fixed((STRING, STRING, STRING), BOOLEAN, optional=1),
    "append": texts,  # the operator ||: NULL if any operand is NULL
    "concat": texts,  # skips NULLs
    "lower": fixed((STRING,), STRING),
    "upper": fixed((STRING,), STRING),
    "length": fixed((STRING,), INT64),
    "substring": fixed((STRING, INT64, INT64), STRING, optional=1),
    "left": fixed((STRING, INT64), STRING),
    "right": fixed((STRING, INT64), STRING),
    "trim": fixed((STRING, STRING), STRING, optional=1),
    "ltrim": fixed((STRING, STRING), STRING, optional=1),
    "rtrim": fixed((STRING, STRING), STRING, optional=1),
    "replace": fixed((STRING, STRING, STRING), STRING),
    "starts_with": fixed((STRING, STRING), BOOLEAN),
    "ends_with": fixed((STRING, STRING), BOOLEAN),
    "contains": fixed((STRING, STRING), BOOLEAN),
    "strpos": fixed((STRING, STRING), INT64),
    **dict.fromkeys(
        TIME_PARTS,
        fixed((TIMESTAMP,), INT64),
    ),
    "epoch": fixed((TIMESTAMP,), FLOAT64),
    "epoch_ms": epoch_ms,
    "date_trunc": fixed((STRING, TIMESTAMP), TIMESTAMP),
}
