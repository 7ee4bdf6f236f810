"""Declarations as rows of the database, which are read and written in a transaction."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from configs.documents.declarations import KINDS, Ref, as_document
from services.catalog import tables
from services.catalog.state import CatalogState, StoredDeclaration

# Above this number of changed declarations, all declarations are read again, because that is faster.
READ_ANEW = 500


@dataclass(frozen=True, slots=True)
class StateAtRevision:
    """State of the catalog at a revision."""

    revision: int
    state: CatalogState


def revision_of(connection: sa.Connection) -> int:
    revision: int | None = connection.execute(sa.select(sa.func.max(tables.audit.c.id))).scalar()
    return revision or 0


def has_changed(connection: sa.Connection, kind: str, since: int) -> bool:
    rows = tables.audit.c
    query = sa.select(rows.id).where(rows.id > since, rows.kind == kind).limit(1)
    return connection.execute(query).first() is not None


def later(connection: sa.Connection, seen: StateAtRevision) -> CatalogState:
    """Return the current state. If few declarations have changed since the earlier state `seen`, only the changed declarations are read."""
    rows = tables.audit.c
    query = sa.select(rows.kind, rows.name).distinct().where(rows.id > seen.revision).limit(READ_ANEW)
    changed = connection.execute(query).all()
    if seen.revision < 0 or revision_of(connection) < seen.revision or len(changed) == READ_ANEW:
        return CatalogState(stored_in(connection))
    after = seen.state.copy()
    stored: dict[Ref, StoredDeclaration] = {}
    for where, refs in touched(seen.state, changed):
        there = {row.ref: row for row in stored_in(connection, where)}
        stored |= there
        for ref in refs:
            # If the order number (`place`) has changed, the declaration was deleted and declared again.
            if ref in after and (ref not in there or there[ref].place != after[ref].place):
                after.remove(ref)
    for row in sorted(stored.values(), key=lambda one: one.place):
        if after.get(row.ref) != row:
            after.put(row)
    return after


def touched(
    state: CatalogState, changed: Iterable[Any]
) -> Iterator[tuple[sa.ColumnElement[bool], list[Ref]]]:
    """Yield an SQL condition for each set of database rows that may have changed, and the declarations in `state` that are in this set."""
    rows, tenants = tables.documents.c, set()
    for kind, name in changed:
        if kind == "Query":
            tenants.add(name.partition("/")[0])
        else:
            if kind == "Tenant":
                tenants.add(name)
            yield sa.and_(rows.kind == kind, rows.name == name), [Ref(kind, name)]
    for tenant in tenants:
        where = sa.and_(rows.kind == "Query", rows.tenant == tenant)
        yield where, [row.ref for row in state.queries_of(tenant)]


def stored_in(
    connection: sa.Connection, where: sa.ColumnElement[bool] | None = None
) -> Iterator[StoredDeclaration]:
    """Yield all declarations, or only the declarations in rows that meet the condition `where`."""
    rows = tables.documents.c
    query = sa.select(rows.document, rows.version, rows.place, rows.reads).order_by(rows.place)
    if where is not None:
        query = query.where(where)
    for document, version, place, reads in connection.execute(query):
        data = json.loads(document)
        yield StoredDeclaration(
            KINDS[data["kind"]].model_validate(data), version, place, tuple(json.loads(reads))
        )


def save(
    connection: sa.Connection, before: StoredDeclaration | None, after: StoredDeclaration, version: int
) -> StoredDeclaration:
    """Write a declaration to the database; return it with its new version and its order number (`place`)."""
    columns = {
        "document": json.dumps(as_document(after.declaration)),
        "reads": json.dumps(after.reads),
        "version": version,
    }
    if before is not None:
        set_columns(connection, before.place, **columns)
        return replace(after, version=version)
    ref = after.ref
    folded = "/".join((ref.kind, ref.tenant, ref.name)).lower()
    columns |= {"kind": ref.kind, "tenant": ref.tenant, "name": ref.name, "folded": folded}
    done = connection.execute(sa.insert(tables.documents).values(columns))
    assert done.inserted_primary_key is not None
    return replace(after, version=version, place=done.inserted_primary_key[0])


def set_columns(connection: sa.Connection, place: int, **columns: object) -> None:
    connection.execute(sa.update(tables.documents).where(tables.documents.c.place == place).values(columns))
