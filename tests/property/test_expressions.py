"""Expressions compared with DuckDB: Weir and DuckDB evaluate the same random expression tree over the same table.

A tree is built from the signatures of Weir's functions, and rendered to DuckDB's SQL with a cast that fixes
every type. Where DuckDB raises an error for a row, Weir must fail that row and no other row. For the deliberate
differences listed in engine/expressions/functions.py, the SQL expresses Weir's meaning. DuckDB's optimiser is
switched off as far as possible, because it may evaluate parts that a row does not need.
"""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.data.schema import (
    BOOLEAN,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    STRING,
    TIMESTAMP,
    DataType,
    Field,
    Schema,
    TypeKind,
    decimal,
)
from engine.data.train import Train, Values, train_to_arrow
from engine.expressions.compiler import RowFailures, compile_condition, compile_projection
from engine.expressions.functions import castable, resolve
from engine.plan.plan import Call, Case, Cast, Column, Expression, Literal

ROWS = 24
MONEY, FINE, WHOLE = decimal(9, 2), decimal(18, 4), decimal(18, 0)
TYPES = (BOOLEAN, INT32, INT64, FLOAT32, FLOAT64, MONEY, FINE, WHOLE, STRING, TIMESTAMP)

SAMPLES: dict[DataType, list[Any]] = {
    BOOLEAN: [True, False],
    INT32: [0, 1, -1, 2, -7, 10, 155, 2**31 - 1, -(2**31), 46341],
    INT64: [0, 1, -1, 3, -7, 10, 1_700_000_000, 2**63 - 1, -(2**63), 3_037_000_500, 2**53 + 1, -(2**31) - 1],
    FLOAT32: [0.0, -0.0, 1.5, -2.5, 0.1, 3.4e38, 1e-40, math.inf, -math.inf, math.nan, 16777216.0],
    FLOAT64: [0.0, 1.0, -2.5, 0.5, 0.1, 1e300, -1e-300, math.inf, -math.inf, math.nan, 2.0**63, 123.456],
    MONEY: [0, 1, -1, 150, -250, 999_999_999, -999_999_999, 12345, -155],
    FINE: [0, 1, -1, 15000, 10**18 - 1, -(10**18) + 1, 123_456_789, -25000],
    WHOLE: [0, 1, -1, 7, 10**18 - 1, -(10**18) + 1],
    STRING: [
        *(
            "",
            "a",
            "A",
            "abc",
            "b%",
            "a_c",
            "\\",
            "é",
            "e\u0301",
            "ß",
            "🦆duck",
            " a ",
            "aXbXc",
            "É%",
            "it's",
        ),
        *(
            "12",
            " -7 ",
            "1.5",
            "1e3",
            "x",
            "9223372036854775808",
            "true",
            "2020-02-29 12:00:01.5",
            "1969-7-4",
        ),
    ],
    TIMESTAMP: [
        *(0, 1, -1, 999_999, -1_000_000, 86_400_000_000, -86_400_000_001, 1_582_979_696_123_456),
        *(951_825_599_999_999, -2_203_977_600_000_000, -12_219_292_800_000_000, 4_102_444_800_000_000),
    ],
}


def values(type_: DataType, chance: random.Random, nulls: bool) -> Values:
    drawn = [chance.choice(SAMPLES[type_]) for _ in range(ROWS)]
    valid = np.array([chance.random() > 0.2 for _ in range(ROWS)]) if nulls else None
    data = pa.array(drawn, pa.string()) if type_ is STRING else np.array(drawn, type_.numpy)
    return Values(type_, data, valid)


# The columns of the table are drawn with a fixed seed, and hypothesis varies only the trees.
# Each type has two columns with NULLs, and one column without NULLs.
CHANCE = random.Random("expressions")
TRAIN = Train(
    tuple(values(type_, CHANCE, nulls) for nulls in (True, True, False) for type_ in TYPES), np.zeros(ROWS)
)
SCHEMA = Schema(
    tuple(
        Field(f"c{place}", INT64 if column.type == TIMESTAMP else column.type)
        for place, column in enumerate(TRAIN.columns)
    )
)


