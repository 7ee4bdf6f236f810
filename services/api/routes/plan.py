"""Route of the admission plan: a forecast of which delay targets would hold, and what other classes would lose, if documents were declared.

The plan changes nothing. A tenant plans for its own queries, and sees the losses of other classes without their names.
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
        description=f"Expected rows per second of a stream, as STREAM:ROWS, for example `{RATE}`; repeat the parameter for other streams.",
    ),
]

NUMBER, FLAG = {"type": "number"}, {"type": "boolean"}
MAYBE = {"type": ["number", "null"]}
FORECAST: dict[str, Any] = {
    "type": ["object", "null"],
    "properties": {
        "share": {"type": "number", "description": "Mean share of the class, as a fraction of the lanes."},
        "load": {"type": "number", "description": "Load that is offered to the class, in processors."},
        "drop": {"type": "number", "description": "Fraction of the class's input that is lost."},
        "mean_ms": MAYBE,
        "p95_ms": MAYBE,
        "p99_ms": MAYBE,
        "within_target": {
            **MAYBE,
            "description": "Fraction of the class's answers that come within the delay target.",
        },
        "falls_behind": {
            "type": "boolean",
            "description": "True if the class's queue keeps growing for as long as the load lasts.",
        },
    },
}
CLASS: dict[str, Any] = {
    "type": "object",
    "required": ["name", "target_ms", "max_drop", "planned", "before", "after", "at_worst", "holds", "why"],
    "properties": {
        "name": STRING,
        "target_ms": NUMBER,
        "max_drop": NUMBER,
        "planned": {"type": "boolean", "description": "True if the documents add or change this class."},
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
        "holds": {
            "type": "boolean",
            "description": "True if every delay target that must hold also holds in the worst case.",
        },
        "holds_now": {
            "type": "boolean",
            "description": "True if every delay target that must hold holds with the present load.",
        },
        "busy": {
            "type": "number",
            "description": "Fraction of the lanes' time that would be used after the change.",
        },
        "classes": {"type": "array", "items": CLASS},
        "warnings": {"type": "array", "items": STRING},
        "assumed": {
            "type": "array",
            "items": STRING,
            "description": "Values that the plan assumes because measurements are missing, as texts.",
        },
    },
}
PLANNED: dict[int | str, dict[str, Any]] = {
    200: {"description": "Forecast of which delay targets would hold.", "content": described(PLAN)}
}
PROBLEMS = BODY_PROBLEMS | responses("forbidden", "not-found", "not-running")


def router(service: Service) -> APIRouter:
    routes = APIRouter(prefix="/v1", tags=["plan"])

    @routes.post("/plan", operation_id="plan", responses=PLANNED | PROBLEMS, openapi_extra=APPLY_BODY)
    def plan(request: Request, caller: CallerOf, content: Content, rate: Rates = None) -> Response:
        """Forecast the delay targets as if the documents were declared."""
        caller.must_have_tenant()
        documents = documents_of(request, content)
        for document in documents:
            must_declare(caller, document)
        tenants = None if caller.is_admin else caller.tenants
        answer = running(service.planner, service).plan(documents, rates_of(rate or ()), tenants)
        return Response(orjson.dumps(answer.as_json()), media_type=JSON)

    return routes


def rates_of(told: list[str] | tuple[str, ...]) -> dict[str, float]:
    """Return the request's expected rates in rows per second, by stream name; raise InvalidInput for a wrong rate."""
    rates = {}
    for rate in told:
        stream, _, rows = rate.rpartition(":")
        try:
            rates[stream] = float(rows)
        except ValueError:
            stream = ""
        if not stream:
            raise InvalidInput(
                "the rate is not of the form STREAM:ROWS", "?rate", rate, f"write, for example, {RATE}"
            )
    return rates
