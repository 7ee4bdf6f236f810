"""Routes of query results, as pages (with long polling) or server-sent events, and of the Arrow Flight endpoints of the rows."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractContextManager, aclosing, nullcontext
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Header, Path, Query
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from configs.documents.declarations import Ref
from configs.errors import InvalidInput
from services.api.callers import Caller, CallerOf, must_know_tenant, not_live, unknown
from services.api.problems import NotAcceptable, RowsForgottenProblem, responses
from services.api.request_bodies import JSON
from services.api.schemas import (
    STRING,
    WHOLE,
    RouteResponses,
    array,
    content,
    header,
    record,
    response,
    typed,
)
from services.api.service import Service, running
from services.common.gateway_trust import DEFAULT_TRUST, GatewayTrust
from services.ingest.answers import KEPT, SEQ
from services.results.cursors import LATEST, OLDEST, Cursor, cursor_of
from services.results.events import events
from services.results.log_reader import QueryAddress
from services.results.places import Places
from services.results.results import Forgotten, Page, Results

ARROW = "application/vnd.apache.arrow.stream"
EVENTS = "text/event-stream"
LIMIT, LIMIT_MAX = 1000, 100_000
TAIL_MAX = 1_000_000_000
WAIT_MAX_S = 60
CURSOR_MAX = 20_000
NEXT = "Weir-Next"
RESTARTED = "Weir-Restarted"

PathName = Annotated[str, Path(max_length=200)]
After = Annotated[
    str | None,
    Query(
        max_length=CURSOR_MAX,
        description=f"Cursor to read from: `next` of the previous answer or `id` of an event; `{LATEST}` for new rows only. "
        "Without `after`, reading begins with the oldest kept row.",
    ),
]
Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX, description="Maximum number of rows in the answer.")]
Tail = Annotated[
    int | None,
    Query(
        ge=1,
        le=TAIL_MAX,
        description="Number of kept rows to begin with, counted back from the latest row. "
        "Use `tail` for the first call instead of `after`.",
    ),
]
Wait = Annotated[
    float, Query(ge=0, le=WAIT_MAX_S, description="Maximum seconds to wait if there are no rows yet.")
]
LastEvent = Annotated[str | None, Header(alias="Last-Event-ID", max_length=CURSOR_MAX)]
Accept = Annotated[str, Header(include_in_schema=False)]

ABOUT_KEPT = "Fraction of the input for this row that Weir processed; the rest was shed or late."
ROW = record({SEQ: WHOLE, KEPT: {"type": "number", "minimum": 0, "maximum": 1, "description": ABOUT_KEPT}})
PAGE = record(
    {
        "columns": array(record({"name": STRING, "type": STRING})),
        "rows": array(ROW),
        "next": typed(
            ["string", "null"],
            "Cursor of the next page, which the next call sends as `after`; null until the query has begun.",
        ),
        "restarted": typed(
            "boolean",
            "True if the query was restarted or declared again since the cursor was issued: "
            "reading begins with the oldest row. Otherwise the field is absent.",
        ),
    },
    optional=("restarted",),
)
FLIGHT_UNIT = record(
    {
        "endpoint": {"type": ["string", "null"]},
        "unit": STRING,
        "query": STRING,
        "first": typed("integer", "Number (`_seq`) of the oldest kept row of the shard."),
        "next": typed("integer", "Number (`_seq`) that the next new row of the shard will have."),
    }
)
READ = responses("forbidden", "not-found", "not-running")
PROBLEMS = READ | responses("invalid", "rows-forgotten", "not-acceptable")
BINARY = {"type": "string", "format": "binary"}
PAGES: RouteResponses = {
    200: {
        "description": "Rows, ordered by `_seq` within each shard.",
        "headers": header(NEXT, "Cursor of the next page: the same value as `next` in the body.")
        | header(
            RESTARTED,
            "`true` if the query was restarted since the cursor was issued, like `restarted` in the body.",
        ),
        "content": content(PAGE) | content(BINARY, ARROW),
    }
}
STREAM = response(
    "Stream of the events `rows`, `gap` and `end`; reading can be resumed from the id of every event.",
    STRING,
    EVENTS,
)
PLACES = response(
    "Arrow Flight endpoint of each shard, with the numbers of its first kept row and its next row.",
    record({"units": array(FLIGHT_UNIT)}),
)


class EventStream(StreamingResponse):
    """Streaming response that counts its caller as a waiting reader until the response has been sent."""

    def __init__(self, told: AsyncIterator[bytes], held: AbstractContextManager[None]) -> None:
        # Without these headers, a proxy could buffer the events and deliver them late.
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(told, headers=headers, media_type=EVENTS)
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._held:
            await super().__call__(scope, receive, send)


def router(service: Service) -> APIRouter:
    routes = APIRouter(prefix="/v1/tenants/{tenant}/queries/{query}/results", tags=["results"])

    @routes.get("", operation_id="getResults", responses=PAGES | PROBLEMS)
    async def get_results(
        caller: CallerOf,
        tenant: PathName,
        query: PathName,
        after: After = None,
        limit: Limit = LIMIT,
        wait_s: Wait = 0,
        tail: Tail = None,
        accept: Accept = "*/*",
    ) -> Response:
        """Return rows of a query's results; wait up to `wait_s` seconds if there are no rows yet."""
        results_query = known(service, caller, tenant, query)
        if tail is not None and after:
            raise InvalidInput(
                "this parameter cannot be combined with `after`",
                "?tail",
                tail,
                "send either `tail` or `after`",
            )
        media, cursor = media_of(accept), cursor_after(after)
        results = running(service.results, service)
        with service.limits.waiting(caller.key_id) if wait_s else nullcontext():
            try:
                page = await results.page(
                    results_query, cursor, limit, wait_s=wait_s, as_arrow=media == ARROW, tail=tail
                )
            except Forgotten as problem:
                raise as_problem(problem) from None
        if wait_s and service.snapshot.holder(caller.key_id) is None:
            raise not_live()
        return page_response(page, media)

    @routes.get("/stream", operation_id="streamResults", responses=STREAM | READ)
    async def stream_results(
        caller: CallerOf,
        tenant: PathName,
        query: PathName,
        after: After = None,
        last_event_id: LastEvent = None,
    ) -> Response:
        """Stream rows as server-sent events. `Last-Event-ID` resumes a stream, and overrides `after`."""
        results_query = known(service, caller, tenant, query)
        cursor = cursor_after(last_event_id or after)
        event_bytes = events(running(service.results, service), results_query, cursor)
        return EventStream(while_live(service, caller, event_bytes), service.limits.waiting(caller.key_id))

    @routes.get("/flight", operation_id="locateResults", responses=PLACES | READ)
    async def locate_results(caller: CallerOf, tenant: PathName, query: PathName) -> Response:
        """Return the Arrow Flight endpoints from which a reader of large results fetches the rows itself."""
        results_query = known(service, caller, tenant, query)
        units = await located(running(service.results, service), results_query)
        return Response(orjson.dumps({"units": units}), media_type=JSON)

    return routes


