"""Route that takes rows of a stream over HTTP, for producers without Arrow Flight."""

from __future__ import annotations

from typing import Annotated

import orjson
from fastapi import APIRouter, Header, Path, Query, Request
from starlette.responses import Response

from configs.documents.declarations import Ref, StreamDeclaration
from configs.errors import Away, InvalidInput
from engine.data.schema import StreamSchema
from engine.sql import parse_create_stream
from services.api.callers import Caller, CallerOf, unknown
from services.api.problems import (
    BODY_PROBLEMS,
    Malformed,
    NotRunning,
    TooLarge,
    TooManyRequests,
    UnsupportedMedia,
    responses,
    retry_after,
)
from services.api.request_bodies import JSON, Content, media_type
from services.api.routes.results import ARROW, BINARY
from services.api.schemas import STRING, WHOLE, array, body, content, record, response, typed
from services.api.service import Service, running
from services.results.row_parsing import Brought, NotReadable, TooMany, from_arrow, from_json, from_lines
from services.results.rows import NoRoom

NDJSON = ("application/x-ndjson", "application/ndjson", "application/jsonl")
KEY_MAX = 255

PathName = Annotated[str, Path(max_length=200)]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=KEY_MAX,
        description="Name of the batch: rows that are sent again with the same Idempotency-Key are published only once.",
    ),
]
Force = Annotated[
    bool, Query(description="Accept rows for a stream even if a source or a feed supplies its rows.")
]
EXAMPLE = [{"ts": "2026-01-01T00:00:00Z", "value": 1}]
BODY = body(
    content(array({"type": "object"}), example=EXAMPLE)
    | content(STRING, NDJSON[0], example='{"ts":"2026-01-01T00:00:00Z","value":1}\n')
    | content(BINARY, ARROW)
)
TOLD = record(
    {
        "accepted": WHOLE,
        "rejected": WHOLE,
        "reasons": {"type": "object", "additionalProperties": WHOLE},
        "repeated": typed("boolean", "True if the rows had been sent before with the same Idempotency-Key."),
    }
)
ANSWERS = response("Number of accepted and rejected rows.", TOLD)
PROBLEMS = BODY_PROBLEMS | responses("forbidden", "not-found", "not-running")


def router(service: Service) -> APIRouter:
    routes = APIRouter(prefix="/v1/streams", tags=["results"])

    @routes.post(
        "/{stream}/rows",
        operation_id="postRows",
        responses={**ANSWERS, **PROBLEMS},
        openapi_extra=BODY,
    )
    def post_rows(
        request: Request,
        caller: CallerOf,
        content: Content,
        stream: PathName,
        idempotency_key: IdempotencyKey = None,
        force: Force = False,
    ) -> Response:
        """Put rows into a stream. `force` is required if a source or a feed supplies the rows of the stream."""
        caller.must_ingest(stream)
        schema, sql = declared(service, caller, stream)
        if not force:
            must_not_be_fed(service, caller, schema.name)
        rows = running(service.rows, service)
        try:
            brought = read(schema, media_type(request), content)
            outcome = rows.bring(schema, sql, brought, caller.principal, idempotency_key)
        except NotReadable as problem:
            raise Malformed(problem.title, hint=problem.hint) from None
        except TooMany as problem:
            raise TooLarge(problem.title, value=problem.value, hint=problem.hint) from None
        except NoRoom as problem:
            headers = retry_after(problem.retry_after_s)
            raise TooManyRequests(
                problem.title, problem.field, problem.value, problem.hint, headers=headers
            ) from None
        except Away as problem:
            raise NotRunning(problem.title, problem.field, problem.value, problem.hint) from None
        return Response(orjson.dumps(outcome), media_type=JSON)

    return routes


def declared(service: Service, caller: Caller, stream: str) -> tuple[StreamSchema, str]:
    """Return the stream's columns and its SQL declaration. The case of the stream's name is ignored."""
    state = service.snapshot.now.state
    ref = state.in_use(Ref("Stream", stream))
    if ref is None:
        raise unknown(service, caller, Ref("Stream", stream))
    declaration = state[ref].declaration
    assert isinstance(declaration, StreamDeclaration)
    sql = declaration.declaration(ref.name)
    return parse_create_stream(sql), sql


def must_not_be_fed(service: Service, caller: Caller, stream: str) -> None:
    """Raise InvalidInput if a source or a feed supplies the rows of the stream."""
    for name, feed in service.feeds_declared().items():
        if stream.lower() in map(str.lower, feed.streams):
            is_own = name.lower() == stream.lower()
            # A producer's key may not see the names of feeds, so the message for such a key leaves the name out.
            fed_by = "its source" if is_own else f"feed {name}" if caller.is_admin else "a feed"
            title = f"stream {stream} is fed by {fed_by}: rows put by hand would mix with its rows"
            hint = "add force=true (`weir rows put --force`) to put rows anyway, for example to repair a gap"
            raise InvalidInput(title, "?force", hint=hint)


def read(schema: StreamSchema, media: str, content: bytes) -> Brought:
    if media == JSON:
        return from_json(schema, content)
    if media in NDJSON:
        return from_lines(schema, content)
    if media == ARROW:
        return from_arrow(content)
    hint = f"send {JSON}, {NDJSON[0]} or {ARROW}"
    raise UnsupportedMedia("rows cannot be sent in this media type", "header Content-Type", media, hint)
