"""`weir up`: what the catalog says runs, with one command: a system, its service, and Spark that brings its streams.

On this machine all of it begins and ends with the command. On a Ray cluster (`--address`) the system is found or started,
and goes on when the command ends: `weir down` ends it. Feeds of a cluster are for `weir ingest --from-service`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Console, Group
from rich.text import Text

from configs.declarations import read_documents
from configs.managers import MANAGERS, known_manager
from configs.service import ADMISSIONS, PORT
from configs.up import UpSettings
from services.catalog.catalog import opened
from services.catalog.home import held, home_of
from services.catalog.reconcile import Reconciling
from services.cli.catalog_here import CatalogHere
from services.cli.class_views import ClassView, class_views
from services.cli.class_views import as_json as class_as_json
from services.cli.here import who
from services.cli.ingest import (
    LOOK_S,
    FolderOption,
    JsonOption,
    ended_by_signal,
    feeds_told,
    ingest_table,
    watch,
)
from services.cli.machine import SystemMachine
from services.cli.mirror import mirror_table, mirrors_told
from services.cli.sim import DEFAULT_MANAGER, make_folder
from services.cli.tables import class_view_table
from services.cli.up_service import Served, given_keys, served
from services.cli.up_settings import settings_of
from services.ingest.bringing import Brings
from services.ingest.java import find_java
from services.ingest.job import Door
from services.ingest.keys import new_key
from services.mirror.doors import SystemDoor
from services.mirror.running import Mirrors

if TYPE_CHECKING:
    from actors.system import System
    from services.watch.watch import Watch

FOLDER = Path("weir-up")
EVERYWHERE = ("0.0.0.0", "[::]")
ConfigOption = Annotated[
    Path | None, typer.Option("--config", "-c", help="Settings; options go before them.", show_default=False)
]


def up(
    files: Annotated[
        list[Path] | None,
        typer.Option("--file", "-f", help="Documents to apply first.", show_default=False),
    ] = None,
    config: ConfigOption = None,
    address: Annotated[
        str | None,
        typer.Option(
            help="A Ray cluster, as Ray takes it: the system goes on when this command ends.",
            show_default="a Ray of this machine's own",
        ),
    ] = None,
    manager: Annotated[
        str | None,
        typer.Option(
            "--manager",
            "-m",
            help=f"Who sheds and lends: {', '.join(MANAGERS)}.",
            show_default=DEFAULT_MANAGER,
        ),
    ] = None,
    lanes: Annotated[
        int | None,
        typer.Option(
            min=1, max=256, help="Processors of a node that are given to queries.", show_default="1"
        ),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(
            help="Where other producers reach the gateway; `node`: the node's address.",
            show_default="127.0.0.1",
        ),
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="The same.", show_default="one that is free")
    ] = None,
    api_host: Annotated[
        str | None, typer.Option(help="Where REST and the console are reached.", show_default="127.0.0.1")
    ] = None,
    api_port: Annotated[
        int | None,
        typer.Option(min=0, max=65_535, help="The same; 0: one that is free.", show_default=str(PORT)),
    ] = None,
    api: Annotated[bool, typer.Option(help="Serve REST and the console.")] = True,
    admission: Annotated[
        str | None,
        typer.Option(help=f"What misses delay targets: {', '.join(ADMISSIONS)}.", show_default="warn"),
    ] = None,
    tls_certificate: Annotated[
        Path | None, typer.Option(help="PEM with its chain: serve by TLS.", show_default=False)
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(help="PEM, of the certificate.", show_default=False)] = None,
    metrics_operators: Annotated[
        bool | None,
        typer.Option(
            "--metrics-operators", help="Tell Prometheus of each operator, too.", show_default=False
        ),
    ] = None,
    folder: FolderOption = FOLDER,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Print no more than problems, as they come and go.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Run what the catalog says, and what it comes to say; Ctrl-C ends it, but for a system on a cluster."""
    settings = settings_of(
        config,
        {
            "--address": ("cluster.address", address),
            "--manager": ("live.manager", None if manager is None else known_manager(manager)),
            "--lanes": ("live.lanes", lanes),
            "--host": ("gateway.host", host),
            "--port": ("gateway.port", port),
            "--api-host": ("service.host", api_host),
            "--api-port": ("service.port", api_port),
            "--admission": ("service.admission", admission),
            "--tls-certificate": ("service.tls_certificate", tls_certificate),
            "--tls-key": ("service.tls_key", tls_key),
            "--metrics-operators": ("service.metrics_operators", metrics_operators),
        },
    )
    home, console = home_of(os.environ), Console(highlight=False, soft_wrap=True, quiet=as_json)
    on_cluster = settings.cluster.address is not None
    with ended_by_signal(), ExitStack() as running:
        running.enter_context(held(home))
        catalog = running.enter_context(opened(home))
        # Nothing is declared if the port is taken.
        keys = given_keys(os.environ)
        service = running.enter_context(served(catalog, home, settings.service, who(), keys)) if api else None
        if files:
            CatalogHere(catalog, who()).apply(read_documents(files))
        wanted = None if on_cluster else catalog.desired().file
        if wanted is not None:
            find_java(wanted.session.java_home, os.environ)
        if not on_cluster:
            make_folder("--folder", folder)
        if service is not None:
            for name, place in service.told().items():
                console.print(f"{name.replace('_', ' ')}: {place}")
        system = running.enter_context(begun(settings))
        own_key, brings, endpoint = new_key(), None, None
        if not on_cluster:
            (node,) = system.status().system.nodes
            endpoint = system.endpoint(node)
            assert endpoint is not None
            console.print(f"gateway: {endpoint}")
            own_key = system.ingest_key
            brings = Brings(Door(from_here(endpoint, settings.gateway.host), own_key), folder)
        watch_of_system = running.enter_context(watching(system))
        door = SystemDoor(watch_of_system, watch_of_system.endpoint_of, lambda: own_key)
        machine = SystemMachine(system, own_key, Mirrors(door), brings)
        running.callback(machine.stop)
        reconciling = Reconciling(catalog, machine)
        watch_of_system.problems = lambda: reconciling.problems
        if service is not None:
            feeds = None if on_cluster else machine.feeds
            service.attach(system, watch_of_system, settings, own_key, feeds, machine.mirrors, running)
        running.enter_context(reconciling)
        if service is not None:
            service.is_ready()
        overview = Overview(system, endpoint, machine, reconciling, service)
        if quiet:
            tell_problems(reconciling)
        watch(overview.picture, overview.told, as_json)


