"""OpenAPI 3.1 description of the API, made from the routes and completed by the errors and keys that all routes have in common.

`python -m services.api.openapi` writes docs/openapi.json. With `--check`, it exits with 1 if docs/openapi.json differs from the routes.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from services.api.problems import responses
from services.api.schemas import components

FILE = Path(__file__).parents[2] / "docs" / "openapi.json"
KEY = "key"
OPEN = ("/healthz", "/readyz")
DESCRIPTION = (
    "REST API of Weir, a service for continuous queries of many tenants. Every call except health checks needs a key: "
    "`Authorization: Bearer weir_…`. Errors are problem documents (RFC 9457)."
)
TAGS = [
    {
        "name": "declarations",
        "description": "Priority classes, tenants, queries, streams, feeds, mirrors, notices and the Spark session.",
    },
    {"name": "keys", "description": "API keys and their scopes."},
    {"name": "audit", "description": "Log of changes of declarations and keys."},
    {
        "name": "live",
        "description": "Running system: status of classes, decisions, ledgers, lending, history.",
    },
    {"name": "plan", "description": "Forecast of which delay targets would hold after a change."},
    {"name": "feeds", "description": "Feeds for the process that runs Spark, and its progress reports."},
    {"name": "health", "description": "Health checks, which need no key."},
]
COMMON = responses("malformed", "unauthenticated", "too-many-requests", "head-too-large")
# Schemas of errors that the framework adds; they are removed, because Weir's errors are problems.
FOREIGN = ("HTTPValidationError", "ValidationError")


def describe(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI description of an application with all its routes."""
    description = get_openapi(
        title=app.title,
        version=app.version,
        openapi_version="3.1.0",
        description=DESCRIPTION,
        routes=app.routes,
        tags=TAGS,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
    )
    for path, operations in description["paths"].items():
        for operation in operations.values():
            complete(operation, is_open=path in OPEN)
    schemas = description.setdefault("components", {}).setdefault("schemas", {})
    for name in FOREIGN:
        schemas.pop(name, None)
    ours = components()
    assert not ours.keys() & schemas.keys(), "a route's model has the same name as a declaration's schema"
    schemas |= ours
    description["components"]["schemas"] = dict(sorted(schemas.items()))
    about_key = "API key; `weir keys create` prints it once."
    description["components"]["securitySchemes"] = {
        KEY: {"type": "http", "scheme": "bearer", "description": about_key}
    }
    description["security"] = [{KEY: []}]
    return description


def complete(operation: dict[str, Any], is_open: bool) -> None:
    """Add the error responses and the API-key scheme that all routes share to the description of an operation."""
    answers: dict[str, Any] = operation["responses"]
    invalid = answers.get("422")
    if invalid is None or "application/json" in invalid.get("content", {}):
        answers.pop("422", None)
        if not is_open:
            # Every route with a key can return the problem `invalid`: even a route without parameters refuses unknown parameters.
            answers["422"] = responses("invalid")[422]
    if is_open:
        operation["security"] = []
    else:
        for status, answer in COMMON.items():
            answers.setdefault(str(status), answer)
    operation["responses"] = dict(sorted(answers.items()))


def described() -> str:
    """Return the OpenAPI description of all routes as JSON text, made without a running system."""
    from services.api.app import make_app
    from services.api.service import service_of
    from services.catalog.catalog import opened
    from services.common.weir_home import Home

    with tempfile.TemporaryDirectory() as folder, opened(Home(Path(folder))) as catalog:
        description = make_app(service_of(catalog)).openapi()
    return json.dumps(description, indent=1, ensure_ascii=False) + "\n"


def main(arguments: list[str]) -> int:
    text = described()
    if "--check" in arguments:
        return int(not FILE.exists() or FILE.read_text(encoding="utf-8") != text)
    FILE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
