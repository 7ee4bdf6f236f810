"""What a query gives: the names of its columns, and the projection that computes them, where one is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from engine.data.schema import Field, Schema
from engine.plan.plan import (
    Column,
    EventTime,
    Expression,
    Plan,
    Project,
    WindowAggregate,
    event_time,
    inputs,
)
from engine.sql.errors import Text
from engine.sql.names import Named, Relation
from engine.sql.terms.expressions import BOUNDS


@dataclass(frozen=True)
class SelectItem:
    """One item of the SELECT list; a star is several."""

    name: str
    given: bool  # whether the user named it
    node: exp.Expr
    star: Expression | None = None


def default_name(node: exp.Expr, place: int) -> str:
    """temp, avg_temp, count, column3."""
    if isinstance(node, exp.Paren | exp.Cast | exp.Filter):
        return default_name(node.this, place)
    if isinstance(node, exp.Column):
        return node.name
    if isinstance(node, exp.Anonymous):
        of = [
            expression
            for expression in node.expressions
            if isinstance(expression, exp.Column | exp.Anonymous)
        ]
        return "_".join([str(node.name).lower(), *(default_name(argument, place) for argument in of[:1])])
    return f"column{place + 1}"


def named_columns(text: Text, items: Sequence[SelectItem], values: Sequence[Expression]) -> tuple[Named, ...]:
    """The columns by name; a name the user gave stays, another is made different where it must be."""
    taken: set[str] = set()
    for item in items:
        if item.given and item.name.lower() in taken:
            other = fresh(item.name, {*taken, *(column.name.lower() for column in items if column.given)})
            hint = f"give one of them another name: {text.of(item.node)} AS {other}"
            raise text.error(item.node, "two columns have one name", item.name, hint)
        if item.given:
            taken.add(item.name.lower())
    columns = []
    for item, value in zip(items, values, strict=True):
        columns.append(Named(item.name if item.given else fresh(item.name, taken), value))
    return tuple(columns)


def fresh(name: str, taken: set[str]) -> str:
    """The name, or with a number behind it if it is taken."""
    candidate, number = name, 0
    while candidate.lower() in taken:
        number += 1
        candidate = f"{name}_{number}"
    taken.add(candidate.lower())
    return candidate


def with_bounds(aggregate: WindowAggregate, columns: Sequence[Named]) -> tuple[Named, ...]:
    """The columns, with the window's start and end in front unless they are among them."""
    taken = {column.name.lower() for column in columns}
    missing = []
    for place, name in enumerate(BOUNDS):
        bound = Column(place, aggregate.schema.fields[place].type)
        if all(column.expression != bound for column in columns):
            missing.append(Named(fresh(name, taken), bound))
    return (*missing, *columns)


def projected(plan: Plan, expressions: Sequence[Expression], time: EventTime | None) -> Plan:
    """The plan with these columns, named without meaning; the plan itself if it has just these."""
    columns = [Column(place, field.type) for place, field in enumerate(plan.schema.fields)]
    place = time_place(plan, expressions, time)
    if list(expressions) == columns and (place is None or event_time(plan) == time):
        return plan
    return Project(plan, tuple(expressions), canonical(expressions), place)


def answered(relation: Relation) -> Plan:
    """The plan of a whole query, whose columns have the names the user gave."""
    plan, expressions = relation.plan, [column.expression for column in relation.columns]
    schema = Schema(tuple(Field(column.name, column.expression.type) for column in relation.columns))
    plan_of_answers = projected(plan, expressions, relation.time)
    if plan_of_answers.schema == schema:
        return plan_of_answers
    return Project(plan, tuple(expressions), schema, time_place(plan, expressions, relation.time))


def time_place(plan: Plan, expressions: Sequence[Expression], time: EventTime | None) -> int | None:
    if time is None:
        return None
    clock = Column(time.place, plan.schema.fields[time.place].type)
    return next((place for place, expression in enumerate(expressions) if expression == clock), None)


def canonical(columns: Sequence[Expression]) -> Schema:
    """A schema whose names say nothing, so that plans do not differ by them."""
    return Schema(tuple(Field(f"c{place}", field.type) for place, field in enumerate(columns)))


# -- sizes -----------------------------------------------------------------------------------------------


def parts(plan: Plan, most: int) -> int:
    """The nodes of a plan, counted no further than just beyond `most`."""
    count, stack = 0, [plan]
    while stack and count <= most:
        count += 1
        stack += inputs(stack.pop())
    return count
