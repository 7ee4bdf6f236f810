"""Route of the admission plan: would delay targets hold with these documents, and what would the others lose?

Nothing is changed. A tenant's key plans for its own queries, and reads what others would lose, but not who they are.
"""

from __future__ import annotations

from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from configs.errors import InvalidInput
from services.api.callers import CallerOf
from services.api.problems import BODY_PROBLEMS, responses
from services.api.request_bodies import JSON, Content
from services.api.routes.documents import documents_of, must_declare
from services.api.schemas import APPLY_BODY, STRING
from services.api.schemas import content as described
from services.api.service import Service, running

RATES_MAX = 100
RATE = "ticks:5000"
Rates = Annotated[
    list[str] | None,
    Query(
        max_length=RATES_MAX,
        description=f"STREAM:ROWS, rows a second that will come on a stream; may be repeated. `{RATE}`",
    ),
]

NUMBER, FLAG = {"type": "number"}, {"type": "boolean"}
MAYBE = {"type": ["number", "null"]}
FORECAST: dict[str, Any] = {
    "type": ["object", "null"],
    "properties": {
        "share": {"type": "number", "description": "Of the lanes, on the mean."},
        "load": {"type": "number", "description": "Processors that are asked for."},
        "drop": {"type": "number", "description": "Part of the input that is lost."},
        "mean_ms": MAYBE,
        "p95_ms": MAYBE,
        "p99_ms": MAYBE,
        "within_target": {**MAYBE, "description": "Part of the answers that come in time."},
        "falls_behind": {"type": "boolean", "description": "Its queue grows as long as this goes on."},
    },
}
CLASS: dict[str, Any] = {
    "type": "object",
    "required": ["name", "target_ms", "max_drop", "planned", "before", "after", "at_worst", "holds", "why"],
    "properties": {
        "name": STRING,
        "target_ms": NUMBER,
        "max_drop": NUMBER,
        "planned": {"type": "boolean", "description": "Whether the documents are about it."},
        "before": FORECAST,
        "after": FORECAST,
        "at_worst": FORECAST,
        "holds": FLAG,
        "why": STRING,
    },
}
PLAN: dict[str, Any] = {
    "type": "object",
    "required": ["holds", "holds_now", "busy", "classes", "warnings", "assumed"],
    "properties": {
        "holds": {"type": "boolean", "description": "All targets that are to hold do, also at worst."},
        "holds_now": {"type": "boolean", "description": "The same with the load that there is."},
        "busy": {"type": "number", "description": "Part of the lanes' time that is used afterwards."},
        "classes": {"type": "array", "items": CLASS},
        "warnings": {"type": "array", "items": STRING},
        "assumed": {
            "type": "array",
            "items": STRING,
            "description": "What was not measured, and what was taken instead.",
        },
    },
}
PLANNED: dict[int | str, dict[str, Any]] = {
    200: {"description": "What would become of delay targets.", "content": described(PLAN)}
}
PROBLEMS = BODY_PROBLEMS | responses("forbidden", "not-found", "not-running")


def router(service: Service) -> APIRouter:
    routes = APIRouter(prefix="/v1", tags=["plan"])

    @routes.post("/plan", operation_id="plan", responses=PLANNED | PROBLEMS, openapi_extra=APPLY_BODY)
    def plan(request: Request, caller: CallerOf, content: Content, rate: Rates = None) -> Response:
        """Say what would become of delay targets if the documents were declared."""
        caller.must_have_tenant()
        documents = documents_of(request, content)
        for document in documents:
            must_declare(caller, document)
        tenants = None if caller.is_admin else caller.tenants
        answer = running(service.planner, service).plan(documents, rates_of(rate or ()), tenants)
        return Response(orjson.dumps(answer.as_json()), media_type=JSON)

    return routes


def rates_of(told: list[str] | tuple[str, ...]) -> dict[str, float]:
    """Rows a second by stream."""
    rates = {}
    for rate in told:
        stream, _, rows = rate.rpartition(":")
        try:
            rates[stream] = float(rows)
        except ValueError:
            stream = ""
        if not stream:
            raise InvalidInput("not STREAM:ROWS", "?rate", rate, f"write it as {RATE}")
    return rates
