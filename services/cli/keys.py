"""`weir keys create | list | revoke`."""

from __future__ import annotations

import re
import time
from dataclasses import asdict
from typing import Annotated, Any

import typer

from configs.problems import InvalidInput
from services.catalog.keys import KeyInfo
from services.cli.apply import here, who
from services.cli.catalog_views import OutputOption, lines_table, moment, pairs_table, show

UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
TIMES = ("created_at", "expires_at", "used_at", "revoked_at")

keys = typer.Typer(help="Who may do what.", no_args_is_help=True)


@keys.command()
def create(
    principal: Annotated[str, typer.Argument(help="Whose it is; two live keys at most.")],
    scope: Annotated[
        list[str],
        typer.Option("--scope", "-s", help="admin, tenant:NAME or ingest:STREAM,…; may be repeated."),
    ],
    expires: Annotated[
        str | None, typer.Option(help="After so long: 90d, 12h, 30m.", show_default="never")
    ] = None,
    output: OutputOption = "table",
) -> None:
    """Make a key. It is shown now and never again."""
    expires_at = None if expires is None else time.time() + seconds_of(expires)
    with here() as catalog:
        key, info = catalog.keys.create(principal, scope, who(), expires_at)
    told = {"key": key, **key_told(info)}
    show(output, told, lambda: pairs_table("keep the key now: it is not shown again", told))


@keys.command(name="list")
def list_(output: OutputOption = "table") -> None:
    """Show all keys, also those that are no more; not what they are."""
    with here() as catalog:
        found = catalog.keys.all()
    heads = ("id", "principal", "scopes", "state", "created", "expires", "used")
    now = time.time()
    show(
        output,
        [key_told(one) for one in found],
        lambda: lines_table(heads, (line_of(one, now) for one in found)),
    )


@keys.command()
def revoke(id: Annotated[str, typer.Argument(help="Of the key, as `weir keys list` shows it.")]) -> None:
    """Nobody comes in with the key any more, within seconds."""
    with here() as catalog:
        catalog.keys.revoke(id, who())
    typer.echo(f"revoked {id}")


def seconds_of(text: str) -> float:
    found = re.fullmatch(r"([0-9]{1,9})([smhd])", text)
    if found is None:
        raise InvalidInput("not a length of time", "--expires", text, "write 90d, 12h or 30m")
    return float(int(found[1]) * UNITS_S[found[2]])


def key_told(one: KeyInfo) -> dict[str, Any]:
    told = asdict(one) | {"scopes": list(one.scopes)}
    return told | {name: None if told[name] is None else moment(told[name]) for name in TIMES}


def line_of(one: KeyInfo, now: float) -> tuple[str, ...]:
    state = "live" if one.is_live(now) else "expired" if one.revoked_at is None else "revoked"
    times = (moment(one.created_at), moment(one.expires_at), moment(one.used_at))
    return (one.id, one.principal, " ".join(one.scopes), state, *times)
