"""Turns parsed expressions into typed plan expressions in normal form.

All types are resolved: `engine.expressions.functions` defines the argument types of a function, and casts to these types are
inserted. Casts that the user did not write only widen numbers and convert constants: a text column never becomes a number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from sqlglot import exp

from configs.errors import WeirError, nearest
from engine.data.schema import BOOLEAN, INT64, STRING, TIMESTAMP, DataType, TypeKind, decimal
from engine.expressions.functions import TRUNCATIONS, castable, common_type, resolve
from engine.plan.aggregations import AGGREGATES, SCALINGS
from engine.plan.plan import Case, Column, Expression, Literal
from engine.sql.dialect import TypeName
from engine.sql.errors import SPLIT_IT, PlanningError, Text
from engine.sql.names import Scope, Visible
from engine.sql.terms.foreign_constructs import construct_of, is_known, unknown_function, unknown_part
from engine.sql.terms.literals import interval_us, number
from engine.sql.terms.normal_form import DoesNotFit, call, cast, negated, shifted, size
from engine.sql.terms.type_names import type_named

# Type of the constant NULL until its context determines the type.
UNTYPED = DataType(TypeKind.INT32, scale=-1)
BOUNDS = ("window_start", "window_end")
IMPURE = {
    *("now", "today", "current_timestamp", "current_date", "current_time", "localtime", "localtimestamp"),
    *("get_current_timestamp", "random", "rand", "setseed", "uuid", "gen_random_uuid", "nextval"),
    *("getenv", "current_user", "session_user", "version", "read_text", "read_blob", "read_csv", "read_json"),
    *("read_parquet", "glob", "http_get", "pg_read_file", "load_file"),
}
OUT_OF_REACH = "a query cannot read the clock, random numbers, files, the network or the environment"
TIME_INSTEAD = "if you need the time, use the event time of the stream"
INTERVAL_USE = "an interval can only be added to a timestamp or subtracted from it"
NUMBER_WRITTEN = "write a number without quotes (5 or 2.5), and a column without quotes or in double quotes"
CONSTANTS = {
    **dict.fromkeys((TypeKind.INT32, TypeKind.INT64), "write a whole number without quotes: 5"),
    **dict.fromkeys((TypeKind.FLOAT32, TypeKind.FLOAT64, TypeKind.DECIMAL), NUMBER_WRITTEN),
    TypeKind.BOOLEAN: "write TRUE or FALSE",
    TypeKind.TIMESTAMP: "write `TIMESTAMP '2026-01-01 00:00:00'`",
}
# Maximum size of copied expressions: a subquery's columns, or the x in `x BETWEEN 1 AND 2`, which is used twice.
REPEATED_MAX = 20_000


class Expressions:
    """Reader that turns parsed expressions over the visible columns into plan expressions."""

    def __init__(self, scope: Scope, offsets: Sequence[int | None], where: str) -> None:
        """Prepare to read expressions of the clause `where`, which messages name.

        `offsets` has the position of each relation's first column in the input; None for relations that cannot be used.
        """
        self.scope, self.text, self.offsets, self.where = scope, scope.text, offsets, where
        self._known: dict[int, Expression] = {}
        self._repeated = 0

    def value(self, node: exp.Expr) -> Expression:
        """Return an expression for a value; a bare NULL becomes an int32, as in DuckDB."""
        return typed(self.read(node), None)

    def condition(self, node: exp.Expr) -> Expression:
        condition = typed(self.read(node), BOOLEAN)
        if condition.type != BOOLEAN:
            hint = "compare it with something: x > 0"
            raise self.text.error(
                node,
                f"{self.where} needs a condition, but this expression has type {condition.type}",
                hint=hint,
            )
        return condition

    def read(self, node: exp.Expr) -> Expression:
        """Return the plan expression for a node of the parsed tree; each node is read only once."""
        expression = self._known.get(id(node))
        if expression is None:
            reader = self.READERS.get(type(node))
            if reader is None:
                raise not_supported(self.text, node, self.where)
            expression = self._known[id(node)] = reader(self, node)
        return expression

    def _column(self, node: exp.Column) -> Expression:
        column = self.scope.find(node)
        if column is None:
            if node.name.lower() in IMPURE:
                raise self.text.error(node, OUT_OF_REACH, node.name, TIME_INSTEAD)
            if node.name.lower() in BOUNDS:
                hint = "aggregate in a window: FROM s [RANGE 10 SECONDS]"
                raise self.text.error(
                    node, f"window bounds are not available in {self.where}", node.name, hint
                )
            raise self.scope.unknown(node)
        return self.visible(node, column)

    def visible(self, node: exp.Expr, seen: Visible) -> Expression:
        offset = self.offsets[seen.owner]
        if offset is None:
            raise self.text.error(node, f"{self.where} cannot use this column", seen.column.name)
        return shifted(self.repeated(node, seen.column.expression), offset)

    def repeated(self, node: exp.Expr, expression: Expression, times: int = 1) -> Expression:
        """Add the size of an expression that the plan copies `times` times; raise an error if the plan would grow too large."""
        if not isinstance(expression, Column | Literal):
            self._repeated += times * size(expression, REPEATED_MAX)
            if self._repeated > REPEATED_MAX:
                raise self.text.error(node, "the query has too many parts", hint=SPLIT_IT)
        return expression

    def _literal(self, node: exp.Literal) -> Expression:
        return Literal(node.name, STRING) if node.is_string else number(self.text, node)

    def _interval(self, node: exp.Interval) -> Expression:
        hint = "ts + INTERVAL '10 seconds'"
        raise self.text.error(node, INTERVAL_USE, self.text.of(node) or None, hint)

    def _not(self, node: exp.Not) -> Expression:
        inner = typed(self.read(node.this), BOOLEAN)
        if inner.type != BOOLEAN:
            raise self.text.error(
                node.this, f"NOT needs a condition, but this expression has type {inner.type}"
            )
        return negated(inner)

    def _operator(self, node: exp.Binary) -> Expression:
        return self.function(node, OPERATORS[type(node)], [node.left, node.right])

    def _logical(self, node: exp.And | exp.Or) -> Expression:
        """Return the expression for a chain of AND or OR of any length, without recursion."""
        operands: list[exp.Expr] = []
        stack: list[exp.Expr] = [node]
        while stack:
            part = stack.pop()
            if type(part) is type(node):
                stack += [part.right, part.left]
            else:
                operands.append(part)
        return self.function(node, "and" if isinstance(node, exp.And) else "or", operands)

    def _plus_minus(self, node: exp.Add | exp.Sub) -> Expression:
        left, right = interval_us(self.text, node.left), interval_us(self.text, node.right)
        minus = isinstance(node, exp.Sub)
        if left is None and right is None:
            return self._sum(node)
        if left is not None and (right is not None or minus):
            raise self.text.error(node, INTERVAL_USE, hint="ts + INTERVAL '10 seconds'")
        operand, length = (node.right, left) if right is None else (node.left, right)
        assert length is not None
        moment = self.read(operand)
        unit_us = self.unit_us(moment)
        if unit_us is None:
            raise self.text.error(operand, INTERVAL_USE, str(moment.type), "ts + INTERVAL '10 seconds'")
        if length % unit_us:
            what = "the interval is not a whole number of milliseconds, the unit of this time column"
            raise self.text.error(node, what, self.text.of(node), "INTERVAL '1 second'")
        step = Literal((-length if minus else length) // unit_us, INT64)
        return call("add", (moment, step), moment.type)

    def _sum(self, node: exp.Add | exp.Sub) -> Expression:
        operands = [self.read(side) for side in (node.left, node.right)]
        if TIMESTAMP in (operand.type for operand in operands):
            both = operands[0].type == operands[1].type
            hint = "epoch_ms(a) - epoch_ms(b)" if both else "ts + INTERVAL '10 seconds'"
            what = (
                "two timestamps cannot be added or subtracted"
                if both
                else "only an interval can be added to a timestamp or subtracted from it"
            )
            raise self.text.error(node, what, self.text.of(node), hint)
        return self.applied(node, OPERATORS[type(node)], [node.left, node.right], operands)

    def unit_us(self, moment: Expression) -> int | None:
        """Return the unit of a point in time, in microseconds; None for an expression that is no point in time."""
        if moment.type == TIMESTAMP:
            return 1
        for owner, relation in enumerate(self.scope.relations):
            offset = self.offsets[owner]
            if relation.time and offset is not None and moment == Column(relation.time.place + offset, INT64):
                return relation.time.unit_us
        return None

    def _between(self, node: exp.Between) -> Expression:
        # Each operand of BETWEEN is read only once, because a second reading would double the work with each level of nesting.
        value, low, high = (
            self.read(operand) for operand in (node.this, node.args["low"], node.args["high"])
        )
        self.repeated(node, value)
        above = self.applied(node, "greater_equal", [node.this, node.args["low"]], [value, low])
        below = self.applied(node, "less_equal", [node.this, node.args["high"]], [value, high])
        return call("and", (above, below), BOOLEAN)

    def _in(self, node: exp.In) -> Expression:
        nodes = [node.this, *node.expressions]
        operands = [self.read(item) for item in nodes]
        if not all(isinstance(operand, Literal) for operand in operands[1:]):
            self.repeated(node, operands[0], len(nodes))
        return self.applied(node, "in", nodes, operands)

    def _is(self, node: exp.Is) -> Expression:
        match node.expression:
            case exp.Null():
                return self.function(node, "is_null", [node.this])
            case exp.Boolean(this=wanted):
                condition = typed(self.read(node.this), BOOLEAN)
                if condition.type != BOOLEAN:
                    raise self.text.error(node, f"IS {str(bool(wanted)).upper()} needs a condition")
                certain = condition if wanted else negated(condition)
                return call("coalesce", (certain, Literal(False, BOOLEAN)), BOOLEAN)
        raise self.text.error(node, "IS must be followed by NULL, TRUE or FALSE", self.text.of(node))

    def _distinct_from(self, node: exp.NullSafeEQ | exp.NullSafeNEQ) -> Expression:
        nodes = [node.left, node.right]
        operands = [self.read(operand) for operand in nodes]
        differ = self.applied(node, "not_equal", nodes, operands)
        for operand in operands:
            self.repeated(node, operand)
        nulls = [
            self.applied(at, "is_null", [at], [operand]) for at, operand in zip(nodes, operands, strict=True)
        ]
        one_null = call("not_equal", nulls, BOOLEAN)
        distinct = call("coalesce", (differ, one_null), BOOLEAN)
        return distinct if isinstance(node, exp.NullSafeNEQ) else negated(distinct)

    def _like(self, node: exp.Like | exp.ILike, *escape: exp.Expr) -> Expression:
        name = "like" if isinstance(node, exp.Like) else "ilike"
        matches = self.function(node, name, [node.this, node.expression, *escape])
        return negated(matches) if node.args.get("negate") else matches

    def _escape(self, node: exp.Escape) -> Expression:
        return self._like(node.this, node.expression)

    def _cast(self, node: exp.Cast) -> Expression:
        target, try_ = node.args["to"], isinstance(node, exp.TryCast)
        assert isinstance(target, TypeName)
        type_ = type_named(self.text, target)
        argument = self.read(node.this)
        if argument.type == UNTYPED:
            return Literal(None, type_)
        if not castable(argument.type, type_):
            hint = "use epoch_ms(x), which converts between timestamps and milliseconds"
            raise self.text.error(
                node, f"{argument.type} cannot be cast to {type_}", self.text.of(node.this), hint
            )
        return self._converted(node.this, argument, type_, try_)

    def _case(self, node: exp.Case) -> Expression:
        if node.this is None:
            conditions = [self.condition(branch.this) for branch in node.args["ifs"]]
        else:
            operand = self.repeated(node, self.read(node.this), len(node.args["ifs"]))
            conditions = [
                self.applied(branch, "equal", [node.this, branch.this], [operand, self.read(branch.this)])
                for branch in node.args["ifs"]
            ]
        default = node.args.get("default")
        nodes = [*(branch.args["true"] for branch in node.args["ifs"]), default or node]
        values = [self.read(value_node) for value_node in nodes[:-1]]
        values.append(self.read(default) if default else Literal(None, UNTYPED))
        type_ = self.common(node, values)
        *results, otherwise = (
            self.fitted(at, value_node, type_) for at, value_node in zip(nodes, values, strict=True)
        )
        return Case(tuple(zip(conditions, results, strict=True)), otherwise, type_)

    def common(self, node: exp.Expr, values: Sequence[Expression]) -> DataType:
        """Return the type to which all branches of CASE can be cast; raise an error if the types are incompatible."""
        type_ = common_type([type_or_none(branch) for branch in beside_decimals(values)])
        if type_ is None:
            types = ", ".join(dict.fromkeys(str(value.type) for value in values if value.type != UNTYPED))
            what = "the branches of CASE have incompatible types"
            raise self.text.error(node, what, types, "CAST one of the branches")
        return type_

    def _call(self, node: exp.Anonymous) -> Expression:
        name, arguments = str(node.name).lower(), list(node.expressions)
        if name in AGGREGATES or name in SCALINGS:
            return self.aggregate(node)
        if (
            name in ("date_part", "datepart")
            and len(arguments) == 2
            and isinstance(arguments[0], exp.Literal)
        ):
            name = arguments.pop(0).name.lower()  # The call date_part('hour', ts) means hour(ts)
            if (unknown := unknown_part(name)) is not None:
                raise self.text.error(node, *unknown)
        if name in IMPURE:
            raise self.text.error(node, OUT_OF_REACH, f"{name}()", TIME_INSTEAD)
        if not is_known(name):
            raise self.text.error(node, *unknown_function(name))
        for argument in arguments:
            if isinstance(argument, exp.Star | exp.Distinct):
                raise self.text.error(node, f"{name} does not take * or DISTINCT")
        return self.function(node, name, arguments)

    def aggregate(self, node: exp.Anonymous) -> Expression:
        """Raise the error for an aggregate in a clause that cannot contain aggregates."""
        hint = "filter groups with HAVING" if self.where == "WHERE" else "use aggregates in SELECT or HAVING"
        raise self.text.error(node, f"{self.where} cannot contain aggregates", f"{node.name.lower()}", hint)

    def function(self, node: exp.Expr, name: str, nodes: Sequence[exp.Expr]) -> Expression:
        return self.applied(node, name, nodes, [self.read(argument) for argument in nodes])

    def applied(
        self, node: exp.Expr, name: str, nodes: Sequence[exp.Expr], operands: Sequence[Expression]
    ) -> Expression:
        """Return a call of a function, with the operands cast to the types that the function takes."""
        if name in BESIDE_DECIMALS:
            operands = beside_decimals(operands)
        try:
            signature = resolve(name, [type_or_none(operand) for operand in operands])
        except WeirError as problem:
            raise self.text.error(node, problem.title, self.text.of(node) or None, problem.hint) from None
        fitted = [
            self.fitted(at, value, type_of_argument)
            for at, value, type_of_argument in zip(nodes, operands, signature.arguments, strict=True)
        ]
        if signature.name == "date_trunc":
            fitted[0] = self.truncation(nodes[0], fitted[0])
        return call(signature.name, fitted, signature.result)

    def fitted(self, node: exp.Expr, operand: Expression, wanted: DataType) -> Expression:
        """Return the operand cast to the type that the function takes; raise an error if the operand cannot be cast."""
        operand = typed(operand, wanted)
        if operand.type == STRING and wanted != STRING and not isinstance(operand, Literal):
            written = self.text.of(node)
            hint = (
                "to compare strings, quote the constant: '5'; if the strings contain values of that type, "
                f"convert them by `TRY_CAST({written} AS {wanted})`, which is NULL for other strings"
            )
            raise self.text.error(
                node, f"this expression must have type {wanted}, but it is a string", written, hint
            )
        return self._converted(node, operand, wanted)

    def _converted(
        self, node: exp.Expr, operand: Expression, type_: DataType, try_: bool = False
    ) -> Expression:
        """Return a cast of the operand; raise an error for a constant that does not fit into the type."""
        try:
            return cast(operand, type_, try_)
        except DoesNotFit:
            title, hint = f"this is not a value of type {type_}", CONSTANTS.get(type_.kind, "")
            raise self.text.error(node, title, self.text.of(node), hint) from None

    def truncation(self, node: exp.Expr, unit: Expression) -> Expression:
        if not isinstance(unit, Literal) or not isinstance(unit.value, str):
            raise self.text.error(
                node, "the unit of date_trunc must be a constant", hint="date_trunc('hour', ts)"
            )
        name = unit.value.lower()
        name = name if name in TRUNCATIONS else name.removesuffix("s")
        if name not in TRUNCATIONS:
            raise self.text.error(
                node, "date_trunc does not support this unit", unit.value, nearest(name, TRUNCATIONS)
            )
        return Literal(name, STRING)

    READERS: ClassVar[dict[type[exp.Expr], Callable[..., Expression]]] = {
        exp.Column: _column,
        exp.Literal: _literal,
        exp.Null: lambda _, node: Literal(None, UNTYPED),
        exp.Boolean: lambda _, node: Literal(bool(node.this), BOOLEAN),
        exp.Paren: lambda self, node: self.read(node.this),
        exp.Interval: _interval,
        exp.Neg: lambda self, node: self.function(node, "negate", [node.this]),
        exp.Not: _not,
        exp.And: _logical,
        exp.Or: _logical,
        exp.Add: _plus_minus,
        exp.Sub: _plus_minus,
        exp.Between: _between,
        exp.In: _in,
        exp.Is: _is,
        exp.NullSafeEQ: _distinct_from,
        exp.NullSafeNEQ: _distinct_from,
        exp.Like: _like,
        exp.ILike: _like,
        exp.Escape: _escape,
        exp.Cast: _cast,
        exp.TryCast: _cast,
        exp.Case: _case,
        exp.Anonymous: _call,
    }


def not_supported(text: Text, node: exp.Expr, where: str) -> PlanningError:
    """Return the error for a construct that the grammar can read but the planner does not support."""
    construct = construct_of(node)
    if construct is None:
        return text.error(node, f"{node.key.upper()} is not supported in {where}", text.of(node) or None)
    name = "" if not isinstance(node.this, exp.Anonymous) else str(node.this.name).upper()
    return text.error(node, construct.title.format(name=name), text.of(node) or None, construct.hint)


OPERATORS: dict[type[exp.Expr], str] = {
    exp.Add: "add",
    exp.Sub: "subtract",
    exp.Mul: "multiply",
    exp.Div: "divide",
    exp.IntDiv: "integer_divide",
    exp.Mod: "modulo",
    exp.Pow: "power",
    exp.EQ: "equal",
    exp.NEQ: "not_equal",
    exp.LT: "less",
    exp.LTE: "less_equal",
    exp.GT: "greater",
    exp.GTE: "greater_equal",
    exp.DPipe: "append",
}
for _class in OPERATORS:
    Expressions.READERS.setdefault(_class, Expressions._operator)


BESIDE_DECIMALS = {*OPERATORS.values(), "in", "coalesce", "nullif", "greatest", "least"}


def beside_decimals(operands: Sequence[Expression]) -> Sequence[Expression]:
    """Return the operands; constant integers next to decimals become decimals: the 10 in `price > 10` becomes decimal(2, 0)."""
    if all(operand.type.kind is not TypeKind.DECIMAL for operand in operands):
        return operands
    return [
        Literal(operand.value, decimal(max(len(str(abs(int(operand.value)))), 1), 0))
        if isinstance(operand, Literal)
        and operand.type.is_integer
        and operand.value is not None
        and abs(int(operand.value)) < 10**18
        else operand
        for operand in operands
    ]


def type_or_none(expression: Expression) -> DataType | None:
    return None if expression.type == UNTYPED else expression.type


def typed(expression: Expression, type_: DataType | None) -> Expression:
    """Return the expression; an untyped NULL becomes a NULL of the given type, or an int32 NULL if no type is given."""
    if expression.type != UNTYPED:
        return expression
    return Literal(None, type_ or DataType(TypeKind.INT32))
