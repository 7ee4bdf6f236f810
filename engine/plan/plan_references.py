"""Which streams and queries a query reads, and which queries read it in turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from configs.errors import InvalidInput
from engine.plan.plan import LastJoin, Plan, Query, QueryOutput, Scan, inputs


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
    return {source.query.lower() for source in sources(query.plan) if isinstance(source, QueryOutput)}


def dependents(queries: Mapping[str, Query], names: set[str]) -> list[str]:
    """The queries of these names and all that read their outputs, readers before what they read."""
    found: list[str] = []
    for name, query in queries.items():  # a query reads earlier ones only
        if name in names or reads(query) & {one.lower() for one in found}:
            found.append(name)
    return found[::-1]


def check_lookups(plan: Plan, queries: Mapping[str, Query]) -> None:
    """No stream looks itself up: which of the two sides is first with a tuple would be the policy's to say."""
    stack = [plan]
    while stack:
        one = stack.pop()
        stack += inputs(one)
        if isinstance(one, LastJoin) and (both := streams(one.left, queries) & streams(one.right, queries)):
            hint = "look up the last rows of another stream"
            raise InvalidInput("a stream cannot look itself up", "LAST BY", min(both), hint)


def streams(plan: Plan, queries: Mapping[str, Query]) -> set[str]:
    """What it reads, also through other queries, which are known by names in small letters."""
    found: set[str] = set()
    for source in sources(plan):
        if isinstance(source, Scan):
            found.add(source.stream.name)
        else:
            found |= streams(queries[source.query.lower()].plan, queries)
    return found
