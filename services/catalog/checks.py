"""Whether declarations hold together: what they name is there, SQL means something, classes can run beside each other.

    applied(before, documents)      the catalog with some documents more, or why it cannot be
    users(stored, ref)              who needs a declaration

Every refusal is an InvalidInput that names the document it is about: the place in a file, or the declaration in the catalog.
Nothing here is kept or read; `services.catalog.catalog` does that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

from configs.declarations import (
    Declaration,
    Document,
    FeedDeclaration,
    PriorityClassDeclaration,
    QueryDeclaration,
    Ref,
    SessionDeclaration,
    StreamDeclaration,
    TenantDeclaration,
    check_differ,
    live_class,
    ref_of,
    streams_file,
)
from configs.live import LiveClass
from configs.problems import InvalidInput, UnknownName, nearest
from engine.admission import CheckedClass, check_change, check_together, checked
from engine.plan import Scan
from engine.reading import reads, sources
from engine.schema import StreamSchema
from engine.sql import Catalog as SqlCatalog
from engine.sql import PlanningError, plan_query
from services.ingest.declared import read_declaration

# Where a file of streams has them.
SECTIONS = {"Stream": "streams", "Feed": "feeds"}
NO_CATALOG = SqlCatalog.of()
Kind = TypeVar("Kind", bound=Declaration)


@dataclass(frozen=True, slots=True)
class Stored:
    """A declaration with what is known of it."""

    declaration: Declaration
    version: int = 0
    place: int = 0
    """Earlier ones were declared first."""
    reads: tuple[str, ...] = ()
    """Of a query: the streams and queries that it reads."""

    @property
    def ref(self) -> Ref:
        return ref_of(self.declaration)


State = Mapping[Ref, Stored]


def of_kind(state: State, kind: type[Kind]) -> list[Kind]:
    """In the order in which they were declared."""
    return [one.declaration for one in state.values() if isinstance(one.declaration, kind)]


def applied(before: State, documents: Sequence[Document]) -> dict[Ref, Stored]:
    """All that is there afterwards; versions and places are those from before."""
    check_differ(documents)
    changing = Changing(before, documents)
    changing.check_names()
    changing.check_streams()
    changing.check_tenants()
    changing.check_classes()
    return changing.after


class Changing:
    """One change, as it is looked at."""

    def __init__(self, before: State, documents: Sequence[Document]) -> None:
        self.before = before
        self.after = dict(before)
        self.places = {one.ref: one.place for one in documents}
        self.touched: list[Declaration] = []
        for one in documents:
            if one.ref not in before or before[one.ref].declaration != one.declaration:
                self.touched.append(one.declaration)
                known = before.get(one.ref, Stored(one.declaration))
                self.after[one.ref] = replace(known, declaration=one.declaration)

    def all(self, kind: type[Kind]) -> list[Kind]:
        return of_kind(self.after, kind)

    def touches(self, *kinds: type[Declaration]) -> bool:
        return any(isinstance(one, kinds) for one in self.touched)

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
        folded = {ref.folded: ref for ref in self.before}
        readable = {ref.name.lower() for ref in self.after if ref.kind == "Stream"}
        queries: dict[str, Ref] = {ref.name.lower(): ref for ref in self.after if ref.kind == "Query"}
        for one in self.touched:
            ref = ref_of(one)
            other = folded.get(ref.folded, ref)
            with self.about(ref):
                if other != ref:
                    raise InvalidInput(
                        f"the name is in use: {other}", "name", ref.name, "letters' case does not count"
                    )
                match one:
                    case TenantDeclaration():
                        self._known(Ref("PriorityClass", one.priority_class), "priority_class")
                    case FeedDeclaration():
                        for stream in one.streams:
                            self._known(Ref("Stream", stream), "streams")
                    case QueryDeclaration():
                        self._known(Ref("Tenant", one.tenant), "tenant")
                        if one.name.lower() in readable:
                            raise InvalidInput("a stream has that name", "name", one.name, "choose another")
                    case StreamDeclaration() if one.name.lower() in queries:
                        taken = queries[one.name.lower()]
                        raise InvalidInput(f"the name is in use: {taken}", "name", one.name, "choose another")

    def _known(self, ref: Ref, field: str) -> None:
        if ref not in self.after:
            names = [one.name for one in self.after if one.kind == ref.kind]
            raise UnknownName(f"no such {ref.kind}", field, ref.name, nearest(ref.name, names))

    # -- streams ---------------------------------------------------------------------------------------

    def check_streams(self) -> None:
        """Their columns, and who brings them."""
        for one in self.touched:
            if not isinstance(one, StreamDeclaration):
                continue
            with self.about(ref_of(one), f"streams.{one.name}."):
                schema = read_declaration(one.name, one)
                if schema != self._schema_before(one):
                    self._check_unread(one)
        if self.touches(StreamDeclaration, FeedDeclaration, SessionDeclaration):
            self._check_brought()

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
            streams_file(one.declaration for one in self.after.values())
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
            one.tenant if isinstance(one, QueryDeclaration) else one.name
            for one in self.touched
            if isinstance(one, QueryDeclaration | TenantDeclaration)
        }
        if not names:
            return
        catalog = SqlCatalog.of(
            streams=[read_declaration(one.name, one) for one in self.all(StreamDeclaration)]
        )
        queries = by_tenant(self.all(QueryDeclaration))
        before = by_tenant(of_kind(self.before, QueryDeclaration))
        for name in sorted(names):
            self._plan(queries[name], catalog)
            found = self._checked(self.after, name, queries[name])
            if before[name]:
                with self.about(Ref("Tenant", name), f"classes.{name}."):
                    check_change(self._checked(self.before, name, before[name]), found)

    def _plan(self, queries: Iterable[QueryDeclaration], catalog: SqlCatalog) -> None:
        """Find what each query reads."""
        for one in queries:
            with self.about(ref_of(one)):
                try:
                    plan = plan_query(one.name, one.sql, catalog)
                except PlanningError as problem:
                    raise replace(problem, field="sql") from None
            catalog = catalog.with_query(plan)
            streams = {it.stream.name for it in sources(plan.plan) if isinstance(it, Scan)}
            names = tuple(sorted({name.lower() for name in streams} | reads(plan)))
            self.after[ref_of(one)] = replace(self.after[ref_of(one)], reads=names)

    def _checked(self, state: State, name: str, queries: Sequence[QueryDeclaration]) -> CheckedClass:
        with self.about(Ref("Tenant", name), f"classes.{name}."):
            return checked(class_of_tenant(state, name, queries))

    # -- all classes -----------------------------------------------------------------------------------

    def check_classes(self) -> None:
        """What every tenant of a class that has changed still has, and that all of them can be entitled to it."""
        if not self.touches(PriorityClassDeclaration, TenantDeclaration):
            return
        changed = {one.name for one in self.touched if isinstance(one, PriorityClassDeclaration)}
        queries = by_tenant(self.all(QueryDeclaration))
        classes = []
        for tenant in self.all(TenantDeclaration):
            with self.about(ref_of(tenant)):
                one = class_of_tenant(self.after, tenant.name, ())
            if tenant.priority_class in changed and len(queries[tenant.name]) > one.limits.queries:
                with self.about(Ref("PriorityClass", tenant.priority_class)):
                    raise InvalidInput(
                        f"tenant {tenant.name} has {len(queries[tenant.name])} queries",
                        "limits.queries",
                        one.limits.queries,
                        "raise the limit, or delete some of them first",
                    )
            classes.append(CheckedClass(one, {}, NO_CATALOG, {}, {}))
        try:
            check_together(classes)
        except InvalidInput as problem:
            name, _, field = problem.field.removeprefix("classes.").rpartition(".")
            with self.about(Ref("Tenant", name)):
                raise replace(problem, field=field) from None


def by_tenant(queries: Iterable[QueryDeclaration]) -> defaultdict[str, list[QueryDeclaration]]:
    found: defaultdict[str, list[QueryDeclaration]] = defaultdict(list)
    for one in queries:
        found[one.tenant].append(one)
    return found


def class_of_tenant(state: State, name: str, queries: Sequence[QueryDeclaration]) -> LiveClass:
    """What runs for a tenant, with those streams that its queries read."""
    tenant = state[Ref("Tenant", name)].declaration
    assert isinstance(tenant, TenantDeclaration)
    priority_class = state[Ref("PriorityClass", tenant.priority_class)].declaration
    assert isinstance(priority_class, PriorityClassDeclaration)
    read = {source for one in queries for source in state[ref_of(one)].reads}
    streams = [one for one in of_kind(state, StreamDeclaration) if one.name.lower() in read] if read else []
    return live_class(tenant, priority_class, streams, queries)


def users(stored: Iterable[Stored], ref: Ref, kind: str = "") -> list[Ref]:
    """Who needs a declaration; of one kind, if it is given."""
    return [one.ref for one in stored if uses(one, ref) and (not kind or one.declaration.kind == kind)]


def uses(one: Stored, ref: Ref) -> bool:
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
    return False


def told(found: Sequence[object], most: int = 5) -> str:
    """Some of them."""
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(str(one) for one in found[:most]) + more
