"""Routes of keys: made and shown once, listed, revoked. For administrators."""

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
from services.api.schemas import TIMES, content, paged, ref, schema_of
from services.api.service import Service
from services.catalog.keys import IssuedKey

TEN_YEARS_S = 10 * 366 * 86_400.0
Scope = Annotated[str, Field(min_length=1, max_length=10_000)]


class KeyRequest(Settings):
    """Whose the key is, and what it may do."""

    principal: Name
    """Named in the audit log; two live keys at most."""

    scopes: Annotated[tuple[Scope, ...], Field(min_length=1, max_length=1000)]
    """`admin`, `tenant:NAME`, `ingest:STREAM,…`, `metrics`."""

    expires_s: Annotated[float | None, Field(gt=0, le=TEN_YEARS_S)] = None
    """Seconds from now; without it the key does not expire."""


def router(service: Service) -> APIRouter:
    routes = APIRouter(prefix="/v1/keys", tags=["keys"])

    @routes.get("", operation_id="listKeys", responses=LISTED | responses("forbidden"))
    def list_keys(caller: CallerOf, limit: Limit = LIMIT, after: After = None) -> Response:
        """All of them, also those that are no more; not what they are."""
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
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": content(
                    schema_of(KeyRequest), example={"principal": "feeder", "scopes": ["ingest:ticks"]}
                ),
            }
        },
    )
    def create_key(request: Request, caller: CallerOf, body: Content) -> Response:
        """Make a key. It is shown now and never again."""
        caller.must_be_admin()
        key_request = read_model(KeyRequest, request, body)
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
        """Nobody comes in with the key any more: at once here, within seconds at gateways."""
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
    """To the second; None of what has not been."""
    return None if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# -- as they are described -------------------------------------------------------------------------------------

MADE = {
    "allOf": [
        ref("Key"),
        {"type": "object", "required": ["key"], "properties": {"key": {"type": "string"}}},
    ]
}
LISTED: dict[int | str, dict[str, Any]] = {
    200: {"description": "The oldest first.", "content": content(paged(ref("Key")))}
}
CREATED: dict[int | str, dict[str, Any]] = {
    201: {"description": "The key, which nobody can find out again.", "content": content(MADE)}
}
REVOKED: dict[int | str, dict[str, Any]] = {204: {"description": "Nobody comes in with it any more."}}
