"""`weir ingest`: Spark brings the streams of a file, or those that a service says, to a running system."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from actors.dirs import RunDirs, clusters, listed, shared_memory
from configs.problems import InvalidInput
from configs.streams import StreamsFile, load_streams
from engine.schema import StreamSchema
from services.cli.sim import make_folder
from services.cli.tables import compact, milliseconds, plain_table
from services.ingest.bringing import Brings, FollowedFeeds
from services.ingest.declared import check_gateway, declared
from services.ingest.java import find_java
from services.ingest.job import Door, Job
from services.ingest.process import IngestProcess
from services.ingest.progress import FeedProgress

LOOK_S = 1.0
FOLDER = Path("weir-ingest")
KEY_VARIABLE = "WEIR_API_KEY"
# Touched at each look: who watches the process sees that it looks.
ALIVE = "alive"
STATES = {"starting": "starting", "running": "[green]running[/]", "waiting": "[yellow]waiting[/]"}

FileOption = Annotated[
    Path | None, typer.Option("--file", "-f", help="The streams and their sources.", show_default=False)
]
FolderOption = Annotated[Path, typer.Option(help="For checkpoints and Spark's logs.")]
JsonOption = Annotated[bool, typer.Option("--json", help="A JSON object a second instead of the table.")]


def ingest(
    file: FileOption = None,
    from_service: Annotated[
        bool,
        typer.Option(
            "--from-service",
            help="What the catalog says, of the service that WEIR_ENDPOINT names; by a key of the scope feeds.",
        ),
    ] = False,
    endpoint: Annotated[
        str | None,
        typer.Option(help="Of the gateway: grpc://HOST:PORT.", show_default="of the system on this machine"),
    ] = None,
    api_key: Annotated[
        str | None,
        typer.Option(
            envvar=KEY_VARIABLE,
            help="The gateway's key. Others see what stands on a command line; they do not see the environment.",
            show_default=False,
        ),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Look at everything, start nothing.")] = False,
    folder: FolderOption = FOLDER,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="With --from-service: print no more than problems.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Bring the streams of a file to a system through Spark; Ctrl-C ends it."""
    if from_service:
        if file is not None or endpoint is not None or check:
            hint = "the service says which streams there are, and where they come in; leave --file, --endpoint and --check out"
            raise InvalidInput("one of the two says what is brought", "--from-service", hint=hint)
        make_folder("--folder", folder)
        follow_service(folder, quiet, as_json)
        return
    if file is None:
        raise InvalidInput("required, but missing", "--file", hint="or give --from-service")
    streams = load_streams(file)
    schemas = declared(streams, file)
    java = find_java(streams.session.java_home, os.environ)
    door = door_of(endpoint, api_key)
    if door is not None:
        check_gateway(schemas, door)
    if check:
        Console().print(check_table(f"{file}: Java {java.version} at {java.home}", streams, schemas))
        return
    if door is None:
        hint = "give grpc://HOST:PORT, or start a system and its streams together with `weir up`"
        raise InvalidInput("no system runs on this machine", "--endpoint", hint=hint)
    make_folder("--folder", folder)
    title = f"{file} to {door.endpoint}"
    with ended_by_signal(), IngestProcess(Job(streams, door, folder.absolute(), java.home)) as process:
        watch(
            lambda: ingest_table(title, process.progress()), lambda: feeds_told(process.progress()), as_json
        )


def follow_service(folder: Path, quiet: bool, as_json: bool) -> None:
    """Until somebody ends it, what the service says is brought."""
    from services.client import Client

    with ended_by_signal(), Client() as client, ExitStack() as running:
        brings = Brings(Door("", client.key), folder)
        running.callback(brings.stop)
        following = FollowedFeeds(client.to_bring, client.tell_progress, brings, folder / ALIVE)
        title = f"feeds of {client.endpoint}"

        def picture() -> Group:
            following.look(time.monotonic())
            return Group(ingest_table(title, brings.progress()), *filter(None, [following.problem]))

        def told() -> dict[str, object]:
            following.look(time.monotonic())
            return {**feeds_told(brings.progress()), "problem": following.problem}

        if quiet:
            tell_problems(following, brings)
        watch(picture, told, as_json)


