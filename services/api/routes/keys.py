"""Routes of API keys, for administrators: create a key (its secret is shown once), list keys, revoke a key."""

from __future__ import annotations

import time
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Path, Request
from pydantic import Field
from starlette.responses import Response

from configs.base import Name, Settings
from configs.errors import UnknownName
from services.api.callers import CallerOf, not_there
from services.api.problems import BODY_PROBLEMS, responses
from services.api.request_bodies import JSON, Content, read_model
from services.api.routes.documents import LIMIT, After, Limit
from services.api.schemas import (
    STRING,
    TIMES,
    RouteResponses,
    body,
    content,
    paged,
    record,
    ref,
    response,
    schema_of,
)
from services.api.service import Service
from services.catalog.keys import IssuedKey

TEN_YEARS_S = 10 * 366 * 86_400.0
Scope = Annotated[str, Field(min_length=1, max_length=10_000)]


class KeyRequest(Settings):
    """Principal and scopes of a new key."""

    principal: Name
    """Name of the key's owner in the audit log; at most two live keys per principal."""

    scopes: Annotated[tuple[Scope, ...], Field(min_length=1, max_length=1000)]
    """Scopes of the key: `admin`, `tenant:NAME`, `ingest:STREAM,…`, `metrics` or `feeds`."""

    expires_s: Annotated[float | None, Field(gt=0, le=TEN_YEARS_S)] = None
    """Seconds from now until the key expires; a key without this field does not expire."""


def router(service: Service) -> APIRouter:
    routes = APIRouter(prefix="/v1/keys", tags=["keys"])

    @routes.get("", operation_id="listKeys", responses=LISTED | responses("forbidden"))
    def list_keys(caller: CallerOf, limit: Limit = LIMIT, after: After = None) -> Response:
        """List all keys, including expired and revoked keys, without their secrets."""
        caller.must_be_admin()
        keys = service.catalog.keys.all()
        first = 0 if after is None else int(after)
        shown = keys[first : first + limit]
        following = str(first + limit) if first + limit < len(keys) else None
        content = {"items": list(map(key_told, shown)), "next": following}
        return Response(orjson.dumps(content), media_type=JSON)

    @routes.post(
        "",
        operation_id="createKey",
        status_code=201,
        responses=CREATED | BODY_PROBLEMS | responses("forbidden"),
        openapi_extra=body(
            content(schema_of(KeyRequest), example={"principal": "feeder", "scopes": ["ingest:ticks"]})
        ),
    )
    def create_key(request: Request, caller: CallerOf, content: Content) -> Response:
        """Create a key. The answer is the only place where its secret is shown."""
        caller.must_be_admin()
        key_request = read_model(KeyRequest, request, content)
        expires_at = None if key_request.expires_s is None else time.time() + key_request.expires_s
        key, info = service.catalog.keys.create(
            key_request.principal, key_request.scopes, caller.principal, expires_at
        )
        service.snapshot.refresh()
        body_shown = orjson.dumps({"key": key, **key_told(info)})
        return Response(body_shown, 201, {"Cache-Control": "no-store"}, JSON)

    @routes.delete(
        "/{id}",
        operation_id="revokeKey",
        status_code=204,
        responses=REVOKED | responses("forbidden", "not-found"),
    )
    def revoke_key(caller: CallerOf, id: Annotated[str, Path(max_length=200)]) -> Response:
        """Revoke a key, at once for this API and within seconds at gateways."""
        caller.must_be_admin()
        try:
            service.catalog.keys.revoke(id, caller.principal)
        except UnknownName:
            raise not_there("Key", id) from None
        service.snapshot.refresh()
        return Response(status_code=204)

    return routes


def key_told(one: IssuedKey) -> dict[str, Any]:
    fields = asdict(one)
    return fields | {name: moment(fields[name]) for name in TIMES}


def moment(at: float | None) -> str | None:
    """Return the time as ISO 8601 text with seconds; None for an event that has not happened."""
    return None if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


MADE = {"allOf": [ref("Key"), record({"key": STRING})]}
LISTED = response("Keys, oldest first.", paged(ref("Key")))
CREATED = response("The created key; its secret is shown only in this answer.", MADE, status=201)
REVOKED: RouteResponses = {204: {"description": "The key was revoked."}}
