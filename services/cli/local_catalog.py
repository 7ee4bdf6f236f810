"""The catalog of WEIR_HOME behind the interface of the service's client, for commands that run without a service."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict

from configs.documents.declarations import Document, Ref, hold_warnings, kind_named, ref_named
from configs.errors import InvalidInput
from services.catalog import catalog
from services.catalog.catalog import Catalog, needs_plan
from services.catalog.redaction import change_told, restored
from services.catalog.run_times import runs_of
from services.catalog.state import StoredDeclaration
from services.ingest.paths import missing_paths
from services.remote.models import Applied, AuditEntry, Declared, KeyInfo, NewKey, QueryRun

NOT_CHECKED = "no service runs here: delay targets were not checked; `weir plan` checks them"
Admit = Callable[[Sequence[Document]], Sequence[str]]
"""Function that checks documents before they are applied: it returns warnings, or raises an error to refuse the documents."""


def unchecked(documents: Sequence[Document]) -> Sequence[str]:
    """Return the warning that delay targets were not checked."""
    return (NOT_CHECKED,)


class CatalogHere:
    """Catalog opened without a service. It has the methods of the client with which an administrator calls a service."""

    def __init__(self, catalog: Catalog, who: str, admit: Admit = unchecked) -> None:
        self._catalog, self._who, self._admit = catalog, who, admit

    def apply(self, documents: Sequence[Document]) -> Applied:
        whole, versions = self._with_secrets(documents)
        is_planned = needs_plan(self._catalog.diff(whole, versions))
        warnings = self._admit(whole) if is_planned else ()
        return applied(self._catalog.apply(whole, self._who, versions), whole, warnings)

    def diff(self, documents: Sequence[Document]) -> Applied:
        whole, versions = self._with_secrets(documents)
        return applied(self._catalog.diff(whole, versions), whole)

    def _with_secrets(self, documents: Sequence[Document]) -> tuple[list[Document], dict[Ref, int]]:
        """Return the documents with each `(hidden)` replaced by the catalog's secret, and the versions of the declarations with these secrets."""
        state, completed, versions = self._catalog.state(), list[Document](), dict[Ref, int]()
        for document in documents:
            before = state.get(document.ref)
            completed.append(restored(document, before.declaration if before else None))
            if before is not None and completed[-1] is not document:
                versions[document.ref] = before.version
        return completed, versions

    def get(self, kind: str, name: str) -> Declared:
        return declared(self._catalog.get(ref_named(kind, name)))

    def all(self, kind: str, tenant: str | None = None) -> list[Declared]:
        if tenant is not None:
            self._catalog.get(Ref("Tenant", tenant))
        stored = self._catalog.all(kind_named(kind))
        entries = [entry for entry in stored if tenant in (None, entry.ref.tenant)]
        runs = runs_of(self._catalog.state(), [entry.ref for entry in entries], time.time())
        return [declared(entry, runs.get(entry.ref)) for entry in entries]

    def delete(self, kind: str, name: str) -> None:
        self._catalog.delete(ref_named(kind, name), self._who)

    def tenant(self) -> str:
        """Return the name of the tenant, if the catalog has only one."""
        tenants = self._catalog.all("Tenant")
        if len(tenants) != 1:
            title = f"the catalog has {len(tenants):,} tenants" if tenants else "the catalog has no tenant"
            raise InvalidInput(title, "NAME", hint="write TENANT/QUERY")
        return tenants[0].ref.name

    def users(self, kind: str, name: str) -> list[str]:
        return self._catalog.users(ref_named(kind, name))

    def audit(self, kind: str, name: str) -> list[AuditEntry]:
        return [
            AuditEntry.model_validate(asdict(entry)) for entry in self._catalog.audit(ref_named(kind, name))
        ]

    def list_keys(self) -> list[KeyInfo]:
        return [KeyInfo.model_validate(asdict(info)) for info in self._catalog.keys.all()]

    def create_key(self, principal: str, scopes: Iterable[str], expires_s: float | None = None) -> NewKey:
        expires_at = None if expires_s is None else time.time() + expires_s
        key, info = self._catalog.keys.create(principal, scopes, self._who, expires_at)
        return NewKey.model_validate({"key": key, **asdict(info)})

    def revoke_key(self, id_: str) -> None:
        self._catalog.keys.revoke(id_, self._who)


def applied(
    made: Iterable[catalog.DeclarationChange], documents: Sequence[Document], warnings: Sequence[str] = ()
) -> Applied:
    """Return the changes and all warnings: `warnings`, missing files, and documents that make producers wait."""
    missing = missing_paths(document.declaration for document in documents)
    return Applied.model_validate(
        {
            "changes": list(map(change_told, made)),
            "warnings": (*warnings, *missing, *hold_warnings(documents)),
        }
    )


def declared(one: StoredDeclaration, run: Mapping[str, object] | None = None) -> Declared:
    query_run = None if run is None else QueryRun.model_validate(run)
    return Declared(version=one.version, declaration=one.declaration, run=query_run)
