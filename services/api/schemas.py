"""OpenAPI schemas of request and response bodies. Schemas of documents are made from the pydantic models that validate them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from configs.documents.declarations import DOCUMENTS_MAX, KINDS
from services.api.request_bodies import JSON, YAML

COMPONENTS = "#/components/schemas/"
# Fields that a body may leave out, because the path of the request contains their values.
SAID_BY_PATH = ("kind", "tenant", "name")
ETAG = {
    "ETag": {
        "description": "Version of the document; send this ETag as If-Match with a change.",
        "schema": {"type": "string"},
    }
}
WARNING = {
    "Weir-Warning": {
        "description": "Warnings about the change, for example classes that would miss their delay targets.",
        "schema": {"type": "string"},
    }
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
    "Notice": {"text": "Gateways are upgraded on Monday", "until": "2027-01-04T06:00:00Z"},
    "Session": {"master": "local[1]", "conf": {"spark.driver.memory": "1g"}},
}


def ref(name: str) -> dict[str, str]:
    return {"$ref": COMPONENTS + name}


def content(schema: dict[str, Any], *media: str, example: Any = None) -> dict[str, Any]:
    description = {"schema": schema} if example is None else {"schema": schema, "example": example}
    return dict.fromkeys(media or (JSON,), description)


# -- bodies of requests and responses --------------------------------------------------------------------------


def document_body(kind: str) -> dict[str, Any]:
    """Return the description of the body of a PUT."""
    described = content(ref(kind), JSON, YAML[0], example=EXAMPLES[kind])
    return {"requestBody": {"required": True, "content": described}}


def document_answer(kind: str, told: str = "The declared document, without secrets.") -> dict[str, Any]:
    example = {"kind": kind, "name": "spark" if kind == "Session" else "one", **EXAMPLES[kind]}
    return {"description": told, "headers": ETAG, "content": content(ref(kind), example=example)}


def document_answers(kind: str) -> dict[int | str, dict[str, Any]]:
    return {200: document_answer(kind)}


def put_answers(kind: str) -> dict[int | str, dict[str, Any]]:
    created = document_answer(kind, "The document was created.")
    kept = document_answer(
        kind,
        "The document was changed, or was the same already. With `dry_run`: the changes that the document would make.",
    )
    kept["content"] = content({"anyOf": [ref(kind), ref("Changes")]})
    return {200: kept | {"headers": ETAG | WARNING}, 201: created | {"headers": ETAG | WARNING}}


def list_answer(kind: str) -> dict[int | str, dict[str, Any]]:
    item = {
        "type": "object",
        "required": ["version", "document"],
        "properties": {"version": WHOLE, "document": ref(kind)},
    }
    return {
        200: {
            "description": "Documents in the order in which they were declared.",
            "content": content(paged(item)),
        }
    }


def paged(item: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of one page of a list, with the cursor of the next page."""
    return {
        "type": "object",
        "required": ["items", "next"],
        "properties": {
            "items": {"type": "array", "items": item},
            "next": {
                "type": ["string", "null"],
                "description": "Cursor of the next page, which the next call sends as `after`; null on the last page.",
            },
        },
    }


DELETED: dict[int | str, dict[str, Any]] = {
    204: {"description": "The declaration was deleted."},
    200: {
        "description": "With `dry_run`: the declaration can be deleted; nothing was changed.",
        "content": content(ref("Changes")),
    },
}
CHANGES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Changes that were made, or with `dry_run` would be made.",
        "content": content(ref("Changes")),
    }
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


# -- schemas that several routes share -------------------------------------------------------------------------

PROBLEM = {
    "type": "object",
    "description": "Problem details (RFC 9457).",
    "required": ["type", "title", "status"],
    "properties": {
        "type": {"type": "string", "format": "uri", "examples": ["urn:weir:problem:invalid"]},
        "title": STRING,
        "status": WHOLE,
        "detail": STRING,
        "hint": {"type": "string", "description": "How to correct the request."},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["detail"],
                "properties": {
                    "pointer": {
                        "type": "string",
                        "description": "JSON pointer to the invalid part of the body.",
                    },
                    "parameter": {
                        "type": "string",
                        "description": "Name of the invalid parameter or header.",
                    },
                    "detail": STRING,
                    "line": {
                        "type": "integer",
                        "description": "Line of the error in the SQL text; `column` is the column of the error.",
                    },
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
        "tenant": {"type": "string", "description": "Tenant of a query; absent for other kinds."},
        "name": STRING,
        "action": {"enum": ["created", "changed", "unchanged", "deleted"]},
        "fields": {"type": "array", "items": STRING},
        "changes": {
            "type": "object",
            "description": "Changed fields; the value of a field is a pair of its values before and after the change.",
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
        "plan": {
            "type": "object",
            "description": "With `dry_run`: forecast of delay targets, as POST /v1/plan returns it.",
        },
    },
}
# Times of a key's creation, expiry, last use and revocation. A time is null if the event has not happened or will never happen.
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
    """Return the schemas that several routes share."""
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
    """Return the schema of a document that must contain its kind, tenant and name, because the request's path does not."""
    said = ["kind"] if kind == "Session" else ["kind", "name", *(["tenant"] if kind == "Query" else [])]
    return {"allOf": [ref(kind), {"required": said}]}


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of a body that is read with a pydantic model."""
    return model.model_json_schema(ref_template=COMPONENTS + "{model}")