def results_of(
    service: Service, places: Places, key: Callable[[], str], trust: GatewayTrust = DEFAULT_TRUST
) -> Results:
    """Return a reader for the results of declared queries; the callback `key` returns the key for gateways on other nodes."""

    def is_declared(tenant: str, query: str) -> bool:
        return service.snapshot.now.get(Ref("Query", query, tenant)) is not None

    return Results(places, is_declared, key, trust=trust)


def known(service: Service, caller: Caller, tenant: str, query: str) -> QueryAddress:
    """Return the address of a declared query that the caller may see; raise NotFound otherwise."""
    must_know_tenant(service, caller, tenant)
    if service.snapshot.now.get(Ref("Query", query, tenant)) is None:
        raise unknown(service, caller, Ref("Query", query, tenant))
    return QueryAddress(tenant, query)


def cursor_after(after: str | None) -> Cursor | None:
    """Return the cursor in `after`, or None if the caller wants only rows that are emitted from now on."""
    if not after:
        return OLDEST
    return None if after == LATEST else cursor_of(after)


def media_of(accept: str) -> str:
    """Return the first supported media type in the Accept header."""
    medias = [media.partition(";")[0].strip().lower() for media in accept.split(",")]
    for media in medias:
        if media == ARROW:
            return ARROW
        if media in (JSON, "application/*", "*/*", ""):
            return JSON
    raise NotAcceptable(
        "the request accepts no media type that Weir can send",
        "header Accept",
        accept,
        f"accept {JSON} or {ARROW}",
    )


def page_response(page: Page, media: str) -> Response:
    headers = {} if page.next is None else {NEXT: page.next}
    if page.restarted:
        headers[RESTARTED] = "true"
    if media == ARROW:
        return Response(page.body, headers=headers, media_type=ARROW)
    columns = orjson.dumps([{"name": name, "type": kind} for name, kind in page.columns])
    parts = columns, page.body, orjson.dumps(page.next)
    more = b',"restarted":true' if page.restarted else b""
    return Response(
        b'{"columns":%b,"rows":[%b],"next":%b%b}' % (*parts, more), headers=headers, media_type=JSON
    )


def as_problem(problem: Forgotten) -> RowsForgottenProblem:
    extra = {"next": problem.next, "missing": [part.as_json() for part in problem.missing]}
    return RowsForgottenProblem(problem.title, problem.field, problem.value, problem.hint, extra=extra)


async def while_live(
    service: Service, caller: Caller, told: AsyncGenerator[bytes, None]
) -> AsyncGenerator[bytes, None]:
    """Yield events; end the stream once the caller's key has expired or been revoked."""
    async with aclosing(told):
        async for event in told:
            if service.snapshot.holder(caller.key_id) is None:
                return
            yield event


async def located(results: Results, asked: QueryAddress) -> list[dict[str, Any]]:
    return [
        {"endpoint": place.endpoint, "unit": place.unit, "query": asked.query, "first": first, "next": next_}
        for place, first, next_ in await results.kept(asked)
    ]
