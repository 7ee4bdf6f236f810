"""Routes of the status of mirrors: freshness of the copies, load on the polled stores, and problems.

Tenants see the freshness of every mirror, as they see every stream. Only administrators see the bandwidth used, the counts
of lookups, and the errors of stores.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Path
from pydantic import Field

from configs.base import Fraction, NonNegative
from configs.documents.declarations import MirrorDeclaration
from services.api.callers import Caller, CallerOf, not_there
from services.api.problems import responses
from services.api.schemas import AnswerModel, Count
from services.api.service import Service, running
from services.mirror.mirror_definition import read_mirror
from services.mirror.poll_loop import MirrorProgress, State, begun

Name = Annotated[str, Path(description="Name of a mirror.", max_length=200)]


class Freshness(AnswerModel):
    """Perceived freshness of a mirror: the fraction of uses of its objects that find a fresh copy."""

    measured: Fraction | None
    """Perceived freshness measured over the last minutes; null until some object has been polled twice."""
    expected: Fraction
    """Perceived freshness that is expected from the poll frequencies and from the estimated change rates and interests."""


class MirrorView(AnswerModel):
    """Status of a mirror as tenants see it."""

    name: str
    """Name of the mirror and of its stream."""
    state: State
    """State of the mirror; `waiting`: the mirror could not start, and Weir tries again."""
    objects: Count
    held: Count
    """Number of objects that have been fetched at least once."""
    failing: Count
    """Number of objects for which the last poll failed."""
    perceived_freshness: Freshness


class MirrorProblem(AnswerModel):
    """Last problem of a mirror."""

    told: str
    at: datetime


class FlooredObject(AnswerModel):
    """Object of a mirror with a least freshness."""

    key: str
    least: Fraction
    """Least freshness of the object, as MIN FRESHNESS declares it."""
    expected: Fraction
    """Freshness of the object that is expected from its poll frequency and its estimated change rate."""


class MirrorStatus(MirrorView):
    """Status of a mirror at this moment. Counts start when its polling starts."""

    bandwidth: float = Field(gt=0)
    """Declared bandwidth of the mirror: the maximum number of `unit` per second."""
    unit: Literal["polls", "bytes"]
    """Unit of the mirror's bandwidth."""
    spent: NonNegative
    """Number of polls or bytes (see `unit`) that the mirror has used since its start."""
    spent_per_s: NonNegative
    """Number of polls or bytes (see `unit`) per second that the mirror used in the last ten seconds."""
    bytes: Count
    """Number of bytes that polls have received."""
    polls: Count
    changes: Count
    """Number of polls that found a changed object."""
    failures: Count
    """Number of polls that failed."""
    published: Count
    """Number of rows published to the mirror's stream."""
    uses: NonNegative
    """Number of uses of objects, counted from the answers of the query that reports which objects are used."""
    unknown_uses: Count
    """Number of reported uses of keys that are not objects of the mirror."""
    solves: Count
    """Number of times that the mirror's poll frequencies were recomputed."""
    problems: dict[str, int]
    """Number of occurrences of each problem of the mirror, the most frequent problem first."""
    last_problem: MirrorProblem | None
    floored: Count
    """Number of objects with a least freshness."""
    below_floor: Count
    """Number of objects with an expected freshness below their least freshness."""
    needed: NonNegative
    """Bandwidth that the least freshnesses of all objects need, in `unit` per second."""
    floor_part: Fraction
    """Part of its least freshness that each object gets; below 1 if the bandwidth does not suffice."""
    floors: list[FlooredObject]
    """At most 100 objects with a least freshness; objects that lack most come first."""


class MirrorStatuses(AnswerModel):
    items: list[MirrorStatus | MirrorView]


def router(service: Service) -> APIRouter:
    routes = APIRouter(prefix="/v1", tags=["live"])

    @routes.get(
        "/mirroring", operation_id="listMirrorStatus", responses=responses("forbidden", "not-running")
    )
    def list_mirror_status(caller: CallerOf) -> MirrorStatuses:
        """List all mirrors with their present status."""
        caller.must_have_tenant()
        return MirrorStatuses(items=[seen_by(caller, mirror) for mirror in progress(service).values()])

    @routes.get(
        "/mirrors/{name}/status",
        operation_id="getMirrorStatus",
        responses=responses("forbidden", "not-found", "not-running"),
    )
    def get_mirror_status(caller: CallerOf, name: Name) -> MirrorStatus | MirrorView:
        """Show the present status of a mirror."""
        caller.must_have_tenant()
        mirror = progress(service).get(name)
        if mirror is None:
            raise not_there("Mirror", name)
        return seen_by(caller, mirror)

    return routes


def progress(service: Service) -> dict[str, MirrorProgress]:
    """Return the progress of all declared mirrors, including mirrors that have not started yet."""
    working = {mirror.mirror: mirror for mirror in running(service.mirrors, service)()}
    mirrors = service.snapshot.now.state.of_kind(MirrorDeclaration)
    return {mirror.name: working.get(mirror.name) or begun(read_mirror(mirror)) for mirror in mirrors}


def seen_by(caller: Caller, mirror: MirrorProgress) -> MirrorStatus | MirrorView:
    statistics = mirror.statistics
    freshness = Freshness(measured=statistics.perceived_measured, expected=statistics.perceived_expected)
    names = {"name": mirror.mirror, "perceived_freshness": freshness, "solves": statistics.solved}
    model = MirrorStatus if caller.is_admin else MirrorView
    return model.model_validate(mirror.as_json() | names)
