"""What is declared, with versions and a log of changes.

    with opened(home_of(os.environ)) as catalog:
        catalog.apply(read_documents(paths), who="ops")

Numbered properties:
1. A change is made whole or not at all, and only if all declarations hold together afterwards (`services.catalog.checks`).
2. Putting what is there already changes nothing, not even its version. A version is given once, to one change.
3. What is in use is not deleted: the refusal names who uses it.
4. Each change is in the audit log, with who made it and which fields it changed, never to what.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from configs.declarations import (
    KINDS,
    PRESETS,
    Declaration,
    Document,
    QueryDeclaration,
    Ref,
    StreamDeclaration,
    TenantDeclaration,
    as_document,
    ref_of,
    streams_file,
)
from configs.live import LiveClass
from configs.problems import InvalidInput, UnknownName, nearest
from configs.streams import StreamsFile
from services.catalog import tables
from services.catalog.audit import AuditEntry, entries, note
from services.catalog.checks import State, Stored, applied, by_tenant, class_of_tenant, of_kind, told, users
from services.catalog.database import Database
from services.catalog.home import Home
from services.catalog.keys import Keys
from services.ingest.keys import KeyRing

NOBODY = "weir"


class InUse(InvalidInput):
    """Something else needs it."""


class VersionDiffers(InvalidInput):
    """It was changed meanwhile: read it again."""


@dataclass(frozen=True, slots=True)
class Change:
    """What became, or would become, of a declaration."""

    ref: Ref
    action: str
    """`created`, `changed` or `unchanged`."""
    fields: tuple[str, ...] = ()
    before: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Desired:
    """What should run."""

    revision: int
    """Of the catalog that says so."""
    classes: tuple[LiveClass, ...]
    """Of the tenants that have queries."""
    streams: Mapping[str, str]
    """Their declarations by name."""
    file: StreamsFile | None
    """What Spark is to bring."""
    keys: KeyRing


class Catalog:
    """All methods may be called by several threads and processes."""

    def __init__(self, home: Home, clock: Callable[[], float] = time.time) -> None:
        self._database = Database(home)
        self._clock = clock
        self.keys = Keys(self._database, home, clock)
        with self._database.reading() as connection:
            is_new = revision_of(connection) == 0
        if is_new:
            self._begin()

    def close(self) -> None:
        self._database.close()

    # -- reading ---------------------------------------------------------------------------------------

    def get(self, ref: Ref) -> Stored:
        rows = tables.documents.c
        one = sa.and_(rows.kind == ref.kind, rows.tenant == ref.tenant, rows.name == ref.name)
        with self._database.reading() as connection:
            found = state_of(connection, one)
            return found_in(found or state_of(connection), ref)

    def all(self, kind: str | None = None) -> list[Stored]:
        """In the order in which they were declared."""
        wanted = None if kind is None else tables.documents.c.kind == kind
        with self._database.reading() as connection:
            return list(state_of(connection, wanted).values())

    def users(self, ref: Ref) -> list[str]:
        """Who needs it: declarations, and keys that are live."""
        with self._database.reading() as connection:
            return self._users(connection, state_of(connection), ref)

    def revision(self) -> int:
        """Of the last change."""
        with self._database.reading() as connection:
            return revision_of(connection)

    def audit(self, ref: Ref | None = None, most: int = 100) -> list[AuditEntry]:
        """Changes, the last one first."""
        with self._database.reading() as connection:
            return entries(connection, most, ref)

    def diff(self, documents: Sequence[Document]) -> list[Change]:
        """What applying them would change."""
        with self._database.reading() as connection:
            before = state_of(connection)
        return changes(before, applied(before, documents), documents)

    def desired(self) -> Desired:
        """What should run, as of one moment."""
        with self._database.reading() as connection:
            state, revision = state_of(connection), revision_of(connection)
            keys = self.keys.ring(connection)
        queries = by_tenant(of_kind(state, QueryDeclaration))
        tenants = [one.name for one in of_kind(state, TenantDeclaration) if queries[one.name]]
        return Desired(
            revision,
            tuple(class_of_tenant(state, name, queries[name]) for name in tenants),
            {one.name: one.declaration(one.name) for one in of_kind(state, StreamDeclaration)},
            streams_file(one.declaration for one in state.values()),
            keys,
        )

    # -- changing --------------------------------------------------------------------------------------

    def put(self, declaration: Declaration, who: str, version: int | None = None) -> Stored:
        """Declare it, or declare it anew; with a version, only if that is the one that is there (0: none)."""
        with self._changing() as (connection, before):
            ref = ref_of(declaration)
            check_version(before.get(ref), version)
            self._write(connection, before, [Document(declaration)], who)
            return found_in(state_of(connection), ref)

    def apply(self, documents: Sequence[Document], who: str) -> list[Change]:
        """Declare all of them, or none."""
        with self._changing() as (connection, before):
            return self._write(connection, before, documents, who)

    def delete(self, ref: Ref, who: str, version: int | None = None) -> None:
        """UnknownName if it is not there, InUse if something needs it."""
        with self._changing() as (connection, before):
            check_version(found_in(before, ref), version)
            needed = self._users(connection, before, ref)
            if needed:
                raise InUse(f"in use by {told(needed)}", value=str(ref), hint="delete or change these first")
            connection.execute(
                sa.delete(tables.documents).where(tables.documents.c.place == before[ref].place)
            )
            note(connection, self._clock(), who, "deleted", ref)

    def _users(self, connection: sa.Connection, state: State, ref: Ref) -> list[str]:
        return [*map(str, users(state.values(), ref)), *self.keys.users(connection, ref)]

    @contextmanager
    def _changing(self) -> Iterator[tuple[sa.Connection, State]]:
        with self._database.changing() as connection:
            yield connection, state_of(connection)

    def _write(
        self, connection: sa.Connection, before: State, documents: Sequence[Document], who: str
    ) -> list[Change]:
        after = applied(before, documents)
        made = changes(before, after, documents)
        for one in made:
            if one.action != "unchanged":
                version = note(connection, self._clock(), who, one.action, one.ref, one.fields)
                save(connection, before.get(one.ref), after[one.ref], version)
        for ref, stored in after.items():
            if ref in before and before[ref].reads != stored.reads:
                set_columns(connection, before[ref].place, reads=json.dumps(stored.reads))
        return made

    def _begin(self) -> None:
        """A catalog that nobody has changed has the priority classes that are there from the beginning."""
        with self._changing() as (connection, before):
            if revision_of(connection) == 0:
                self._write(connection, before, [Document(one) for one in PRESETS], NOBODY)


@contextmanager
def opened(home: Home) -> Iterator[Catalog]:
    catalog = Catalog(home)
    try:
        yield catalog
    finally:
        catalog.close()


def check_version(found: Stored | None, version: int | None) -> None:
    here = 0 if found is None else found.version
    if version is not None and version != here:
        raise VersionDiffers(f"it is at version {here} now", "version", version, "read it again")


def found_in(state: State, ref: Ref) -> Stored:
    if ref not in state:
        if ref.tenant and Ref("Tenant", ref.tenant) not in state:
            return found_in(state, Ref("Tenant", ref.tenant))
        names = [one.name for one in state if (one.kind, one.tenant) == (ref.kind, ref.tenant)]
        raise UnknownName(f"no such {ref.kind}", "name", ref.name, nearest(ref.name, names))
    return state[ref]


# -- what is different -----------------------------------------------------------------------------------------


def changes(before: State, after: State, documents: Sequence[Document]) -> list[Change]:
    """One a document, in their order."""
    found = []
    for one in documents:
        was, new = before.get(one.ref), as_document(after[one.ref].declaration)
        if was is None:
            found.append(Change(one.ref, "created", after=new))
        elif was.declaration == one.declaration:
            found.append(Change(one.ref, "unchanged", before=new, after=new))
        else:
            old = as_document(was.declaration)
            found.append(Change(one.ref, "changed", tuple(differing(old, new)), old, new))
    return found


def differing(before: object, after: object, path: str = "") -> Iterator[str]:
    """Where two documents differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys((*before, *after)):
            yield from differing(before.get(key), after.get(key), f"{path}.{key}".lstrip("."))
    elif before != after:
        yield path


