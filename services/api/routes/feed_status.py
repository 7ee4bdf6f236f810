"""Routes of the status of feeds: state, rate and lag, counts of the rows of each feed's streams, and reasons why a feed does not run.

A feed is a document of kind Feed, or a stream with a source. Tenants see the status of all feeds, because every tenant may
read every stream. Only administrators see sources and errors, because errors may name places such as paths.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import Field

from configs.base import Fraction, NonNegative
from configs.documents.declarations import StreamDeclaration
from services.api.callers import Caller, CallerOf, not_there
from services.api.problems import responses
from services.api.schemas import AnswerModel, Count
from services.api.service import FeedDeclared, Service, running
from services.ingest.progress import FeedProgress, State
from services.watch.accounts import accounts
from services.watch.losses import StreamIntake
from services.watch.source import SourceAway

# Number of decimals to which a feed's figures are rounded.
DECIMALS = 1

Name = Annotated[str, Path(description="Name of a feed, or of a stream with a source.", max_length=200)]


class StreamRowCounts(AnswerModel):
    """Number of rows of a stream that were accepted, offered, late or rejected."""

    name: str
    rows: int | None = Field(ge=0)
    """Number of rows of the stream that gateways have accepted; null if unknown."""
    offered: Count
    """Number of the stream's tuples that were offered to classes, summed over the classes that the caller sees."""
    late: Count
    """Number of offered tuples that arrived after their windows had closed."""
    rejected: Count = 0
    """Number of rows of the stream that gateways have rejected, for example because event time is missing or a value does not fit."""
    rejected_now: Fraction = 0.0
    """Rejected rows of the stream as a fraction of its rows in the last minute of input."""
    last_reason: str | None = None
    """Reason and column of the latest rejection, such as `no event time: ts`; null if no row was rejected."""
    reasons: dict[str, int] = Field(default_factory=dict)
    """Number of rejected rows by reason, for the ten most frequent reasons."""


class FeedView(AnswerModel):
    """Status of a feed as tenants see it. Counts start when the process that runs the feed starts."""

    name: str
    state: State = Field(
        description="State of the feed. `starting`: no micro-batch has been tried yet; `failed`: an error occurred, and a retry is due; "
        "`waiting`: Spark is restarting; `stopped`: no process runs the feed."
    )
    rows_per_s: NonNegative
    """Number of rows per second that Spark read from the source in the last seconds."""
    rows: Count
    """Number of rows that Spark has read from the source; a row that Spark reads again after a failure counts twice."""
    lag: float | None
    """Number of offsets in the source that Spark has not read yet; null if unknown."""
    behind_s: float | None
    """Seconds from the latest event time of all published rows until now; null if unknown."""
    batch_at: datetime | None
    """Time at which the feed's last micro-batch finished."""
    restarts: Count
    """Number of times that the feed's Spark query was restarted after a failure."""
    next_try_s: float | None
    """Seconds until the failed feed is tried again; null if no retry is due."""
    streams: list[StreamRowCounts]


class FeedStatus(FeedView):
    """Status of a feed as administrators see it."""

    format: str
    """Format of the feed's source, as Spark names the format."""
    batch_ms: float | None
    """Duration of the feed's last micro-batch, in milliseconds."""
    last_error: str | None
    last_error_at: datetime | None


class FeedStatuses(AnswerModel):
    items: list[FeedStatus | FeedView]
    pushed: list[StreamRowCounts]
    """Row counts of each stream without a feed; producers send the rows of such streams."""


def router(service: Service) -> APIRouter:
    routes = APIRouter(prefix="/v1", tags=["live"])

    @routes.get("/feeding", operation_id="listFeedStatus", responses=responses("forbidden", "not-running"))
    def list_feed_status(caller: CallerOf) -> FeedStatuses:
        """List all feeds with their status, and the row counts of all streams without a feed."""
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
    def get_feed_status(caller: CallerOf, name: Name) -> FeedStatus | FeedView:
        """Show the status of a feed."""
        caller.must_have_tenant()
        running(service.watch, service)
        declared = service.feeds_declared()
        for feed in service.feeds():
            if feed.feed == name:
                return seen_by(caller, feed, declared[name], inputs_of(service, caller))
        raise not_there("Feed", name, declared)

    return routes


def inputs_of(service: Service, caller: Caller) -> dict[str, StreamRowCounts]:
    """Return the row counts of all streams by lower-case name, in the order of declaration."""
    intakes = service.intakes()
    inputs = {}
    for declared in service.snapshot.now.state.of_kind(StreamDeclaration):
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
    """Return the number of rows of a stream that gateways accepted and rejected."""
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
    caller: Caller, feed: FeedProgress, declared: FeedDeclared, inputs: Mapping[str, StreamRowCounts]
) -> FeedStatus | FeedView:
    event_time = feed.event_time
    figures = {
        "rows_per_s": feed.rows_per_s,
        "behind_s": None if event_time is None else max(0.0, time.time() - event_time),
        "next_try_s": feed.next_try_s,
        "batch_ms": feed.batch_ms,
    }
    rounded = {name: value and round(value, DECIMALS) for name, value in figures.items()}
    names = [name.lower() for name in declared.streams]
    streams = [inputs[name] for name in names if name in inputs]
    more = {"name": feed.feed, "format": declared.format, "streams": streams}
    model = FeedStatus if caller.is_admin else FeedView
    return model.model_validate(asdict(feed) | rounded | more)
