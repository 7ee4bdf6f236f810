"""Route of the admission plan: a forecast of which delay targets would hold, and what other classes would lose, if documents were declared.

The plan changes nothing. A tenant plans for its own queries, and sees the losses of other classes without their names.
"""

from __future__ import annotations

from typing import Annotated

import orjson
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from configs.errors import InvalidInput
from services.api.callers import CallerOf
from services.api.problems import BODY_PROBLEMS, responses
from services.api.request_bodies import JSON, Content
from services.api.routes.documents import documents_of, must_declare
from services.api.schemas import APPLY_BODY, STRING, array, record, response, typed
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
MAYBE = ["number", "null"]
FORECAST = {
    "type": ["object", "null"],
    "properties": {
        "share": typed("number", "Mean share of the class, as a fraction of the lanes."),
        "load": typed("number", "Load that is offered to the class, in processors."),
        "drop": typed("number", "Fraction of the class's input that is lost."),
        "mean_ms": {"type": MAYBE},
        "p95_ms": {"type": MAYBE},
        "p99_ms": {"type": MAYBE},
        "within_target": typed(MAYBE, "Fraction of the class's answers that come within the delay target."),
        "falls_behind": typed(
            "boolean", "True if the class's queue keeps growing for as long as the load lasts."
        ),
    },
}
CLASS = record(
    {
        "name": STRING,
        "target_ms": NUMBER,
        "max_drop": NUMBER,
        "planned": typed("boolean", "True if the documents add or change this class."),
        "before": FORECAST,
        "after": FORECAST,
        "at_worst": FORECAST,
        "holds": FLAG,
        "why": STRING,
    }
)
PLAN = record(
    {
        "holds": typed("boolean", "True if every delay target that must hold also holds in the worst case."),
        "holds_now": typed(
            "boolean", "True if every delay target that must hold holds with the present load."
        ),
        "busy": typed("number", "Fraction of the lanes' time that would be used after the change."),
        "classes": array(CLASS),
        "warnings": array(STRING),
        "assumed": array(STRING)
        | {"description": "Values that the plan assumes because measurements are missing, as texts."},
    }
)
PLANNED = response("Forecast of which delay targets would hold.", PLAN)
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
                "the expected rate of a stream is not of the form STREAM:ROWS",
                "?rate",
                rate,
                f"write, for example, {RATE}",
            )
    return rates
