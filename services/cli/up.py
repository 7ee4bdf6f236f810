"""`weir up`: the catalog runs on this machine, with one command: a system, and Spark that brings its streams."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, Group
from rich.text import Text

from configs.declarations import read_documents
from configs.live import LiveSettings
from configs.managers import MANAGERS, known_manager
from configs.problems import InvalidInput
from configs.reading import parse_model
from configs.service import ADMISSIONS, PORT, ServiceSettings
from services.catalog.catalog import opened
from services.catalog.home import held, home_of
from services.catalog.reconcile import Reconciling
from services.cli.catalog_here import CatalogHere
from services.cli.class_views import ClassView, class_views
from services.cli.class_views import as_json as class_as_json
from services.cli.here import who
from services.cli.ingest import FolderOption, JsonOption, ended_by_signal, feeds_told, ingest_table, watch
from services.cli.machine import LocalMachine
from services.cli.sim import DEFAULT_MANAGER, make_folder
from services.cli.tables import class_view_table
from services.cli.up_service import Served, served
from services.ingest.java import find_java
from services.ingest.job import Door

if TYPE_CHECKING:
    from actors.system import System

FOLDER = Path("weir-up")
EVERYWHERE = ("0.0.0.0", "[::]")


def up(
    files: Annotated[
        list[Path] | None,
        typer.Option("--file", "-f", help="Documents to apply first.", show_default=False),
    ] = None,
    manager: Annotated[
        str, typer.Option("--manager", "-m", help=f"Who sheds and lends: {', '.join(MANAGERS)}.")
    ] = DEFAULT_MANAGER,
    lanes: Annotated[int, typer.Option(min=1, max=256, help="Processors that are given to queries.")] = 1,
    host: Annotated[str, typer.Option(help="Where other producers reach the gateway.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="The same.", show_default="one that is free")
    ] = 0,
    api_host: Annotated[str, typer.Option(help="Where REST and the console are reached.")] = "127.0.0.1",
    api_port: Annotated[int, typer.Option(min=0, max=65_535, help="The same; 0: one that is free.")] = PORT,
    api: Annotated[bool, typer.Option(help="Serve REST and the console.")] = True,
    admission: Annotated[
        str, typer.Option(help=f"What misses delay targets: {', '.join(ADMISSIONS)}.")
    ] = "warn",
    tls_certificate: Annotated[
        Path | None, typer.Option(help="PEM with its chain: serve by TLS.", show_default=False)
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(help="PEM, of the certificate.", show_default=False)] = None,
    metrics_operators: Annotated[
        bool, typer.Option("--metrics-operators", help="Tell Prometheus of each operator, too.")
    ] = False,
    folder: FolderOption = FOLDER,
    as_json: JsonOption = False,
) -> None:
    """Run what the catalog says, and what it comes to say; Ctrl-C ends all of it."""
    settings = LiveSettings(manager=known_manager(manager), lanes=lanes)
    service_settings = settings_of(
        host=api_host,
        port=api_port,
        admission=admission,
        tls_certificate=tls_certificate,
        tls_key=tls_key,
        metrics_operators=metrics_operators,
    )
    home, console = home_of(os.environ), Console(highlight=False, soft_wrap=True, quiet=as_json)
    with ended_by_signal(), ExitStack() as running:
        running.enter_context(held(home))
        catalog = running.enter_context(opened(home))
        # Nothing is declared if the port is taken.
        service = running.enter_context(served(catalog, home, service_settings, who())) if api else None
        if files:
            CatalogHere(catalog, who()).apply(read_documents(files))
        wanted = catalog.desired().file
        if wanted is not None:
            find_java(wanted.session.java_home, os.environ)
        make_folder("--folder", folder)
        if service is not None:
            for name, place in service.told().items():
                console.print(f"{name.replace('_', ' ')}: {place}")
        # The other commands need not wait for Ray to be imported.
        from actors.system import start
        from services.ingest.flight import FlightSettings

        system = running.enter_context(start(settings, [], endpoint=FlightSettings(host, port)))
        (node,) = system.status().system.nodes
        endpoint = system.endpoint(node)
        assert endpoint is not None
        console.print(f"gateway: {endpoint}")
        door = Door(from_here(endpoint, host), system.ingest_key)
        machine = LocalMachine(system, node, door, folder)
        running.callback(machine.stop)
        reconciling = Reconciling(catalog, machine)
        if service is not None:
            service.attach(system, settings, door, reconciling, machine.feeds, running)
        running.enter_context(reconciling)
        if service is not None:
            service.is_ready()
        overview = Overview(system, endpoint, machine, reconciling, service)
        watch(overview.picture, overview.told, as_json)


def settings_of(**told: object) -> ServiceSettings:
    """As the options say; they are named as they are written."""
    try:
        return parse_model(ServiceSettings, told)
    except InvalidInput as problem:
        api = "api-" if problem.field in ("host", "port") else ""
        problem.field = f"--{api}{problem.field.replace('_', '-')}"
        raise


def from_here(endpoint: str, host: str) -> str:
    """A name by which others know this machine need not be one that it knows itself."""
    return f"grpc://127.0.0.1:{endpoint.rpartition(':')[2]}" if host in EVERYWHERE else endpoint


class Overview:
    """What is to be seen of a system and its streams; of the system as it was last, while its coordinator is away."""

    def __init__(
        self,
        system: System,
        endpoint: str,
        machine: LocalMachine,
        reconciling: Reconciling,
        service: Served | None,
    ) -> None:
        self._system, self._endpoint, self._service = system, endpoint, service
        self._machine, self._reconciling = machine, reconciling
        self._views: Sequence[ClassView] = ()

    def picture(self) -> Group:
        feeds = ingest_table("feeds", self._machine.feeds())
        problems = (Text(one, style="yellow") for one in self._reconciling.problems)
        return Group(class_view_table(f"system {self._system.name}", self._look()), feeds, *problems)

    def told(self) -> dict[str, object]:
        return {
            "endpoint": self._endpoint,
            **(self._service.told() if self._service is not None else {}),
            "classes": [class_as_json(one) for one in self._look()],
            **feeds_told(self._machine.feeds()),
            "problems": list(self._reconciling.problems),
        }

    def _look(self) -> Sequence[ClassView]:
        from ray.exceptions import RayError

        with suppress(RayError):
            self._views = class_views(self._system.status().system, self._system.lending())
        return self._views
