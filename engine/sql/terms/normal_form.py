"""Normal form of expressions: expressions with equal meanings become equal, so that queries share their operators.

All rules also hold for NULL, and for NaN, which is greater than every number. The operands of a sum of two floats may be
swapped, but longer sums are never regrouped. `key` defines the order of operands: columns by position, then calls, then constants.

    operands of AND, OR, +, ×, = … are sorted           1 < x                     → x > 1
    AND and OR are flat, each operand occurs once       NOT (a OR b)              → NOT a AND NOT b
    a negated comparison becomes its opposite           x = 1 OR x = 2            → x IN (1, 2)
    constants are computed                              x BETWEEN 1 AND 2         → x >= 1 AND x <= 2
    a comparison with TRUE or FALSE is removed          x IS NULL = FALSE         → x IS NOT NULL
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice

from engine.data.schema import BOOLEAN, FLOAT64, INT64, DataType
from engine.expressions.kernels.comparison import MIRRORED
from engine.plan.plan import TRUE, Call, Case, Cast, Column, Expression, Literal, columns_in, parts_of
from engine.sql.terms.constants import computed, value_of

FALSE = Literal(False, BOOLEAN)

OPPOSITE = {
    "equal": "not_equal",
    "not_equal": "equal",
    "less": "greater_equal",
    "greater_equal": "less",
    "greater": "less_equal",
    "less_equal": "greater",
    "is_null": "is_not_null",
    "is_not_null": "is_null",
}
COMMUTATIVE = {"add", "multiply", "greatest", "least"}


class DoesNotFit(ValueError):
    """Error for a constant that does not fit into a type."""


def key(expression: Expression) -> str:
    """Return the sort key of an expression; only equal expressions have equal keys."""
    match expression:
        case Column(place, type_):
            return f"0{place:09}:{type_}"
        case Call(function, arguments, type_):
            return f"1{function}({','.join(map(key, arguments))}):{type_}"
        case Cast(argument, type_, try_):
            return f"2{'try' if try_ else 'cast'}({key(argument)}):{type_}"
        case Case(branches, otherwise, type_):
            texts = ",".join(f"{key(condition)}?{key(value)}" for condition, value in branches)
            return f"3case({texts},{key(otherwise)}):{type_}"
        case Literal(value, type_):
            return f"4{value!r}:{type_}"


def call(function: str, arguments: Iterable[Expression], type_: DataType) -> Expression:
    """Return a call in normal form."""
    operands = tuple(arguments)
    match function:
        case "and" | "or":
            return connected(function, operands)
        case "not":
            return negated(operands[0])
        case "in":
            return any_of([call("equal", (operands[0], operand), BOOLEAN) for operand in operands[1:]])
        case "is_null" | "is_not_null" if isinstance(operands[0], Literal):
            return Literal((operands[0].value is None) == (function == "is_null"), BOOLEAN)
        case "coalesce":
            return first_known(operands, type_)
    if (constant := computed(Call(function, operands, type_))) is not None:
        return constant
    if function in COMMUTATIVE:
        operands = tuple(sorted(operands, key=key))
    elif function in MIRRORED and key(operands[0]) > key(operands[1]):
        function, operands = MIRRORED[function], (operands[1], operands[0])
    if function in ("equal", "not_equal") and operands[1] in (TRUE, FALSE):
        return operands[0] if (function == "equal") == (operands[1] == TRUE) else negated(operands[0])
    return Call(function, operands, type_)


def all_of(conditions: Iterable[Expression]) -> Expression:
    return connected("and", tuple(conditions))


def any_of(conditions: Iterable[Expression]) -> Expression:
    return connected("or", tuple(conditions))


def cast(argument: Expression, type_: DataType, try_: bool = False) -> Expression:
    """Return a cast in normal form; a constant is converted at once; raise DoesNotFit if that is impossible."""
    if argument.type == type_:
        return argument
    if not isinstance(argument, Literal):
        return Cast(argument, type_, try_)
    if argument.value is None:
        return Literal(None, type_)
    if argument.type.is_integer and type_ in (
        INT64,
        FLOAT64,
    ):  # Casts of integers are frequent, so they are computed without the engine
        return Literal(int(argument.value) if type_ == INT64 else float(argument.value), type_)
    constant = value_of(Cast(argument, type_, try_))
    if constant is None:
        raise DoesNotFit
    return constant


def connected(function: str, operands: Iterable[Expression]) -> Expression:
    """Return AND or OR of any number of conditions, in normal form."""
    empty, ruling = (TRUE, FALSE) if function == "and" else (FALSE, TRUE)
    flat = dict.fromkeys(_flat(function, operands))
    flat.pop(empty, None)
    if ruling in flat:
        return ruling
    conditions = sorted(_merged(function, flat), key=key)
    if not conditions:
        return empty
    return conditions[0] if len(conditions) == 1 else Call(function, tuple(conditions), BOOLEAN)


def _flat(function: str, operands: Iterable[Expression]) -> Iterable[Expression]:
    for operand in operands:
        if isinstance(operand, Call) and operand.function == function:
            yield from operand.arguments
        else:
            yield operand


def _merged(function: str, conditions: Iterable[Expression]) -> Iterable[Expression]:
    """Merge x = 1 OR x = 2 into x IN (1, 2), and x <> 1 AND x <> 2 into NOT x IN (1, 2)."""
    values: dict[Expression, dict[Literal, None]] = {}
    for condition in conditions:
        merged = _members(function, condition)
        if merged is None:
            yield condition
        else:
            values.setdefault(merged[0], {}).update(dict.fromkeys(merged[1]))
    for value, members in values.items():
        if len(members) == 1:
            condition = call("equal", (value, *members), BOOLEAN)
        else:
            condition = Call("in", (value, *sorted(members, key=key)), BOOLEAN)
        yield condition if function == "or" else negated(condition)


def _members(function: str, condition: Expression) -> tuple[Expression, tuple[Literal, ...]] | None:
    """Return the expression and the constants to which a condition compares the expression; None for any other condition.

    The terms of an OR have the form `x = 1` or `x IN (1, 2)`. The terms of an AND have the form `x <> 1` or `NOT x IN (1, 2)`.
    """
    if function == "and":
        match condition:
            case Call("not_equal" | "not", (_, *_)):
                condition = negated(condition)
            case _:
                return None
    if not isinstance(condition, Call) or condition.function not in ("equal", "in"):
        return None
    value, *members = condition.arguments
    constants = tuple(member for member in members if isinstance(member, Literal))
    return (value, constants) if len(constants) == len(members) and not isinstance(value, Literal) else None


def negated(condition: Expression) -> Expression:
    """Return the negated condition, with NOT pushed inward as far as possible."""
    match condition:
        case Call("not", (inner,)):
            return inner
        case Call("and" | "or" as function, operands):
            other = "or" if function == "and" else "and"
            return connected(other, [negated(operand) for operand in operands])
        case Call(function, operands) if function in OPPOSITE:
            return Call(OPPOSITE[function], operands, BOOLEAN)
        case Literal(value):
            return Literal(None if value is None else not value, BOOLEAN)
    return Call("not", (condition,), BOOLEAN)


def first_known(operands: Iterable[Expression], type_: DataType) -> Expression:
    """Return COALESCE without NULLs and without the operands after a constant."""
    useful: list[Expression] = []
    for operand in operands:
        if isinstance(operand, Literal) and operand.value is None:
            continue
        useful.append(operand)
        if isinstance(operand, Literal):
            break
    if not useful:
        return Literal(None, type_)
    return useful[0] if len(useful) == 1 else Call("coalesce", tuple(useful), type_)


def mapped(expression: Expression, columns: Mapping[int, Expression]) -> Expression:
    """Return the expression with other expressions in place of its columns, again in normal form."""
    match expression:
        case Column(place):
            return columns[place]
        case Literal():
            return expression
        case Cast(argument, type_, try_):
            return cast(mapped(argument, columns), type_, try_)
        case Call(function, arguments, type_):
            return call(function, [mapped(part, columns) for part in arguments], type_)
        case Case(branches, otherwise, type_):
            return Case(
                tuple((mapped(part, columns), mapped(value, columns)) for part, value in branches),
                mapped(otherwise, columns),
                type_,
            )


def shifted(expression: Expression, by: int) -> Expression:
    """Return the expression with the positions of all its columns increased by `by`."""
    if not by:
        return expression
    moved = {column.place: Column(column.place + by, column.type) for column in columns_in(expression)}
    return mapped(expression, moved)


def size(expression: Expression, most: int) -> int:
    """Return the number of parts of an expression; counting ends as soon as the number exceeds `most`."""
    return sum(1 for _ in islice(parts_of(expression), most + 1))
