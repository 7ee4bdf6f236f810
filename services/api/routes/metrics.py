"""What Prometheus scrapes, by who has a key for it."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from services.api.callers import CallerOf
from services.api.routes.live import answered
from services.api.service import Service, running

PATH = "/metrics"


def router(service: Service) -> APIRouter:
    routes = APIRouter()

    # A text of Prometheus's, which a description of JSON says nothing of: docs/metrics.md does.
    @routes.get(PATH, include_in_schema=False)
    def metrics(caller: CallerOf) -> Response:
        """All families, of all tenants."""
        caller.must_see_metrics()
        collector = running(service.metrics, service)
        return Response(answered(collector.text), media_type=collector.content_type)

    return routes
