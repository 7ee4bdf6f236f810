"""Route that Prometheus scrapes, with a key for metrics."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from services.api.callers import CallerOf
from services.api.routes.live import answered
from services.api.service import Service, running

PATH = "/metrics"


def router(service: Service) -> APIRouter:
    routes = APIRouter()

    # The response is in Prometheus's text format, which OpenAPI cannot describe; docs/metrics.md describes all metrics.
    @routes.get(PATH, include_in_schema=False)
    def metrics(caller: CallerOf) -> Response:
        """Return all metric families of all tenants."""
        caller.must_see_metrics()
        collector = running(service.metrics, service)
        return Response(answered(collector.text), media_type=collector.content_type)

    return routes
