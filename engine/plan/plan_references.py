"""References between queries: the streams and queries that a query reads, and the queries that read it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from configs.errors import InvalidInput
from engine.plan.plan import LastJoin, Plan, Query, QueryOutput, Scan, inputs


def sources(plan: Plan) -> Iterator[Scan | QueryOutput]:
    """Yield the streams and query outputs that a plan reads."""
    stack = [plan]
    while stack:
        one = stack.pop()
        if isinstance(one, Scan | QueryOutput):
            yield one
        stack += inputs(one)


def reads(query: Query) -> set[str]:
    """Return the names of the queries that the query reads, in lower case."""
    return {source.query.lower() for source in sources(query.plan) if isinstance(source, QueryOutput)}


def dependents(queries: Mapping[str, Query], names: set[str]) -> list[str]:
    """Return the queries with these names and all queries that depend on them, readers first."""
    found: list[str] = []
    # Queries are in the order of their declaration, and a query reads only earlier queries.
    for name, query in queries.items():
        if name in names or reads(query) & {one.lower() for one in found}:
            found.append(name)
    return found[::-1]


def check_lookups(plan: Plan, queries: Mapping[str, Query]) -> None:
    """Refuse to look up a stream's rows in the same stream by [LAST BY …], where the policy would decide which side gets a tuple first."""
    stack = [plan]
    while stack:
        one = stack.pop()
        stack += inputs(one)
        if isinstance(one, LastJoin) and (both := streams(one.left, queries) & streams(one.right, queries)):
            hint = "look up the last rows of another stream"
            raise InvalidInput(
                "a query cannot join a stream with the last rows of the same stream",
                "LAST BY",
                min(both),
                hint,
            )


def streams(plan: Plan, queries: Mapping[str, Query]) -> set[str]:
    """Return the streams that a plan reads, also through other queries; `queries` has lower-case names."""
    found: set[str] = set()
    for source in sources(plan):
        if isinstance(source, Scan):
            found.add(source.stream.name)
        else:
            found |= streams(queries[source.query.lower()].plan, queries)
    return found
