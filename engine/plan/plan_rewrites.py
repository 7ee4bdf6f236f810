"""Equivalent plans of one query: plans that give the same answers with different operators.

A condition can be tested before a join, which keeps tuples out of the join's state, or only on the pairs of the join.
Queries can share operators, or each query can have operators of its own. The names of these alternatives are:

    select first            join(filter(a), filter(b))          filters keep tuples out of the join's state
    select after the join   join(a, b) where …                  conditions are tested on pairs only, as part of the join
    shared                  equal parts of queries have equal plans, and become one node of the network
    apart                   each stream is read under the query's name, so that no operator is shared with another query

These are the alternatives of MavStream's run-time optimizer: select before or after the join, shared or not shared.

Properties:
1. The answers are the same. A tuple that fails in an expression is left out under each plan. It may be counted with
   another reason, or once for each pair.
2. Only conditions of inner joins move. A LEFT JOIN keeps tuples without a match, which a condition on pairs must not drop.
   In a lookup of the last row, a condition on the looked-up side decides which row is the last, so it stays below the join.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from configs.classes.plans import PlanSettings
from engine.data.schema import BOOLEAN
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
    canonical,
    columns_in,
)
from engine.plan.pruning import moved, pruned


def arranged(plan: Plan, queries: Mapping[str, Query], settings: PlanSettings, owner: str) -> Plan:
    """Return the plan rewritten by the settings, with neutral column names.

    The plans of other queries that the plan reads are inserted. Operators that are not shared belong to the query `owner`.
    """
    if isinstance(plan, QueryOutput):
        return arranged(queries[plan.query].plan, queries, settings, owner)
    if isinstance(plan, Scan):
        return plan if settings.shared else Apart(plan, owner)
    changed: dict[str, Any] = {
        name: arranged(below, queries, settings, owner)
        for name in ("input", "left", "right")
        if (below := getattr(plan, name, None)) is not None
    }
    if isinstance(plan, Union):
        changed["inputs"] = tuple(arranged(below, queries, settings, owner) for below in plan.inputs)
    if isinstance(plan, Project):
        changed["schema"] = canonical(plan.schema.fields)
    if changed:
        plan = replace(plan, **changed)
    return pruned(plan if settings.select_first else selected_after(plan))


def selected_after(plan: Plan) -> Plan:
    """Return an inner join with the filters of its sides moved into its residual condition; return any other plan unchanged."""
    match plan:
        case IntervalJoin() | WindowJoin():
            (left, on_left), (right, on_right) = freed(plan.left), freed(plan.right)
            width = len(left.schema)
            later = [
                moved(one, {column.place: column.place + width for column in columns_in(one)})
                for one in on_right
            ]
            return replace(plan, left=left, right=right, residual=together([plan.residual, *on_left, *later]))
        case TableJoin(outer=False):
            below, conditions = freed(plan.input)
            return replace(plan, input=below, residual=together([plan.residual, *conditions]))
        case LastJoin(outer=False):
            below, conditions = freed(plan.left)
            return replace(plan, left=below, residual=together([plan.residual, *conditions]))
    return plan


def freed(side: Plan) -> tuple[Plan, list[Expression]]:
    """Return a side of a join without its topmost filter, and the filter's condition over the columns of the side."""
    if isinstance(side, Filter):
        return side.input, [side.condition]
    if isinstance(side, Project) and isinstance(side.input, Filter):
        kept = {one.place: place for place, one in enumerate(side.expressions) if isinstance(one, Column)}
        condition = side.input.condition
        if {column.place for column in columns_in(condition)} <= kept.keys():
            return replace(side, input=side.input.input), [moved(condition, kept)]
    return side, []


def together(conditions: list[Expression]) -> Expression:
    """Return the AND of all conditions, each operand once."""
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
