"""Routes of what feeds do: their state, rate and lag, what has come in on their streams, and why a feed does not run.

A feed is a document of kind Feed, or a stream with a source of its own. Tenants see how feeds run, because every tenant may
read every stream. Where a feed reads from, and errors, which may name such places, are for administrators.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import BaseModel, Field

from configs.documents.declarations import StreamDeclaration
from services.api.callers import Caller, CallerOf, not_there
from services.api.problems import responses
from services.api.service import FeedDeclared, Service, running
from services.ingest.progress import FeedProgress, State
from services.watch.accounts import accounts
from services.watch.losses import StreamIntake
from services.watch.source import SourceAway

# Number of decimals of figures of a feed; more of them mean nothing.
DECIMALS = 1

Name = Annotated[
    str, Path(description="Name of a feed, or of a stream with a source of its own.", max_length=200)
]


class StreamRowCounts(BaseModel):
    """Counts of the rows of a stream."""

    name: str
    rows: int | None = Field(
        ge=0, description="Rows that gateways have accepted; null if they are not known."
    )
    offered: int = Field(
        ge=0, description="Tuples offered to the classes that the caller sees; each class counts."
    )
    late: int = Field(ge=0, description="Tuples of these that came after their windows had closed.")
    rejected: int = Field(
        0, ge=0, description="Rows that gateways have rejected: no event time, or a value that does not fit."
    )
    rejected_now: float = Field(
        0.0, ge=0, le=1, description="Part of the rows in the last minute of input that gateways rejected."
    )
    last_reason: str | None = Field(
        None,
        description="Why the last rows were rejected: `no event time: ts`, with the column; null if none were.",
    )
    reasons: dict[str, int] = Field(
        default_factory=dict, description="Rejected rows by reason, the ten most frequent."
    )


class FeedView(BaseModel):
    """A feed as tenants see it; counts begin when the process that runs it was started."""

    name: str
    state: State = Field(
        description="`starting`: no micro-batch was tried yet; `failed`: waits for its next try after an error; "
        "`waiting`: Spark is started again; `stopped`: no process runs the feed."
    )
    rows_per_s: float = Field(ge=0, description="Rows that Spark read, in the last seconds.")
    rows: int = Field(ge=0, description="Rows that Spark has read; after a failure some are read again.")
    lag: float | None = Field(
        description="Offsets that the source has and that are not read; null if unknown."
    )
    behind_s: float | None = Field(
        description="Seconds from the latest event time that was published to now; null if unknown."
    )
    batch_at: datetime | None = Field(description="When the last micro-batch was done.")
    restarts: int = Field(ge=0, description="Times that the query was started again after a failure.")
    next_try_s: float | None = Field(description="Seconds until the next try, if one is waited for.")
    streams: list[StreamRowCounts]


class FeedStatus(FeedView):
    """A feed at this moment."""

    format: str = Field(description="Spark's format of the source.")
    batch_ms: float | None = Field(description="Time that the last micro-batch took.")
    last_error: str | None
    last_error_at: datetime | None


class FeedStatuses(BaseModel):
    items: list[FeedStatus | FeedView]
    pushed: list[StreamRowCounts] = Field(description="Streams without a feed: producers send their rows.")


def router(service: Service) -> APIRouter:
    routes = APIRouter(prefix="/v1", tags=["live"])

    @routes.get("/feeding", operation_id="listFeedStatus", responses=responses("forbidden", "not-running"))
    def feeding(caller: CallerOf) -> FeedStatuses:
        """All feeds at this moment, and counts of the streams without one."""
        caller.must_have_tenant()
        running(service.watch, service)
        inputs, declared = inputs_of(service, caller), service.feeds_declared()
        fed = {name.lower() for feed in declared.values() for name in feed.streams}
        return FeedStatuses(
            items=[seen_by(caller, feed, declared[feed.feed], inputs) for feed in service.feeds()],
            pushed=[stream_input for name, stream_input in inputs.items() if name not in fed],
        )

    @routes.get(
        "/feeds/{name}/status",
        operation_id="getFeedStatus",
        responses=responses("forbidden", "not-found", "not-running"),
    )
    def status_of(caller: CallerOf, name: Name) -> FeedStatus | FeedView:
        """A feed at this moment."""
        caller.must_have_tenant()
        running(service.watch, service)
        declared = service.feeds_declared()
        for feed in service.feeds():
            if feed.feed == name:
                return seen_by(caller, feed, declared[name], inputs_of(service, caller))
        raise not_there("Feed", name, declared)

    return routes


def inputs_of(service: Service, caller: Caller) -> dict[str, StreamRowCounts]:
    """Return counts by name of the stream in small letters, in the order of declaration."""
    intakes = service.intakes()
    inputs = {}
    for entry in service.snapshot.now.of_kind.get("Stream", ()):
        declared = entry.stored.declaration
        assert isinstance(declared, StreamDeclaration)
        key = declared.name.lower()
        inputs[key] = input_of(declared.name, intakes.get(key))
    try:
        view = running(service.watch, service).view()
    except SourceAway:
        return inputs
    for account in accounts(view.system, None if caller.is_admin else caller.tenants):
        stream_input = inputs.get(account.stream.lower())
        if stream_input is not None:
            stream_input.offered += account.ledger.offered
            stream_input.late += account.ledger.late
    return inputs


def input_of(name: str, intake: StreamIntake | None) -> StreamRowCounts:
    """Return the counts of a stream at the gateways."""
    if intake is None:
        return StreamRowCounts(name=name, rows=None, offered=0, late=0)
    return StreamRowCounts(
        name=name,
        rows=intake.accepted,
        offered=0,
        late=0,
        rejected=intake.rejected,
        rejected_now=intake.rejected_now,
        last_reason=intake.last_reason or None,
        reasons=dict(intake.reasons),
    )


def seen_by(
    caller: Caller, one: FeedProgress, declared: FeedDeclared, inputs: Mapping[str, StreamRowCounts]
) -> FeedStatus | FeedView:
    view = FeedView(
        name=one.feed,
        state=one.state,
        rows_per_s=round(one.rows_per_s, DECIMALS),
        rows=one.rows,
        lag=one.lag,
        behind_s=None if one.event_time is None else round(max(0.0, time.time() - one.event_time), DECIMALS),
        batch_at=moment(one.batch_at),
        restarts=one.restarts,
        next_try_s=None if one.next_try_s is None else round(one.next_try_s, DECIMALS),
        streams=list(known(inputs, declared.streams)),
    )
    if not caller.is_admin:
        return view
    return FeedStatus(
        **dict(view),
        format=declared.format,
        batch_ms=None if one.batch_ms is None else round(one.batch_ms, DECIMALS),
        last_error=one.last_error,
        last_error_at=moment(one.last_error_at),
    )


def known(inputs: Mapping[str, StreamRowCounts], streams: Iterable[str]) -> Iterable[StreamRowCounts]:
    return (inputs[name.lower()] for name in streams if name.lower() in inputs)


def moment(at: float | None) -> datetime | None:
    return None if at is None else datetime.fromtimestamp(at, UTC)
