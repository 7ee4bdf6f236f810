"""`weir up`: a system and the streams that Spark brings to it, all on this machine, with one command."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import Field
from rich.console import Console, Group

from configs.base import Settings
from configs.live import LiveClass, LiveSettings
from configs.managers import MANAGERS, known_manager
from configs.problems import InvalidInput
from configs.reading import parse_model, read_data
from configs.streams import StreamsFile
from engine.schema import StreamSchema
from engine.sql import PlanningError, parse_create_stream
from services.cli.class_views import ClassView, class_views
from services.cli.class_views import as_json as class_as_json
from services.cli.ingest import FolderOption, JsonOption, ended_by_signal, feeds_told, ingest_table, watch
from services.cli.sim import DEFAULT_MANAGER, make_folder
from services.cli.tables import class_view_table
from services.ingest.declared import declared
from services.ingest.java import find_java
from services.ingest.job import Door, Job
from services.ingest.process import IngestProcess

if TYPE_CHECKING:
    from actors.system import System

FOLDER = Path("weir-up")
EVERYWHERE = ("0.0.0.0", "[::]")


class ClassesFile(Settings):
    """The classes of a file, which is their list."""

    classes: tuple[LiveClass, ...] = Field(max_length=1000)


def up(
    files: Annotated[
        list[Path],
        typer.Option(
            "--file",
            "-f",
            help="The streams and their sources; again, for each list of classes.",
            show_default=False,
        ),
    ],
    manager: Annotated[
        str, typer.Option("--manager", "-m", help=f"Who sheds and lends: {', '.join(MANAGERS)}.")
    ] = DEFAULT_MANAGER,
    lanes: Annotated[int, typer.Option(min=1, max=256, help="Processors that are given to queries.")] = 1,
    host: Annotated[str, typer.Option(help="Where other producers reach the gateway.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="The same.", show_default="one that is free")
    ] = 0,
    folder: FolderOption = FOLDER,
    as_json: JsonOption = False,
) -> None:
    """Start a system here, its classes, and the streams that they read; Ctrl-C ends all of it."""
    settings = LiveSettings(manager=known_manager(manager), lanes=lanes)
    file, streams, classes = read_files(files)
    schemas = declared(streams, file)
    completed = [with_streams(one, streams, schemas) for one in classes]
    java = find_java(streams.session.java_home, os.environ)
    make_folder("--folder", folder)
    # The other commands need not wait for Ray to be imported.
    from actors.system import call, start
    from services.ingest.flight import FlightSettings

    with ended_by_signal(), ExitStack() as running:
        system = running.enter_context(start(settings, completed, endpoint=FlightSettings(host, port)))
        (node,) = system.status().system.nodes
        for name, one in streams.streams.items():
            call(system.gateway(node).declare, one.declaration(name))
        endpoint = system.endpoint(node)
        assert endpoint is not None
        door = Door(from_here(endpoint, host), system.ingest_key)
        job = Job(streams, door, folder.absolute(), java.home)
        if not as_json:
            Console(highlight=False, soft_wrap=True).print(f"gateway: {endpoint}")
        process = running.enter_context(IngestProcess(job))
        overview = Overview(system, process)
        watch(overview.picture, overview.told, as_json)


def read_files(files: Sequence[Path]) -> tuple[Path, StreamsFile, list[LiveClass]]:
    """One file of streams, and the classes of all others: lists."""
    streams: list[tuple[Path, StreamsFile]] = []
    classes: list[LiveClass] = []
    for path in files:
        data = read_data(path)
        if isinstance(data, list):
            classes += parse_model(ClassesFile, {"classes": data}, str(path)).classes
        else:
            streams.append((path, parse_model(StreamsFile, data, str(path))))
    if len(streams) != 1:
        hint = "give one with `streams:`, and any number of lists of classes"
        raise InvalidInput("there is one file of streams", "--file", [str(path) for path, _ in streams], hint)
    return *streams[0], classes


def from_here(endpoint: str, host: str) -> str:
    """A name by which others know this machine need not be one that it knows itself."""
    return f"grpc://127.0.0.1:{endpoint.rpartition(':')[2]}" if host in EVERYWHERE else endpoint


def with_streams(one: LiveClass, streams: StreamsFile, schemas: Mapping[str, StreamSchema]) -> LiveClass:
    """The class with all streams of the file, of which it reads what its queries name."""
    known = {schema.name.lower(): schema for schema in schemas.values()}
    field = f"classes.{one.name}.streams"
    try:
        own = [parse_create_stream(sql) for sql in one.streams]
    except PlanningError as problem:
        raise replace(problem, field=field) from None
    for schema in own:
        if known.get(schema.name.lower(), schema) != schema:
            hint = "leave it out there: a class may read every stream of the file"
            raise InvalidInput("the file of streams declares it otherwise", field, schema.name, hint)
    names = {schema.name.lower() for schema in own}
    more = [
        definition.declaration(name)
        for name, definition in streams.streams.items()
        if name.lower() not in names
    ]
    return one.model_copy(update={"streams": (*one.streams, *more)})


class Overview:
    """What is to be seen of a system and its streams; of the system as it was last, while its coordinator is away."""

    def __init__(self, system: System, process: IngestProcess) -> None:
        self._system, self._process = system, process
        self._views: list[ClassView] = []

    def picture(self) -> Group:
        feeds = ingest_table("feeds", self._process.progress())
        return Group(class_view_table(f"system {self._system.name}", self._look()), feeds)

    def told(self) -> dict[str, object]:
        return {"classes": [class_as_json(one) for one in self._look()], **feeds_told(self._process)}

    def _look(self) -> list[ClassView]:
        from ray.exceptions import RayError

        with suppress(RayError):
            self._views = class_views(self._system.status().system, self._system.lending())
        return self._views
