"""Whether declarations hold together: what they name is there, SQL means something, classes can run beside each other.

    applied(before, documents)      the catalog with some documents more, or why it cannot be
    users(stored, ref)              who needs a declaration

Every refusal is an InvalidInput that names the document it is about: the place in a file, or the declaration in the catalog.
Nothing here is kept or read; `services.catalog.catalog` does that.
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

# Where a file of streams has them.
SECTIONS = {"Stream": "streams", "Feed": "feeds"}
NO_CATALOG = SqlCatalog.of()
# Each has some twenty threads of the service's process.
MIRRORS_MAX = 100


def completed(before: CatalogState, documents: Sequence[Document]) -> Sequence[Document]:
    """With the stream of each mirror, unless somebody has declared it: it comes with its mirror, and changes with it."""
    if not any(isinstance(document.declaration, MirrorDeclaration) for document in documents):
        return documents
    said = {document.ref.folded for document in documents}
    complete: list[Document] = []
    for document in documents:
        if isinstance(document.declaration, MirrorDeclaration):
            ref = Ref("Stream", document.declaration.name)
            # What is wrong with the mirror is told when it is looked at.
            with suppress(InvalidInput):
                stream = stream_of(read_mirror(document.declaration))
                if ref.folded not in said and is_its_own(before, ref, stream):
                    complete.append(Document(stream, document.place))
        complete.append(document)
    return complete


def is_its_own(before: CatalogState, ref: Ref, stream: StreamDeclaration) -> bool:
    """Whether the stream is not there, or is as the mirror's was before, and is now to be another."""
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
    """All that is there afterwards; versions and places are those from before."""
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
    """One change, as it is looked at."""

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
        """What goes wrong within is this declaration's mistake; its fields begin with the prefix."""
        try:
            yield
        except InvalidInput as problem:
            raise replace(
                problem, file=self.places.get(ref) or str(ref), field=problem.field.removeprefix(prefix)
            ) from None

    # -- names -----------------------------------------------------------------------------------------

    def check_names(self) -> None:
        """Those in use, and those that are referred to."""
        queries = self._query_names() if self.touches(StreamDeclaration) else {}
        for declaration in self.touched:
            ref = ref_of(declaration)
            other = self.before.in_use(ref) or ref
            with self.about(ref):
                if other != ref:
                    raise InvalidInput(
                        f"the name is in use: {other}", "name", ref.name, "letters' case does not count"
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
                                "the query has the name of a stream, and queries and streams share names",
                                "name",
                                declaration.name,
                                "choose another name for the query",
                            )
                    case StreamDeclaration() if declaration.name.lower() in queries:
                        taken = queries[declaration.name.lower()]
                        raise InvalidInput(
                            f"the stream has the name of {taken}, and queries and streams share names",
                            "name",
                            declaration.name,
                            "choose another name for the stream",
                        )

    def _known(self, ref: Ref, field: str) -> None:
        if ref not in self.after:
            hint = nearest(ref.name, self.after.names(ref.kind))
            raise UnknownName(f"no such {ref.kind}", field, ref.name, hint)

    def _query_names(self) -> dict[str, Ref]:
        return {ref.name.lower(): ref for ref in self.after if ref.kind == "Query"}

    # -- streams ---------------------------------------------------------------------------------------

    def check_streams(self) -> None:
        """Their columns, and who brings them."""
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
        """Whether it has to do with what Spark is to bring."""
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
        """That each means something, and brings a stream that nobody else brings."""
        if not self.touches(MirrorDeclaration, StreamDeclaration, FeedDeclaration):
            return
        mirrors = self.after.of_kind(MirrorDeclaration)
        fed = {name: feed.name for feed in self.after.of_kind(FeedDeclaration) for name in feed.streams}
        touched = {ref_of(declaration) for declaration in self.touched}
        for declared_mirror in mirrors:
            with self.about(ref_of(declared_mirror)):
                if len(mirrors) > MIRRORS_MAX:
                    raise InvalidInput(f"there are {MIRRORS_MAX} mirrors at most", value=len(mirrors))
                mirror = read_mirror(declared_mirror)
            ref = Ref("Stream", declared_mirror.name)
            # Whoever is changed is wrong; if both are, the stream, as it comes first.
            with self.about(ref if ref in touched else ref_of(declared_mirror)):
                self._check_mirrored(mirror, ref, fed.get(declared_mirror.name))

    def _check_mirrored(self, mirror: Mirror, ref: Ref, feed: str | None) -> None:
        there = self.after.get(ref)
        if there is None:
            raise UnknownName("no such Stream", "name", ref.name, f"declare it: {mirror.stream_sql}")
        assert isinstance(there.declaration, StreamDeclaration)
        other = "a source of its own" if there.declaration.source is not None else feed and f"feed {feed}"
        if other:
            hint = "let one of the two bring it, or name the mirror otherwise"
            raise InvalidInput(f"a mirror and {other} bring the stream", "name", ref.name, hint)
        if read_declaration(ref.name, there.declaration) != mirror.stream:
            hint = f"declare it as {mirror.stream_sql}, or name the mirror otherwise"
            raise InvalidInput("the mirror's stream is another one", "name", ref.name, hint)

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

    # -- tenants ---------------------------------------------------------------------------------------

    def check_tenants(self) -> None:
        """Those that have changed, or whose queries have: that they can be run."""
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
        """The tenant's class as it was, without queries that cannot be planned any more; None if it had no queries."""
        if not self.before.queries_of(tenant):
            return None
        try:
            return self.before.checked(tenant)
        except InvalidInput:
            with self.about(Ref("Tenant", tenant), f"classes.{tenant}."):
                return runnable(self.before.class_of(tenant))[0]

    def _class_after(self, tenant: str, before: CheckedClass | None, broken: Collection[str]) -> CheckedClass:
        """The tenant's class as it is to be, without the broken queries."""
        if not broken:
            return self.after.checked(tenant, before)
        class_after, problems = runnable(self.after.class_of(tenant))
        for name, problem in problems.items():
            if name not in broken:
                raise problem
        return class_after

    def _plan(self, tenant: str, planned: Mapping[str, Query]) -> set[str]:
        """Find what each query reads; a query is planned again if it or a query that it reads has changed.

        Return unchanged queries that cannot be planned: they could be when they were stored, and are no reason to refuse
        a change of other queries.
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

    # -- all classes -----------------------------------------------------------------------------------

    def check_classes(self) -> None:
        """What every tenant of a class that has changed still has, and that all of them can be entitled to it."""
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
                        f"tenant {tenant.name} has {queries} queries",
                        "limits.queries",
                        entitled.limits.queries,
                        "raise the limit, or delete some of them first",
                    )
            classes.append(CheckedClass(entitled, {}, NO_CATALOG, {}, {}))
        try:
            check_together(classes)
        except InvalidInput as problem:
            name, _, field = problem.field.removeprefix("classes.").rpartition(".")
            with self.about(Ref("Tenant", name)):
                raise replace(problem, field=field) from None


def brought(state: CatalogState) -> Iterator[Declaration]:
    """What says what Spark is to bring."""
    for kind in (StreamDeclaration, FeedDeclaration, SessionDeclaration):
        yield from state.of_kind(kind)


def users(stored: Iterable[StoredDeclaration], ref: Ref, kind: str = "") -> list[Ref]:
    """Who needs a declaration; of one kind, if it is given."""
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
    """Some of them."""
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(str(ref) for ref in found[:most]) + more


def check_columns(query: Query) -> None:
    """That readers can tell them from what every answer has; some look at names without regard to case."""
    for name in query.plan.schema.names:
        if name.lower() in [column.name for column in OWN]:
            hint = "name it otherwise: SELECT … AS …"
            raise InvalidInput("every answer has a column of this name", "sql", name, hint)