@pytest.fixture(scope="module")
def oracle() -> Iterator[duckdb.DuckDBPyConnection]:
    connection = duckdb.connect(config={"threads": 1})
    held = Train(
        tuple(
            Values(INT64, column.data, column.valid) if column.type == TIMESTAMP else column
            for column in TRAIN.columns
        ),
        TRAIN.arrival,
    )
    connection.register("held", pa.Table.from_batches([train_to_arrow(held, SCHEMA)]))
    columns = [
        f"make_timestamp({field.name}) AS {field.name}" if column.type == TIMESTAMP else field.name
        for field, column in zip(SCHEMA.fields, TRAIN.columns, strict=True)
    ]
    connection.execute(f"CREATE TABLE t AS SELECT {', '.join(columns)} FROM held")
    connection.execute("SET ieee_floating_point_ops = false")
    connection.execute("PRAGMA disable_optimizer")
    yield connection
    connection.close()


# --- random expression trees ----------------------------------------------------------------------------


def call(name: str, *arguments: Expression) -> Expression:
    signature = resolve(name, [one.type for one in arguments])
    return Call(
        signature.name,
        tuple(map(cast_to, arguments, signature.arguments)),
        signature.result,
    )


def cast_to(expression: Expression, type_: DataType) -> Expression:
    return expression if expression.type == type_ else Cast(expression, type_)


COMPARISONS = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]
PARTS = [
    "year",
    "quarter",
    "month",
    "day",
    "day_of_week",
    "day_of_year",
    "hour",
    "minute",
    "second",
    "epoch_ms",
]
UNITS = ["second", "minute", "hour", "day", "week", "month", "quarter", "year", "decade", "century"]
SMALL = [-6, -3, -1, 0, 1, 2, 3, 7]
PATTERNS = ["", "%", "a%", "%c", "%X%", "_", "a_c", "%\\%%", "b!%", "é%", "%_%b%", "a!_c", "A%C"]


