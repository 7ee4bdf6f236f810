"""Audit log: author, time, declaration and changed fields of each change. Values are left out, because some values are secret."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from configs.documents.declarations import Ref, name_of
from services.catalog.tables import audit


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """Entry of the audit log: one change."""

    id: int
    at: float
    who: str
    action: str
    kind: str
    name: str
    fields: tuple[str, ...]


def note(
    connection: sa.Connection, at: float, who: str, action: str, ref: Ref, fields: Sequence[str] = ()
) -> int:
    """Add a change to the log; return the number of the change, which is unique."""
    values = {"at": at, "who": who, "action": action, "kind": ref.kind, "name": name_of(ref)}
    text = json.dumps(list(fields))
    done = connection.execute(sa.insert(audit).values(**values, fields=text))
    assert done.inserted_primary_key is not None
    number: int = done.inserted_primary_key[0]
    return number


def entries(
    connection: sa.Connection,
    most: int,
    kind: str | None = None,
    name: str | None = None,
    before: int | None = None,
) -> list[AuditRecord]:
    """Return at most `most` changes that match the arguments, the latest first."""
    query = sa.select(audit).order_by(audit.c.id.desc()).limit(most)
    if kind is not None:
        query = query.where(audit.c.kind == kind)
    if name is not None:
        query = query.where(audit.c.name == name)
    if before is not None:
        query = query.where(audit.c.id < before)
    rows = connection.execute(query).mappings()
    return [AuditRecord(**{**row, "fields": tuple(json.loads(row["fields"]))}) for row in rows]
