"""UNION ALL: combines queries after casting their columns to common types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from engine.data.schema import DataType
from engine.expressions.functions import common_type
from engine.plan.plan import Column, EventTime, Expression, Union, canonical, event_time, event_times
from engine.sql.errors import Text
from engine.sql.names import Named, Relation
from engine.sql.output import projected
from engine.sql.terms.normal_form import cast


def branches_of(text: Text, node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the queries of a chain of UNION ALL, in order."""
    stack: list[exp.Expr] = [node]
    while stack:
        part = stack.pop()
        while isinstance(part, exp.Subquery):
            part = part.this
        if isinstance(part, exp.Union) and (part is node or not part.args.get("with_")):
            _check(text, part)
            stack += [part.expression, part.this]
        else:
            yield part


def _check(text: Text, node: exp.Union) -> None:
    if node.args.get("distinct"):
        what = "UNION would keep every row for ever, in order to remove duplicates"
        raise text.error(node.expression, what, hint="use UNION ALL")
    if any(node.args.get(option) for option in ("by_name", "on", "side", "kind")):
        raise text.error(node.expression, "UNION ALL matches columns by their position only")


def united(text: Text, branches: Sequence[exp.Expr], relations: Sequence[Relation]) -> Relation:
    """Return the union of all relations, with the column names of the first relation.

    Its event time is a column that is an event time in all relations.
    """
    width = len(relations[0].columns)
    for branch, relation in zip(branches, relations, strict=True):
        if len(relation.columns) != width:
            counts = f"{width} and {len(relation.columns)}"
            hint = "count window_start and window_end: a query with a window has them first, unless it selects them itself"
            raise text.error(
                branch, "the queries of UNION ALL differ in their number of columns", counts, hint
            )
    types = [_type(text, branches, relations, place) for place in range(width)]
    rows = [
        [cast(column.expression, type_) for column, type_ in zip(relation.columns, types, strict=True)]
        for relation in relations
    ]
    times = [_times(relation, row) for relation, row in zip(relations, rows, strict=True)]
    shared = [
        place
        for place, time in times[0].items()
        if all(place in others and others[place].unit_us == time.unit_us for others in times)
    ]
    plans = [
        projected(relation.plan, row, found[shared[0]] if shared else None)
        for relation, row, found in zip(relations, rows, times, strict=True)
    ]
    columns = [Column(place, type_) for place, type_ in enumerate(types)]
    # The branches of a union are sorted, so that unions that differ only in the order of their branches have equal plans.
    union = Union(tuple(sorted(plans, key=repr)), canonical(columns))
    names = [column.name for column in relations[0].columns]
    named = tuple(Named(name, column) for name, column in zip(names, columns, strict=True))
    return Relation(union, named, time=event_time(union))


def _times(relation: Relation, row: Sequence[Expression]) -> dict[int, EventTime]:
    """Return the event-time columns of a branch of the union, by position."""
    times_by_place = {time.place: time for time in event_times(relation.plan)}
    return {
        place: times_by_place[column.place]
        for place, column in enumerate(row)
        if isinstance(column, Column) and column.place in times_by_place
    }


def _type(text: Text, branches: Sequence[exp.Expr], relations: Sequence[Relation], place: int) -> DataType:
    types = [relation.columns[place].expression.type for relation in relations]
    common = common_type(types)
    if common is None:
        first = next(number for number, type_ in enumerate(types) if common_type([types[0], type_]) is None)
        names = f"{types[0]} and {types[first]}"
        what = f"column {place + 1} of the queries of UNION ALL has incompatible types"
        raise text.error(branches[first], what, names, "CAST one of the columns")
    return common