@dataclass
class Trees:
    """Strategy for random trees of a type. The trees are small, so that many different trees can be tested."""

    draw: Any

    def pick(self, options: list[Any]) -> Any:
        return options[self.draw(st.integers(0, len(options) - 1))]

    def leaf(self, type_: DataType) -> Expression:
        if self.draw(st.integers(0, 3)):
            places = [place for place, column in enumerate(TRAIN.columns) if column.type == type_]
            if places:
                return Column(self.pick(places), type_)
        return self.literal(type_)

    def literal(self, type_: DataType) -> Expression:
        if type_ in SAMPLES:
            return Literal(self.pick([*SAMPLES[type_], None]), type_)
        return Literal(self.pick([0, 1, -1]), type_)

    def small(self) -> Expression:
        if self.draw(st.booleans()):
            return Literal(self.pick(SMALL), INT64)
        return call("modulo", self.leaf(INT64), Literal(7, INT64))

    def tree(self, type_: DataType, depth: int) -> Expression:
        if depth == 0 or not self.draw(st.integers(0, 4)):
            return self.leaf(type_)
        return cast_to(self.branch(type_, depth - 1), type_)

    def branch(self, type_: DataType, depth: int) -> Expression:
        def tree(wanted: DataType = type_) -> Expression:
            return self.tree(wanted, depth)

        match self.draw(st.integers(0, 9)):
            case 0:
                return call("coalesce", tree(), tree())
            case 1:
                return call("nullif", tree(), tree())
            case 2:
                branches = [(tree(BOOLEAN), tree()) for _ in range(self.draw(st.integers(1, 2)))]
                return Case(tuple(branches), tree(), type_)
            case 3:
                made = call(self.pick(["greatest", "least"]), tree(), tree())
                # If both 0.0 and −0.0 are arguments, `greatest` and `least` may return either value. Adding 0.0 turns −0.0 into 0.0.
                return call("add", made, Literal(0.0, type_)) if type_.is_float else made
            case 4:
                source = self.pick([one for one in TYPES if castable(one, type_) and one != type_])
                # DuckDB accepts the text 'inf', which floats can produce, as a timestamp.
                plain = type_ == TIMESTAMP or (type_ == STRING and source == FLOAT32)
                return Cast(
                    self.leaf(source) if plain else tree(source), type_, try_=self.draw(st.booleans())
                )
        match type_.kind:
            case TypeKind.BOOLEAN:
                return self.condition(depth)
            case TypeKind.STRING:
                return self.text(depth)
            case TypeKind.TIMESTAMP:
                if self.draw(st.booleans()):
                    return call("date_trunc", Literal(self.pick(UNITS), STRING), tree())
                return call(self.pick(["add", "subtract"]), self.leaf(TIMESTAMP), self.leaf(INT32))
        return self.number(type_, depth)

    def number(self, type_: DataType, depth: int) -> Expression:
        def tree(wanted: DataType) -> Expression:
            return self.tree(wanted, depth)

        numeric = [one for one in TYPES if one.is_numeric]
        if type_.is_integer:
            match self.draw(st.integers(0, 5)):
                case 0:
                    return call("length", tree(STRING))
                case 1:
                    return call("strpos", tree(STRING), tree(STRING))
                case 2:
                    return call(self.pick(PARTS), tree(TIMESTAMP))
                case 3:
                    return call("sign", tree(self.pick(numeric)))
        if type_.is_float and not self.draw(st.integers(0, 3)):
            return call("epoch", tree(TIMESTAMP))
        match self.draw(st.integers(0, 5)):
            case 0:
                return call(self.pick(["negate", "abs", "round", "floor", "ceil"]), tree(type_))
            case 1:
                # DuckDB returns 0 for a NULL decimal if it rounds all digits of the decimal away.
                digits = [-2, -1, 0, 1, 2, 3, 400] + (
                    [] if type_.kind is TypeKind.DECIMAL else [-20, -19, -10]
                )
                return call("round", tree(type_), Literal(self.pick(digits), INT32))
            case 2 if type_.is_float:
                if self.draw(st.booleans()):
                    return call("sqrt", tree(type_))
                return call("divide", tree(type_), tree(type_))
            case 2 if type_.is_integer:
                return call("integer_divide", tree(type_), tree(type_))
        other = self.pick(numeric)
        name = self.pick(["add", "subtract", "multiply", "modulo"])
        return call(name, tree(type_), tree(other))

    def condition(self, depth: int) -> Expression:
        def tree(wanted: DataType = BOOLEAN) -> Expression:
            return self.tree(wanted, depth)

        type_ = self.pick(list(TYPES))
        match self.draw(st.integers(0, 6)):
            case 0:
                return call(self.pick(["and", "or"]), *(tree() for _ in range(self.draw(st.integers(2, 3)))))
            case 1:
                return call("not", tree())
            case 2:
                return call(self.pick(["is_null", "is_not_null"]), tree(type_))
            case 3:
                items = [self.leaf(type_) for _ in range(self.draw(st.integers(1, 8)))]
                return call("in", tree(type_), *items)
            case 4:
                name = self.pick(["like", "ilike"])
                if self.draw(st.booleans()):
                    return call(name, tree(STRING), tree(STRING))
                # No pattern ends in its escape character, because DuckDB's TRY does not catch the error of such a pattern.
                pattern = Literal(self.pick(PATTERNS), STRING)
                escape = [Literal(self.pick(["!", "\\"]), STRING)] if self.draw(st.booleans()) else []
                return call(name, tree(STRING), pattern, *escape)
            case 5:
                return call(self.pick(["starts_with", "ends_with", "contains"]), tree(STRING), tree(STRING))
        other = self.pick([one for one in TYPES if one.is_numeric]) if type_.is_numeric else type_
        return call(self.pick(COMPARISONS), tree(type_), tree(other))

    def text(self, depth: int) -> Expression:
        def tree(wanted: DataType = STRING) -> Expression:
            return self.tree(wanted, depth)

        match self.draw(st.integers(0, 6)):
            case 0:
                return call(self.pick(["lower", "upper"]), tree())
            case 1:
                return call(
                    "substring", tree(), self.small(), *([self.small()] * self.draw(st.integers(0, 1)))
                )
            case 2:
                return call(self.pick(["left", "right"]), tree(), self.small())
            case 3:
                characters = [self.leaf(STRING)] if self.draw(st.booleans()) else []
                return call(self.pick(["trim", "ltrim", "rtrim"]), tree(), *characters)
            case 4:
                return call("replace", tree(), self.leaf(STRING), self.leaf(STRING))
        # Some float32 values, but none in the table, have two equally short texts, of which DuckDB and Weir choose different ones.
        other = self.pick(list(TYPES))
        argument = self.leaf(other) if other == FLOAT32 else tree(other)
        return call(self.pick(["append", "concat"]), tree(), argument)


