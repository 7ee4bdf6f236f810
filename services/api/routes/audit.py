"""Route of the audit log, for administrators: time, principal and changed fields of each change, without the fields' values."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import orjson
from fastapi import APIRouter, Query
from starlette.responses import Response

from services.api.callers import CallerOf
from services.api.problems import responses
from services.api.request_bodies import JSON
from services.api.routes.documents import LIMIT, After, Limit
from services.api.routes.keys import moment
from services.api.schemas import STRING, WHOLE, array, paged, record, response, typed
from services.api.service import Service

# Pattern of texts without NUL, which PostgreSQL cannot store.
TEXT = r"^[^\x00]*$"
Kind = Annotated[
    str | None,
    Query(
        max_length=20, pattern=TEXT, description="Kind of the changed items, for example `Tenant` or `Key`."
    ),
]
Name = Annotated[
    str | None,
    Query(max_length=160, pattern=TEXT, description="Name of the changed item; TENANT/QUERY for a query."),
]
ENTRY = record(
    {
        "id": WHOLE,
        "at": {"type": "string", "format": "date-time"},
        "who": typed("string", "Principal of the key, or user who ran the command."),
        "action": {"enum": ["created", "changed", "deleted", "revoked"]},
        "kind": STRING,
        "name": STRING,
        "fields": array(STRING),
    }
)
LISTED = response("Changes, latest first.", paged(ENTRY))


def router(service: Service) -> APIRouter:
    routes = APIRouter(prefix="/v1/audit", tags=["audit"])

    @routes.get("", operation_id="listAudit", responses=LISTED | responses("forbidden"))
    def list_audit(
        caller: CallerOf, kind: Kind = None, name: Name = None, limit: Limit = LIMIT, after: After = None
    ) -> Response:
        """List changes of declarations and keys, latest first."""
        caller.must_be_admin()
        before = None if after is None else int(after)
        entries = service.catalog.audit(most=limit + 1, kind=kind, name=name, before=before)
        shown = entries[:limit]
        following = str(shown[-1].id) if len(entries) > limit else None
        items = [asdict(entry) | {"at": moment(entry.at)} for entry in shown]
        return Response(orjson.dumps({"items": items, "next": following}), media_type=JSON)

    return routes
