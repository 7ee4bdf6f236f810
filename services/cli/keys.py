"""`weir keys create | list | revoke`."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from configs.problems import InvalidInput
from services.cli.catalog_views import OutputOption, lines_table, moment, pairs_table, show
from services.cli.here import declarations
from services.remote.models import KeyInfo

UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
TIMES = ("created_at", "expires_at", "used_at", "revoked_at")

keys = typer.Typer(help="Who may do what.", no_args_is_help=True)


@keys.command()
def create(
    principal: Annotated[str, typer.Argument(help="Whose it is; two live keys at most.")],
    scope: Annotated[
        list[str],
        typer.Option(
            "--scope", "-s", help="admin, tenant:NAME, ingest:STREAM,…, metrics or feeds; may be repeated."
        ),
    ],
    expires: Annotated[
        str | None, typer.Option(help="After so long: 90d, 12h, 30m.", show_default="never")
    ] = None,
    output: OutputOption = "table",
) -> None:
    """Make a key. It is shown now and never again."""
    expires_s = None if expires is None else seconds_of(expires)
    with declarations() as weir:
        made = weir.create_key(principal, scope, expires_s)
    told = {"key": made.key, **key_told(made)}
    show(output, told, lambda: pairs_table("keep the key now: it is not shown again", told))


@keys.command(name="list")
def list_(output: OutputOption = "table") -> None:
    """Show all keys, also those that are no more; not what they are."""
    with declarations() as weir:
        found = weir.list_keys()
    heads = ("id", "principal", "scopes", "state", "created", "expires", "used")
    now = datetime.now(UTC)
    show(
        output,
        [key_told(one) for one in found],
        lambda: lines_table(heads, (line_of(one, now) for one in found)),
    )


@keys.command()
def revoke(id: Annotated[str, typer.Argument(help="Of the key, as `weir keys list` shows it.")]) -> None:
    """Nobody comes in with the key any more, within seconds."""
    with declarations() as weir:
        weir.revoke_key(id)
    typer.echo(f"revoked {id}")


def seconds_of(text: str) -> float:
    found = re.fullmatch(r"([0-9]{1,9})([smhd])", text)
    if found is None:
        raise InvalidInput("not a length of time", "--expires", text, "write 90d, 12h or 30m")
    return float(int(found[1]) * UNITS_S[found[2]])


def key_told(one: KeyInfo) -> dict[str, Any]:
    told = one.model_dump(exclude={"key"}) | {"scopes": list(one.scopes)}
    return told | {name: None if told[name] is None else moment(told[name]) for name in TIMES}


def line_of(one: KeyInfo, now: datetime) -> tuple[str, ...]:
    is_over = one.expires_at is not None and one.expires_at <= now
    state = "revoked" if one.revoked_at is not None else "expired" if is_over else "live"
    times = (moment(one.created_at), moment(one.expires_at), moment(one.used_at))
    return (one.id, one.principal, " ".join(one.scopes), state, *times)
