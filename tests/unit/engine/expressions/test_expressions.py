"""Expressions over small trains: values, NULLs and failing rows (engine/expressions/compiler.py)."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engine.data.schema import (
    BOOLEAN,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    STRING,
    TIMESTAMP,
    DataType,
    decimal,
)
from engine.data.train import Train, Values
from engine.expressions.compiler import RowFailures, compile_condition, compile_projection
from engine.expressions.functions import resolve
from engine.plan.plan import Call, Case, Cast, Column, Expression, Literal

SECOND = 1_000_000


def train(*columns: tuple[DataType, list[Any]]) -> Train:
    """Return a train of columns with plain values; None is NULL."""
    made = [values(type_, column) for type_, column in columns]
    return Train(tuple(made), np.zeros(len(made[0]) if made else 0))


def values(type_: DataType, column: list[Any]) -> Values:
    valid = np.array([one is not None for one in column], bool)
    blank: Any = "" if type_ == STRING else 0
    filled = [blank if one is None else one for one in column]
    data = pa.array(filled, pa.string()) if type_ == STRING else np.array(filled, type_.numpy)
    return Values(type_, data, None if valid.all() else valid)


def listed(column: Values) -> list[Any]:
    found = column.data.to_pylist() if column.type == STRING else column.data.tolist()
    valid = [True] * len(found) if column.valid is None else column.valid
    return [one if known else None for one, known in zip(found, valid, strict=True)]


def call(name: str, *arguments: Expression) -> Expression:
    signature = resolve(name, [one.type for one in arguments])
    pairs = zip(arguments, signature.arguments, strict=True)
    cast = tuple(one if one.type == type_ else Cast(one, type_) for one, type_ in pairs)
    return Call(signature.name, cast, signature.result)


def evaluated(expression: Expression, over: Train) -> tuple[list[Any], dict[str, int]]:
    failures = RowFailures()
    (column,) = compile_projection([expression])(over, failures)
    assert column.type == expression.type
    return listed(column), failures.counts


def value_of(expression: Expression) -> Any:
    """Return the value of an expression of constants, or "failed"."""
    ((value,), counts) = evaluated(expression, train((INT32, [0])))
    return "failed" if counts else value


def text(value: str | None) -> Literal:
    return Literal(value, STRING)


def integer(value: int | None) -> Literal:
    return Literal(value, INT64)


def double(value: float | None) -> Literal:
    return Literal(value, FLOAT64)


NUMBERS = train((INT64, [1, None, 3, -4]), (INT64, [10, 20, None, 0]))
X, Y = Column(0, INT64), Column(1, INT64)


# --- values and NULLs -----------------------------------------------------------------------------------


def test_null_makes_arithmetic_null() -> None:
    assert evaluated(call("add", X, Y), NUMBERS) == ([11, None, None, -4], {})


def test_a_column_without_nulls_has_no_valid_mask() -> None:
    (column,) = compile_projection([call("add", X, integer(1))])(train((INT64, [1, 2])), RowFailures())
    assert column.valid is None
    assert listed(column) == [2, 3]


def test_division_by_zero_is_null() -> None:
    for name in ("divide", "integer_divide", "modulo"):
        found, counts = evaluated(call(name, X, Y), NUMBERS)
        assert found[3] is None
        assert counts == {}
        assert value_of(call(name, integer(1), integer(0))) is None
        assert evaluated(call(name, X, integer(0)), NUMBERS) == ([None] * 4, {})


def test_integers_divide_toward_zero() -> None:
    over = train((INT64, [7, -7, 7, -7]), (INT64, [2, 2, -2, -2]))
    assert evaluated(call("integer_divide", X, Y), over)[0] == [3, -3, -3, 3]
    assert evaluated(call("modulo", X, Y), over)[0] == [1, -1, 1, -1]
    assert evaluated(call("integer_divide", X, integer(2)), over)[0] == [3, -3, 3, -3]


def test_decimals_are_exact() -> None:
    money = decimal(9, 2)
    over = train((money, [1010, -1055]), (decimal(5, 3), [100, 200]))
    one, other = Column(0, money), Column(1, decimal(5, 3))
    assert evaluated(call("add", one, other), over)[0] == [10_200, -10_350]
    assert evaluated(call("multiply", one, other), over)[0] == [101_000, -211_000]
    assert evaluated(call("round", one, Literal(1, INT32)), over)[0] == [1010, -1060]
    assert evaluated(call("floor", one), over)[0] == [10, -11]
    assert evaluated(call("less", one, integer(0)), over)[0] == [False, True]
    assert evaluated(Cast(one, STRING), over)[0] == ["10.10", "-10.55"]


@pytest.mark.parametrize(
    ("left", "right", "both", "either"),
    [
        (True, True, True, True),
        (True, False, False, True),
        (True, None, None, True),
        (False, False, False, False),
        (False, None, False, None),
        (None, None, None, None),
    ],
)
def test_and_or_and_not_follow_three_valued_logic(
    left: bool | None, right: bool | None, both: bool | None, either: bool | None
) -> None:
    for one, other in ((left, right), (right, left)):
        over = train((BOOLEAN, [one]), (BOOLEAN, [other]))
        columns, constant = [Column(0, BOOLEAN), Column(1, BOOLEAN)], Literal(other, BOOLEAN)
        assert evaluated(call("and", *columns), over)[0] == [both]
        assert evaluated(call("or", *columns), over)[0] == [either]
        assert evaluated(call("and", columns[0], constant), over)[0] == [both]
        assert evaluated(call("or", columns[0], constant), over)[0] == [either]


def test_is_null_coalesce_nullif_greatest_and_least_handle_nulls() -> None:
    assert evaluated(call("is_null", X), NUMBERS)[0] == [False, True, False, False]
    assert evaluated(call("is_not_null", X), NUMBERS)[0] == [True, False, True, True]
    assert evaluated(call("coalesce", X, Y, integer(0)), NUMBERS)[0] == [1, 20, 3, -4]
    assert evaluated(call("coalesce", X, integer(9)), NUMBERS)[0] == [1, 9, 3, -4]
    assert evaluated(call("nullif", X, integer(3)), NUMBERS)[0] == [1, None, None, -4]
    assert evaluated(call("greatest", X, Y), NUMBERS)[0] == [10, 20, 3, 0]
    assert evaluated(call("least", X, Y, integer(2)), NUMBERS)[0] == [1, 2, 2, -4]


def test_membership_with_null_in_the_list_is_never_false() -> None:
    assert evaluated(call("in", X, integer(1), integer(3)), NUMBERS)[0] == [True, None, True, False]
    assert evaluated(call("in", X, integer(1), integer(None)), NUMBERS)[0] == [True, None, None, None]
    assert evaluated(call("in", X, Y, integer(1)), NUMBERS)[0] == [True, None, None, False]
    many = call("in", X, *map(integer, range(3, 40)))
    assert evaluated(many, NUMBERS)[0] == [False, None, True, False]


def test_nan_equals_itself_and_is_above_all_numbers() -> None:
    over = train((FLOAT64, [math.nan, math.inf, 1.0]), (FLOAT64, [math.nan, 1.0, math.nan]))
    one, other = Column(0, FLOAT64), Column(1, FLOAT64)
    assert evaluated(call("equal", one, other), over)[0] == [True, False, False]
    assert evaluated(call("less", one, other), over)[0] == [False, False, True]
    assert evaluated(call("greater", one, double(1e300)), over)[0] == [True, True, False]
    assert evaluated(call("less_equal", double(math.inf), one), over)[0] == [True, True, False]
    assert evaluated(call("in", one, double(math.nan)), over)[0] == [True, False, False]
    assert evaluated(call("greatest", one, other), over)[0][1] == math.inf


def test_case_takes_the_first_true_branch() -> None:
    size = Case(
        (
            (call("greater", X, integer(2)), text("large")),
            (call("greater", X, integer(0)), text("small")),
        ),
        Literal(None, STRING),
        STRING,
    )
    assert evaluated(size, NUMBERS)[0] == ["small", None, "large", None]


# --- functions of texts ---------------------------------------------------------------------------------

WORDS = train((STRING, ["hello", "añ🦆b", "", None]))
WORD = Column(0, STRING)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (call("length", WORD), [5, 4, 0, None]),
        (call("upper", WORD), ["HELLO", "AÑ🦆B", "", None]),
        (call("substring", WORD, integer(2), integer(2)), ["el", "ñ🦆", "", None]),
        (call("substring", WORD, integer(0), integer(2)), ["h", "a", "", None]),
        (call("substring", WORD, integer(-3), integer(2)), ["ll", "ñ🦆", "", None]),
        (call("substring", WORD, integer(-10), integer(7)), ["he", "a", "", None]),
        (call("substring", WORD, integer(3), integer(-2)), ["he", "añ", "", None]),
        (call("left", WORD, integer(-2)), ["hel", "añ", "", None]),
        (call("right", WORD, integer(2)), ["lo", "🦆b", "", None]),
        (call("right", WORD, integer(0)), ["", "", "", None]),
        (call("replace", WORD, text("l"), text("L")), ["heLLo", "añ🦆b", "", None]),
        (call("replace", WORD, text(""), text("L")), ["hello", "añ🦆b", "", None]),
        (call("strpos", WORD, text("b")), [0, 4, 0, None]),
        (call("starts_with", WORD, text("h")), [True, False, False, None]),
        (call("append", WORD, integer(1)), ["hello1", "añ🦆b1", "1", None]),
        (call("concat", WORD, text(None), text("!")), ["hello!", "añ🦆b!", "!", "!"]),
        (call("less", WORD, text("b")), [False, True, True, None]),
        (call("in", WORD, text("hello"), text("")), [True, False, True, None]),
    ],
)
def test_text_is_counted_in_code_points(expression: Expression, expected: list[Any]) -> None:
    assert evaluated(expression, WORDS) == (expected, {})


@pytest.mark.parametrize(
    ("pattern", "matching"),
    [
        ("abc", ["abc"]),
        ("a%", ["abc", "a%", "a\nc"]),
        ("%c", ["abc", "a\nc"]),
        ("%b%", ["abc"]),
        ("a_c", ["abc", "a\nc"]),
        ("%", ["abc", "a%", "a\nc", "", "é."]),
        ("_.", ["é."]),
        ("a%%c", ["abc", "a\nc"]),
        ("a!%", ["a%"]),
        ("", [""]),
    ],
)
def test_like_matches_the_whole_text(pattern: str, matching: list[str]) -> None:
    words = ["abc", "a%", "a\nc", "", "é."]
    over = train((STRING, words), (STRING, [pattern] * len(words)))
    for given in (text(pattern), Column(1, STRING)):
        found, _ = evaluated(call("like", WORD, given, text("!")), over)
        assert [word for word, matches in zip(words, found, strict=True) if matches] == matching


def test_ilike_ignores_case() -> None:
    over = train((STRING, ["ÉCOLE", "x"]), (STRING, ["é%", "X"]))
    assert evaluated(call("ilike", WORD, text("éC%")), over)[0] == [True, False]
    assert evaluated(call("ilike", WORD, Column(1, STRING)), over)[0] == [True, True]


def test_a_pattern_ending_in_its_escape_fails_the_row() -> None:
    found, counts = evaluated(call("like", WORD, text("a!"), text("!")), WORDS)
    assert found == [None] * 4
    assert sum(counts.values()) == 3


# --- functions of times ---------------------------------------------------------------------------------


def test_parts_of_times_are_right_before_the_epoch() -> None:
    moment = Literal(-500_000, TIMESTAMP)  # the timestamp 1969-12-31 23:59:59.5
    parts = ["year", "month", "day", "hour", "minute", "second", "day_of_week", "epoch"]
    found = [value_of(call(part, moment)) for part in parts]
    assert found == [1969, 12, 31, 23, 59, 59, 3, -0.5]
    assert value_of(Cast(moment, STRING)) == "1969-12-31 23:59:59.5"


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        ("second", "1969-12-31 23:59:59"),
        ("hour", "1969-12-31 23:00:00"),
        ("week", "1969-12-29 00:00:00"),
        ("quarter", "1969-10-01 00:00:00"),
        ("decade", "1960-01-01 00:00:00"),
        ("century", "1900-01-01 00:00:00"),
    ],
)
def test_times_are_truncated_downward(unit: str, expected: str) -> None:
    over = train((TIMESTAMP, [-500_000]))
    for moment in (Column(0, TIMESTAMP), Literal(-500_000, TIMESTAMP)):
        truncated = call("date_trunc", text(unit), moment)
        assert evaluated(Cast(truncated, STRING), over) == ([expected], {})


def test_an_interval_is_added_in_microseconds() -> None:
    over = train((TIMESTAMP, [5, None]))
    later = call("add", Column(0, TIMESTAMP), integer(SECOND))
    assert evaluated(later, over)[0] == [SECOND + 5, None]
    assert evaluated(call("subtract", later, Column(0, TIMESTAMP)), over)[0] == [SECOND, None]


# --- casts between types --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "type_", "expected"),
    [
        (" 12 ", INT32, 12),
        ("+12", INT64, 12),
        ("12.5", INT64, 13),
        ("-0.5", INT32, -1),
        ("1e3", INT32, 1000),
        ("1_000", INT64, 1000),
        ("0x1f", INT64, 31),
        ("9223372036854775807", INT64, 2**63 - 1),
        ("9223372036854775808", INT64, "failed"),
        ("2147483648", INT32, "failed"),
        ("1e999999999", INT64, "failed"),
        ("9223372036854775807e-18", INT32, 9),
        ("-9223372036854775808e-18", INT32, -9),
        ("9223372036854775808e-18", INT32, "failed"),
        ("000000000000000000000012.5", INT32, 13),
        ("-.5", INT32, -1),
        ("", INT64, "failed"),
        ("12abc", INT64, "failed"),
        ("٣", INT64, "failed"),
        ("1.5e-3", FLOAT64, 0.0015),
        ("-Infinity", FLOAT64, -math.inf),
        ("0x10", FLOAT64, "failed"),
        ("1.005", decimal(10, 2), 101),
        ("99.999", decimal(4, 2), "failed"),
        ("T", BOOLEAN, True),
        ("no", BOOLEAN, False),
        ("on", BOOLEAN, "failed"),
        ("2020-02-29 12:00:01.5", TIMESTAMP, 1_582_977_601_500_000),
        ("2020-2-29", TIMESTAMP, 1_582_934_400_000_000),
        ("2020-02-29T14:00:01.5+02:00", TIMESTAMP, 1_582_977_601_500_000),
        ("2020-02-29 24:00:00", TIMESTAMP, 1_583_020_800_000_000),
        ("2021-02-29", TIMESTAMP, "failed"),
        ("20200229", TIMESTAMP, "failed"),
    ],
)
def test_a_cast_from_text_gives_the_value_or_fails_if_the_type_cannot_hold_it(
    written: str, type_: DataType, expected: Any
) -> None:
    assert value_of(Cast(text(written), type_)) == expected
    tried = value_of(Cast(text(written), type_, try_=True))
    assert tried == (None if expected == "failed" else expected)


@pytest.mark.parametrize(
    ("value", "type_", "expected"),
    [
        (double(2.5), INT32, 2),
        (double(3.5), INT64, 4),
        (double(2.0**63), INT64, "failed"),
        (double(math.nan), INT64, "failed"),
        (double(1e39), FLOAT32, "failed"),
        (double(math.inf), FLOAT32, math.inf),
        (double(12.345), decimal(4, 2), 1235),
        (double(123.0), decimal(4, 2), "failed"),
        (integer(2**31), INT32, "failed"),
        (integer(1234), decimal(4, 2), "failed"),
        (Literal(250, decimal(4, 2)), INT32, 3),
        (Literal(-250, decimal(4, 2)), INT32, -3),
        (Literal(99_999, decimal(5, 3)), decimal(4, 2), "failed"),
        (Literal(True, BOOLEAN), decimal(4, 2), 100),
        (double(math.nan), BOOLEAN, True),
        (double(1e16), STRING, "1e+16"),
        (Literal(16_777_216.0, FLOAT32), STRING, "16777216.0"),
    ],
)
def test_a_cast_of_a_number_rounds_it_or_fails_if_the_type_cannot_hold_it(
    value: Literal, type_: DataType, expected: Any
) -> None:
    assert value_of(Cast(value, type_)) == expected


def test_a_text_that_is_no_number_fails_only_the_cast_of_its_own_row() -> None:
    over = train((STRING, ["1", "x", "3", None]))
    assert evaluated(Cast(WORD, INT64), over) == ([1, None, 3, None], {"text is not a int64": 1})
    assert evaluated(Cast(WORD, INT64, try_=True), over) == ([1, None, 3, None], {})


# --- rows that fail -------------------------------------------------------------------------------------

EXTREMES = train((INT64, [2**63 - 1, -(2**63), 5, None]))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (call("add", X, integer(1)), [None, -(2**63) + 1, 6, None]),
        (call("subtract", X, integer(1)), [2**63 - 2, None, 4, None]),
        (call("multiply", X, integer(2)), [None, None, 10, None]),
        (call("multiply", X, integer(-1)), [-(2**63) + 1, None, -5, None]),
        (call("multiply", X, X), [None, None, 25, None]),
        (call("negate", X), [-(2**63) + 1, None, -5, None]),
        (call("abs", X), [2**63 - 1, None, 5, None]),
        (call("integer_divide", X, integer(-1)), [-(2**63) + 1, None, -5, None]),
        (call("sqrt", X), [math.sqrt(2**63), None, math.sqrt(5), None]),
        (Cast(X, INT32), [None, None, 5, None]),
    ],
)
def test_overflow_fails_only_its_row(expression: Expression, expected: list[Any]) -> None:
    found, counts = evaluated(expression, EXTREMES)
    assert found == expected
    assert sum(counts.values()) == expected.count(None) - 1


def test_a_decimal_beyond_18_digits_fails() -> None:
    wide = decimal(18, 0)
    over = train((wide, [10**18 - 1, 1]))
    assert evaluated(call("add", Column(0, wide), Column(0, wide)), over)[0] == [None, 2]
    assert evaluated(call("multiply", Column(0, wide), Column(0, wide)), over)[0] == [None, 1]


def test_a_stored_value_that_is_marked_as_null_cannot_fail_its_row() -> None:
    over = Train(
        (Values(INT64, np.array([2**63 - 1, 1]), np.array([False, True])),),
        np.zeros(2),
    )
    assert evaluated(call("add", X, integer(1)), over) == ([None, 2], {})


def test_a_row_that_fails_for_two_reasons_is_counted_for_the_first_only() -> None:
    failures = RowFailures()
    failures.add(np.array([True, False, False]), "overflow")
    failures.add(np.array([True, True, False]), "bad text")
    rows = failures.rows
    assert rows is not None
    assert rows.tolist() == [True, True, False]
    assert failures.counts == {"overflow": 1, "bad text": 1}


BAD = Cast(WORD, INT64)
MIXED = train((STRING, ["1", "x", None]))
IS_X = call("equal", WORD, text("x"))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (Case(((IS_X, integer(0)),), BAD, INT64), [1, 0, None]),
        (Case(((call("not", IS_X), BAD),), integer(0), INT64), [1, 0, 0]),
        (
            Case(((IS_X, integer(0)), (call("equal", BAD, integer(1)), integer(7))), integer(8), INT64),
            [7, 0, 8],
        ),
        (call("and", call("not", IS_X), call("equal", BAD, integer(1))), [True, False, None]),
        (call("or", IS_X, call("equal", BAD, integer(1))), [True, True, None]),
        (call("coalesce", call("nullif", text("a"), text("b")), Cast(BAD, STRING)), ["a", "a", "a"]),
        (call("in", WORD, text("x"), Cast(BAD, STRING)), [True, True, None]),
    ],
)
def test_an_expression_that_a_row_does_not_need_cannot_fail_the_row(
    expression: Expression, expected: list[Any]
) -> None:
    assert evaluated(expression, MIXED) == (expected, {})


def test_a_shared_subexpression_fails_only_rows_that_need_it() -> None:
    guarded = Case(((IS_X, integer(0)),), BAD, INT64)
    failures = RowFailures()
    one, other = compile_projection([guarded, Case(((IS_X, BAD),), integer(0), INT64)])(MIXED, failures)
    assert listed(one) == [1, 0, None]
    assert listed(other) == [0, None, 0]
    assert failures.counts == {"text is not a int64": 1}


def test_a_constant_that_cannot_be_computed_fails_the_rows_that_need_it() -> None:
    bad = Cast(text("x"), INT64)
    assert evaluated(bad, MIXED) == ([None] * 3, {"text is not a int64": 3})
    assert evaluated(Case(((IS_X, bad),), integer(0), INT64), MIXED) == (
        [0, None, 0],
        {"text is not a int64": 1},
    )


# --- conditions and projections ---------------------------------------------------------------------------


def test_a_condition_selects_rows_where_it_is_true_and_does_not_fail() -> None:
    failures = RowFailures()
    condition = call("or", call("greater", BAD, integer(0)), IS_X)
    assert compile_condition(condition)(MIXED, failures).tolist() == [True, False, False]
    rows = failures.rows
    assert rows is not None
    assert rows.tolist() == [False, True, False]


def test_constants_fill_a_column_and_an_empty_train_gives_empty_columns() -> None:
    expressions: list[Expression] = [
        integer(7),
        text("a"),
        Literal(None, TIMESTAMP),
        WORD,
        call("upper", WORD),
    ]
    project = compile_projection(expressions)
    assert [listed(column) for column in project(MIXED, RowFailures())][:3] == [
        [7] * 3,
        ["a"] * 3,
        [None] * 3,
    ]
    assert [len(column) for column in project(train((STRING, [])), RowFailures())] == [0] * 5


def test_a_literal_true_selects_all_rows() -> None:
    assert compile_condition(Literal(True, BOOLEAN))(MIXED, RowFailures()).tolist() == [True] * 3
    assert compile_condition(Literal(None, BOOLEAN))(MIXED, RowFailures()).tolist() == [False] * 3
