"""How bodies are described: the documents' schemas are those of their models, so that words cannot drift from rules."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from configs.documents.declarations import DOCUMENTS_MAX, KINDS
from services.api.request_bodies import JSON, YAML

COMPONENTS = "#/components/schemas/"
# The path says them.
SAID_BY_PATH = ("kind", "tenant", "name")
ETAG = {"ETag": {"description": "The version, to be sent as If-Match.", "schema": {"type": "string"}}}
WARNING = {
    "Weir-Warning": {"description": "Whose delay target would be missed.", "schema": {"type": "string"}}
}
STRING, WHOLE = {"type": "string"}, {"type": "integer"}

EXAMPLES: dict[str, dict[str, Any]] = {
    "PriorityClass": {"priority": 8, "delay_target_ms": 200, "max_drop": 0.1, "limits": {"queries": 50}},
    "Tenant": {"priority_class": "gold", "overrides": {"delay_target_ms": 400}, "limits": {"queries": 20}},
    "Query": {"sql": "SELECT * FROM ticks WHERE value % 2 = 1"},
    "Stream": {"columns": {"ts": "timestamp", "value": "int64"}, "time": "ts"},
    "Feed": {
        "source": {
            "format": "parquet",
            "options": {"path": "in/sensors"},
            "schema": "ts TIMESTAMP, sensor INT, temp DOUBLE",
        },
        "streams": {"hot": {"where": "temp > 30"}},
    },
    "Mirror": {
        "sql": "CREATE MIRROR one (item string, price float64) FROM HTTP 'http://shop.example/items/{key}' "
        "KEYS ('apple', 'pear') BANDWIDTH 50 PER SECOND"
    },
    "Session": {"master": "local[1]", "conf": {"spark.driver.memory": "1g"}},
}


def ref(name: str) -> dict[str, str]:
    return {"$ref": COMPONENTS + name}


def content(schema: dict[str, Any], *media: str, example: Any = None) -> dict[str, Any]:
    description = {"schema": schema} if example is None else {"schema": schema, "example": example}
    return dict.fromkeys(media or (JSON,), description)


# -- bodies and answers ----------------------------------------------------------------------------------------


def document_body(kind: str) -> dict[str, Any]:
    """Of a PUT."""
    described = content(ref(kind), JSON, YAML[0], example=EXAMPLES[kind])
    return {"requestBody": {"required": True, "content": described}}


def document_answer(kind: str, told: str = "The document, without secrets.") -> dict[str, Any]:
    example = {"kind": kind, "name": "spark" if kind == "Session" else "one", **EXAMPLES[kind]}
    return {"description": told, "headers": ETAG, "content": content(ref(kind), example=example)}


def document_answers(kind: str) -> dict[int | str, dict[str, Any]]:
    return {200: document_answer(kind)}


def put_answers(kind: str) -> dict[int | str, dict[str, Any]]:
    created = document_answer(kind, "It was not there before.")
    kept = document_answer(kind, "It is there now, changed or as it was; with `dry_run`, what would change.")
    kept["content"] = content({"anyOf": [ref(kind), ref("Changes")]})
    return {200: kept | {"headers": ETAG | WARNING}, 201: created | {"headers": ETAG | WARNING}}


def list_answer(kind: str) -> dict[int | str, dict[str, Any]]:
    item = {
        "type": "object",
        "required": ["version", "document"],
        "properties": {"version": WHOLE, "document": ref(kind)},
    }
    return {
        200: {"description": "In the order in which they were declared.", "content": content(paged(item))}
    }


def paged(item: dict[str, Any]) -> dict[str, Any]:
    """A list, and where it goes on."""
    return {
        "type": "object",
        "required": ["items", "next"],
        "properties": {
            "items": {"type": "array", "items": item},
            "next": {"type": ["string", "null"], "description": "`after` of the next page; null at the end."},
        },
    }


DELETED: dict[int | str, dict[str, Any]] = {
    204: {"description": "It is not there any more."},
    200: {"description": "With `dry_run`: it could be deleted.", "content": content(ref("Changes"))},
}
CHANGES: dict[int | str, dict[str, Any]] = {
    200: {"description": "What was changed, or would be.", "content": content(ref("Changes"))}
}
APPLY_BODY = {
    "requestBody": {
        "required": True,
        "content": content(
            {
                "type": "object",
                "required": ["documents"],
                "additionalProperties": False,
                "properties": {
                    "documents": {
                        "type": "array",
                        "minItems": 1,
                        "maxItems": DOCUMENTS_MAX,
                        "items": ref("Document"),
                    }
                },
            },
            example={"documents": [{"kind": "Tenant", "name": "acme", **EXAMPLES["Tenant"]}]},
        )
        | {
            YAML[0]: {
                "schema": STRING,
                "example": "kind: Tenant\nname: acme\npriority_class: gold\n",
            }
        },
    }
}


# -- components ------------------------------------------------------------------------------------------------

PROBLEM = {
    "type": "object",
    "description": "RFC 9457.",
    "required": ["type", "title", "status"],
    "properties": {
        "type": {"type": "string", "format": "uri", "examples": ["urn:weir:problem:invalid"]},
        "title": STRING,
        "status": WHOLE,
        "detail": STRING,
        "hint": {"type": "string", "description": "What to do."},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["detail"],
                "properties": {
                    "pointer": {"type": "string", "description": "Where in the body, as a JSON pointer."},
                    "parameter": {"type": "string", "description": "Which parameter or header."},
                    "detail": STRING,
                    "line": {"type": "integer", "description": "Of SQL; so is the column."},
                    "column": WHOLE,
                },
            },
        },
    },
}
CHANGE = {
    "type": "object",
    "required": ["kind", "name", "action", "fields", "changes"],
    "properties": {
        "kind": STRING,
        "tenant": {"type": "string", "description": "Of a query."},
        "name": STRING,
        "action": {"enum": ["created", "changed", "unchanged", "deleted"]},
        "fields": {"type": "array", "items": STRING},
        "changes": {
            "type": "object",
            "description": "By field: before, and after.",
            "additionalProperties": {"type": "array", "minItems": 2, "maxItems": 2},
        },
    },
}
CHANGES_MADE = {
    "type": "object",
    "required": ["changes", "warnings"],
    "properties": {
        "changes": {"type": "array", "items": ref("Change")},
        "warnings": {"type": "array", "items": STRING},
        "plan": {"type": "object", "description": "With `dry_run`: what would become of delay targets."},
    },
}
# Of a key; those that have not been are null.
TIMES = ("created_at", "expires_at", "used_at", "revoked_at")
KEY = {
    "type": "object",
    "required": ["id", "principal", "scopes", *TIMES],
    "properties": {
        "id": STRING,
        "principal": STRING,
        "scopes": {"type": "array", "items": STRING},
        **{name: {"type": ["string", "null"], "format": "date-time"} for name in TIMES},
    },
}


def components() -> dict[str, Any]:
    """All schemas that are no route's own."""
    _, definitions = models_json_schema(
        [(model, "validation") for model in KINDS.values()], ref_template=COMPONENTS + "{model}"
    )
    schemas: dict[str, Any] = dict(definitions["$defs"])
    for kind, model in KINDS.items():
        schemas[kind] = document_schema(schemas.pop(model.__name__))
    schemas["Document"] = {"oneOf": [whole(kind) for kind in KINDS]}
    return schemas | {"Problem": PROBLEM, "Change": CHANGE, "Changes": CHANGES_MADE, "Key": KEY}


def document_schema(schema: dict[str, Any]) -> dict[str, Any]:
    needed = [name for name in schema.get("required", []) if name not in SAID_BY_PATH]
    return {key: value for key, value in schema.items() if key not in ("title", "required")} | (
        {"required": needed} if needed else {}
    )


def whole(kind: str) -> dict[str, Any]:
    """With what a path would say."""
    said = ["kind"] if kind == "Session" else ["kind", "name", *(["tenant"] if kind == "Query" else [])]
    return {"allOf": [ref(kind), {"required": said}]}


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """Of a body that has a model of its own."""
    return model.model_json_schema(ref_template=COMPONENTS + "{model}")
