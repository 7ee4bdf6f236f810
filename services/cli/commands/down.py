"""`weir down`: end the system of WEIR_HOME, or one on a Ray cluster.

What was declared stays in the catalog; answers and windows are gone.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from typing import Annotated

import typer

from configs.errors import Away, InvalidInput, UnknownName
from services.cli.commands.top import reachable
from services.common.weir_home import HOME, Home, home_of

# Spark's feeds end first, then the system, each within some ten seconds.
END_S = 90.0
POLL_S = 0.05


def down(
    address: Annotated[
        str | None,
        typer.Option(
            help="Address of another system's Ray cluster; asks before it is ended.",
            show_default="the system of WEIR_HOME",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """End the system that `weir up` runs from WEIR_HOME, and that `weir up`.

    On a Ray cluster the cluster continues. What was declared stays in the catalog; answers and windows are gone.
    """
    home = home_of(os.environ)
    if address is not None:
        check_meant(address, yes)
        end_at(address, home)
        return
    own = home.system()
    if own is not None and own.on_cluster:
        # A `weir up` that still serves it ends by itself, as soon as it sees that the system is gone.
        with suppress(UnknownName):
            end_at(None, home)
        home.forget_system()
    elif (pid := home.holder()) is not None:
        end_process(home, pid)
    else:
        typer.echo(f"nothing runs from {home.folder}")


def check_meant(address: str, yes: bool) -> None:
    """Ask whether the system at an address is to end: it may belong to another home."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise InvalidInput(
            "this ends a system that others may use",
            "--address",
            address,
            f"add --yes; or leave --address out to end the system of {HOME}",
        )
    typer.confirm(f"End the system at {address} for all its users?", abort=True)


def end_at(address: str | None, home: Home) -> None:
    """End the system of a Ray cluster; without an address, the home's own."""
    address = reachable(address, home)
    # The other commands need not wait for Ray to be imported.
    from actors.system import attach

    system = attach(address)
    name = system.name
    system.end()
    typer.echo(f"system {name} has ended")


def end_process(home: Home, pid: int) -> None:
    """End the `weir up` that holds the home, in order, and wait for its end."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    until = time.monotonic() + END_S
    while home.is_held():
        if time.monotonic() > until:
            raise Away(f"`weir up` (process {pid}) has not ended within {END_S:g} s", hint="end it by hand")
        time.sleep(POLL_S)
    typer.echo(f"the system of {home.folder} has ended")
