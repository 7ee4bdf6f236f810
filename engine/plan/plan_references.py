"""References between queries: the streams and queries that a query reads, and the queries that read it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from configs.errors import InvalidInput
from engine.plan.plan import LastJoin, Plan, Query, QueryOutput, Scan, walk


def sources(plan: Plan) -> Iterator[Scan | QueryOutput]:
    """Yield the streams and query outputs that a plan reads."""
    return (part for part in walk(plan) if isinstance(part, Scan | QueryOutput))


def reads(query: Query) -> set[str]:
    """Return the names of the queries that the query reads, in lower case."""
    return {source.query.lower() for source in sources(query.plan) if isinstance(source, QueryOutput)}


def dependents(queries: Mapping[str, Query], names: set[str]) -> list[str]:
    """Return the queries with these names and all queries that read their answers; a query comes before the queries that it reads."""
    found: list[str] = []
    # Queries are in the order of their declaration, and a query reads only earlier queries.
    for name, query in queries.items():
        if name in names or reads(query) & {one.lower() for one in found}:
            found.append(name)
    return found[::-1]


def check_lookups(plan: Plan, queries: Mapping[str, Query]) -> None:
    """Raise InvalidInput if a join with [LAST BY …] joins a stream with itself.

    The operator policy would decide whether a row is stored before or after it looks up, and the answers would depend on that.
    """
    for part in walk(plan):
        if isinstance(part, LastJoin) and (
            both := streams(part.left, queries) & streams(part.right, queries)
        ):
            what = "a query cannot join a stream with the last rows of the same stream"
            raise InvalidInput(what, "LAST BY", min(both), "look up the last rows of another stream")


def streams(plan: Plan, queries: Mapping[str, Query]) -> set[str]:
    """Return the streams that a plan reads, directly or through other queries; the names in `queries` are in lower case."""
    found: set[str] = set()
    for source in sources(plan):
        if isinstance(source, Scan):
            found.add(source.stream.name)
        else:
            found |= streams(queries[source.query.lower()].plan, queries)
    return found
