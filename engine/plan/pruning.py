"""Removes columns from the inputs of a join if no part of the plan above the join uses these columns.

Under a projection, each side of a join is first projected to its keys, its event time and other used columns: those in
the residual condition and in the projection. The rest of the plan stays unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from engine.data.schema import Schema
from engine.plan.plan import (
    Call,
    Case,
    Cast,
    Column,
    Expression,
    IntervalJoin,
    Plan,
    Project,
    WindowJoin,
    columns_in,
    event_time,
)


def pruned(plan: Plan) -> Plan:
    """Return the plan; below a projection over a join, columns that are not used are removed from the inputs of the join."""
    if not (isinstance(plan, Project) and isinstance(plan.input, IntervalJoin | WindowJoin)):
        return plan
    join = plan.input
    used = {
        column.place for expression in (*plan.expressions, join.residual) for column in columns_in(expression)
    }
    width = len(join.left.schema)
    left = kept_places(join.left, join.left_keys, {place for place in used if place < width})
    right = kept_places(join.right, join.right_keys, {place - width for place in used if place >= width})
    moves = {place: number for number, place in enumerate(left)}
    moves |= {width + place: len(left) + number for number, place in enumerate(right)}
    sides = narrowed(join.left, left), narrowed(join.right, right)
    narrow = replace(
        join,
        left=sides[0],
        right=sides[1],
        left_keys=tuple(left.index(key) for key in join.left_keys),
        right_keys=tuple(right.index(key) for key in join.right_keys),
        residual=moved(join.residual, moves),
        schema=Schema((*sides[0].schema.fields, *sides[1].schema.fields)),
    )
    return replace(
        plan, input=narrow, expressions=tuple(moved(expression, moves) for expression in plan.expressions)
    )


def kept_places(side: Plan, keys: tuple[int, ...], used: set[int]) -> list[int]:
    time = event_time(side)
    return sorted(used | set(keys) | ({time.place} if time is not None else set()))


def narrowed(side: Plan, places: list[int]) -> Plan:
    if len(places) == len(side.schema):
        return side
    fields = [side.schema.fields[place] for place in places]
    columns = tuple(Column(place, field.type) for place, field in zip(places, fields, strict=True))
    time = event_time(side)
    return Project(side, columns, Schema(tuple(fields)), None if time is None else places.index(time.place))


def moved(expression: Expression, moves: Mapping[int, int]) -> Expression:
    """Return the expression with its columns at their new positions."""
    match expression:
        case Column(place, type_):
            return Column(moves[place], type_)
        case Call(function, arguments, type_):
            return Call(function, tuple(moved(one, moves) for one in arguments), type_)
        case Cast(argument, type_, try_):
            return Cast(moved(argument, moves), type_, try_)
        case Case(branches, otherwise, type_):
            parts = tuple((moved(condition, moves), moved(value, moves)) for condition, value in branches)
            return Case(parts, moved(otherwise, moves), type_)
    return expression
