"""Whether the service is there, and whether everything that is declared runs: for whoever starts and watches it, without a key."""

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
    async def is_healthy() -> JSONResponse:
        """It listens."""
        return JSONResponse({"status": "ok"})

    @routes.get("/readyz", operation_id="isReady", responses=responses("not-running"))
    async def is_ready() -> JSONResponse:
        """The system is up, and everything that is declared has been started; with the number of classes that are in trouble."""
        missing = service.waits_for()
        if missing:
            raise NotRunning(missing, hint=ASK_AGAIN)
        return JSONResponse({"status": "ready"} | troubles(service))

    return routes


def troubles(service: Service) -> dict[str, dict[str, int]]:
    """Return the number of classes in each state that needs attention; without names, since callers show no key."""
    if service.watch is None:
        return {}
    counts = Counter(state.value for state in service.watch.states() if state in TROUBLED)
    return {"classes": dict(sorted(counts.items()))} if counts else {}