# -- rows ------------------------------------------------------------------------------------------------------


def revision_of(connection: sa.Connection) -> int:
    found: int | None = connection.execute(sa.select(sa.func.max(tables.audit.c.id))).scalar()
    return found or 0


def state_of(connection: sa.Connection, where: sa.ColumnElement[bool] | None = None) -> dict[Ref, Stored]:
    """All declarations, or some of them."""
    rows = tables.documents.c
    wanted = sa.select(rows.document, rows.version, rows.place, rows.reads).order_by(rows.place)
    if where is not None:
        wanted = wanted.where(where)
    found = {}
    for document, version, place, reads in connection.execute(wanted):
        data = json.loads(document)
        stored = Stored(KINDS[data["kind"]].model_validate(data), version, place, tuple(json.loads(reads)))
        found[stored.ref] = stored
    return found


def save(connection: sa.Connection, before: Stored | None, after: Stored, version: int) -> None:
    columns = {
        "document": json.dumps(as_document(after.declaration)),
        "reads": json.dumps(after.reads),
        "version": version,
    }
    if before is not None:
        set_columns(connection, before.place, **columns)
        return
    ref = after.ref
    folded = "/".join((ref.kind, ref.tenant, ref.name)).lower()
    columns |= {"kind": ref.kind, "tenant": ref.tenant, "name": ref.name, "folded": folded}
    connection.execute(sa.insert(tables.documents).values(columns))


def set_columns(connection: sa.Connection, place: int, **columns: object) -> None:
    connection.execute(sa.update(tables.documents).where(tables.documents.c.place == place).values(columns))
