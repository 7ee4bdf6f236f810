"""Changes of the catalog for a caller: the document in a body, the conditions in headers, admission, and what came of it.

Secrets that were shown as hidden are kept as they are. As they are read before the change, the change is made only if the
declaration is still the one that they were read from.
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
# A header is one line, and proxies take no long ones.
HEADER_LENGTH_MAX = 2000
ANY = "*"
NOT_ENACTED = (
    "what was declared does not run yet, and new queries may miss rows that are accepted before it does: "
    "see `weir top` and the problems that it shows"
)


@dataclass(frozen=True)
class Made:
    """What was changed, or would be."""

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
    """By one caller."""

    service: Service
    caller: Caller
    dry_run: bool = False
    versions: dict[Ref, int] = field(default_factory=dict)
    """That declarations must have before, 0 for those that must be new."""

    def declare(self, documents: Sequence[Document]) -> Made:
        """All of them, or none."""
        service = self.service
        documents = [self._with_secrets(document) for document in documents]
        plan, warnings = self._planned(documents)
        # Other processes that run feeds may see other files.
        missing = (
            [] if service.brought is None else missing_paths(document.declaration for document in documents)
        )
        warnings = [*warnings, *hold_warnings(documents)]
        if self.dry_run:
            return Made(service.catalog.diff(documents, self.versions), (*warnings, *missing), plan)
        if plan is not None and not plan.holds and service.settings.admission == "refuse":
            raise WouldMissTargetProblem(
                warnings[0] if warnings else "a delay target would be missed",
                hint="ask for less, or see the plan for what would fit",
                extra={"plan": plan.as_json(), "warnings": list(warnings)},
            )
        changes = service.catalog.apply(documents, self.caller.principal, self.versions)
        service.snapshot.refresh()
        waits = () if service.enact() else (NOT_ENACTED,)
        return Made(changes, (*warnings, *missing, *waits))

    def delete(self, ref: Ref) -> Made:
        """What nothing uses."""
        catalog = self.service.catalog
        version = self.versions.get(ref)
        if self.dry_run:
            catalog.check_delete(ref, version)
        else:
            catalog.delete(ref, self.caller.principal, version)
            self.service.snapshot.refresh()
        return Made([DeclarationChange(ref, "deleted")])

    def _planned(self, documents: Sequence[Document]) -> tuple[TargetForecast | None, Sequence[str]]:
        """Asked only of what would change something, and can be; with what there is to warn of."""
        planner, admission = self.service.planner, self.service.settings.admission
        starting = self.service.waits_for() if planner is None else ""
        if (planner is None and not starting) or (admission == "off" and not self.dry_run):
            return None, ()
        if not needs_plan(self.service.catalog.diff(documents, self.versions)):
            return None, ()
        if planner is None:
            # Without a plan, what is declared while the system starts would get past admission.
            if admission == "refuse":
                raise NotRunning(starting, hint="declare it once /readyz is ready: admission plans it then")
            return None, (f"no plan was made: {starting}",)
        try:
            plan = planner.plan(documents, tenants=None if self.caller.is_admin else self.caller.tenants)
        except (Away, TooManyRequests) as problem:
            # What runs may be away for a moment, or others plan; only who asks for promises waits for it.
            if admission == "refuse":
                raise
            return None, (f"no plan was made: {problem.title}",)
        return plan, tuple(plan.warnings)

    def _with_secrets(self, one: Document) -> Document:
        """With those that were shown as hidden."""
        entry = self.service.snapshot.now.get(one.ref)
        whole = restored(one, entry.stored.declaration if entry else None)
        if whole is not one and entry is not None:
            self.versions.setdefault(one.ref, entry.stored.version)
        return whole


# -- one document ----------------------------------------------------------------------------------------------


def document_at(ref: Ref, data: Any) -> Document:
    """The document of a body, whose kind and name the path says."""
    check_name(ref.name, "name")
    said = {"kind": ref.kind, "name": ref.name} | ({"tenant": ref.tenant} if ref.tenant else {})
    if not isinstance(data, Mapping):
        hint = f"send the document of a {ref.kind}"
        raise InvalidInput("the body must hold keys and values", value=data, hint=hint)
    for key, value in said.items():
        if key in data and data[key] != value:
            raise InvalidInput(f"the path says {value}", key, data[key], "leave it out, or let both agree")
    return declared_in({**said, **data}, BODY)


def check_name(name: str, parameter: str) -> None:
    """Of what is to be declared."""
    if not is_name(name):
        raise InvalidInput("not a valid name", f"?{parameter}", name, A_NAME)


# -- conditions ------------------------------------------------------------------------------------------------


def wanted_version(here: SnapshotEntry | None, if_match: str | None, if_none_match: str | None) -> int | None:
    """Which one it must be now; None if any."""
    if if_none_match is not None:
        if if_none_match.strip() != ANY:
            hint = "send * to declare only what is new; or If-Match with a version"
            raise InvalidInput("not a condition of a change", "header If-None-Match", if_none_match, hint)
        return 0
    if if_match is None:
        return None
    if if_match.strip() == ANY:
        if here is None:
            raise VersionDiffers("it is not there", "header If-Match", ANY, "declare it without If-Match")
        return None
    match = ETAG.fullmatch(if_match.strip())
    if match is None:
        state = "not there" if here is None else f"at version {here.stored.version} now"
        raise VersionDiffers(f"it is {state}", "header If-Match", if_match, 'send one ETag, as "12"')
    return int(match[1])


def is_fresh(entry: SnapshotEntry, if_none_match: str | None) -> bool:
    """Whether the caller has it already."""
    if if_none_match is None:
        return False
    etags = [etag.strip().removeprefix("W/") for etag in if_none_match.split(",")]
    return ANY in etags or entry.etag in etags
