"""SQL in, plans out: streams declared, queries planned, mistakes told with line and column. Pure."""

from __future__ import annotations

from types import MappingProxyType

from engine.plan.plan import Aggregate, Plan, Query, WindowAggregate, inputs
from engine.sql.catalog import SqlCatalog, output_of
from engine.sql.create import parse_create_stream
from engine.sql.create_mirror import Mirror, parse_create_mirror
from engine.sql.dialect import parsed
from engine.sql.errors import PlanningError, Text
from engine.sql.output import answered
from engine.sql.select import Selects
from engine.sql.statements import Statement, split_statements


def plan_query(name: str, sql: str, catalog: SqlCatalog) -> Query:
    """The plan of a query, or a PlanningError that says where it is wrong and what would work."""
    text = Text(sql)
    try:
        relation = Selects(text, catalog, MappingProxyType({})).relation(parsed(sql))
        plan = answered(relation)
    except RecursionError:
        raise text.error(0, "the query is too deep", hint="split it into queries over queries") from None
    return Query(name, sql, plan, any(aggregate.scaled for aggregate in aggregates(plan)))


def aggregates(plan: Plan) -> list[Aggregate]:
    """All aggregates in a plan."""
    found: list[Aggregate] = []
    stack = [plan]
    while stack:
        one = stack.pop()
        if isinstance(one, WindowAggregate):
            found += one.aggregates
        stack += inputs(one)
    return found


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
