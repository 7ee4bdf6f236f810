"""What the streams of a file are declared as, and whether a gateway has them so: looked at before a JVM is started."""

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
    """No gateway answers at the endpoint."""


def declared(file: StreamsFile, path: Path | None = None) -> dict[str, StreamSchema]:
    """Each stream's columns and event time; InvalidInput for the first declaration that is none."""
    name_of_file = "" if path is None else str(path)
    schemas = {}
    for name, definition in file.streams.items():
        try:
            schemas[name] = read_declaration(name, definition)
        except InvalidInput as problem:
            problem.file = name_of_file
            raise
    return schemas


def read_declaration(name: str, one: StreamDefinition) -> StreamSchema:
    field = f"streams.{name}.{'columns' if one.sql is None else 'sql'}"
    try:
        stream = parse_create_stream(one.declaration(name))
    except PlanningError as problem:
        if one.sql is not None:
            raise replace(problem, field=field) from None
        # Line and column are those of a text nobody has written.
        raise of_field(problem, one, f"streams.{name}") from None
    if stream.name.lower() != name.lower():
        hint = "let the key and the CREATE STREAM have one name"
        raise InvalidInput("the SQL declares a stream of another name", field, stream.name, hint)
    return stream


def of_field(problem: PlanningError, one: StreamDefinition, place: str) -> InvalidInput:
    """Return what is wrong with the fields from which the CREATE STREAM was made, by the names of the fields."""
    value = str(problem.value)
    if one.watermark is not None and one.watermark in value:
        hint = "write a length of time from 0 to 366 days, such as `5 seconds`"
        return InvalidInput("not a length of time", f"{place}.watermark", one.watermark, hint)
    if one.time is not None and value.partition(" ")[0].lower() == one.time.lower() and " " in value:
        hint = "name a column of the type timestamp, or int64 for milliseconds since 1970"
        return InvalidInput("the column cannot be the event time", f"{place}.time", value, hint)
    if value in one.columns:
        title = "a word of SQL cannot be the name of a column"
        return InvalidInput(title, f"{place}.columns", value, "choose another name")
    return InvalidInput(problem.title, f"{place}.columns", problem.value, problem.hint)


def check_gateway(streams: dict[str, StreamSchema], door: GatewayAddress) -> None:
    """That the gateway has each stream as it is declared here; it is not changed."""
    with flight.connect(door.endpoint) as client:
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
        # Of this call pyarrow keeps the words of an error, but not its kind.
        text = str(problem)
    why = INTRODUCED.sub("", text.splitlines()[0]).partition(". Detail:")[0]
    if AWAY.search(text):
        hint = "start a system with `weir up`, or give the endpoint of the one that runs"
        raise EndpointAway("no gateway answers there", "--endpoint", door.endpoint, hint)
    if REFUSED.search(text):
        hint = "the key that a system makes stands in ingest.key in its run folder"
        raise InvalidInput(
            f"the gateway refuses the key: {hidden(why, [door.api_key])}", "--api-key", hint=hint
        )
    hint = "declare it at the system, or name one that it has"
    raise InvalidInput(f"the gateway does not have it: {why}", f"streams.{name}", hint=hint)


def compare(name: str, stream: StreamSchema, there: pa.Schema) -> None:
    """InvalidInput for the first difference that matters to rows."""
    field = f"streams.{name}"
    ours = {field.name.lower(): field for field in stream.schema.arrow}
    theirs = {field.name.lower(): field for field in there}
    for key, our in ours.items():
        if key not in theirs:
            hint = nearest(our.name, there.names)
            raise UnknownName("the stream at the gateway has no such column", field, our.name, hint)
        if our.type != theirs[key].type:
            hint = f"the gateway has it as {theirs[key].type}"
            raise InvalidInput(f"column {our.name} is another at the gateway", field, str(our.type), hint)
    for key, their in theirs.items():
        if key not in ours:
            hint = "declare it here too, or the stream there without it"
            raise InvalidInput("the stream at the gateway has one column more", field, their.name, hint)
    time = None if stream.time is None else stream.schema.names[stream.time]
    at_gateway = (there.metadata or {}).get(TIME_COLUMN, b"").decode() or None
    if (time or "").lower() != (at_gateway or "").lower():
        hint = f"the gateway has {at_gateway or 'none'}"
        raise InvalidInput("another column is the event time", field, time or "none", hint)
