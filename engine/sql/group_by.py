"""GROUP BY and aggregates: splits a query with a window into the expressions below the window and the expressions above it.

Expressions below the window are computed for each tuple: the group keys and the arguments of aggregates. Above the window,
SELECT and HAVING can use only the window's start and end, keys and aggregates. Equal keys, and equal aggregates, are computed once.
Keys and aggregates have provisional positions until all of them are known; then they are sorted and get their final positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from sqlglot import exp

from engine.data.schema import BOOLEAN, TIMESTAMP, DataType, Field, Schema
from engine.plan.aggregations import (
    AGGREGATES,
    GENERAL,
    SCALABLE,
    SCALED_ERROR,
    SCALINGS,
    Aggregation,
    Takes,
    argument_type,
    result_type,
)
from engine.plan.plan import (
    Aggregate,
    Case,
    Column,
    EventTime,
    Expression,
    Literal,
    Plan,
    Project,
    RowWindow,
    TimeWindow,
    WindowAggregate,
    canonical,
    event_time,
)
from engine.sql.terms.expressions import BOUNDS, UNTYPED, Expressions
from engine.sql.terms.normal_form import all_of, key

# First provisional column number of a key, and of an aggregate; the numbers 0 and 1 stand for window_start and window_end.
FIRST_KEY = 2
FIRST_AGGREGATE = 1_000_000


@dataclass(frozen=True)
class WantedAggregate:
    """Aggregate that a query asks for; its argument is still an expression, not yet the position of a column."""

    aggregate: Aggregate
    argument: Expression | None

    @property
    def order(self) -> tuple[str, str, float, bool, bool]:
        one, argument = self.aggregate, key(self.argument) if self.argument else ""
        return one.function.value, argument, one.parameter, one.scaled, one.error


class Grouped(Expressions):
    """Reader of expressions over the results of a windowed aggregate."""

    def __init__(
        self,
        below: Expressions,
        keys: Sequence[Expression],
        bound: DataType | None,
        roots: Sequence[exp.Expr],
        where: str,
    ) -> None:
        """Prepare to read expressions over the results of the window; `roots` has all of these expressions.

        `bound` is the type of window_start and window_end; None for windows of rows, which have no bounds.
        """
        super().__init__(below.scope, below.offsets, where)
        self.below, self.keys, self.bound = below, list(keys), bound
        self.above = {id(result) for root in roots for result in self._over_results(root)}
        self.computed_keys = any(not isinstance(expression, Column) for expression in keys)
        self.wanted: dict[WantedAggregate, int] = {}
        self.aliases: dict[str, exp.Expr] = {}

    def read(self, node: exp.Expr) -> Expression:
        if (
            self.computed_keys
            and id(node) not in self.above
            and not isinstance(node, exp.Column | exp.Literal)
        ):
            key = self.key_column(self.below.read(node))
            if key is not None:
                return key
        return super().read(node)

    def _over_results(self, root: exp.Expr) -> Iterator[exp.Expr]:
        """Yield the expressions that can be computed only from the results of the window.

        Each contains an aggregate, window_start, window_end or an alias.
        """
        for part in root.walk():
            if is_aggregate(part) or (
                isinstance(part, exp.Column) and (self._is_own_bound(part) or self.scope.find(part) is None)
            ):
                above: exp.Expr | None = part
                while above is not None:
                    yield above
                    above = None if above is root else above.parent

    def _is_own_bound(self, node: exp.Column) -> bool:
        """Return True if the expression is window_start or window_end of the query's own window of time."""
        return self.bound is not None and is_bound(node)

    def key_column(self, expression: Expression) -> Expression | None:
        if expression in self.keys:
            return Column(FIRST_KEY + self.keys.index(expression), expression.type)
        return None

    def _column(self, node: exp.Column) -> Expression:
        column = None if self._is_own_bound(node) else self.scope.find(node)
        if column is None and is_bound(node):
            if self.bound is None:
                raise self.text.error(
                    node, "a window of rows has no window_start and no window_end", node.name
                )
            return Column(BOUNDS.index(node.name.lower()), self.bound)
        if column is None and not node.table and node.name.lower() in self.aliases:
            aliased = self.aliases.pop(node.name.lower())  # An alias cannot refer to itself
            repeated = self.repeated(node, self.read(aliased))
            self.aliases[node.name.lower()] = aliased
            return repeated
        if column is None:
            raise self.scope.unknown(node, [*BOUNDS, *self.aliases])
        key = self.key_column(self.below.visible(node, column))
        if key is None:
            name = self.text.of(node)
            hint = f"GROUP BY {name}, or take one value of each group: MAX({name})"
            raise self.text.error(
                node, "this column is neither in GROUP BY nor inside an aggregate", name, hint
            )
        return key

    def filtered(self, node: exp.Filter) -> Expression:
        """Read AGGREGATE(x) FILTER (WHERE condition): the aggregate of x over the tuples that meet the condition."""
        aggregate = node.this
        if not isinstance(aggregate, exp.Anonymous) or not is_aggregate(aggregate):
            raise self.text.error(node, "FILTER must follow an aggregate", hint="SUM(x) FILTER (WHERE y > 0)")
        condition = Expressions(self.scope, self.offsets, "FILTER").condition(node.expression.this)
        return self.aggregate(aggregate, condition)

    def aggregate(
        self, node: exp.Anonymous, condition: Expression | None = None, scaling: str = ""
    ) -> Expression:
        """Read an aggregate; `scaling` is the name of the function around the aggregate, SCALED or SCALED_ERROR, or empty."""
        name = str(node.name).lower()
        arguments = list(node.expressions)
        if name in SCALINGS:
            return self._scaled(node, condition, scaling)
        signature = AGGREGATES[name]
        function, is_condition = signature.function, signature.takes is Takes.CONDITIONS
        if scaling and function not in SCALABLE:
            raise self.text.error(node, "SCALED accepts only COUNT and SUM", name, scaled_examples(scaling))
        parameter = 0.0
        if signature.example:
            if len(arguments) != 2:
                raise self.text.error(node, f"{name} takes two arguments", hint=signature.example)
            parameter = self._parameter(function, arguments.pop())
        if len(arguments) != 1:
            raise self.text.error(node, f"{name} takes one argument", hint=f"{name.upper()}(x)")
        argument = arguments[0]
        if isinstance(argument, exp.Star):
            if function is not Aggregation.COUNT or is_condition:
                raise self.text.error(node, f"{name} takes a column, not *", hint="COUNT(*)")
            return self._counted(condition, scaling)
        if isinstance(argument, exp.Distinct):
            argument = argument.expressions[0]
            if function is Aggregation.COUNT and not scaling and not is_condition:
                function = Aggregation.COUNT_DISTINCT
            elif function not in (Aggregation.MIN, Aggregation.MAX):  # DISTINCT does not change MIN and MAX
                raise self.text.error(
                    node, f"{name} of DISTINCT values is not supported", hint="COUNT(DISTINCT x)"
                )
        value = self._argument(argument)
        if is_condition and value.type != BOOLEAN:
            what, hint = f"{name} takes a condition, but this is {value.type}", f"`{name.upper()}(x > 0)`"
            raise self.text.error(node, what, self.text.of(argument), hint)
        if is_condition and function is Aggregation.COUNT:
            return self._counted(value if condition is None else all_of((condition, value)), scaling)
        type_ = argument_type(function, value.type, bool(scaling))
        if type_ is None:
            what, hint = (
                f"{name} takes numbers, but this is {value.type}",
                number_hint(name, self.text.of(argument), value.type),
            )
            raise self.text.error(node, what, self.text.of(argument), hint)
        value = self.below.fitted(argument, value, type_)
        if function is Aggregation.COUNT and isinstance(value, Literal) and value.value is not None:
            return self._counted(condition, scaling)
        if condition is not None:
            value = where(condition, value)
        return self._one(function, value, type_, scaling, parameter)

    def _counted(self, condition: Expression | None, scaling: str) -> Expression:
        """Return COUNT(*), or the count of tuples that meet the condition."""
        function, argument = Aggregation.COUNT_ALL, None
        if condition is not None:
            function, argument = Aggregation.COUNT, where(condition, Literal(True, BOOLEAN))
        return self._one(function, argument, None, scaling)

    def _argument(self, node: exp.Expr) -> Expression:
        for part in node.walk():
            if isinstance(part, exp.Anonymous) and is_aggregate(part):
                hint = "aggregate the results of another query: FROM (SELECT …) AS x [RANGE …]"
                raise self.text.error(
                    part, "an aggregate cannot contain another aggregate", self.text.of(node), hint
                )
        return self.below.value(node)

    def _scaled(self, node: exp.Anonymous, condition: Expression | None, outer: str) -> Expression:
        name = str(node.name).lower()
        inner = node.expressions[0] if len(node.expressions) == 1 else None
        if outer or not isinstance(inner, exp.Anonymous) or not is_aggregate(inner):
            what = f"{(outer or name).upper()} takes a count or a sum"
            raise self.text.error(node, what, hint=scaled_examples(outer or name))
        return self.aggregate(inner, condition, name)

    def _parameter(self, function: Aggregation, node: exp.Expr) -> float:
        most = GENERAL[function].parameter_max
        value = Expressions(self.scope, (), "a parameter").read(node) if not node.find(exp.Column) else None
        if isinstance(value, Literal) and value.type.is_numeric and value.type != UNTYPED:
            number = float(value.value or 0) / float(10**value.type.scale)
            if number == int(number) and 1 <= number <= most if most else 0 <= number <= 1:
                return number
        expected = f"a whole number from 1 to {most:,}" if most else "a constant from 0 to 1"
        raise self.text.error(
            node, f"the second argument of {function.value} must be {expected}", self.text.of(node)
        )

    def _one(
        self,
        function: Aggregation,
        argument: Expression | None,
        argument_type: DataType | None,
        scaling: str,
        parameter: float = 0.0,
    ) -> Expression:
        type_ = result_type(function, argument_type, bool(scaling))
        aggregate = Aggregate(
            function,
            None,
            type_,
            parameter=parameter,
            scaled=bool(scaling),
            error=scaling == SCALED_ERROR,
        )
        wanted = WantedAggregate(aggregate, argument)
        return Column(self.wanted.setdefault(wanted, FIRST_AGGREGATE + len(self.wanted)), type_)

    READERS: ClassVar = {**Expressions.READERS, exp.Column: _column, exp.Filter: filtered}


