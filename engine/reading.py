"""Which streams and queries a query reads, and which queries read it in turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from engine.plan import Plan, Query, QueryOutput, Scan, inputs


def sources(plan: Plan) -> Iterator[Scan | QueryOutput]:
    """What a plan reads."""
    stack = [plan]
    while stack:
        one = stack.pop()
        if isinstance(one, Scan | QueryOutput):
            yield one
        stack += inputs(one)


def reads(query: Query) -> set[str]:
    """Names of the queries whose output the query reads, in small letters."""
    return {one.query.lower() for one in sources(query.plan) if isinstance(one, QueryOutput)}


def dependents(queries: Mapping[str, Query], names: set[str]) -> list[str]:
    """The queries of these names and all that read their outputs, readers before what they read."""
    found: list[str] = []
    for name, query in queries.items():  # a query reads earlier ones only
        if name in names or reads(query) & {one.lower() for one in found}:
            found.append(name)
    return found[::-1]
