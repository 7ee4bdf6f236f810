"""Equivalent plans of one query: with the same answers, by other operators.

    select first            join(filter(a), filter(b))          a filter keeps tuples out of the join's state
    select after the join   join(a, b) where …                  conditions are tested for pairs only, as part of the join
    shared                  equal parts of queries are equal plans, hence one node of the network
    apart                   each stream is read under the query's name, so that nothing above it equals another query's

After MavStream's alternatives for the run-time optimizer (select before or after join, shared or not).

1. The answers are the same. What fails in an expression is left out under each plan, but may be counted by another reason,
   or by pairs.
2. Only conditions of inner joins move. A LEFT JOIN keeps tuples that no condition on pairs may drop, and which row is the
   last of its key depends on those before it, so a condition on that side stays where it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from configs.classes.plans import PlanSettings
from engine.data.schema import BOOLEAN, Field, Schema
from engine.plan.plan import (
    TRUE,
    Apart,
    Call,
    Column,
    Expression,
    Filter,
    IntervalJoin,
    LastJoin,
    Plan,
    Project,
    Query,
    QueryOutput,
    Scan,
    TableJoin,
    Union,
    WindowJoin,
)
from engine.plan.pruning import columns_in, moved, pruned


def arranged(query: Query, queries: Mapping[str, Query], settings: PlanSettings, owner: str) -> Plan:
    """The plan of a query by the settings, with the plans of those it reads; `owner` is whose nodes it has if they are not shared."""
    return _arranged(query.plan, queries, settings, owner)


def _arranged(plan: Plan, queries: Mapping[str, Query], settings: PlanSettings, owner: str) -> Plan:
    """The plan with every query it reads in place of that query's name, and without names for people."""
    if isinstance(plan, QueryOutput):
        return _arranged(queries[plan.query].plan, queries, settings, owner)
    if isinstance(plan, Scan):
        return plan if settings.shared else Apart(plan, owner)
    changed: dict[str, Any] = {
        name: _arranged(below, queries, settings, owner)
        for name in ("input", "left", "right")
        if (below := getattr(plan, name, None)) is not None
    }
    if isinstance(plan, Union):
        changed["inputs"] = tuple(_arranged(below, queries, settings, owner) for below in plan.inputs)
    if isinstance(plan, Project):
        changed["schema"] = unnamed(plan.schema)
    if changed:
        plan = replace(plan, **changed)
    return pruned(plan if settings.select_first else selected_after(plan))


def unnamed(schema: Schema) -> Schema:
    """Two queries that differ in their columns' names alone are one."""
    return Schema(tuple(Field(f"c{place}", one.type) for place, one in enumerate(schema.fields)))


def selected_after(plan: Plan) -> Plan:
    """A join with the conditions on its sides among those on its pairs."""
    match plan:
        case IntervalJoin() | WindowJoin():
            (left, on_left), (right, on_right) = freed(plan.left), freed(plan.right)
            width = len(left.schema)
            later = [_shifted(one, width) for one in on_right]
            return replace(plan, left=left, right=right, residual=together([plan.residual, *on_left, *later]))
        case TableJoin(outer=False):
            below, conditions = freed(plan.input)
            return replace(plan, input=below, residual=together([plan.residual, *conditions]))
        case LastJoin(outer=False):
            below, conditions = freed(plan.left)
            return replace(plan, left=below, residual=together([plan.residual, *conditions]))
    return plan


def freed(side: Plan) -> tuple[Plan, list[Expression]]:
    """A side of a join without the conditions on top of it, and these, over its columns."""
    if isinstance(side, Filter):
        return side.input, [side.condition]
    if isinstance(side, Project) and isinstance(side.input, Filter):
        kept = {one.place: place for place, one in enumerate(side.expressions) if isinstance(one, Column)}
        condition = side.input.condition
        if set(columns_in(condition)) <= kept.keys():
            return replace(side, input=side.input.input), [moved(condition, kept)]
    return side, []


def together(conditions: list[Expression]) -> Expression:
    """All of them, as one condition."""
    operands = tuple(dict.fromkeys(part for condition in conditions for part in _operands(condition)))
    if not operands:
        return TRUE
    return operands[0] if len(operands) == 1 else Call("and", operands, BOOLEAN)


def _operands(condition: Expression) -> Iterator[Expression]:
    if isinstance(condition, Call) and condition.function == "and":
        for argument in condition.arguments:
            yield from _operands(argument)
    elif condition != TRUE:
        yield condition


def _shifted(condition: Expression, by: int) -> Expression:
    return moved(condition, {place: place + by for place in columns_in(condition)})
