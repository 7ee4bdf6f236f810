"""The description of the API, OpenAPI 3.1: what the routes say of themselves, and what all of them have in common.

python -m services.api.openapi            writes docs/openapi.json
python -m services.api.openapi --check    says whether it is as the routes are; exit code 1 if not
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
    "Continuous queries for many tenants, each with what it was promised. Every call shows a key, "
    "`Authorization: Bearer weir_…`, but those of health. Errors are RFC 9457 problems."
)
TAGS = [
    {
        "name": "declarations",
        "description": "Priority classes, tenants, queries, streams, feeds, the session.",
    },
    {"name": "keys", "description": "Who may do what."},
    {"name": "audit", "description": "Who has changed what."},
    {"name": "live", "description": "What runs: how classes fare, and why; the ledger, lending, history."},
    {"name": "plan", "description": "What would become of delay targets."},
    {"name": "feeds", "description": "What Spark is to bring, for the process that brings it."},
    {"name": "health", "description": "Without a key."},
]
COMMON = responses("malformed", "unauthenticated", "too-many-requests", "head-too-large")
# What the framework adds of its own accord; ours are problems.
FOREIGN = ("HTTPValidationError", "ValidationError")


def describe(app: FastAPI) -> dict[str, Any]:
    """Of an application with all its routes."""
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
    assert not ours.keys() & schemas.keys(), "a model of a route has the name of a declaration's"
    schemas |= ours
    description["components"]["schemas"] = dict(sorted(schemas.items()))
    description["components"]["securitySchemes"] = {
        KEY: {
            "type": "http",
            "scheme": "bearer",
            "description": "A key, as `weir keys create` shows it once.",
        }
    }
    description["security"] = [{KEY: []}]
    return description


def complete(operation: dict[str, Any], is_open: bool) -> None:
    """With what all routes have."""
    answers: dict[str, Any] = operation["responses"]
    invalid = answers.get("422")
    if invalid is None or "application/json" in invalid.get("content", {}):
        answers.pop("422", None)
        if not is_open:
            # Of parameters, also where there should be none.
            answers |= keyed(responses("invalid"))
    if is_open:
        operation["security"] = []
    else:
        for status, answer in keyed(COMMON).items():
            answers.setdefault(status, answer)
    operation["responses"] = dict(sorted(answers.items()))


def keyed(told: dict[int | str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {str(status): answer for status, answer in told.items()}


def text_of(description: dict[str, Any]) -> str:
    return json.dumps(description, indent=1, ensure_ascii=False, sort_keys=False) + "\n"


def described() -> str:
    """Of the routes as they are; nothing runs for it."""
    from services.api.app import make_app
    from services.api.service import service_of
    from services.catalog.catalog import opened
    from services.common.weir_home import Home

    with tempfile.TemporaryDirectory() as folder, opened(Home(Path(folder))) as catalog:
        return text_of(make_app(service_of(catalog)).openapi())


def main(arguments: list[str]) -> int:
    text = described()
    if "--check" in arguments:
        return int(not FILE.exists() or FILE.read_text(encoding="utf-8") != text)
    FILE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
