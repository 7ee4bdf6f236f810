"""Routes of what mirrors do: how fresh their copies are, what they ask of their stores, and what is wrong.

A tenant sees how fresh a mirror is, as it sees every stream; what objects are looked up, by whose query, and what a store has
answered is for administrators.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Path
from pydantic import BaseModel, Field

from configs.documents.declarations import MirrorDeclaration
from services.api.callers import Caller, CallerOf, not_there
from services.api.problems import responses
from services.api.service import Service, running
from services.mirror.mirror_definition import read_mirror
from services.mirror.poll_loop import MirrorProgress, State, begun

Name = Annotated[str, Path(description="Name of a mirror.", max_length=200)]
Ratio = Annotated[float, Field(ge=0, le=1)]


class Freshness(BaseModel):
    """The part of uses that find a fresh copy."""

    measured: Ratio | None = Field(description="Of the last minutes; null before an object was polled twice.")
    expected: Ratio = Field(description="By the frequencies, if rates and interests are as estimated.")


class MirrorView(BaseModel):
    """What a tenant may know of a mirror."""

    name: str = Field(description="Also of its stream.")
    state: State = Field(description="`waiting`: it could not begin, and is tried again.")
    objects: int = Field(ge=0)
    held: int = Field(ge=0, description="Objects that have been fetched.")
    failing: int = Field(ge=0, description="Objects whose last poll failed.")
    perceived_freshness: Freshness


class MirrorProblem(BaseModel):
    """What went wrong last."""

    told: str
    at: datetime


class MirrorStatus(MirrorView):
    """A mirror at this moment; what is counted counts since its polling began."""

    bandwidth: float = Field(gt=0, description="A second.")
    unit: Literal["polls", "bytes"] = Field(description="Of the bandwidth.")
    spent: float = Field(ge=0, description="Of the bandwidth, in all.")
    spent_per_s: float = Field(ge=0, description="The same a second, in the last ten.")
    bytes: int = Field(ge=0, description="Of what polls have brought.")
    polls: int = Field(ge=0)
    changes: int = Field(ge=0, description="Polls that found something new.")
    failures: int = Field(ge=0, description="Polls that failed.")
    published: int = Field(ge=0, description="Rows that the stream has taken.")
    uses: float = Field(ge=0, description="Of objects, as the answers of its query for lookups tell.")
    unknown_uses: int = Field(ge=0, description="Uses of what is no object of the mirror.")
    solves: int = Field(ge=0, description="How often frequencies were solved for.")
    problems: dict[str, int] = Field(description="How often each was met, the most frequent first.")
    last_problem: MirrorProblem | None


class MirrorStatuses(BaseModel):
    items: list[MirrorStatus | MirrorView]


def router(service: Service) -> APIRouter:
    routes = APIRouter(prefix="/v1", tags=["live"])

    @routes.get(
        "/mirroring", operation_id="listMirrorStatus", responses=responses("forbidden", "not-running")
    )
    def mirroring(caller: CallerOf) -> MirrorStatuses:
        """All mirrors, as they fare now."""
        caller.must_have_tenant()
        return MirrorStatuses(items=[seen_by(caller, mirror) for mirror in progress(service).values()])

    @routes.get(
        "/mirrors/{name}/status",
        operation_id="getMirrorStatus",
        responses=responses("forbidden", "not-found", "not-running"),
    )
    def status_of(caller: CallerOf, name: Name) -> MirrorStatus | MirrorView:
        """A mirror, as it fares now."""
        caller.must_have_tenant()
        mirror = progress(service).get(name)
        if mirror is None:
            raise not_there("Mirror", name)
        return seen_by(caller, mirror)

    return routes


def progress(service: Service) -> dict[str, MirrorProgress]:
    """Of all that are declared, also those that are about to begin."""
    working = {mirror.mirror: mirror for mirror in running(service.mirrors, service)()}
    mirrors = {}
    for entry in service.snapshot.now.of_kind.get("Mirror", ()):
        declared = entry.stored.declaration
        assert isinstance(declared, MirrorDeclaration)
        mirrors[declared.name] = working.get(declared.name) or begun(read_mirror(declared))
    return mirrors


def seen_by(caller: Caller, one: MirrorProgress) -> MirrorStatus | MirrorView:
    statistics = one.statistics
    freshness = Freshness(measured=statistics.perceived_measured, expected=statistics.perceived_expected)
    view = MirrorView(
        name=one.mirror,
        state=one.state,
        objects=statistics.objects,
        held=statistics.held,
        failing=statistics.failing,
        perceived_freshness=freshness,
    )
    if not caller.is_admin:
        return view
    last = one.last_problem
    return MirrorStatus(
        **dict(view),
        bandwidth=one.bandwidth,
        unit=one.unit,
        spent=statistics.spent,
        spent_per_s=one.spent_per_s,
        bytes=one.bytes,
        polls=statistics.polls,
        changes=statistics.changes,
        failures=statistics.failures,
        published=one.published,
        uses=statistics.uses,
        unknown_uses=one.unknown_uses,
        solves=statistics.solved,
        problems=one.problems,
        last_problem=last and MirrorProblem(told=last.told, at=datetime.fromtimestamp(last.at, UTC)),
    )
