"""OpenAPI schemas of request and response bodies. Schemas of documents are made from the pydantic models that validate them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import models_json_schema

from configs.documents.declarations import DOCUMENTS_MAX, KINDS
from services.api.request_bodies import JSON, YAML

COMPONENTS = "#/components/schemas/"
# Fields that a body may leave out, because the path of the request contains their values.
SAID_BY_PATH = ("kind", "tenant", "name")
Schema = dict[str, Any]
RouteResponses = dict[int | str, Schema]
"""OpenAPI descriptions of the responses of a route, by HTTP status."""
STRING, WHOLE = {"type": "string"}, {"type": "integer"}

Count = Annotated[int, Field(ge=0)]


class AnswerModel(BaseModel):
    """Base class of the models of answers: the docstrings of its fields are their descriptions in OpenAPI."""

    model_config = ConfigDict(use_attribute_docstrings=True)


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


def typed(kind: str | list[str], description: str, **more: object) -> Schema:
    return {"type": kind, "description": description, **more}


def record(properties: Mapping[str, Schema], optional: Collection[str] = ()) -> Schema:
    """Return the schema of an object with these properties; all properties except the optional ones are required."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "required": required, "properties": dict(properties)}


def array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def content(schema: Schema, *media: str, example: Any = None) -> Schema:
    description = {"schema": schema} if example is None else {"schema": schema, "example": example}
    return dict.fromkeys(media or (JSON,), description)


def response(description: str, schema: Schema, *media: str, status: int = 200) -> RouteResponses:
    """Return the description of a route's response with this schema."""
    return {status: {"description": description, "content": content(schema, *media)}}


def body(told: Schema) -> Schema:
    """Return the description of a required request body with this content."""
    return {"requestBody": {"required": True, "content": told}}


def header(name: str, description: str) -> Schema:
    return {name: {"description": description, "schema": STRING}}


ETAG = header("ETag", "Version of the document; send this ETag as If-Match with a change.")
WARNING = header(
    "Weir-Warning", "Warnings about the change, for example classes that would miss their delay targets."
)


def document_body(kind: str) -> Schema:
    """Return the description of the body of a PUT."""
    return body(content(ref(kind), JSON, YAML[0], example=EXAMPLES[kind]))


def document_answer(kind: str, told: str = "The declared document, without secrets.") -> Schema:
    example = {"kind": kind, "name": "spark" if kind == "Session" else "one", **EXAMPLES[kind]}
    return {"description": told, "headers": ETAG, "content": content(ref(kind), example=example)}


def document_answers(kind: str) -> RouteResponses:
    return {200: document_answer(kind)}


def put_answers(kind: str) -> RouteResponses:
    created = document_answer(kind, "The document was created.")
    kept = document_answer(
        kind,
        "The document was changed, or was the same already. With `dry_run`: the changes that the document would make.",
    )
    kept["content"] = content({"anyOf": [ref(kind), ref("Changes")]})
    return {200: kept | {"headers": ETAG | WARNING}, 201: created | {"headers": ETAG | WARNING}}


RUN = typed(
    "object",
    "Only for a query with a start or an end: its state and both times, which the queries that it reads can limit.",
    required=["state", "start", "stop"],
    properties={
        "state": {"enum": ["waiting", "active", "ended"]},
        **{name: {"type": ["string", "null"], "format": "date-time"} for name in ("start", "stop")},
    },
)


def list_answer(kind: str) -> RouteResponses:
    item = record({"version": WHOLE, "document": ref(kind)})
    if kind == "Query":
        item["properties"]["run"] = RUN
    return response("Documents in the order in which they were declared.", paged(item))


def paged(item: Schema) -> Schema:
    """Return the schema of one page of a list, with the cursor of the next page."""
    about = "Cursor of the next page, which the next call sends as `after`; null on the last page."
    return record({"items": array(item), "next": typed(["string", "null"], about)})


DELETED: RouteResponses = {
    204: {"description": "The declaration was deleted."},
    **response("With `dry_run`: the declaration can be deleted; nothing was changed.", ref("Changes")),
}
CHANGES = response("Changes that were made, or with `dry_run` would be made.", ref("Changes"))
DOCUMENTS = {"type": "array", "minItems": 1, "maxItems": DOCUMENTS_MAX, "items": ref("Document")}
APPLY_BODY = body(
    content(
        {
            "type": "object",
            "required": ["documents"],
            "additionalProperties": False,
            "properties": {"documents": DOCUMENTS},
        },
        example={"documents": [{"kind": "Tenant", "name": "acme", **EXAMPLES["Tenant"]}]},
    )
    | content(STRING, YAML[0], example="kind: Tenant\nname: acme\npriority_class: gold\n")
)


PROBLEM_ERROR = record(
    {
        "pointer": typed("string", "JSON pointer to the invalid part of the body."),
        "parameter": typed("string", "Name of the invalid parameter or header."),
        "detail": STRING,
        "line": typed("integer", "Line of the error in the SQL text; `column` is the column of the error."),
        "column": WHOLE,
    },
    optional=("pointer", "parameter", "line", "column"),
)
PROBLEM = {
    "type": "object",
    "description": "Problem details (RFC 9457).",
    "required": ["type", "title", "status"],
    "properties": {
        "type": {"type": "string", "format": "uri", "examples": ["urn:weir:problem:invalid"]},
        "title": STRING,
        "status": WHOLE,
        "detail": STRING,
        "hint": typed("string", "How to correct the request."),
        "errors": array(PROBLEM_ERROR),
    },
}
CHANGE = record(
    {
        "kind": STRING,
        "tenant": typed("string", "Tenant of a query; absent for other kinds."),
        "name": STRING,
        "action": {"enum": ["created", "changed", "unchanged", "deleted"]},
        "fields": array(STRING),
        "changes": typed(
            "object",
            "Changed fields; the value of a field is a pair of its values before and after the change.",
            additionalProperties={"type": "array", "minItems": 2, "maxItems": 2},
        ),
    },
    optional=("tenant",),
)
CHANGES_MADE = record(
    {
        "changes": array(ref("Change")),
        "warnings": array(STRING),
        "plan": typed("object", "With `dry_run`: forecast of delay targets, as POST /v1/plan returns it."),
    },
    optional=("plan",),
)
# Times of a key's creation, expiry, last use and revocation. A time is null if the event has not happened or will never happen.
TIMES = ("created_at", "expires_at", "used_at", "revoked_at")
KEY = record(
    {"id": STRING, "principal": STRING, "scopes": array(STRING)}
    | {name: {"type": ["string", "null"], "format": "date-time"} for name in TIMES}
)


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
