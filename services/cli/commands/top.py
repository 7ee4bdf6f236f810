"""`weir top`: show the current figures of all classes of a service, of the system of WEIR_HOME, or of a Ray cluster."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from rich.live import Live

from actors.runtime.run_dirs import Cluster, clusters, shared_memory
from configs.errors import InvalidInput
from services.cli.service_location import service
from services.cli.tables.class_tables import class_quality_table, class_view_table
from services.cli.tables.sheet import Format, FormatOption, Sheet, screen
from services.common.weir_home import ENDPOINT, HOME, Home, home_of
from services.watch.class_views import ClassView, as_json, class_views, unit_lines, view_told

if TYPE_CHECKING:
    from actors.system import System
    from services.client import Client

ClassTable = Callable[[str, Sequence[ClassView]], Sheet]
START_ONE = "start a system with `weir up`, or write the address of its Ray cluster with --address"
AUTH_MODE = "RAY_AUTH_MODE"
# `auto` is refused: Ray would connect to any Ray process of the machine.
HOST_PORT = re.compile(r"(?:ray://)?[^\s/]+:[0-9]{1,5}")


def top(
    once: Annotated[bool, typer.Option("--once", help="Print the table once and exit.")] = False,
    output: FormatOption = "table",
    quality: Annotated[
        bool,
        typer.Option(
            "--quality",
            help="Show the quality of answers: utility, missed deadlines, staleness and slowdown.",
        ),
    ] = False,
    interval: Annotated[float, typer.Option(min=0.1, max=3600.0, help="Seconds between updates.")] = 1.0,
    address: Annotated[
        str | None,
        typer.Option(help="Address of the system's Ray cluster.", show_default="the system of WEIR_HOME"),
    ] = None,
) -> None:
    """Show the current state of the classes of a running system, until Ctrl-C.

    Without --address, the classes are those of the service at WEIR_ENDPOINT, or else of the system that runs from WEIR_HOME.

    A tenant's key shows only the tenant's own class.
    """
    table = class_quality_table if quality else class_view_table
    home = home_of(os.environ)
    if address is None and (os.environ.get(ENDPOINT) or home.served_at()):
        with service() as weir:
            watch(partial(picture_of, weir, table), partial(told_by, weir), once, output, interval)
        return
    address = reachable(address, home)
    # Ray is imported after `reachable` has set the environment variable that Ray reads at its import.
    from actors.system import attach

    system = attach(address)
    try:
        watch(partial(picture, system, table), partial(described, system), once, output, interval)
    finally:
        system.stop()


def watch(
    picture: Callable[[], Sheet],
    described: Callable[[], object],
    once: bool,
    output: Format,
    interval: float,
) -> None:
    """Print one JSON object, one table, or a table that is updated until Ctrl-C."""
    if output == "json":
        typer.echo(json.dumps(described(), indent=2))
        return
    # A table that is updated in place must fit into the terminal, so `-o wide` is effective only with --once.
    console = screen(output if once else "table")
    if once or not console.is_terminal:
        console.print(picture())
        return
    with Live(picture(), console=console, auto_refresh=False) as live:
        while True:
            time.sleep(interval)
            live.update(picture(), refresh=True)


def reachable(address: str | None, home: Home) -> str:
    """Return `address`. Without an address, return the address of this home's system, or else of the `weir demo` that runs on this machine.

    The function also sets the environment variable RAY_AUTH_MODE, if unset, to the mode that the Ray cluster requires.
    """
    if address is not None and HOST_PORT.fullmatch(address) is None:
        raise InvalidInput(
            "this is not the address of a Ray cluster", "--address", address, "write HOST:PORT"
        )
    here = clusters(shared_memory())
    if address is None and (own := home.system()) is not None:
        systems = {own.name: Cluster(own.address, own.auth_mode)}
    elif address is None:
        home.must_not_be_killed()
        # If no system runs from this WEIR_HOME, a running `weir demo` is used, because a demonstration has no home of its own.
        # The system of another WEIR_HOME is never used.
        systems = {name: cluster for name, cluster in here.items() if cluster.home is None}
    else:
        systems = {name: cluster for name, cluster in here.items() if cluster.address == address}
    if address is None and not systems:
        raise InvalidInput("no system runs from this folder", HOME, str(home.folder), START_ONE)
    if len(systems) > 1:
        choices = ", ".join(f"{cluster.address} (system {name})" for name, cluster in systems.items())
        raise InvalidInput("several systems run on this machine", "--address", hint=f"write one of {choices}")
    for cluster in systems.values():
        address = cluster.address
        if cluster.auth_mode is not None:
            os.environ.setdefault(AUTH_MODE, cluster.auth_mode)
    assert address is not None
    return address


def picture(system: System, table: ClassTable) -> Sheet:
    status = system.status()
    views = class_views(status.system, system.lending())
    classes = count(len(views), "class", "classes")
    units = count(sum(view.units for view in views), "unit", "units")
    nodes = count(len(status.system.nodes), "node", "nodes")
    return table(f"system {system.name}: {classes} in {units} on {nodes}", views)


def count(number: int, one: str, several: str) -> str:
    return f"{number:,} {one if number == 1 else several}"


def picture_of(weir: Client, table: ClassTable) -> Sheet:
    views = [view_told(class_) for class_ in weir.live.classes()]
    return table(f"{weir.endpoint}: {count(len(views), 'class', 'classes')}", views)


def told_by(weir: Client) -> dict[str, object]:
    return {"endpoint": weir.endpoint, "classes": weir.live.classes()}


def described(system: System) -> dict[str, object]:
    status = system.status()
    lending = system.lending()
    return {
        "system": system.name,
        "nodes": dict(status.system.nodes),
        "classes": [as_json(view) for view in class_views(status.system, lending)],
        "units": unit_lines(status.system.units),
        "unplaced": list(status.system.unplaced),
        "lending": lending,
        "waited_for": list(status.waited_for),
        "quarantined": list(status.quarantined),
        "failures": list(status.failures),
    }