def tell_problems(reconciling: Reconciling) -> NoReturn:
    """Until somebody ends it, a line for each that is new."""
    before: frozenset[str] = frozenset()
    while True:
        now = frozenset(reconciling.problems)
        for one in sorted(now - before):
            typer.echo(one, err=True)
        if before and not now:
            typer.echo("what is declared runs", err=True)
        before = now
        time.sleep(LOOK_S)


def begun(settings: UpSettings) -> System:
    # The other commands need not wait for Ray to be imported.
    from actors.system import found_or_started, start
    from services.ingest.flight import FlightSettings

    endpoint, cluster = FlightSettings(settings.gateway.host, settings.gateway.port), settings.cluster
    if cluster.address is None:
        return start(settings.live, [], endpoint=endpoint)
    return found_or_started(
        settings.live, cluster.address, wait_s=cluster.wait_s, pinned=cluster.pin_lanes, endpoint=endpoint
    )


def watching(system: System) -> Watch:
    from services.watch.source import RunningSystem
    from services.watch.watch import Watch

    return Watch(RunningSystem(system))


def from_here(endpoint: str, host: str) -> str:
    """A name by which others know this machine need not be one that it knows itself."""
    return f"grpc://127.0.0.1:{endpoint.rpartition(':')[2]}" if host in EVERYWHERE else endpoint


class Overview:
    """What is to be seen of a system and its streams; of the system as it was last, while its coordinator is away."""

    def __init__(
        self,
        system: System,
        endpoint: str | None,
        machine: SystemMachine,
        reconciling: Reconciling,
        service: Served | None,
    ) -> None:
        self._system, self._endpoint, self._service = system, endpoint, service
        self._machine, self._reconciling = machine, reconciling
        self._views: Sequence[ClassView] = ()

    def picture(self) -> Group:
        feeds = [ingest_table("feeds", self._machine.feeds())]
        if mirrors := self._machine.mirrors():
            feeds.append(mirror_table("mirrors", mirrors))
        problems = (Text(one, style="yellow") for one in self._reconciling.problems)
        return Group(class_view_table(f"system {self._system.name}", self._look()), *feeds, *problems)

    def told(self) -> dict[str, object]:
        return {
            **({} if self._endpoint is None else {"endpoint": self._endpoint}),
            **(self._service.told() if self._service is not None else {}),
            "classes": [class_as_json(one) for one in self._look()],
            **feeds_told(self._machine.feeds()),
            **mirrors_told(self._machine.mirrors()),
            "problems": list(self._reconciling.problems),
        }

    def _look(self) -> Sequence[ClassView]:
        from ray.exceptions import RayError

        with suppress(RayError):
            self._views = class_views(self._system.status().system, self._system.lending())
        return self._views
