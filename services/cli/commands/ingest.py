"""`weir ingest`: read sources with Spark, and send their rows to a running system. A file or a service declares the sources."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.markup import escape

from actors.runtime.run_dirs import RunDirs, clusters, listed, shared_memory
from configs.documents.spark_streams import StreamsFile, load_streams
from configs.errors import InvalidInput
from configs.numbers import compact
from engine.data.schema import StreamSchema
from services.cli.commands.sim import make_folder
from services.cli.tables.cells import milliseconds
from services.cli.tables.feed_views import STATES
from services.cli.tables.sheet import Format, FormatOption, Sheet, screen, table_of
from services.cli.tables.state_log import LOOK_S, States, feed_problems, feed_states, log_states
from services.cli.usage import excluded, missing
from services.common.gateway_trust import SCHEMES, trust_from
from services.common.weir_home import home_of
from services.ingest.declared_streams import check_gateway, declared
from services.ingest.java import find_java
from services.ingest.job import GatewayAddress, IngestJob
from services.ingest.process import IngestProcess
from services.ingest.progress import FeedProgress
from services.ingest.spark_supervisor import Brings, FollowedFeeds

KEY_VARIABLE = "WEIR_API_KEY"
# File that is touched at each poll of the service; a liveness probe checks the file's age.
ALIVE = "alive"

FileOption = Annotated[
    Path | None, typer.Option("--file", "-f", help="File with the streams and their sources.")
]
FolderOption = Annotated[
    Path | None,
    typer.Option(help="Folder for the feeds' checkpoints and Spark's logs.", show_default="in WEIR_HOME"),
]
FromServiceOption = Annotated[
    bool,
    typer.Option(
        "--from-service",
        help="Run the feeds that are declared at the service at WEIR_ENDPOINT; needs a key with the scope feeds.",
    ),
]
EndpointOption = Annotated[
    str | None,
    typer.Option(help="Address of the gateway: grpc://HOST:PORT.", show_default="the system of WEIR_HOME"),
]
KeyOption = Annotated[
    str | None,
    typer.Option(
        envvar=KEY_VARIABLE,
        help="Key of the gateway. Set this key with the environment variable, because other users can read command lines.",
    ),
]
CheckOption = Annotated[
    bool,
    typer.Option("--check", help="Check the file, the sources and Java, then exit without starting a feed."),
]
QuietOption = Annotated[bool, typer.Option("--quiet", help="Print only problems; needs --from-service.")]


def ingest(
    *,
    file: FileOption = None,
    from_service: FromServiceOption = False,
    endpoint: EndpointOption = None,
    api_key: KeyOption = None,
    check: CheckOption = False,
    folder: FolderOption = None,
    quiet: QuietOption = False,
    output: FormatOption = "table",
) -> None:
    """Read sources through Spark and send their rows to a system, until Ctrl-C."""
    home = home_of(os.environ)
    if from_service:
        if file is not None or endpoint is not None or check:
            hint = "leave out these options: the service returns the feeds and the gateways"
            raise excluded("--from-service", None, "--file, --endpoint or --check", hint)
        folder = folder or home.ingest(None)
        make_folder("--folder", folder)
        follow_service(folder, quiet, output)
        return
    if file is None:
        raise missing("--file", "write --file FILE, or --from-service")
    streams = load_streams(file)
    schemas = declared(streams, file)
    java = find_java(streams.session.java_home, os.environ)
    door = door_of(endpoint, api_key)
    if door is not None:
        check_gateway(schemas, door)
    if check:
        screen().print(check_table(f"{file}: Java {java.version} at {java.home}", streams, schemas))
        return
    if door is None:
        hint = "write grpc://HOST:PORT, or start a system together with its feeds with `weir up`"
        raise InvalidInput("no system runs on this machine", "--endpoint", hint=hint)
    folder = folder or home.ingest(file)
    make_folder("--folder", folder)
    title = f"{file} to {door.endpoint}"
    with ended_by_signal(), IngestProcess(IngestJob(streams, door, folder.absolute(), java.home)) as process:
        watch(
            lambda: ingest_table(title, process.progress()),
            lambda: feeds_told(process.progress()),
            lambda: feeds_seen(process.progress()),
            output,
        )


def follow_service(folder: Path, quiet: bool, output: Format) -> None:
    """Run the feeds that the service declares, until a signal ends the command."""
    from services.client import Client

    with ended_by_signal(), Client() as client, ExitStack() as running:
        gateway = GatewayAddress("", client.key).trusting(trust_from(os.environ))
        brings = Brings(gateway, folder)
        running.callback(brings.stop)
        following = FollowedFeeds(client.to_bring, client.tell_progress, brings, folder / ALIVE)
        title = f"feeds of {client.endpoint}"

        def picture() -> Group:
            following.look(time.monotonic())
            return Group(ingest_table(title, brings.progress()), *filter(None, [following.problem]))

        def told() -> dict[str, object]:
            following.look(time.monotonic())
            return {**feeds_told(brings.progress()), "problem": following.problem}

        def states() -> States:
            following.look(time.monotonic())
            return feeds_seen(brings.progress(), *filter(None, [following.problem]))

        if quiet:
            log_states(states, quiet=True)
        watch(picture, told, states, output)


def feeds_seen(feeds: Sequence[FeedProgress], *problems: str) -> States:
    """Return the states of feeds for the log, with all problems: first `problems`, then the last errors of the feeds."""
    return States(feed_states(feeds), [*problems, *feed_problems(feeds)])


def door_of(endpoint: str | None, api_key: str | None) -> GatewayAddress | None:
    """Return the gateway at `endpoint`. Without an endpoint, return the gateway of the running system, or None if no system runs."""
    here = doors_here()
    if endpoint is None:
        home = str(home_of(os.environ).folder)
        # If no system runs from this WEIR_HOME, a running `weir demo` is used, because a demonstration has no home of its own.
        # The system of another WEIR_HOME is never used.
        near = [url for url, door in here.items() if door.home == home]
        near = near or [url for url, door in here.items() if door.home is None]
        if not near:
            return None
        if len(near) > 1:
            choices = ", ".join(near)
            raise InvalidInput(
                "several systems run on this machine", "--endpoint", hint=f"write one of {choices}"
            )
        (endpoint,) = near
    if not endpoint.startswith(SCHEMES):
        hint = "write grpc://HOST:PORT, or grpc+tls://HOST:PORT if the gateway uses TLS"
        raise InvalidInput("this is not the address of a gateway", "--endpoint", endpoint, hint)
    key = api_key or (here[endpoint].key if endpoint in here else None)
    if key is None:
        hint = f"set {KEY_VARIABLE} to the contents of ingest.key in the system's run folder"
        raise InvalidInput("a required value is missing", "--api-key", hint=hint)
    return GatewayAddress(endpoint, key.strip()).trusting(trust_from(os.environ))


@dataclass(frozen=True, slots=True)
class DoorHere:
    """Gateway of a system on this machine."""

    key: str = field(repr=False)
    home: str | None
    """WEIR_HOME of the system; None for a demonstration, which has no catalog."""


def doors_here() -> dict[str, DoorHere]:
    """Return the gateways of this user's systems on this machine, by endpoint."""
    base = shared_memory()
    doors = {}
    for system, cluster in clusters(base).items():
        for node in listed(RunDirs(base, system, "any").root):
            dirs = RunDirs(base, system, node.name)
            if dirs.endpoint.is_file() and dirs.ingest_key.is_file():
                key = dirs.ingest_key.read_text(encoding="utf-8")
                doors[dirs.endpoint.read_text(encoding="utf-8")] = DoorHere(key, cluster.home)
    return doors


