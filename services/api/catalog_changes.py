"""Changes of the catalog that a caller requests. Conditions and delay targets are checked before a change is made.

If a document contains the replacement text of a hidden secret, the stored secret is kept. The stored secret is read before the
change, so the change is made only if the declaration then still has the version that was read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from configs.documents.declarations import Document, Ref, declared_in, hold_warnings
from configs.errors import Away, InvalidInput, VersionDiffers
from configs.yaml_loading import A_NAME, is_name
from services.api.callers import Caller
from services.api.catalog_snapshot import SnapshotEntry
from services.api.problems import BODY, NotRunning, TooManyRequests, WouldMissTargetProblem
from services.api.service import Service, TargetForecast
from services.catalog.catalog import DeclarationChange, needs_plan
from services.catalog.redaction import change_told, restored
from services.ingest.paths import missing_paths

ETAG = re.compile(r'"([0-9]{1,18})"')
# Maximum characters of a Weir-Warning header; proxies reject long headers.
HEADER_LENGTH_MAX = 2000
ANY = "*"
NOT_ENACTED = (
    "the declarations are saved but do not run yet; new queries may miss rows that arrive before the queries run. "
    "See `weir top` and the problems that it shows"
)


@dataclass(frozen=True)
class Made:
    """Outcome of a request: changes, warnings and the forecast. With `dry_run`, the changes are only planned."""

    changes: Sequence[DeclarationChange]
    warnings: Sequence[str] = ()
    plan: TargetForecast | None = None

    def as_json(self) -> dict[str, Any]:
        content: dict[str, Any] = {
            "changes": list(map(change_told, self.changes)),
            "warnings": list(self.warnings),
        }
        return content if self.plan is None else content | {"plan": self.plan.as_json()}

    @property
    def headers(self) -> dict[str, str]:
        if not self.warnings:
            return {}
        text = " ".join("; ".join(self.warnings).split())
        return {"Weir-Warning": text.encode("ascii", "backslashreplace").decode()[:HEADER_LENGTH_MAX]}


@dataclass
class Declaring:
    """Changes of the catalog by one caller."""

    service: Service
    caller: Caller
    dry_run: bool = False
    versions: dict[Ref, int] = field(default_factory=dict)
    """Versions that declarations must have before the change; 0 for a declaration that must not exist yet."""

    def declare(self, documents: Sequence[Document]) -> Made:
        """Declare all of the documents, or none if one document is refused."""
        service = self.service
        documents = [self._with_secrets(document) for document in documents]
        plan, warnings = self._planned(documents)
        # Paths of sources are checked only if this process runs the feeds, because a process on another machine may see other files.
        missing = (
            [] if service.brought is None else missing_paths(document.declaration for document in documents)
        )
        warnings = [*warnings, *hold_warnings(documents)]
        if self.dry_run:
            return Made(service.catalog.diff(documents, self.versions), (*warnings, *missing), plan)
        if plan is not None and not plan.holds and service.settings.admission == "refuse":
            raise WouldMissTargetProblem(
                warnings[0] if warnings else "a delay target would be missed",
                hint="lower the demand, or see the plan for what would fit",
                extra={"plan": plan.as_json(), "warnings": list(warnings)},
            )
        changes = service.catalog.apply(documents, self.caller.principal, self.versions)
        service.snapshot.refresh()
        waits = () if service.enact() else (NOT_ENACTED,)
        return Made(changes, (*warnings, *missing, *waits))

    def delete(self, ref: Ref) -> Made:
        """Delete a declaration that nothing uses."""
        catalog = self.service.catalog
        version = self.versions.get(ref)
        if self.dry_run:
            catalog.check_delete(ref, version)
        else:
            catalog.delete(ref, self.caller.principal, version)
            self.service.snapshot.refresh()
        return Made([DeclarationChange(ref, "deleted")])

    def _planned(self, documents: Sequence[Document]) -> tuple[TargetForecast | None, Sequence[str]]:
        """Return the forecast of delay targets and its warnings; no forecast if the changes cannot affect delay targets."""
        planner, admission = self.service.planner, self.service.settings.admission
        starting = self.service.waits_for() if planner is None else ""
        if (planner is None and not starting) or (admission == "off" and not self.dry_run):
            return None, ()
        if not needs_plan(self.service.catalog.diff(documents, self.versions)):
            return None, ()
        if planner is None:
            # While the system starts, no forecast can be made, so the setting `admission: refuse` refuses each change.
            if admission == "refuse":
                raise NotRunning(
                    starting,
                    hint="declare the documents again once /readyz answers 200: only then can admission check delay targets",
                )
            return None, (f"no plan was made: {starting}",)
        try:
            plan = planner.plan(documents, tenants=None if self.caller.is_admin else self.caller.tenants)
        except (Away, TooManyRequests) as problem:
            # A change without a forecast is refused only with the setting `admission: refuse`.
            if admission == "refuse":
                raise
            return None, (f"no plan was made: {problem.title}",)
        return plan, tuple(plan.warnings)

    def _with_secrets(self, one: Document) -> Document:
        """Return the document with each `(hidden)` replaced by the secret that the catalog stores."""
        entry = self.service.snapshot.now.get(one.ref)
        whole = restored(one, entry.stored.declaration if entry else None)
        if whole is not one and entry is not None:
            self.versions.setdefault(one.ref, entry.stored.version)
        return whole


def document_at(ref: Ref, data: Any) -> Document:
    """Return the document in a body; its kind, tenant and name come from the path."""
    check_name(ref.name, "name")
    said = {"kind": ref.kind, "name": ref.name} | ({"tenant": ref.tenant} if ref.tenant else {})
    if not isinstance(data, Mapping):
        hint = f"send the fields of a {ref.kind}"
        raise InvalidInput("the body must be an object of keys and values", value=data, hint=hint)
    for key, value in said.items():
        if key in data and data[key] != value:
            raise InvalidInput(
                f"`{key}` of the body differs from {value} in the path",
                key,
                data[key],
                f"leave out `{key}`, or write {value}",
            )
    return declared_in({**said, **data}, BODY)


def check_name(name: str, parameter: str) -> None:
    """Raise InvalidInput if a declaration cannot have this name."""
    if not is_name(name):
        raise InvalidInput("this is not a valid name", f"?{parameter}", name, A_NAME)


def wanted_version(here: SnapshotEntry | None, if_match: str | None, if_none_match: str | None) -> int | None:
    """Return the version that the request's conditions demand: 0 if the declaration must not exist, None if any version will do."""
    if if_none_match is not None:
        if if_none_match.strip() != ANY:
            hint = "send `If-None-Match: *` to create only, or If-Match with a version"
            raise InvalidInput(
                "the header If-None-Match of a change can only be `*`",
                "header If-None-Match",
                if_none_match,
                hint,
            )
        return 0
    if if_match is None:
        return None
    if if_match.strip() == ANY:
        if here is None:
            raise VersionDiffers(
                "If-Match is sent to change a declaration, but the declaration does not exist",
                "header If-Match",
                ANY,
                "omit If-Match to create the declaration",
            )
        return None
    match = ETAG.fullmatch(if_match.strip())
    if match is None:
        state = "does not exist" if here is None else f"is at version {here.stored.version} now"
        raise VersionDiffers(
            f"If-Match has no version of the declaration; the declaration {state}",
            "header If-Match",
            if_match,
            'send one ETag, for example "12"',
        )
    return int(match[1])


def is_fresh(entry: SnapshotEntry, if_none_match: str | None) -> bool:
    """Return True if If-None-Match contains this version or `*`. The caller then has the document, so the response needs no body."""
    if if_none_match is None:
        return False
    etags = [etag.strip().removeprefix("W/") for etag in if_none_match.split(",")]
    return ANY in etags or entry.etag in etags
