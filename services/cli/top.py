"""`weir top`: the classes of the running system as they fare now: of this machine or cluster, or of a service."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from actors.dirs import clusters, shared_memory
from configs.problems import InvalidInput
from services.catalog.home import ENDPOINT
from services.cli.class_views import ClassView, as_json, class_views, unit_lines, view_told
from services.cli.here import service
from services.cli.tables import class_quality_table, class_view_table

if TYPE_CHECKING:
    from actors.system import System
    from services.client import Client

ClassTable = Callable[[str, Sequence[ClassView]], Table]
START_ONE = "start one with `weir demo`, or say on which Ray cluster it is"
AUTH_MODE = "RAY_AUTH_MODE"


def top(
    once: Annotated[bool, typer.Option("--once", help="Print the table once.")] = False,
    as_object: Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")] = False,
    quality: Annotated[
        bool,
        typer.Option(
            "--quality",
            help="What answers are worth, missed deadlines, staleness, tardiness, slowdown, queues.",
        ),
    ] = False,
    interval: Annotated[float, typer.Option(min=0.1, max=3600.0, help="Seconds between two looks.")] = 1.0,
    address: Annotated[
        str | None,
        typer.Option(
            help="Of the system's Ray cluster, as Ray takes it.", show_default="the one on this machine"
        ),
    ] = None,
) -> None:
    """Watch the classes of a running system; Ctrl-C ends it.

    Without --address, of the service that WEIR_ENDPOINT names; a tenant's key shows its own class.

    Without both, of the system on this machine.
    """
    table = class_quality_table if quality else class_view_table
    if address is None and os.environ.get(ENDPOINT):
        with service() as weir:
            watch(partial(picture_of, weir, table), partial(told_by, weir), once, as_object, interval)
        return
    address = reachable(address)
    # The other commands need not wait for Ray to be imported, and Ray looks at its environment when it is.
    from actors.system import attach

    system = attach(address)
    try:
        watch(partial(picture, system, table), partial(described, system), once, as_object, interval)
    finally:
        system.stop()


def watch(
    picture: Callable[[], Table],
    described: Callable[[], object],
    once: bool,
    as_object: bool,
    interval: float,
) -> None:
    """As it is asked for: an object, a table, or a table that moves."""
    if as_object:
        typer.echo(json.dumps(described(), indent=2))
        return
    console = Console()
    if once or not console.is_terminal:
        console.print(picture())
        return
    with Live(picture(), console=console, auto_refresh=False) as screen:
        while True:
            time.sleep(interval)
            screen.update(picture(), refresh=True)


def reachable(address: str | None) -> str:
    """The address given, or that of the system that was started on this machine; with the environment it asks for."""
    here = clusters(shared_memory())
    found = {name: one for name, one in here.items() if address in (None, one.address)}
    if address is None and not found:
        raise InvalidInput("no system runs on this machine", "--address", hint=START_ONE)
    if len(found) > 1:
        told = ", ".join(f"{one.address} (system {name})" for name, one in found.items())
        raise InvalidInput("several systems run on this machine", "--address", hint=f"give one of {told}")
    for one in found.values():
        address = one.address
        if one.auth_mode is not None:
            os.environ.setdefault(AUTH_MODE, one.auth_mode)
    assert address is not None
    return address


def picture(system: System, table: ClassTable = class_view_table) -> Table:
    status = system.status()
    views = class_views(status.system, system.lending())
    return table(title(system, views, len(status.system.nodes)), views)


def title(system: System, views: list[ClassView], nodes: int) -> str:
    units = sum(one.units for one in views)
    return f"system {system.name}: {len(views)} classes in {units} units on {nodes} node(s)"


def picture_of(weir: Client, table: ClassTable = class_view_table) -> Table:
    views = [view_told(one) for one in weir.classes()]
    return table(f"{weir.endpoint}: {len(views)} classes", views)


def told_by(weir: Client) -> dict[str, object]:
    return {"endpoint": weir.endpoint, "classes": weir.classes()}


def described(system: System) -> dict[str, object]:
    status = system.status()
    lending = system.lending()
    return {
        "system": system.name,
        "nodes": dict(status.system.nodes),
        "classes": [as_json(one) for one in class_views(status.system, lending)],
        "units": unit_lines(status.system.units),
        "unplaced": list(status.system.unplaced),
        "lending": lending,
        "waited_for": list(status.waited_for),
        "quarantined": list(status.quarantined),
        "failures": list(status.failures),
    }
