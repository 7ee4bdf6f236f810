"""Declarations of the streams in a file. Before Spark is started, the declared streams are compared with those of the gateway."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from pyarrow import flight

from configs.documents.spark_streams import StreamDefinition, StreamsFile
from configs.errors import InvalidInput, UnknownName, WeirError, nearest
from engine.data.schema import StreamSchema
from engine.sql import PlanningError, parse_create_stream
from services.ingest.job import GatewayAddress
from services.ingest.progress import hidden

ANSWERS_S = 10.0
AWAY = re.compile(r"unavailable error|timed out|deadline exceeded", re.IGNORECASE)
REFUSED = re.compile(r"unauthenticated|unauthorized|apiKey")
INTRODUCED = re.compile(r"^(Unknown error|Flight returned [a-z ]+ error, with message|Flight error): ")
TIME_COLUMN = b"weir.time_column"


class EndpointAway(WeirError):
    """Error for an address at which no gateway answers."""


def declared(file: StreamsFile, path: Path | None = None) -> dict[str, StreamSchema]:
    """Return the columns and event time of each stream, by name; raise InvalidInput for the first declaration that is not valid."""
    schemas = {}
    for name, definition in file.streams.items():
        try:
            schemas[name] = read_declaration(name, definition)
        except InvalidInput as problem:
            problem.file = "" if path is None else str(path)
            raise
    return schemas


def read_declaration(name: str, one: StreamDefinition) -> StreamSchema:
    field = f"streams.{name}.{'columns' if one.sql is None else 'sql'}"
    try:
        stream = parse_create_stream(one.declaration(name))
    except PlanningError as problem:
        if one.sql is not None:
            raise replace(problem, field=field) from None
        # The line and column of the error are left out, because they refer to generated SQL that the user has not seen.
        raise of_field(problem, one, f"streams.{name}") from None
    if stream.name.lower() != name.lower():
        hint = "use the same name in the key and in CREATE STREAM"
        raise InvalidInput(
            "the name in CREATE STREAM differs from the name of the declared stream", field, stream.name, hint
        )
    return stream


def of_field(problem: PlanningError, one: StreamDefinition, place: str) -> InvalidInput:
    """Convert an error in generated SQL to an error that names the wrong field of the stream's declaration."""
    value = str(problem.value)
    if one.watermark is not None and one.watermark in value:
        hint = "write a length of time from 0 to 366 days, such as `5 seconds`"
        return InvalidInput(
            "the watermark is not a valid length of time", f"{place}.watermark", one.watermark, hint
        )
    if one.time is not None and value.partition(" ")[0].lower() == one.time.lower() and " " in value:
        hint = "name a column of the type timestamp, or int64 for milliseconds since 1970"
        return InvalidInput("the column cannot be the event time", f"{place}.time", value, hint)
    if value in one.columns:
        title = "a keyword of SQL cannot be the name of a column"
        return InvalidInput(title, f"{place}.columns", value, "choose another name")
    return InvalidInput(problem.title, f"{place}.columns", problem.value, problem.hint)


def check_gateway(streams: dict[str, StreamSchema], door: GatewayAddress) -> None:
    """Compare the declared streams with the streams of the gateway; raise InvalidInput if a stream is missing or has another declaration.

    The gateway is not changed.
    """
    with door.trust.connect(door.endpoint) as client:
        bearer = (b"authorization", f"Bearer {door.api_key}".encode())
        call = flight.FlightCallOptions(timeout=ANSWERS_S, headers=[bearer])
        for name, stream in streams.items():
            compare(name, stream, schema_at(client, call, name, door))


def schema_at(
    client: flight.FlightClient, call: flight.FlightCallOptions, name: str, door: GatewayAddress
) -> pa.Schema:
    try:
        return client.get_schema(flight.FlightDescriptor.for_path("stream", name), call).schema
    except (pa.ArrowException, OSError, KeyError) as problem:
        # The error is recognised by its text, because pyarrow does not preserve the type of an error of `get_schema`.
        text = str(problem)
    why = INTRODUCED.sub("", text.splitlines()[0]).partition(". Detail:")[0]
    if AWAY.search(text):
        hint = "start a system with `weir up`, or give the endpoint of a running system"
        raise EndpointAway("no gateway answers at this address", "--endpoint", door.endpoint, hint)
    if REFUSED.search(text):
        hint = "use the key in the file ingest.key of the system's run folder"
        raise InvalidInput(
            f"the gateway refuses the key: {hidden(why, [door.api_key])}", "--api-key", hint=hint
        )
    hint = "declare the stream at the gateway, or name a stream that the gateway has"
    raise InvalidInput(f"the gateway does not have this stream: {why}", f"streams.{name}", hint=hint)


def compare(name: str, stream: StreamSchema, there: pa.Schema) -> None:
    """Compare the declared stream with the gateway's schema; raise InvalidInput for the first difference in columns or event time."""
    field = f"streams.{name}"
    ours = {field.name.lower(): field for field in stream.schema.arrow}
    theirs = {field.name.lower(): field for field in there}
    for key, our in ours.items():
        if key not in theirs:
            hint = nearest(our.name, there.names)
            raise UnknownName("the stream at the gateway has no column of this name", field, our.name, hint)
        if our.type != theirs[key].type:
            hint = f"declare the type at the gateway: {theirs[key].type}"
            raise InvalidInput(
                f"column {our.name} has another type at the gateway", field, str(our.type), hint
            )
    for key, their in theirs.items():
        if key not in ours:
            hint = "declare the column here too, or declare the stream at the gateway without this column"
            raise InvalidInput("the stream at the gateway has an additional column", field, their.name, hint)
    time = None if stream.time is None else stream.schema.names[stream.time]
    at_gateway = (there.metadata or {}).get(TIME_COLUMN, b"").decode() or None
    if (time or "").lower() != (at_gateway or "").lower():
        hint = f"declare the event time of the gateway: {at_gateway or 'none'}"
        raise InvalidInput("the stream at the gateway has another event time", field, time or "none", hint)
