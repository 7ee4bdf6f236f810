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
from services.catalog.catalog import opened
from services.catalog.home import home_of
from services.catalog.reconcile import Reconciling
from services.cli.apply import who
from services.cli.class_views import ClassView, class_views
from services.cli.class_views import as_json as class_as_json
from services.cli.ingest import FolderOption, JsonOption, ended_by_signal, feeds_told, ingest_table, watch
from services.cli.machine import LocalMachine
from services.cli.sim import DEFAULT_MANAGER, make_folder
from services.cli.tables import class_view_table
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
    folder: FolderOption = FOLDER,
    as_json: JsonOption = False,
) -> None:
    """Run what the catalog says, and what it comes to say; Ctrl-C ends all of it."""
    settings = LiveSettings(manager=known_manager(manager), lanes=lanes)
    with ended_by_signal(), ExitStack() as running:
        catalog = running.enter_context(opened(home_of(os.environ)))
        if files:
            catalog.apply(read_documents(files), who())
        wanted = catalog.desired().file
        if wanted is not None:
            find_java(wanted.session.java_home, os.environ)
        make_folder("--folder", folder)
        # The other commands need not wait for Ray to be imported.
        from actors.system import start
        from services.ingest.flight import FlightSettings

        system = running.enter_context(start(settings, [], endpoint=FlightSettings(host, port)))
        (node,) = system.status().system.nodes
        endpoint = system.endpoint(node)
        assert endpoint is not None
        if not as_json:
            Console(highlight=False, soft_wrap=True).print(f"gateway: {endpoint}")
        machine = LocalMachine(system, node, Door(from_here(endpoint, host), system.ingest_key), folder)
        running.callback(machine.stop)
        reconciling = running.enter_context(Reconciling(catalog, machine))
        overview = Overview(system, endpoint, machine, reconciling)
        watch(overview.picture, overview.told, as_json)


def from_here(endpoint: str, host: str) -> str:
    """A name by which others know this machine need not be one that it knows itself."""
    return f"grpc://127.0.0.1:{endpoint.rpartition(':')[2]}" if host in EVERYWHERE else endpoint


class Overview:
    """What is to be seen of a system and its streams; of the system as it was last, while its coordinator is away."""

    def __init__(
        self, system: System, endpoint: str, machine: LocalMachine, reconciling: Reconciling
    ) -> None:
        self._system, self._endpoint = system, endpoint
        self._machine, self._reconciling = machine, reconciling
        self._views: Sequence[ClassView] = ()

    def picture(self) -> Group:
        feeds = ingest_table("feeds", self._machine.feeds())
        problems = (Text(one, style="yellow") for one in self._reconciling.problems)
        return Group(class_view_table(f"system {self._system.name}", self._look()), feeds, *problems)

    def told(self) -> dict[str, object]:
        return {
            "endpoint": self._endpoint,
            "classes": [class_as_json(one) for one in self._look()],
            **feeds_told(self._machine.feeds()),
            "problems": list(self._reconciling.problems),
        }

    def _look(self) -> Sequence[ClassView]:
        from ray.exceptions import RayError

        with suppress(RayError):
            self._views = class_views(self._system.status().system, self._system.lending())
        return self._views
