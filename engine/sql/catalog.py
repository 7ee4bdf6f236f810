"""What a query may name in FROM: streams, static tables, and the outputs of earlier queries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from engine.data.schema import StreamSchema, TableSchema
from engine.plan.plan import Query, QueryOutput, event_time

Known = StreamSchema | TableSchema | QueryOutput


@dataclass(frozen=True)
class SqlCatalog:
    """Names, without regard to case, and what they stand for. Frozen: adding gives a new catalog."""

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
        """A catalog with one more name, or with another meaning of it."""
        return replace(self, entries=MappingProxyType({**self.entries, name_of(one).lower(): one}))

    def with_query(self, query: Query) -> SqlCatalog:
        """A catalog in which other queries may read this one's output."""
        return self.with_entry(output_of(query))

    def with_queries(self, queries: Iterable[Query]) -> SqlCatalog:
        """The same of many at once, which have names of their own."""
        return replace(
            self,
            entries=MappingProxyType(
                {**self.entries, **{query.name.lower(): output_of(query) for query in queries}}
            ),
        )


def output_of(query: Query) -> QueryOutput:
    """A query's output, as another query reads it."""
    time = event_time(query.plan)
    if time is None:
        return QueryOutput(query.name, query.plan.schema)
    return QueryOutput(query.name, query.plan.schema, time.place, time.unit_us)


def name_of(one: Known) -> str:
    return one.query if isinstance(one, QueryOutput) else one.name
