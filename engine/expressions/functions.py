"""Scalar functions: names, argument types and result types. The compiler (`engine/expressions/compiler.py`) computes their values.

`resolve` selects a signature by name and argument types; the caller casts each argument to the type in the signature.
The type None means a bare NULL, which gets the type of the other arguments. Names are in lower case; the planner names
the function of each operator.

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

All other rules are those of DuckDB, with these differences ("there" means in DuckDB):

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

from configs.errors import InvalidInput
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
from engine.expressions.kernels.comparison import MIRRORED
from engine.expressions.kernels.times import FIXED, MONTHS, PARTS


@dataclass(frozen=True)
class Signature:
    """Signature of a function: the types to which its arguments are cast, and the type of its result."""

    name: str
    arguments: tuple[DataType, ...]
    result: DataType


class WrongArguments(InvalidInput):
    """Error for a call with too few, too many or unsuitable arguments."""


Types = Sequence[DataType | None]
Rule = Callable[[str, Types], Signature]

TRUNCATIONS = (*FIXED, "week", *MONTHS)
"""Units for `date_trunc`."""
TIME_PARTS = tuple(PARTS)
"""Functions for the whole-number parts of a timestamp; EXTRACT and `date_part` use the same names."""

ALIASES = {
    alias: name
    for name, aliases in {
        "integer_divide": "div",
        "modulo": "mod fmod",
        "negate": "neg",
        "coalesce": "ifnull nvl",
        "lower": "lcase",
        "upper": "ucase",
        "length": "len char_length character_length",
        "substring": "substr",
        "starts_with": "prefix",
        "ends_with": "suffix",
        "strpos": "position instr",
        "ceil": "ceiling",
        "power": "pow",
        "log10": "log",
        "day": "dayofmonth",
        "day_of_week": "dayofweek dow",
        "day_of_year": "dayofyear doy",
        "date_trunc": "datetrunc",
    }.items()
    for alias in aliases.split()
}
"""Function that each other name in SQL stands for."""


def resolve(name: str, arguments: Types) -> Signature:
    """Return the signature of a function for these argument types; raise WrongArguments if no signature fits.

    The name of the function must be a name of RULES or ALIASES.
    """
    canonical = ALIASES.get(name, name)
    return RULES[canonical](canonical, arguments)


def castable(source: DataType, target: DataType) -> bool:
    """Return True if SQL can CAST from one type to the other; even then, a value may not fit into the other type."""
    if source == target or TypeKind.STRING in (source.kind, target.kind):
        return True
    return TypeKind.TIMESTAMP not in (source.kind, target.kind)


def common_type(types: Types) -> DataType | None:
    """Return the type to which values of all these types can be cast (branches of CASE, inputs of UNION), or None."""
    types_given = [type_ for type_ in types if type_ is not None]
    if not types_given:
        return INT32  # If all values are NULL, the type is int32, as in DuckDB
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
    """Return a decimal type for the values of an integer type; for int64, that decimal holds only values of up to 18 digits."""
    if type_.kind is TypeKind.DECIMAL:
        return type_
    return decimal(10, 0) if type_.kind is TypeKind.INT32 else decimal(DECIMAL_DIGITS_MAX, 0)


def without_fraction(type_: DataType) -> DataType:
    """Return the type of values of `type_` after they were rounded to whole numbers."""
    return decimal(type_.precision, 0) if type_.kind is TypeKind.DECIMAL else type_


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
    """Return the argument types; a NULL gets the first known type of the arguments.

    Raise WrongArguments if an argument is not numeric.
    """
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
    """Return the signature of FLOOR or CEIL; for an integer argument, the result is float64, as in DuckDB."""
    check_count(name, types, 1, 1, "a number")
    (number_type,) = numbers(name, types, "a number")
    argument = FLOAT64 if number_type.is_integer else number_type
    return Signature(name, (argument,), without_fraction(argument))


def round_(name: str, types: Types) -> Signature:
    expected = "a number and, optionally, the number of digits after the point"
    check_count(name, types, 1, 2, expected)
    (number_type,) = numbers(name, types[:1], expected)
    if len(types) == 1:
        return Signature(name, (number_type,), without_fraction(number_type))
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
    """Return the type in which values are compared; for example, a text that is compared with a number becomes a number."""
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
    """Return the signature of NULLIF: the result has the first argument's type; the second argument is cast to the common type."""
    expected = "two values of one type"
    check_count(name, types, 2, 2, expected)
    common = comparable(name, types, expected)
    first = types[0] or common
    return Signature(name, (first, common), first)


def fixed(wanted: tuple[DataType, ...], result: DataType, optional: int = 0) -> Rule:
    """Return a rule for functions with fixed argument types.

    Callers can omit the last `optional` arguments. An int32 argument is cast to int64 if the rule wants int64.
    """
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
    **dict.fromkeys(("add", "subtract", "multiply", "modulo"), arithmetic),
    "divide": division,
    "integer_divide": integer_division,
    **dict.fromkeys(("negate", "abs"), same_number),
    "sign": sign,
    "round": round_,
    **dict.fromkeys(("floor", "ceil"), rounding),
    **dict.fromkeys(("sqrt", "exp", "ln", "log2"), floats(1)),
    "log10": floats(1, 2),  # With two arguments, log10 is the SQL function log(base, x)
    "power": floats(2),
    **dict.fromkeys(MIRRORED, comparison),
    "in": membership,
    **dict.fromkeys(("and", "or"), logic(1, None)),
    "not": logic(1, 1),
    **dict.fromkeys(("is_null", "is_not_null"), null_test),
    **dict.fromkeys(("coalesce", "greatest", "least"), alike),
    "nullif": nullif,
    # The third argument of LIKE is the escape character.
    **dict.fromkeys(("like", "ilike"), fixed((STRING, STRING, STRING), BOOLEAN, optional=1)),
    "append": texts,  # Operator ||, which returns NULL if any operand is NULL
    "concat": texts,  # Concatenation that leaves out NULLs
    **dict.fromkeys(("lower", "upper"), fixed((STRING,), STRING)),
    "length": fixed((STRING,), INT64),
    "substring": fixed((STRING, INT64, INT64), STRING, optional=1),
    **dict.fromkeys(("left", "right"), fixed((STRING, INT64), STRING)),
    **dict.fromkeys(("trim", "ltrim", "rtrim"), fixed((STRING, STRING), STRING, optional=1)),
    "replace": fixed((STRING, STRING, STRING), STRING),
    **dict.fromkeys(("starts_with", "ends_with", "contains"), fixed((STRING, STRING), BOOLEAN)),
    "strpos": fixed((STRING, STRING), INT64),
    **dict.fromkeys(TIME_PARTS, fixed((TIMESTAMP,), INT64)),
    "epoch": fixed((TIMESTAMP,), FLOAT64),
    "epoch_ms": epoch_ms,
    "date_trunc": fixed((STRING, TIMESTAMP), TIMESTAMP),
}