@contextmanager
def ended_by_signal() -> Iterator[None]:
    """Raise SystemExit in the `with` block when SIGTERM arrives, so that the block cleans up as after Ctrl-C."""
    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def watch(
    picture: Callable[[], RenderableType],
    told: Callable[[], object],
    states: Callable[[], States],
    output: Format,
) -> NoReturn:
    """Show the current state until the command ends: a table on a terminal, elsewhere a line per change, or JSON."""
    console = screen(output)
    # Only a table with `-o table` is updated in place. A table with `-o wide` may not fit into the terminal.
    if output == "table" and console.is_terminal:
        with Live(picture(), console=console, auto_refresh=False) as live:
            while True:
                time.sleep(LOOK_S)
                live.update(picture(), refresh=True)
    if output == "table":
        log_states(states)
    while True:
        if output == "json":
            typer.echo(json.dumps(told()))
        else:
            console.print(picture())
        time.sleep(LOOK_S)


def feeds_told(feeds: Sequence[FeedProgress]) -> dict[str, object]:
    return {"feeds": [asdict(feed) for feed in feeds]}


FEED_COLUMNS: Mapping[str, Callable[[FeedProgress], str]] = {
    "feed": lambda feed: escape(feed.feed),
    "state": lambda feed: STATES[feed.state],
    "rows/s": lambda feed: compact(feed.rows_per_s),
    "rows": lambda feed: f"{feed.rows:,}",
    "batch": lambda feed: "–" if feed.batch is None else f"{feed.batch:,}",
    "batch ms": lambda feed: "–" if feed.batch_ms is None else milliseconds(feed.batch_ms),
    "lag": lambda feed: "–" if feed.lag is None else compact(feed.lag),
    "restarts": lambda feed: str(feed.restarts),
}


def ingest_table(title: str, feeds: Sequence[FeedProgress]) -> Sheet:
    """Return a table of the current figures of feeds, with the last error of each feed below it."""
    table = table_of(title, FEED_COLUMNS, feeds, left=2)
    failed = [f"{escape(feed.feed)}: {escape(feed.last_error)}" for feed in feeds if feed.last_error]
    if failed:
        table.caption = "\n".join(failed)
    return table


def check_table(title: str, file: StreamsFile, schemas: dict[str, StreamSchema]) -> Sheet:
    """Return a table of the streams and feeds that would be started."""
    heads = ("stream", "columns", "event time", "feed", "format", "sent by", "every ms", "mode")
    table = Sheet(title, heads, left=6, prose=(1,))
    for name, feed in file.all_feeds().items():
        source = feed.source
        for stream in feed.streams:
            schema = schemas[stream]
            cells = (
                escape(stream),
                escape(", ".join(f"{field.name} {field.type}" for field in schema.schema.fields)),
                "–" if schema.time is None else escape(schema.schema.names[schema.time]),
                escape(name),
                escape(source.format),
                source.path,
                str(source.trigger_ms),
                source.output_mode,
            )
            table.add_row(*cells)
    if file.packages():
        table.caption = f"packages to fetch for Spark: {', '.join(file.packages())}"
    return table
