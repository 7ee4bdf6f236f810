"""`weir down`: end the system of a cluster. What was declared stays in the catalog; answers and windows are gone."""

from __future__ import annotations

from typing import Annotated

import typer


def down(
    address: Annotated[str, typer.Option(help="Of the system's Ray cluster, as Ray takes it.")] = "auto",
) -> None:
    """End the system that `weir up --address` has left running on a cluster; the cluster goes on."""
    # The other commands need not wait for Ray to be imported.
    from actors.system import attach

    system = attach(address)
    name = system.name
    system.end()
    typer.echo(f"system {name} has ended")