@st.composite
def trees(draw: Any, types: tuple[DataType, ...] = TYPES) -> Expression:
    made = Trees(draw)
    return made.tree(made.pick(list(types)), 3)


# --- SQL of the expression trees ------------------------------------------------------------------------

NAMES = {
    TypeKind.BOOLEAN: "BOOLEAN",
    TypeKind.INT32: "INTEGER",
    TypeKind.INT64: "BIGINT",
    TypeKind.FLOAT32: "FLOAT",
    TypeKind.FLOAT64: "DOUBLE",
    TypeKind.STRING: "VARCHAR",
    TypeKind.TIMESTAMP: "TIMESTAMP",
}
SIGNS = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "equal": "=",
    "not_equal": "<>",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "append": "||",
}
DIVISIONS = {"divide": "/", "integer_divide": "//", "modulo": "%"}
RENAMED = {"day_of_week": "dayofweek", "day_of_year": "dayofyear"}


def type_sql(type_: DataType) -> str:
    return NAMES.get(type_.kind) or f"DECIMAL({type_.precision}, {type_.scale})"


def literal_sql(value: Any, type_: DataType) -> str:
    if value is None:
        return f"CAST(NULL AS {type_sql(type_)})"
    if type_.kind is TypeKind.TIMESTAMP:
        return f"make_timestamp(CAST('{value}' AS BIGINT))"
    if type_.kind is TypeKind.DECIMAL:
        value = Decimal(value).scaleb(-type_.scale)
    quoted = str(value).replace("'", "''")
    return f"CAST('{quoted}' AS {type_sql(type_)})"


def sql(expression: Expression) -> str:
    match expression:
        case Literal(value, type_):
            return literal_sql(value, type_)
        case Column(place, _):
            return f"c{place}"
        case Cast(argument, type_, _) if type_ == STRING and argument.type.is_float:
            return f"replace(CAST({sql(argument)} AS VARCHAR), '-nan', 'nan')"
        case Cast(argument, type_, try_):
            return f"{'TRY_CAST' if try_ else 'CAST'}({sql(argument)} AS {type_sql(type_)})"
        case Case(branches, otherwise, _):
            parts = " ".join(f"WHEN {sql(condition)} THEN {sql(value)}" for condition, value in branches)
            return f"CASE {parts} ELSE {sql(otherwise)} END"
        case Call(function, arguments, type_):
            text = call_sql(function, [sql(one) for one in arguments], [one.type for one in arguments])
            return f"CAST({text} AS {type_sql(type_)})"


