"""`weir down`: end the system of WEIR_HOME, or a system on a Ray cluster.

Declarations stay in the catalog; answers and the contents of windows are lost.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import Annotated

import typer

from configs.errors import Away, InvalidInput, UnknownName
from services.cli.commands.top import reachable
from services.cli.shared_options import YesOption, confirm
from services.common.weir_home import HOME, Home, home_of

# Longest wait until `weir up` has ended: first Spark's feeds end, then the system, each within about ten seconds.
END_S = 90.0
POLL_S = 0.05


def down(
    address: Annotated[
        str | None,
        typer.Option(
            help="Address of the Ray cluster of another system, which is ended after a confirmation.",
            show_default="the system of WEIR_HOME",
        ),
    ] = None,
    yes: YesOption = False,
) -> None:
    """End the system that `weir up` runs from WEIR_HOME, and the `weir up` process itself.

    A Ray cluster keeps running. Declarations stay in the catalog; answers and the contents of windows are lost.
    """
    home = home_of(os.environ)
    if address is not None:
        if not yes:
            title = "other users may use this system, and there is no terminal to ask for a confirmation"
            hint = f"add --yes, or leave --address out to end the system of {HOME}"
            # The system at `address` may belong to another WEIR_HOME.
            unasked = InvalidInput(title, "--address", address, hint)
            confirm(f"End the system at {address} for all its users?", unasked)
        end_at(address, home)
        return
    own = home.system()
    if own is not None and own.on_cluster:
        # The process of `weir up` needs no signal: it ends by itself when it notices that its system has ended.
        with suppress(UnknownName):
            end_at(None, home)
        home.forget_system()
    elif (pid := home.holder()) is not None:
        end_process(home, pid)
    else:
        typer.echo(f"nothing runs from {home.folder}")


def end_at(address: str | None, home: Home) -> None:
    """End the system on the Ray cluster at `address`. Without an address, end the system of WEIR_HOME."""
    address = reachable(address, home)
    # Ray is imported when it is needed, because a system of this machine is ended without Ray.
    from actors.system import attach

    system = attach(address)
    name = system.name
    system.end()
    typer.echo(f"system {name} has ended")


def end_process(home: Home, pid: int) -> None:
    """Send SIGTERM to the `weir up` process of this home, and wait until the process has ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    until = time.monotonic() + END_S
    while home.is_held():
        if time.monotonic() > until:
            raise Away(
                f"`weir up` (process {pid}) has not ended within {END_S:g} s",
                hint="end the process of `weir up` by hand",
            )
        time.sleep(POLL_S)
    typer.echo(f"the system of {home.folder} has ended")
