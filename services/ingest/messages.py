"""What producers and readers ask of the door, as JSON objects; an unknown field is refused by name."""

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
    """Of one version."""

    v: Literal[1]


class OfProducer(Message):
    """Asks how far a producer has come."""

    stream: Name
    producer: Producer


class OfBatch(OfProducer):
    """About one batch of a producer."""

    batch: Number


class Put(OfBatch):
    """One part of a batch, whose rows follow."""

    partition: Number
    attempt: Attempt
    timestamp_column: str | None = None
    schema_policy: SchemaPolicy = "reject"
    commit: bool = False
    """Publish it at once: the batch has no other part."""


class CommitParts(OfBatch):
    """Publish exactly these parts, as partition and attempt."""

    parts: Annotated[tuple[tuple[Number, Attempt], ...], Field(max_length=PARTS_MAX)]


class ResultsRequest(Message):
    """Asks which rows of a query's answers are kept."""

    class_name: Annotated[Name, Field(alias="class")]
    query: str


class RowsRequest(Message):
    """Asks for rows of one unit's answers."""

    unit: Name
    query: str
    first: Annotated[Number, Field(alias="from")]
    next: Annotated[Number, Field(alias="to")]


Kind = TypeVar("Kind", bound=Message)


def parsed(kind: type[Kind], body: bytes) -> Kind:
    """InvalidInput names the field."""
    if len(body) > MESSAGE_BYTES:
        raise InvalidInput(f"a message has {MESSAGE_BYTES:,} bytes at most", "message", len(body))
    try:
        return kind.model_validate_json(body, strict=True)
    except ValidationError as problem:
        first = problem.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "message"
        what = "unknown field" if first["type"] == "extra_forbidden" else first["msg"]
        raise InvalidInput(what, where, hint="the door speaks version 1") from None
