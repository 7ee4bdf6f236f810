"""All declarations at one moment, with indexes and cached plans, so that a change is checked without reading all of them.

A change is made in a `copy`, which takes some microseconds per thousand declarations. `put` discards only the cached objects that depend on
the stored declaration. Only the code that made a copy may change the copy: a state that other code has seen never changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from configs.classes.live_class import SAID_OF_QUERIES, LiveClass
from configs.documents.declarations import (
    Declaration,
    FeedDeclaration,
    PriorityClassDeclaration,
    QueryDeclaration,
    Ref,
    StreamDeclaration,
    TenantDeclaration,
    live_class,
    ref_of,
)
from engine.class_.admission import CheckedClass, checked
from engine.data.schema import StreamSchema
from engine.sql import SqlCatalog as SqlCatalog
from engine.sql import parse_create_stream

Kind = TypeVar("Kind", bound=Declaration)
# Maximum number of tenants with cached query plans; a plan takes kilobytes.
CHECKED = 100


@dataclass(frozen=True, slots=True)
class StoredDeclaration:
    """Declaration as it is stored: with its version, its number in the order of declarations, and the streams and queries that it reads."""

    declaration: Declaration
    version: int = 0
    place: int = 0
    """Number that orders declarations by the time of their first declaration."""
    reads: tuple[str, ...] = ()
    """Streams and queries that a query reads; empty for other kinds."""

    @property
    def ref(self) -> Ref:
        return ref_of(self.declaration)


class CatalogState(Mapping[Ref, StoredDeclaration]):
    """All declarations by reference, in the order in which they were declared."""

    def __init__(self, stored: Iterable[StoredDeclaration] = ()) -> None:
        self._all: dict[Ref, StoredDeclaration] = {}
        self._of_kind: dict[str, dict[Ref, StoredDeclaration]] = {}
        self._folded: dict[Ref, Ref] = {}
        # Queries by tenant. Copies of a state share these dicts, except the dicts of tenants in `_own`.
        self._queries: dict[str, dict[Ref, StoredDeclaration]] = {}
        self._own: set[str] = set()
        # Cached objects are made on demand. A cached object is discarded when a declaration on which it depends changes.
        self._sql: SqlCatalog | None = None
        self._entitled: dict[str, LiveClass] = {}
        self._classes: dict[str, LiveClass] = {}
        self._checked: dict[str, CheckedClass] = {}
        for entry in stored:
            self.put(entry)

    def copy(self) -> CatalogState:
        duplicate = CatalogState()
        duplicate._all, duplicate._folded = dict(self._all), dict(self._folded)
        duplicate._of_kind = {kind: dict(those) for kind, those in self._of_kind.items()}
        duplicate._queries = dict(self._queries)
        duplicate._sql = self._sql
        duplicate._entitled, duplicate._classes = dict(self._entitled), dict(self._classes)
        duplicate._checked = dict(self._checked)
        # The copy and the original now share all dicts of queries, so a dict must be copied before it is changed.
        self._own = set()
        return duplicate

    def __getitem__(self, ref: Ref) -> StoredDeclaration:
        return self._all[ref]

    def __iter__(self) -> Iterator[Ref]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def of_kind(self, kind: type[Kind]) -> list[Kind]:
        name = kind.__name__.removesuffix("Declaration")
        return declared(self._of_kind.get(name, {}).values(), kind)

    def stored(self, kind: str) -> list[StoredDeclaration]:
        return list(self._of_kind.get(kind, {}).values())

    def names(self, kind: str) -> list[str]:
        return [ref.name for ref in self._of_kind.get(kind, {})]

    def in_use(self, ref: Ref) -> Ref | None:
        """Return the declaration with this name, ignoring case; None if the name is free."""
        return self._folded.get(ref.folded)

    def queries_of(self, tenant: str) -> list[StoredDeclaration]:
        return list(self._queries.get(tenant, {}).values())

    def tenants_with_queries(self) -> list[str]:
        """Return the tenants that have queries, in the order of their declaration."""
        return [name for name in self.names("Tenant") if self._queries.get(name)]

    def sql_catalog(self) -> SqlCatalog:
        """Return the schemas of all streams, for the planner of SQL."""
        if self._sql is None:
            self._sql = SqlCatalog.of(
                streams=[schema_of(stream) for stream in self.of_kind(StreamDeclaration)]
            )
        return self._sql

    def entitled(self, tenant: str) -> LiveClass:
        """Return a tenant's class without streams and queries; raise InvalidInput if it asks for more than its priority class gives."""
        class_ = self._entitled.get(tenant)
        if class_ is None:
            class_ = self._entitled[tenant] = live_class(*self._tenant(tenant), (), ())
        return class_

    def class_of(self, tenant: str) -> LiveClass:
        """Return the class that runs for a tenant, with the tenant's queries and the streams that the queries read."""
        class_ = self._classes.get(tenant)
        if class_ is None:
            queries = self.queries_of(tenant)
            class_ = self._classes[tenant] = self.class_with(tenant, queries, queries)
        return class_

    def class_with(
        self, tenant: str, queries: Iterable[StoredDeclaration], readers: Iterable[StoredDeclaration]
    ) -> LiveClass:
        """Return a tenant's class with these queries, and with the streams that the queries in `readers` read."""
        read = {source for query in readers for source in query.reads}
        streams = sorted(filter(None, map(self._stream, read)), key=lambda one: one.place)
        return live_class(
            *self._tenant(tenant),
            declared(streams, StreamDeclaration),
            declared(queries, QueryDeclaration),
            {name for feed in self.of_kind(FeedDeclaration) for name in feed.streams},
        )

    def checked(self, tenant: str, before: CheckedClass | None = None) -> CheckedClass:
        """Return the tenant's class with planned queries; raise InvalidInput if a query cannot be planned. Plans of `before` are reused."""
        checked_class = self._checked.get(tenant)
        if checked_class is None:
            # Plans are cached because several changes of one tenant often follow each other.
            if len(self._checked) >= CHECKED:
                self._checked.clear()
            checked_class = self._checked[tenant] = grown(self.class_of(tenant), before)
        return checked_class

    def _stream(self, name: str) -> StoredDeclaration | None:
        ref = self.in_use(Ref("Stream", name))
        return None if ref is None else self[ref]

    def _tenant(self, name: str) -> tuple[TenantDeclaration, PriorityClassDeclaration]:
        tenant = self[Ref("Tenant", name)].declaration
        assert isinstance(tenant, TenantDeclaration)
        priority_class = self[Ref("PriorityClass", tenant.priority_class)].declaration
        assert isinstance(priority_class, PriorityClassDeclaration)
        return tenant, priority_class

    def put(self, one: StoredDeclaration) -> None:
        """Store a declaration: a replaced declaration keeps its position in the order, and a new declaration becomes the last."""
        ref = one.ref
        before = self._all.get(ref)
        self._all[ref] = one
        self._of_kind.setdefault(ref.kind, {})[ref] = one
        self._folded[ref.folded] = ref
        if ref.tenant:
            self._own_queries(ref.tenant)[ref] = one
        if before is None or (before.declaration, before.reads) != (one.declaration, one.reads):
            self._forget(ref)

    def remove(self, ref: Ref) -> None:
        del self._all[ref]
        del self._of_kind[ref.kind][ref]
        del self._folded[ref.folded]
        if ref.tenant:
            del self._own_queries(ref.tenant)[ref]
        self._forget(ref)

    def _own_queries(self, tenant: str) -> dict[Ref, StoredDeclaration]:
        if tenant not in self._own:
            self._own.add(tenant)
            self._queries[tenant] = dict(self._queries.get(tenant, {}))
        return self._queries[tenant]

    def _forget(self, ref: Ref) -> None:
        match ref.kind:
            case "Query":
                self._forget_class(ref.tenant)
            case "Tenant":
                self._entitled.pop(ref.name, None)
                self._forget_class(ref.name)
            case "PriorityClass":
                self._entitled.clear()
                self._forget_classes()
            case "Stream":
                self._sql = None
                self._forget_classes()
            case "Feed":
                self._forget_classes()

    def _forget_class(self, tenant: str) -> None:
        self._classes.pop(tenant, None)
        self._checked.pop(tenant, None)

    def _forget_classes(self) -> None:
        self._classes.clear()
        self._checked.clear()


def declared(stored: Iterable[StoredDeclaration], kind: type[Kind]) -> list[Kind]:
    return [entry.declaration for entry in stored if isinstance(entry.declaration, kind)]


def grown(declared: LiveClass, before: CheckedClass | None) -> CheckedClass:
    """Return the class with planned queries. If the class equals `before` except for added queries, only the added queries are planned."""
    if before is None:
        return checked(declared)
    was = before.declared
    if declared.model_copy(update={field: getattr(was, field) for field in SAID_OF_QUERIES}) != was:
        return checked(declared)
    added = list(declared.queries.items())
    if added[: len(was.queries)] != list(was.queries.items()):
        return checked(declared)
    for name, sql in added[len(was.queries) :]:
        before = before.with_query(name, sql)
    return replace(before, declared=declared)


def schema_of(one: StreamDeclaration) -> StreamSchema:
    """Return the schema of a stream; its declaration must have been checked before."""
    return parse_create_stream(one.declaration(one.name))