def call_sql(function: str, arguments: list[str], types: list[DataType]) -> str:
    if function in ("and", "or"):
        return connected_sql(function, arguments)
    if function in ("add", "subtract") and types[0] == TIMESTAMP:
        return f"make_timestamp(epoch_us({arguments[0]}) {SIGNS[function]} {arguments[1]})"
    if function in SIGNS:
        return f"({arguments[0]} {SIGNS[function]} {arguments[1]})"
    if function in DIVISIONS:
        return f"({arguments[0]} {DIVISIONS[function]} nullif({arguments[1]}, 0))"
    match function, arguments:
        case "negate", [one]:
            # The CASE makes the expression variable, because DuckDB computes constant expressions before TRY applies.
            return f"(-(CASE WHEN rowid >= 0 THEN {one} END))"
        case "not", [one]:
            return f"(NOT {one})"
        case "is_null", [one]:
            return f"({one} IS NULL)"
        case "is_not_null", [one]:
            return f"({one} IS NOT NULL)"
        case "in", [one, *others]:
            return f"({one} IN ({', '.join(others)}))"
        case (("like" | "ilike"), [text, pattern, *escape]):
            return f"({text} {function} {pattern}{' ESCAPE ' + escape[0] if escape else ''})"
    return f"{RENAMED.get(function, function)}({', '.join(arguments)})"


def connected_sql(function: str, arguments: list[str]) -> str:
    """Return a CASE in place of AND or OR. A CASE evaluates later operands only if needed, which AND and OR do not guarantee."""
    first, *others = arguments
    if not others:
        return first
    rest = connected_sql(function, others)
    decisive = "FALSE" if function == "and" else "TRUE"
    return f"(CASE WHEN ({first} IS {decisive}) THEN {decisive} ELSE ({first} {function} {rest}) END)"


# --- comparison of the results --------------------------------------------------------------------------

FAILED = "failed"


def theirs(oracle: duckdb.DuckDBPyConnection, expression: Expression) -> list[Any]:
    text = sql(expression)
    if expression.type == TIMESTAMP:
        text = f"epoch_us({text})"
    found = oracle.execute(f"SELECT TRY({{'v': {text}}}) FROM t").fetchall()
    return [FAILED if row is None else row["v"] for (row,) in found]


def ours(expression: Expression, train: Train = TRAIN) -> list[Any]:
    failures = RowFailures()
    (column,) = compile_projection([expression])(train, failures)
    assert column.type == expression.type
    assert len(column) == len(train)
    if expression.type.kind is not TypeKind.STRING:
        assert column.data.dtype == expression.type.numpy
    found = listed(column)
    if expression.type.kind is TypeKind.DECIMAL:
        found = [None if one is None else Decimal(one).scaleb(-expression.type.scale) for one in found]
    failed = failures.rows
    assert sum(failures.counts.values()) == (0 if failed is None else failed.sum())
    if failed is not None:
        found = [FAILED if bad else value for value, bad in zip(found, failed, strict=True)]
    return found


def listed(column: Values) -> list[Any]:
    """Return the column's values, with None for NULL."""
    values: list[Any] = column.data.to_pylist() if column.type == STRING else column.data.tolist()
    if column.valid is None:
        return values
    return [value if valid else None for value, valid in zip(values, column.valid, strict=True)]


def shown(column: list[Any]) -> list[Any]:
    """Return the column's values in a form in which NaN equals NaN."""
    return ["nan" if isinstance(value, float) and math.isnan(value) else value for value in column]


CONDITIONAL = {"coalesce", "nullif", "and", "or", *DIVISIONS}


def parts(expression: Expression) -> list[Expression]:
    match expression:
        case Cast(argument, _, _):
            return [argument]
        case Call(_, arguments, _):
            return list(arguments)
        case Case(branches, otherwise, _):
            return [otherwise, *(part for branch in branches for part in branch)]
    return []