def tell_problems(following: FollowedFeeds, brings: Brings) -> NoReturn:
    """Until somebody ends it, a line for each that is new."""
    before: frozenset[str] = frozenset()
    while True:
        following.look(time.monotonic())
        failed = {f"{one.feed}: {one.last_error}" for one in brings.progress() if one.last_error}
        now = frozenset(filter(None, {following.problem, *failed}))
        for one in sorted(now - before):
            typer.echo(one, err=True)
        before = now
        time.sleep(LOOK_S)


def door_of(endpoint: str | None, api_key: str | None) -> Door | None:
    """Where rows are to go: what is said, and else a system on this machine; None where nothing is to be found."""
    here = doors_here()
    if endpoint is None:
        if not here:
            return None
        if len(here) > 1:
            told = ", ".join(here)
            raise InvalidInput(
                "several systems run on this machine", "--endpoint", hint=f"give one of {told}"
            )
        (endpoint,) = here
    if not endpoint.startswith("grpc://"):
        raise InvalidInput("not the address of a gateway", "--endpoint", endpoint, "write grpc://HOST:PORT")
    key = api_key or here.get(endpoint)
    if key is None:
        hint = f"set {KEY_VARIABLE} to what stands in ingest.key in the system's run folder"
        raise InvalidInput("required, but missing", "--api-key", hint=hint)
    return Door(endpoint, key.strip())


def doors_here() -> dict[str, str]:
    """Keys by endpoint, of this user's systems on this machine."""
    base = shared_memory()
    found = {}
    for system in clusters(base):
        for node in listed(RunDirs(base, system, "any").root):
            dirs = RunDirs(base, system, node.name)
            if dirs.endpoint.is_file() and dirs.ingest_key.is_file():
                found[dirs.endpoint.read_text(encoding="utf-8")] = dirs.ingest_key.read_text(encoding="utf-8")
    return found


@contextmanager
def ended_by_signal() -> Iterator[None]:
    """SIGTERM ends what is within in order, as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def watch(picture: Callable[[], RenderableType], told: Callable[[], object], as_json: bool) -> None:
    """Until somebody ends it: a table that moves if there is a terminal to move it on, else one after the other."""
    console = Console()
    if not as_json and console.is_terminal:
        with Live(picture(), console=console, auto_refresh=False) as screen:
            while True:
                time.sleep(LOOK_S)
                screen.update(picture(), refresh=True)
    while True:
        if as_json:
            typer.echo(json.dumps(told()))
        else:
            console.print(picture())
        time.sleep(LOOK_S)


def feeds_told(feeds: Sequence[FeedProgress]) -> dict[str, object]:
    return {"feeds": [asdict(one) for one in feeds]}


def ingest_table(title: str, feeds: Sequence[FeedProgress]) -> Table:
    """Feeds as they come in; the last error of each under them."""
    heads = ("feed", "state", "rows/s", "rows", "batch", "batch ms", "lag", "restarts")
    table = plain_table(title, heads, left=2)
    for one in feeds:
        table.add_row(
            escape(one.feed),
            STATES[one.state],
            compact(one.rows_per_s),
            f"{one.rows:,}",
            "–" if one.batch is None else f"{one.batch:,}",
            "–" if one.batch_ms is None else milliseconds(one.batch_ms),
            "–" if one.lag is None else compact(one.lag),
            str(one.restarts),
        )
    failed = [f"{escape(one.feed)}: {escape(one.last_error)}" for one in feeds if one.last_error]
    if failed:
        table.caption, table.caption_justify = "\n".join(failed), "left"
    return table


def check_table(title: str, file: StreamsFile, schemas: dict[str, StreamSchema]) -> Table:
    """What would be started."""
    heads = ("stream", "columns", "event time", "feed", "format", "sent by", "every ms", "mode")
    table = plain_table(title, heads, left=6, wrapped=1)
    for feed, one in file.all_feeds().items():
        for name in one.streams:
            schema = schemas[name]
            table.add_row(
                escape(name),
                escape(", ".join(f"{field.name} {field.type}" for field in schema.schema.fields)),
                "–" if schema.time is None else escape(schema.schema.names[schema.time]),
                escape(feed),
                escape(one.source.format),
                one.source.path,
                str(one.source.trigger_ms),
                one.source.output_mode,
            )
    if file.packages():
        table.caption, table.caption_justify = f"fetched for Spark: {', '.join(file.packages())}", "left"
    return table
