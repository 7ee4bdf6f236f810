"""Requests that producers and readers send to the Flight server as JSON objects. A request with an unknown field is refused."""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

from pydantic import Field, ValidationError

from configs.base import Settings
from configs.errors import InvalidInput

MESSAGE_BYTES = 8 << 20
PARTS_MAX = 100_000
NUMBER_MAX = 2**63 - 1

SchemaPolicy = Literal["reject", "addNullable", "ignore"]
Name = Annotated[str, Field(min_length=1, max_length=80)]
Producer = Annotated[str, Field(min_length=1, max_length=200)]
Attempt = Annotated[str, Field(max_length=64)]
Number = Annotated[int, Field(ge=0, le=NUMBER_MAX)]


class Message(Settings):
    """Base class of requests. The field `v` is the version of the format of requests."""

    v: Literal[1]


class OfProducer(Message):
    """Request for the number of the last batch of a producer that was committed."""

    stream: Name
    producer: Producer


class OfBatch(OfProducer):
    """Request about one batch of a producer."""

    batch: Number


class Put(OfBatch):
    """Request to upload one part of a batch. The rows of the part follow the request."""

    partition: Number
    attempt: Attempt
    timestamp_column: str | None = None
    schema_policy: SchemaPolicy = "reject"
    commit: bool = False
    """True if the batch has no other part, so that the part is published at once."""


class CommitParts(OfBatch):
    """Request to publish a batch that consists of exactly these parts. Each part is named by its partition and attempt."""

    parts: Annotated[tuple[tuple[Number, Attempt], ...], Field(max_length=PARTS_MAX)]


class ResultsRequest(Message):
    """Request for the range of a query's rows that each unit of the query's class still stores."""

    class_name: Annotated[Name, Field(alias="class")]
    query: str


class RowsRequest(Message):
    """Request for rows of one unit's answers."""

    unit: Name
    query: str
    first: Annotated[Number, Field(alias="from")]
    next: Annotated[Number, Field(alias="to")]


Kind = TypeVar("Kind", bound=Message)


def parsed(kind: type[Kind], body: bytes) -> Kind:
    """Return the parsed request, or raise InvalidInput, which names the wrong field."""
    if len(body) > MESSAGE_BYTES:
        raise InvalidInput(f"the message has more than {MESSAGE_BYTES:,} bytes", "message", len(body))
    try:
        return kind.model_validate_json(body, strict=True)
    except ValidationError as problem:
        first = problem.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "message"
        what = "unknown field" if first["type"] == "extra_forbidden" else first["msg"]
        raise InvalidInput(what, where, hint="write a request of version 1") from None