def is_conditional(expression: Expression) -> bool:
    if isinstance(expression, Literal):
        return expression.value is None
    if isinstance(expression, Case) or (isinstance(expression, Call) and expression.function in CONDITIONAL):
        return True
    return (isinstance(expression, Cast) and expression.try_) or any(map(is_conditional, parts(expression)))


def wavers(expression: Expression) -> bool:
    """Return True if DuckDB may return a value for a row that fails in Weir.

    DuckDB skips an argument if another argument is NULL in all evaluated rows. Under TRY, DuckDB evaluates one row at a time,
    so that a CASE can also make DuckDB skip an argument.
    """
    if (
        isinstance(expression, Call)
        and len(expression.arguments) > 1
        and (expression.function in DIVISIONS or any(map(is_conditional, expression.arguments)))
    ):
        return True
    return any(map(wavers, parts(expression)))


@settings(max_examples=1500)
@given(trees())
def test_an_expression_gives_duckdbs_result_or_failure_for_every_row(
    oracle: duckdb.DuckDBPyConnection, expression: Expression
) -> None:
    mine, other = shown(ours(expression)), shown(theirs(oracle, expression))
    if wavers(expression):
        other = [FAILED if one == FAILED else two for one, two in zip(mine, other, strict=True)]
    assert mine == other, sql(expression)


APPROXIMATE = ("exp", "ln", "log2", "log10", "power")


@given(st.data())
def test_transcendental_functions_equal_duckdbs_to_twelve_digits(
    oracle: duckdb.DuckDBPyConnection, data: st.DataObject
) -> None:
    made = Trees(data.draw)
    name = made.pick(list(APPROXIMATE))
    arguments = [made.tree(FLOAT64, 1) for _ in range(1 + (name == "power"))]
    expression = call(name, *arguments)
    mine, other = ours(expression), theirs(oracle, expression)
    if wavers(expression):
        other = [FAILED if one == FAILED else two for one, two in zip(mine, other, strict=True)]
    for one, two in zip(mine, other, strict=True):
        if isinstance(one, float) and isinstance(two, float):
            assert math.isclose(one, two, rel_tol=1e-12) or (math.isnan(one) and math.isnan(two)), sql(
                expression
            )
        else:
            assert one == two, sql(expression)


@given(trees(types=(BOOLEAN,)))
def test_a_condition_selects_exactly_the_rows_for_which_its_expression_gives_true(
    expression: Expression,
) -> None:
    failures = RowFailures()
    selected = compile_condition(expression)(TRAIN, failures)
    assert selected.tolist() == [value is True for value in ours(expression)]
    assert (failures.rows is None) == (FAILED not in ours(expression))


@given(trees(), st.integers(0, ROWS))
def test_cutting_a_train_changes_no_result_of_an_expression(expression: Expression, cut: int) -> None:
    first, second = TRAIN.slice(0, cut), TRAIN.slice(cut, ROWS)
    assert shown(ours(expression, first) + ours(expression, second)) == shown(ours(expression))


@given(st.lists(trees(), min_size=2, max_size=4))
def test_expressions_that_share_parts_give_the_same_results_as_when_each_is_evaluated_alone(
    expressions: list[Expression],
) -> None:
    doubled = [*expressions, *expressions]
    together, alone = RowFailures(), RowFailures()
    shared = compile_projection(doubled)(TRAIN, together)
    for expression, column in zip(doubled, shared, strict=True):
        (by_itself,) = compile_projection([expression])(TRAIN, alone)
        assert shown(listed(column)) == shown(listed(by_itself))
    mine, other = together.rows, alone.rows
    assert (mine is None) == (other is None)
    assert mine is None or other is None or mine.tolist() == other.tolist()


@given(trees())
def test_evaluation_leaves_the_train_unchanged(expression: Expression) -> None:
    before = [listed(column) for column in TRAIN.columns]
    compile_projection([expression])(TRAIN, RowFailures())
    assert [shown(listed(column)) for column in TRAIN.columns] == list(map(shown, before))
