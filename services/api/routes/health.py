"""Health checks without a key: the service listens (/healthz), and everything declared runs (/readyz)."""

from __future__ import annotations

from collections import Counter

from fastapi import APIRouter
from starlette.responses import JSONResponse

from services.api.problems import NotRunning, responses
from services.api.service import ASK_AGAIN, Service
from services.watch.states import TROUBLED


def health(service: Service) -> APIRouter:
    routes = APIRouter(tags=["health"])

    @routes.get("/healthz", operation_id="isHealthy")
    async def check_health() -> JSONResponse:
        """Answer 200 as soon as the service listens."""
        return JSONResponse({"status": "ok"})

    @routes.get("/readyz", operation_id="isReady", responses=responses("not-running"))
    async def check_readiness() -> JSONResponse:
        """Answer 200 once everything declared has been started, with the number of classes in each state that needs attention."""
        missing = service.waits_for()
        if missing:
            raise NotRunning(missing, hint=ASK_AGAIN)
        return JSONResponse({"status": "ready"} | troubles(service))

    return routes


def troubles(service: Service) -> dict[str, dict[str, int]]:
    """Return the number of classes in each state that needs attention; class names are left out, because callers need no key."""
    if service.watch is None:
        return {}
    counts = Counter(state.value for state in service.watch.states() if state in TROUBLED)
    return {"classes": dict(sorted(counts.items()))} if counts else {}
