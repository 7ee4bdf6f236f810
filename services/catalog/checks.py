"""Checks that declarations are consistent: names refer to declarations, SQL is valid, and all classes can run together.

`applied` returns the state of the catalog after documents are declared, or raises an error. `users` returns the declarations that use a
declaration.

Every error is an InvalidInput that names its document: file and line, or the declaration in the catalog. This module
stores and reads nothing; `services.catalog.catalog` does that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from configs.documents.declarations import (
    Declaration,
    Document,
    FeedDeclaration,
    MirrorDeclaration,
    PriorityClassDeclaration,
    QueryDeclaration,
    Ref,
    SessionDeclaration,
    StreamDeclaration,
    TenantDeclaration,
    check_differ,
    ref_of,
    streams_file,
)
from configs.errors import InvalidInput, UnknownName, nearest
from engine.class_.admission import CheckedClass, check_change, check_together, runnable
from engine.data.schema import StreamSchema
from engine.plan.plan import Query, Scan
from engine.plan.plan_references import reads, sources
from engine.sql import Mirror, PlanningError, plan_query
from engine.sql import SqlCatalog as SqlCatalog
from services.catalog.state import CatalogState, StoredDeclaration
from services.ingest.answers import OWN
from services.ingest.declared_streams import read_declaration
from services.mirror.mirror_definition import read_mirror, stream_of

# Name of the section in a streams file that holds the declarations of a kind, by kind.
SECTIONS = {"Stream": "streams", "Feed": "feeds"}
NO_CATALOG = SqlCatalog.of()
# Maximum number of mirrors; each takes about twenty threads of the service's process.
MIRRORS_MAX = 100


def completed(before: CatalogState, documents: Sequence[Document]) -> Sequence[Document]:
    """Return the documents. If the stream of a mirror is not declared separately, a document for the stream is added."""
    if not any(isinstance(document.declaration, MirrorDeclaration) for document in documents):
        return documents
    said = {document.ref.folded for document in documents}
    complete: list[Document] = []
    for document in documents:
        if isinstance(document.declaration, MirrorDeclaration):
            ref = Ref("Stream", document.declaration.name)
            # An invalid mirror is skipped, because `check_mirrors` reports its errors later.
            with suppress(InvalidInput):
                stream = stream_of(read_mirror(document.declaration))
                if ref.folded not in said and is_its_own(before, ref, stream):
                    complete.append(Document(stream, document.place))
        complete.append(document)
    return complete


def is_its_own(before: CatalogState, ref: Ref, stream: StreamDeclaration) -> bool:
    """Return True if declaring the mirror also declares its stream: the stream is missing, or has not been changed since the mirror declared it."""
    there, mirror = before.get(ref), before.get(Ref("Mirror", ref.name))
    if there is None:
        return before.in_use(ref) is None
    assert isinstance(there.declaration, StreamDeclaration)
    schema = read_declaration(ref.name, there.declaration)
    if mirror is None or schema == read_declaration(ref.name, stream):
        return False
    assert isinstance(mirror.declaration, MirrorDeclaration)
    return schema == read_mirror(mirror.declaration).stream


def applied(before: CatalogState, documents: Sequence[Document]) -> CatalogState:
    """Return the state after `documents` are declared, or raise InvalidInput. Replaced declarations keep their version and position."""
    documents = completed(before, documents)
    check_differ(documents)
    changing = Changing(before, documents)
    changing.check_names()
    changing.check_streams()
    changing.check_mirrors()
    changing.check_tenants()
    changing.check_classes()
    return changing.after


class Changing:
    """Change of the catalog that is being checked."""

    def __init__(self, before: CatalogState, documents: Sequence[Document]) -> None:
        self.before = before
        self.after = before.copy()
        self.places = {document.ref: document.place for document in documents}
        self.touched: list[Declaration] = []
        for document in documents:
            if document.ref not in before or before[document.ref].declaration != document.declaration:
                self.touched.append(document.declaration)
                stored = before.get(document.ref, StoredDeclaration(document.declaration))
                self.after.put(replace(stored, declaration=document.declaration))

    def touches(self, *kinds: type[Declaration]) -> bool:
        return any(isinstance(declaration, kinds) for declaration in self.touched)

    @contextmanager
    def about(self, ref: Ref, prefix: str = "") -> Iterator[None]:
        """Report errors raised in the block as errors of this declaration; `prefix` is removed from the errors' fields."""
        try:
            yield
        except InvalidInput as problem:
            raise replace(
                problem, file=self.places.get(ref) or str(ref), field=problem.field.removeprefix(prefix)
            ) from None

    def check_names(self) -> None:
        """Check that new names are free, and that declarations refer only to existing names."""
        refs = self.after if self.touches(StreamDeclaration) else ()
        queries = {ref.name.lower(): ref for ref in refs if ref.kind == "Query"}
        for declaration in self.touched:
            ref = ref_of(declaration)
            other = self.before.in_use(ref) or ref
            with self.about(ref):
                if other != ref:
                    raise InvalidInput(
                        f"the name is already used by {other}",
                        "name",
                        ref.name,
                        "choose a name that differs in more than case",
                    )
                match declaration:
                    case TenantDeclaration():
                        self._known(Ref("PriorityClass", declaration.priority_class), "priority_class")
                    case FeedDeclaration():
                        for stream in declaration.streams:
                            self._known(Ref("Stream", stream), "streams")
                    case QueryDeclaration():
                        self._known(Ref("Tenant", declaration.tenant), "tenant")
                        if self.after.in_use(Ref("Stream", declaration.name)) is not None:
                            raise InvalidInput(
                                "a stream already has this name, and a query cannot have the name of a stream",
                                "name",
                                declaration.name,
                                "choose another name for the query",
                            )
                    case StreamDeclaration() if declaration.name.lower() in queries:
                        taken = queries[declaration.name.lower()]
                        raise InvalidInput(
                            f"{taken} already has this name, and a stream cannot have the name of a query",
                            "name",
                            declaration.name,
                            "choose another name for the stream",
                        )

    def _known(self, ref: Ref, field: str) -> None:
        if ref not in self.after:
            hint = nearest(ref.name, self.after.names(ref.kind))
            raise UnknownName(f"there is no {ref.kind} of this name", field, ref.name, hint)

    def check_streams(self) -> None:
        """Check the columns of changed streams, and the sources and feeds that write to them."""
        for declaration in self.touched:
            if not isinstance(declaration, StreamDeclaration):
                continue
            with self.about(ref_of(declaration), f"streams.{declaration.name}."):
                schema = read_declaration(declaration.name, declaration)
                if schema != self._schema_before(declaration):
                    self._check_unread(declaration)
        if any(self._is_brought(declaration) for declaration in self.touched):
            self._check_brought()

    def _is_brought(self, one: Declaration) -> bool:
        """Return True if the declaration affects the feeds that Spark runs."""
        match one:
            case FeedDeclaration() | SessionDeclaration():
                return True
            case StreamDeclaration():
                stored = self.before.get(ref_of(one))
                before = None if stored is None else stored.declaration
                had = isinstance(before, StreamDeclaration) and before.source is not None
                fed = {name for feed in self.after.of_kind(FeedDeclaration) for name in feed.streams}
                return one.source is not None or had or one.name in fed
        return False

    def check_mirrors(self) -> None:
        """Check that each mirror is valid, and that nothing else writes to its stream."""
        if not self.touches(MirrorDeclaration, StreamDeclaration, FeedDeclaration):
            return
        mirrors = self.after.of_kind(MirrorDeclaration)
        fed = {name: feed.name for feed in self.after.of_kind(FeedDeclaration) for name in feed.streams}
        touched = {ref_of(declaration) for declaration in self.touched}
        for declared_mirror in mirrors:
            with self.about(ref_of(declared_mirror)):
                if len(mirrors) > MIRRORS_MAX:
                    raise InvalidInput(
                        f"the catalog would have more than {MIRRORS_MAX} mirrors",
                        value=len(mirrors),
                        hint="delete a mirror first",
                    )
                mirror = read_mirror(declared_mirror)
            ref = Ref("Stream", declared_mirror.name)
            # An error is reported for the stream, or for the mirror if only the mirror has changed.
            with self.about(ref if ref in touched else ref_of(declared_mirror)):
                self._check_mirrored(mirror, ref, fed.get(declared_mirror.name))

    def _check_mirrored(self, mirror: Mirror, ref: Ref, feed: str | None) -> None:
        there = self.after.get(ref)
        if there is None:
            raise UnknownName(
                "there is no Stream with the name of the mirror",
                "name",
                ref.name,
                f"declare the stream: {mirror.stream_sql}",
            )
        assert isinstance(there.declaration, StreamDeclaration)
        other = "a source of its own" if there.declaration.source is not None else feed and f"feed {feed}"
        if other:
            hint = "keep only one writer of the stream, or give the mirror another name"
            raise InvalidInput(
                f"a stream can have only one writer, but this stream has a mirror and {other}",
                "name",
                ref.name,
                hint,
            )
        if read_declaration(ref.name, there.declaration) != mirror.stream:
            hint = f"declare the stream as {mirror.stream_sql}, or give the mirror another name"
            raise InvalidInput(
                "the columns or event time of the stream differ from those of the mirror",
                "name",
                ref.name,
                hint,
            )

    def _schema_before(self, one: StreamDeclaration) -> StreamSchema | None:
        before = self.before.get(ref_of(one))
        if before is None or not isinstance(before.declaration, StreamDeclaration):
            return None
        return read_declaration(one.name, before.declaration)

    def _check_unread(self, one: StreamDeclaration) -> None:
        readers = users(self.before.values(), ref_of(one), "Query")
        if readers:
            raise InvalidInput(
                f"columns and event time cannot change while queries read the stream: {told(readers)}",
                "columns" if one.sql is None else "sql",
                hint="delete the queries first, or choose another name for the stream",
            )

    def _check_brought(self) -> None:
        try:
            streams_file(brought(self.after))
        except InvalidInput as problem:
            for ref in self.after:
                section = SECTIONS.get(ref.kind, "")
                where = f"{section}.{ref.name}."
                if f"{problem.field}.".startswith(where) or (problem.field, problem.value) == (
                    section,
                    ref.name,
                ):
                    with self.about(ref, where):
                        raise
            raise

    def check_tenants(self) -> None:
        """Check that the class of each changed tenant can run. A tenant with a changed query counts as changed."""
        names = {
            declaration.tenant if isinstance(declaration, QueryDeclaration) else declaration.name
            for declaration in self.touched
            if isinstance(declaration, QueryDeclaration | TenantDeclaration)
        }
        if not names:
            return
        for name in sorted(names):
            before = self._class_before(name)
            broken = self._plan(name, {} if before is None else before.queries)
            with self.about(Ref("Tenant", name), f"classes.{name}."):
                class_after = self._class_after(name, before, broken)
                if before is not None:
                    check_change(before, class_after)

    def _class_before(self, tenant: str) -> CheckedClass | None:
        """Return the tenant's class before the change, without queries that can no longer be planned; None if the tenant had no queries."""
        if not self.before.queries_of(tenant):
            return None
        try:
            return self.before.checked(tenant)
        except InvalidInput:
            with self.about(Ref("Tenant", tenant), f"classes.{tenant}."):
                return runnable(self.before.class_of(tenant))[0]

    def _class_after(self, tenant: str, before: CheckedClass | None, broken: Collection[str]) -> CheckedClass:
        """Return the tenant's class after the change, without the queries that can no longer be planned."""
        if not broken:
            return self.after.checked(tenant, before)
        class_after, problems = runnable(self.after.class_of(tenant))
        for name, problem in problems.items():
            if name not in broken:
                raise problem
        return class_after

    def _plan(self, tenant: str, planned: Mapping[str, Query]) -> set[str]:
        """Find the streams and queries that each query reads. A query is planned again if it, or a query that it reads, has changed.

        Return the unchanged queries that can no longer be planned. Such queries do not prevent a change of other queries.
        """
        catalog, schemas = self.after.sql_catalog(), []
        anew: set[str] = set()
        broken: set[str] = set()
        for stored in self.after.queries_of(tenant):
            declaration = stored.declaration
            assert isinstance(declaration, QueryDeclaration)
            is_as_before = self.before.get(stored.ref) is stored and not anew & set(stored.reads)
            if is_as_before and declaration.name in planned:
                schemas.append(planned[declaration.name])
                continue
            with self.about(ref_of(declaration)):
                try:
                    plan = plan_query(declaration.name, declaration.sql, catalog.with_queries(schemas))
                except PlanningError as problem:
                    if is_as_before:
                        broken.add(declaration.name)
                        continue
                    raise replace(problem, field="sql") from None
                check_columns(plan)
            schemas.append(plan)
            if not is_as_before:
                anew.add(declaration.name.lower())
            streams = {it.stream.name for it in sources(plan.plan) if isinstance(it, Scan)}
            names = tuple(sorted({name.lower() for name in streams} | reads(plan)))
            if names != stored.reads:
                self.after.put(replace(stored, reads=names))
        return broken

    def check_classes(self) -> None:
        """Check that tenants fit into changed priority classes, and that the entitlements of all tenants fit together."""
        if not self.touches(PriorityClassDeclaration, TenantDeclaration):
            return
        changed = {
            declaration.name
            for declaration in self.touched
            if isinstance(declaration, PriorityClassDeclaration)
        }
        classes = []
        for tenant in self.after.of_kind(TenantDeclaration):
            with self.about(ref_of(tenant)):
                entitled = self.after.entitled(tenant.name)
            queries = len(self.after.queries_of(tenant.name)) if tenant.priority_class in changed else 0
            if queries > entitled.limits.queries:
                with self.about(Ref("PriorityClass", tenant.priority_class)):
                    raise InvalidInput(
                        f"the limit is too low: tenant {tenant.name} already has {queries} queries",
                        "limits.queries",
                        entitled.limits.queries,
                        "raise the limit, or delete some queries first",
                    )
            classes.append(CheckedClass(entitled, {}, NO_CATALOG, {}, {}))
        try:
            check_together(classes)
        except InvalidInput as problem:
            name, _, field = problem.field.removeprefix("classes.").rpartition(".")
            with self.about(Ref("Tenant", name)):
                raise replace(problem, field=field) from None


