"""Catalog of the names that a query may use in FROM: streams, static tables, and outputs of earlier queries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from engine.data.schema import StreamSchema, TableSchema
from engine.plan.plan import Query, QueryOutput, event_time

Known = StreamSchema | TableSchema | QueryOutput


@dataclass(frozen=True)
class SqlCatalog:
    """Immutable mapping from names to schemas, which ignores the case of names; adding a name returns a new catalog."""

    entries: Mapping[str, Known] = field(default_factory=lambda: MappingProxyType({}))

    @staticmethod
    def of(
        streams: Iterable[StreamSchema] = (),
        tables: Iterable[TableSchema] = (),
        queries: Iterable[QueryOutput] = (),
    ) -> SqlCatalog:
        known: list[Known] = [*streams, *tables, *queries]
        return SqlCatalog(MappingProxyType({name_of(one).lower(): one for one in known}))

    def find(self, name: str) -> Known | None:
        return self.entries.get(name.lower())

    def names(self) -> list[str]:
        return [name_of(entry) for entry in self.entries.values()]

    def with_entry(self, one: Known) -> SqlCatalog:
        """Return a catalog with this entry added; an entry with the same name is replaced."""
        return replace(self, entries=MappingProxyType({**self.entries, name_of(one).lower(): one}))

    def with_query(self, query: Query) -> SqlCatalog:
        """Return a catalog in which other queries can read the output of this query."""
        return self.with_entry(output_of(query))

    def with_queries(self, queries: Iterable[Query]) -> SqlCatalog:
        """Return a catalog in which other queries can read the outputs of all these queries."""
        outputs = {query.name.lower(): output_of(query) for query in queries}
        return replace(self, entries=MappingProxyType({**self.entries, **outputs}))


def output_of(query: Query) -> QueryOutput:
    """Return the output of a query as a stream that another query can read."""
    time = event_time(query.plan)
    if time is None:
        return QueryOutput(query.name, query.plan.schema)
    return QueryOutput(query.name, query.plan.schema, time.place, time.unit_us)


def name_of(one: Known) -> str:
    return one.query if isinstance(one, QueryOutput) else one.name