def is_aggregate(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and (
        str(node.name).lower() in AGGREGATES or str(node.name).lower() in SCALINGS
    )


def scaled_examples(scaling: str) -> str:
    return f"{scaling.upper()}(SUM(x)), {scaling.upper()}(COUNT(*))"


def number_hint(name: str, argument: str, type_: DataType) -> str:
    """Return a hint for an aggregate of numbers over a column that does not hold numbers."""
    if type_ == BOOLEAN:
        return f"count the rows where it is true: `COUNT_IF({argument})`"
    if type_ == TIMESTAMP:
        return f"convert it to a number: `epoch_ms({argument})`"
    several = f"use `TOP({argument}, 10)`, `MIN({argument})` or `COUNT(DISTINCT {argument})` for strings"
    return f"{several}; if they contain numbers, convert them by `TRY_CAST({argument} AS float64)`"


def is_bound(node: exp.Expr) -> bool:
    return isinstance(node, exp.Column) and not node.table and node.name.lower() in BOUNDS


def where(condition: Expression, value: Expression) -> Expression:
    """Return an expression for the value where the condition is true, and NULL elsewhere."""
    return Case(((condition, value),), Literal(None, value.type), value.type)


def windowed(
    plan: Plan,
    window: TimeWindow | RowWindow,
    time: EventTime | None,
    keys: Sequence[Expression],
    wanted: Sequence[WantedAggregate],
    clock: Column | None = None,
) -> tuple[WindowAggregate, dict[int, Expression]]:
    """Return the windowed aggregate, and its output columns by their provisional numbers (see FIRST_KEY).

    `time` is the event time of the window; keys and arguments that are not columns are computed below the window.
    `clock` is the column that orders tuples for FIRST and LAST in a window of rows.
    """
    arguments = [one.argument for one in wanted if one.argument is not None]
    used = [*keys, *arguments, *([] if clock is None else [clock])]
    if all(isinstance(one, Column) for one in used) and (time is None or time == event_time(plan)):
        places: dict[Expression, int] = {one: one.place for one in used if isinstance(one, Column)}
    else:
        plan, places = computed_below(plan, used, time)
    order = sorted(range(len(keys)), key=lambda one: places[keys[one]])
    ranked = sorted(wanted, key=lambda one: one.order)
    bounds = bound_fields(plan) if isinstance(window, TimeWindow) else ()
    aggregates = tuple(
        one.aggregate if one.argument is None else replace(one.aggregate, argument=places[one.argument])
        for one in ranked
    )
    fields = [
        *bounds,
        *(Field(f"k{place}", keys[one].type) for place, one in enumerate(order)),
        *(Field(f"a{place}", one.type) for place, one in enumerate(aggregates)),
    ]
    node = WindowAggregate(
        input=plan,
        window=window,
        keys=tuple(places[keys[one]] for one in order),
        aggregates=aggregates,
        schema=Schema(tuple(fields)),
        clock=None if clock is None else places[clock],
    )
    numbers = {one: FIRST_AGGREGATE + place for place, one in enumerate(wanted)}
    provisional = [
        *range(len(bounds)),
        *(FIRST_KEY + one for one in order),
        *(numbers[one] for one in ranked),
    ]
    return node, {
        number: Column(place, field.type)
        for place, (number, field) in enumerate(zip(provisional, fields, strict=True))
    }


def computed_below(
    plan: Plan, used: Sequence[Expression], time: EventTime | None
) -> tuple[Project, dict[Expression, int]]:
    """Return a projection of the plan to the expressions that the window needs, and the positions of these expressions."""
    needed = dict.fromkeys(used)
    clock = None
    if time is not None:
        clock = Column(time.place, plan.schema.fields[time.place].type)
        needed[clock] = None
    ordered = sorted(needed, key=key)
    places = {expression: place for place, expression in enumerate(ordered)}
    return Project(plan, tuple(ordered), canonical(ordered), None if clock is None else places[clock]), places


def bound_fields(plan: Plan) -> tuple[Field, Field]:
    """Return the fields window_start and window_end, which have the type and unit of the event time."""
    time = event_time(plan)
    assert time is not None
    type_ = plan.schema.fields[time.place].type
    return Field(BOUNDS[0], type_), Field(BOUNDS[1], type_)