def brought(state: CatalogState) -> Iterator[Declaration]:
    """Yield the declarations that determine the feeds that Spark runs."""
    for kind in (StreamDeclaration, FeedDeclaration, SessionDeclaration):
        yield from state.of_kind(kind)


def users(stored: Iterable[StoredDeclaration], ref: Ref, kind: str = "") -> list[Ref]:
    """Return the declarations that use the declaration `ref`; with `kind`, only users of this kind."""
    return [
        entry.ref for entry in stored if uses(entry, ref) and (not kind or entry.declaration.kind == kind)
    ]


def uses(one: StoredDeclaration, ref: Ref) -> bool:
    match one.declaration, ref.kind:
        case TenantDeclaration() as tenant, "PriorityClass":
            return tenant.priority_class == ref.name
        case QueryDeclaration() as query, "Tenant":
            return query.tenant == ref.name
        case QueryDeclaration(), "Stream":
            return ref.name.lower() in one.reads
        case QueryDeclaration() as query, "Query":
            return query.tenant == ref.tenant and ref.name.lower() in one.reads
        case FeedDeclaration() as feed, "Stream":
            return ref.name in feed.streams
        case MirrorDeclaration() as mirror, "Stream":
            return mirror.name == ref.name
    return False


def told(found: Sequence[object], most: int = 5) -> str:
    """Return the first `most` entries as text, followed by the number of entries that are left out."""
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(str(ref) for ref in found[:most]) + more


def check_columns(query: Query) -> None:
    """Raise InvalidInput if a column has the name of a column that every answer has (`_seq`, `_kept`); case is ignored."""
    for name in query.plan.schema.names:
        if name.lower() in [column.name for column in OWN]:
            hint = "rename the column: SELECT … AS …"
            raise InvalidInput(
                "a column of a query cannot have this name, because Weir adds a column of this name to each answer",
                "sql",
                name,
                hint,
            )
