"""Output columns of a query: their names, and the projection that computes them if the plan does not have them already."""

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
    canonical,
    event_time,
)
from engine.sql.errors import Text
from engine.sql.names import Named, Relation
from engine.sql.terms.expressions import BOUNDS


@dataclass(frozen=True)
class SelectItem:
    """Item of the SELECT list; * becomes one item per column."""

    name: str
    given: bool  # True if the user wrote the name
    node: exp.Expr
    star: Expression | None = None


def default_name(node: exp.Expr, place: int) -> str:
    """Return the name of a column without AS, such as temp, avg_temp, count or column3."""
    if isinstance(node, exp.Paren | exp.Cast | exp.Filter):
        return default_name(node.this, place)
    if isinstance(node, exp.Column):
        return node.name
    if isinstance(node, exp.Anonymous):
        of = [part for part in node.expressions if isinstance(part, exp.Column | exp.Anonymous)]
        return "_".join([str(node.name).lower(), *(default_name(argument, place) for argument in of[:1])])
    return f"column{place + 1}"


def named_columns(text: Text, items: Sequence[SelectItem], values: Sequence[Expression]) -> tuple[Named, ...]:
    """Return the columns with distinct names.

    A name that the user wrote does not change. Any other name gets a number if a column with this name exists already.
    """
    taken: set[str] = set()
    for item in items:
        if item.given and item.name.lower() in taken:
            other = fresh(item.name, {*taken, *(column.name.lower() for column in items if column.given)})
            hint = f"give one of the columns another name: {text.of(item.node)} AS {other}"
            raise text.error(item.node, "two columns have the same name", item.name, hint)
        if item.given:
            taken.add(item.name.lower())
    columns = []
    for item, value in zip(items, values, strict=True):
        columns.append(Named(item.name if item.given else fresh(item.name, taken), value))
    return tuple(columns)


def fresh(name: str, taken: set[str]) -> str:
    """Return the name, with a number appended if the name is already in `taken`; add the result to `taken`."""
    candidate, number = name, 0
    while candidate.lower() in taken:
        number += 1
        candidate = f"{name}_{number}"
    taken.add(candidate.lower())
    return candidate


def with_bounds(aggregate: WindowAggregate, columns: Sequence[Named]) -> tuple[Named, ...]:
    """Return the columns, preceded by window_start and window_end if the query does not select these bounds itself."""
    taken = {column.name.lower() for column in columns}
    missing = []
    for place, name in enumerate(BOUNDS):
        bound = Column(place, aggregate.schema.fields[place].type)
        if all(column.expression != bound for column in columns):
            missing.append(Named(fresh(name, taken), bound))
    return (*missing, *columns)


def projected(plan: Plan, expressions: Sequence[Expression], time: EventTime | None) -> Plan:
    """Return a projection of the plan to these expressions, under neutral names.

    If the expressions are just the columns of the plan, return the plan itself.
    """
    columns = [Column(place, field.type) for place, field in enumerate(plan.schema.fields)]
    place = time_place(plan, expressions, time)
    if list(expressions) == columns and (place is None or event_time(plan) == time):
        return plan
    return Project(plan, tuple(expressions), canonical(expressions), place)


def answered(relation: Relation) -> Plan:
    """Return the plan of a whole query, with the column names that the user wrote."""
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
