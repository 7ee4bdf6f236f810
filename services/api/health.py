"""Whether the service is there, and whether everything that is declared runs: for whoever starts and watches it, without a key."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import JSONResponse

from services.api.problems import NotRunning, responses
from services.api.service import Service


def health(service: Service) -> APIRouter:
    routes = APIRouter(tags=["health"])

    @routes.get("/healthz", operation_id="isHealthy")
    async def is_healthy() -> JSONResponse:
        """It listens."""
        return JSONResponse({"status": "ok"})

    @routes.get("/readyz", operation_id="isReady", responses=responses("not-running"))
    async def is_ready() -> JSONResponse:
        """The system is up, and everything that is declared has been started."""
        missing = service.waits_for()
        if missing:
            raise NotRunning(missing, hint="it is being started; ask again")
        return JSONResponse({"status": "ready"})

    return routes
