"""FastAPI application of the service: the check of keys and limits for every request, and the routes of all resources."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import Any

import orjson
from fastapi import Depends, FastAPI, Request
from starlette.responses import Response

from configs.errors import InvalidInput, UnknownName, nearest
from services.api import openapi, problems
from services.api.callers import Gatekeeper
from services.api.request_bodies import JSON
from services.api.routes import (
    ask,
    audit,
    caller,
    console,
    documents,
    feed_status,
    feeds,
    history,
    keys,
    live,
    metrics,
    mirrors,
    plan,
    results,
    rows,
)
from services.api.routes.health import health
from services.api.service import Service

ROUTERS = (
    *(documents, keys, caller, audit, results, rows, ask, live, mirrors, history, plan, feeds),
    feed_status,
)


class App(FastAPI):
    """FastAPI application with Weir's own OpenAPI description."""

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            self.openapi_schema = openapi.describe(self)
        return self.openapi_schema


async def check_parameters(request: Request) -> None:
    """Refuse unknown and repeated query parameters. Otherwise a request with a misspelt `dry_run` would make the change."""
    if not request.scope["query_string"]:
        return
    path, method = request.scope["route"].path_format, request.method.lower()
    parameters = request.app.openapi()["paths"][path][method].get("parameters", ())
    schemas = {
        parameter["name"]: parameter["schema"] for parameter in parameters if parameter["in"] == "query"
    }
    names = set()
    for name, value in request.query_params.multi_items():
        if name not in schemas:
            raise UnknownName("unknown query parameter", f"?{name}", hint=nearest(name, schemas))
        if name in names and '"array"' not in json.dumps(schemas[name]):
            raise InvalidInput(
                "the query parameter occurs twice", f"?{name}", value, "send the parameter once"
            )
        names.add(name)


def make_app(service: Service) -> FastAPI:
    """Return the application with all routes, for one service."""
    app = App(
        title="Weir",
        version=version("weir"),
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    problems.install(app)
    app.include_router(health(service))
    for part in ROUTERS:
        app.include_router(part.router(service), dependencies=[Depends(check_parameters)])
    app.include_router(metrics.router(service))
    app.include_router(console.router(service))

    @app.get("/openapi.json", include_in_schema=False)
    async def description() -> Response:
        return Response(orjson.dumps(app.openapi()), media_type=JSON)

    app.add_middleware(Gatekeeper, service=service)
    return app
