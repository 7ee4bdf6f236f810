"""Route of one-time queries: each is answered once, from what the running queries of a tenant keep in memory.

The query runs in the host of the tenant's class, between two slices of its work. It declares nothing and takes no row.
"""

from __future__ import annotations

from dataclasses import astuple, replace
from threading import BoundedSemaphore
from typing import Annotated, Any

import orjson
import pyarrow as pa
from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from configs.base import Settings
from configs.documents.declarations import Ref
from configs.errors import Busy, InvalidInput
from engine.network.one_time import OneTimeAnswer
from engine.sql.select import NO_SUCH_STREAM
from services.api.callers import CallerOf, must_know_tenant
from services.api.problems import BODY_PROBLEMS, NotRunning, responses
from services.api.request_bodies import JSON, Content, read_model
from services.api.routes.live import Tenant, answered, is_given_up, not_running, seen
from services.api.schemas import STRING, array, body, content, record, response, typed
from services.api.service import Service
from services.results.encoding import FIRST_US, LAST_US, moments_of, rows_of

# Maximum length of the SQL: it is planned by the thread that also runs the class.
SQL_MAX = 10_000
# Maximum number of one-time queries that wait for their classes at a time; each occupies a thread of the service.
WAITING_MAX = 8


class OneTimeRequest(Settings):
    """SQL of a one-time query."""

    sql: Annotated[str, Field(min_length=1, max_length=SQL_MAX)]
    """SELECT with aggregates over one stream, with a window of time, such as [RANGE 1 HOUR]."""


# Names of the parts of a covered time, in their order.
TIMES = ("start", "end", "complete_to")
MAYBE_TIME = ["string", "integer", "null"]
COVERAGE = record(
    {
        "unit": typed("string", "Unit that answered: the class, or one shard of the class."),
        "start": typed(
            MAYBE_TIME, "First event time that the answer covers; null before the first row of the stream."
        ),
        "end": typed(MAYBE_TIME, "End of the event times that the answer covers."),
        "complete_to": typed(
            MAYBE_TIME, "Event time that the stream has reached; rows before it come late, if at all."
        ),
        "short": typed(
            "boolean", "True if the class no longer keeps, or never had, the first part of the RANGE."
        ),
        "rows": typed("integer", "Number of rows of the stream from which the answer was computed."),
        "kept": typed("number", "Fraction of the rows of this time that were neither shed nor late."),
    }
)
ANSWER = record(
    {
        "tenant": STRING,
        "stream": STRING,
        "range_s": typed("number", "RANGE of the query in seconds."),
        "columns": array(record({"name": STRING, "type": STRING})),
        "rows": array({"type": "object"}),
        "covers": array(COVERAGE)
        | {"description": "Event time that the answer covers, by unit of the class."},
    }
)
ANSWERS = response("Answer, with the event time that it covers.", ANSWER)
BODY = body(
    content(record({"sql": STRING}), example={"sql": "SELECT AVG(temp) FROM readings [RANGE 10 MINUTES]"})
)
PROBLEMS = BODY_PROBLEMS | responses("forbidden", "not-found", "not-running")


def router(service: Service) -> APIRouter:
    routes = APIRouter(prefix="/v1", tags=["results"])
    room = BoundedSemaphore(WAITING_MAX)

    @routes.post(
        "/tenants/{tenant}/ask",
        operation_id="ask",
        responses={**ANSWERS, **PROBLEMS},
        openapi_extra=BODY,
    )
    def ask(request: Request, caller: CallerOf, content: Content, tenant: Tenant) -> Response:
        """Answer a query once, from what the running queries of the tenant keep in memory."""
        must_know_tenant(service, caller, tenant)
        sql = read_model(OneTimeRequest, request, content).sql
        if not room.acquire(blocking=False):
            raise Busy(
                f"{WAITING_MAX} one-time queries are waiting for answers", hint="try again in a second"
            )
        try:
            answers = asked(service, tenant, sql)
        finally:
            room.release()
        return Response(orjson.dumps(as_json(tenant, answers)), media_type=JSON)

    return routes


def asked(service: Service, tenant: str, sql: str) -> dict[str, OneTimeAnswer]:
    """Return the answer of each unit of the tenant's class; raise NotRunning if the class does not run."""
    watch, view = seen(service)
    shown = view.classes.get(tenant)
    if shown is None:
        raise NotRunning(f"no class of {tenant} runs: {not_running(service, tenant).reason}")
    if is_given_up(shown):
        raise NotRunning(f"the class of {tenant} is given up", hint=f"weir explain {tenant} shows the reason")
    try:
        return answered(lambda: watch.source.answer_once(tenant, sql))
    except InvalidInput as problem:
        stream = service.snapshot.now.state.in_use(Ref("Stream", str(problem.value)))
        if problem.title != NO_SUCH_STREAM or stream is None:
            raise replace(problem, field="sql") from None
        title = f"no running query of {tenant} reads stream {stream.name}, so nothing of the stream is kept"
        raise InvalidInput(
            title, "sql", hint="add a continuous query over the stream, with a window of time"
        ) from None


def as_json(tenant: str, answers: dict[str, OneTimeAnswer]) -> dict[str, Any]:
    first = next(iter(answers.values()))
    rows = [row for answer in answers.values() for row in rows_of(answer.rows)]
    return {
        "tenant": tenant,
        "stream": first.stream,
        "range_s": first.range_us / 1e6,
        "columns": [{"name": name, "type": kind} for name, kind in first.columns],
        "rows": rows,
        "covers": [coverage(unit, answer) for unit, answer in answers.items()],
    }


def coverage(unit: str, answer: OneTimeAnswer) -> dict[str, Any]:
    """Return the event time that the answer of a unit covers."""
    times = (
        dict.fromkeys(TIMES)
        if answer.covers is None
        else dict(zip(TIMES, astuple(answer.covers), strict=True))
    )
    shown = {name: event_time(time_us) for name, time_us in times.items()}
    return {"unit": unit, **shown, "short": answer.is_short, "rows": answer.tuples, "kept": answer.kept}


def event_time(time_us: int | None) -> str | int | None:
    """Return a time as in rows: ISO 8601, or microseconds since 1970 outside the years 1 to 9999."""
    if time_us is None or not FIRST_US <= time_us <= LAST_US:
        return time_us
    (text,) = moments_of(pa.array([time_us], pa.timestamp("us")))
    return str(text)
