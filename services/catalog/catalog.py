"""Catalog: all declarations, with versions and an audit log of changes.

Example:

    with opened(home_of(os.environ)) as catalog:
        catalog.apply(documents_of(text), "ops")

Numbered properties:
1. A change is made completely or not at all, and only if all declarations are consistent afterwards
   (`services.catalog.checks`).
2. Storing a declaration that equals the stored one changes nothing, not even its version. Each version number belongs to one change.
3. A declaration that is in use is not deleted: the error names the declarations and keys that use it.
4. Each change is in the audit log, with its author and the names of the changed fields, but never their values.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import sqlalchemy as sa

from configs.classes.live_class import LiveClass
from configs.documents.declarations import (
    PRESETS,
    Declaration,
    Document,
    MirrorDeclaration,
    Ref,
    StreamDeclaration,
    as_document,
    name_of,
    ref_of,
    streams_file,
)
from configs.documents.spark_streams import StreamsFile
from configs.errors import InUse, UnknownName, VersionDiffers, nearest
from services.catalog import tables
from services.catalog.audit import AuditRecord, entries, note
from services.catalog.checks import applied, brought, completed, told, users
from services.catalog.database import Database
from services.catalog.keys import Holder, KeyStore
from services.catalog.rows import StateAtRevision, has_changed, later, revision_of, save, set_columns
from services.catalog.run_times import classes_at, with_starts, without_ended
from services.catalog.state import CatalogState, StoredDeclaration
from services.common.weir_home import Home
from services.ingest.keys import KeyRing

NOBODY = "weir"
KEY = "Key"
Versions = Mapping[Ref, int]
NO_VERSIONS: Versions = {}


@dataclass(frozen=True, slots=True)
class DeclarationChange:
    """Change of one declaration: made, or only planned by `diff` or a dry run."""

    ref: Ref
    action: str
    """`created`, `changed`, `unchanged` or `deleted`."""
    fields: tuple[str, ...] = ()
    before: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)
    version: int = 0
    """Version after the change; 0 if the declaration was deleted or the change is not made yet."""


# Kinds of declarations that can change delay targets, so that admission forecasts them.
PLANNED = ("Tenant", "Query")


def needs_plan(changes: Iterable[DeclarationChange]) -> bool:
    """Return True if admission must forecast delay targets for these changes."""
    return any(change.ref.kind in PLANNED and change.action != "unchanged" for change in changes)


@dataclass(frozen=True)
class Desired:
    """State that the system should run, as declared in the catalog."""

    revision: int
    """Revision of the catalog that declares this state."""
    classes: tuple[LiveClass, ...]
    """Classes of the tenants that have queries, without queries that wait for their start or have ended."""
    streams: Mapping[str, str]
    """CREATE STREAM statements of the streams, by name."""
    file: StreamsFile | None
    """Feeds that Spark should run."""
    keys: KeyRing
    mirrors: Mapping[str, MirrorDeclaration] = field(default_factory=dict)
    """Declarations of mirrors, by name."""
    until_s: float = math.inf
    """Next time, in seconds since 1970, at which this state changes because a query starts or ends."""


@dataclass(frozen=True)
class Known:
    """All declarations and live keys at one moment, for callers that keep a copy of the catalog in memory."""

    revision: int
    state: CatalogState
    keys: tuple[Holder, ...] | None
    """Holders of live keys; None if no key has changed."""


class Catalog:
    """Catalog of one home folder. All methods may be called by several threads and processes."""

    def __init__(self, home: Home, clock: Callable[[], float] = time.time) -> None:
        self._database = Database(home)
        self._clock = clock
        self._seen = StateAtRevision(-1, CatalogState())
        self.keys = KeyStore(self._database, home, clock)
        with self._database.reading() as connection:
            is_new = revision_of(connection) == 0
        if is_new:
            self._begin()

    def close(self) -> None:
        self._database.close()

    def get(self, ref: Ref) -> StoredDeclaration:
        return found_in(self.state(), ref)

    def all(self, kind: str | None = None) -> list[StoredDeclaration]:
        """Return all declarations, or those of one kind, in the order in which they were declared."""
        state = self.state()
        return list(state.values()) if kind is None else state.stored(kind)

    def state(self) -> CatalogState:
        """Return all declarations at one moment."""
        with self._database.reading() as connection:
            return self._look(connection).state

    def users(self, ref: Ref) -> list[str]:
        """Return the declarations and live keys that use a declaration."""
        with self._database.reading() as connection:
            return self._users(connection, self._look(connection).state, ref)

    def revision(self) -> int:
        """Return the number of the last change, which is the revision of the catalog."""
        with self._database.reading() as connection:
            return revision_of(connection)

    def audit(
        self,
        ref: Ref | None = None,
        most: int = 100,
        kind: str | None = None,
        name: str | None = None,
        before: int | None = None,
    ) -> list[AuditRecord]:
        """Return changes, the latest first. `ref`, `kind`, `name` and `before` (a change number) restrict which changes are returned."""
        if ref is not None:
            kind, name = ref.kind, name_of(ref)
        with self._database.reading() as connection:
            return entries(connection, most, kind, name, before)

    def diff(
        self, documents: Sequence[Document], versions: Versions = NO_VERSIONS
    ) -> list[DeclarationChange]:
        """Return the changes that `apply` would make for these documents, without making them."""
        before = self.state()
        check_versions(before, versions)
        documents = completed(before, with_starts(before, documents, self._clock()))
        return changes(before, applied(before, documents), documents)

    def check_delete(self, ref: Ref, version: int | None = None) -> None:
        """Raise an error if the declaration cannot be deleted."""
        with self._database.reading() as connection:
            self._check_delete(connection, self._look(connection).state, ref, version)

    def desired(self) -> Desired:
        """Return the state that the system should run now, as declared at one moment."""
        with self._database.reading() as connection:
            state_of = self._look(connection)
            keys = self.keys.ring(connection)
        state = state_of.state
        classes, until_s = classes_at(state, self._clock())
        return Desired(
            revision=state_of.revision,
            classes=classes,
            streams={
                stream.name: stream.declaration(stream.name) for stream in state.of_kind(StreamDeclaration)
            },
            file=streams_file(brought(state)),
            keys=keys,
            mirrors={mirror.name: mirror for mirror in state.of_kind(MirrorDeclaration)},
            until_s=until_s,
        )

    def is_desired(self, wanted: Desired) -> bool:
        """Return True if the system should still run this state: nothing was declared since, and no query has started or ended."""
        return self.revision() == wanted.revision and self._clock() < wanted.until_s

    def without_ended(self, state: CatalogState) -> CatalogState:
        """Return the state without the queries that have ended by now and have left their classes."""
        return without_ended(state, self._clock())

    def known(self, before: int = -1) -> Known:
        """Return all declarations, with the keys only if a key has changed since revision `before`."""
        with self._database.reading() as connection:
            latest = self._look(connection)
            is_same = before >= 0 and not has_changed(connection, KEY, before)
            keys = None if is_same else self.keys.holders(connection)
        return Known(latest.revision, latest.state, keys)

    def put(self, declaration: Declaration, who: str, version: int | None = None) -> StoredDeclaration:
        """Create or replace a declaration. If `version` is given, the declaration must have this version now (0: must not exist)."""
        ref = ref_of(declaration)
        state, _ = self._apply([Document(declaration)], who, {} if version is None else {ref: version})
        return state[ref]

    def apply(
        self, documents: Sequence[Document], who: str, versions: Versions = NO_VERSIONS
    ) -> list[DeclarationChange]:
        """Create or replace all of the declarations, or none. If `versions` are given, each declaration must have its version now."""
        return self._apply(documents, who, versions)[1]

    def delete(self, ref: Ref, who: str, version: int | None = None) -> None:
        """Delete a declaration. Raise UnknownName if the declaration does not exist, and InUse if another declaration needs it."""
        with self._database.changing() as connection:
            before = self._look(connection).state
            self._check_delete(connection, before, ref, version)
            connection.execute(
                sa.delete(tables.documents).where(tables.documents.c.place == before[ref].place)
            )
            after = before.copy()
            after.remove(ref)
            latest = StateAtRevision(note(connection, self._clock(), who, "deleted", ref), after)
        self._seen = latest

    def _check_delete(
        self, connection: sa.Connection, state: CatalogState, ref: Ref, version: int | None
    ) -> None:
        check_version(found_in(state, ref), version)
        needed = self._users(connection, state, ref)
        if needed:
            raise InUse(
                f"the declaration is in use by {told(needed)}",
                value=str(ref),
                hint="delete or change the named declarations and keys first",
                users=tuple(needed),
            )

    def _users(self, connection: sa.Connection, state: CatalogState, ref: Ref) -> list[str]:
        return [*map(str, users(state.values(), ref)), *self.keys.users(connection, ref)]

    def _apply(
        self, documents: Sequence[Document], who: str, versions: Versions
    ) -> tuple[CatalogState, list[DeclarationChange]]:
        with self._database.changing() as connection:
            latest = self._look(connection)
            check_versions(latest.state, versions)
            documents = completed(latest.state, with_starts(latest.state, documents, self._clock()))
            after = applied(latest.state, documents)
            new_changes = changes(latest.state, after, documents)
            latest = self._written(connection, latest, after, new_changes, who)
        # The catalog's state in memory is replaced only after the transaction has been committed.
        self._seen = latest
        return latest.state, [
            replace(change, version=latest.state[change.ref].version) for change in new_changes
        ]

    def _written(
        self,
        connection: sa.Connection,
        seen: StateAtRevision,
        after: CatalogState,
        made: Sequence[DeclarationChange],
        who: str,
    ) -> StateAtRevision:
        revision, before = seen.revision, seen.state
        for change in made:
            if change.action != "unchanged":
                revision = note(
                    connection,
                    self._clock(),
                    who=who,
                    action=change.action,
                    ref=change.ref,
                    fields=change.fields,
                )
                after.put(save(connection, before.get(change.ref), after[change.ref], revision))
        # A change may alter what other queries of the tenant read, so the column `reads` is updated for all queries of the tenant.
        for tenant in dict.fromkeys(change.ref.tenant or change.ref.name for change in made):
            for stored in after.queries_of(tenant):
                was = before.get(stored.ref)
                if was is not None and was.reads != stored.reads:
                    set_columns(connection, stored.place, reads=json.dumps(stored.reads))
        return StateAtRevision(revision, after)

    def _look(self, connection: sa.Connection) -> StateAtRevision:
        """Return the state of the catalog in this transaction. Only changes since the last call are read from the database."""
        latest, revision = self._seen, revision_of(connection)
        if latest.revision != revision:
            latest = StateAtRevision(revision, later(connection, latest))
            self._seen = latest
        return latest

    def _begin(self) -> None:
        """Declare the preset priority classes in a new catalog, which has no changes yet."""
        with suppress(VersionDiffers):
            self._apply(
                [Document(preset) for preset in PRESETS], NOBODY, {ref_of(preset): 0 for preset in PRESETS}
            )


@contextmanager
def opened(home: Home) -> Iterator[Catalog]:
    catalog = Catalog(home)
    try:
        yield catalog
    finally:
        catalog.close()


def check_version(found: StoredDeclaration | None, version: int | None) -> None:
    here = 0 if found is None else found.version
    if version is not None and version != here:
        raise VersionDiffers(
            f"the declaration has changed: its version is now {here}",
            "version",
            version,
            "read the declaration again",
        )


def check_versions(state: CatalogState, versions: Versions) -> None:
    for ref, version in versions.items():
        check_version(state.get(ref), version)


def found_in(state: CatalogState, ref: Ref) -> StoredDeclaration:
    if ref not in state:
        if ref.tenant and Ref("Tenant", ref.tenant) not in state:
            return found_in(state, Ref("Tenant", ref.tenant))
        names = [
            candidate.name
            for candidate in state
            if (candidate.kind, candidate.tenant) == (ref.kind, ref.tenant)
        ]
        raise UnknownName(f"there is no {ref.kind} of this name", "name", ref.name, nearest(ref.name, names))
    return state[ref]


def changes(
    before: CatalogState, after: CatalogState, documents: Sequence[Document]
) -> list[DeclarationChange]:
    """Return one change per document, in the order of the documents."""
    changed = []
    for document in documents:
        was, new = before.get(document.ref), as_document(after[document.ref].declaration)
        if was is None:
            changed.append(DeclarationChange(document.ref, "created", after=new))
        elif was.declaration == document.declaration:
            changed.append(DeclarationChange(document.ref, "unchanged", before=new, after=new))
        else:
            old = as_document(was.declaration)
            changed.append(DeclarationChange(document.ref, "changed", tuple(differing(old, new)), old, new))
    return changed


def differing(before: object, after: object, path: str = "") -> Iterator[str]:
    """Yield the paths of the fields in which two documents differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys((*before, *after)):
            yield from differing(before.get(key), after.get(key), f"{path}.{key}".lstrip("."))
    elif before != after:
        yield path
