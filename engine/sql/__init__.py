"""SQL front end: parses stream declarations, plans queries, and reports errors with line and column. Does no I/O."""

from __future__ import annotations

from types import MappingProxyType

from engine.plan.plan import Aggregate, Plan, Query, WindowAggregate, walk
from engine.sql.catalog import SqlCatalog, output_of
from engine.sql.create import parse_create_stream
from engine.sql.create_mirror import Mirror, parse_create_mirror
from engine.sql.dialect import parsed
from engine.sql.errors import SPLIT_IT, PlanningError, Text
from engine.sql.output import answered
from engine.sql.select import Selects
from engine.sql.statements import Statement, split_statements


def plan_query(name: str, sql: str, catalog: SqlCatalog) -> Query:
    """Plan a query; raise a PlanningError that says where the text is wrong and what to write instead."""
    text = Text(sql)
    try:
        relation = Selects(text, catalog, MappingProxyType({})).relation(parsed(sql))
        plan = answered(relation)
    except RecursionError:
        raise text.error(0, "the query is nested too deeply", hint=SPLIT_IT) from None
    return Query(name, sql, plan, any(aggregate.scaled for aggregate in aggregates(plan)))


def aggregates(plan: Plan) -> list[Aggregate]:
    """Return all aggregates in a plan."""
    return [one for part in walk(plan) if isinstance(part, WindowAggregate) for one in part.aggregates]


__all__ = [
    "SqlCatalog",
    "Mirror",
    "PlanningError",
    "Statement",
    "output_of",
    "parse_create_mirror",
    "parse_create_stream",
    "plan_query",
    "split_statements",
]
