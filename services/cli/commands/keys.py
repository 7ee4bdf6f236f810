"""`weir keys create | ls | revoke`."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from configs.errors import InvalidInput
from services.cli.lazy_commands import CommandGroup
from services.cli.service_location import declarations
from services.cli.tables.catalog_views import OutputOption, lines_table, moment, show, when
from services.cli.tables.sheet import Description
from services.remote.models import KeyInfo

UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
TIMES = ("created_at", "expires_at", "used_at", "revoked_at")

keys = CommandGroup(help="Create, list and revoke the keys that the service accepts.", no_args_is_help=True)


@keys.command()
def create(
    principal: Annotated[
        str, typer.Argument(help="Person or program that the key is for; each has two live keys at most.")
    ],
    scope: Annotated[
        list[str],
        typer.Option(
            "--scope",
            "-s",
            help="Scope of the key: admin, tenant:NAME, ingest:STREAM,…, metrics or feeds; may be repeated.",
        ),
    ],
    expires: Annotated[
        str | None,
        typer.Option(help="Length of time after which the key expires: 90d, 12h, 30m.", show_default="never"),
    ] = None,
    output: OutputOption = "table",
) -> None:
    """Create a key. It is shown now and never again."""
    expires_s = None if expires is None else seconds_of(expires)
    with declarations() as weir:
        created = weir.create_key(principal, scope, expires_s)
    fields = {"key": created.key, **key_told(created)}
    show(output, fields, lambda: Description("keep the key now: it is not shown again", fields))


@keys.command()
def ls(output: OutputOption = "table") -> None:
    """List all keys, also revoked and expired ones, without the keys themselves."""
    with declarations() as weir:
        infos = weir.list_keys()
    heads = ("id", "principal", "scopes", "state", "created", "expires", "used")
    now = datetime.now(UTC)
    show(
        output,
        [key_told(info) for info in infos],
        lambda: lines_table(heads, (line_of(info, now) for info in infos), ("created",)),
    )


@keys.command()
def revoke(
    id: Annotated[str, typer.Argument(help="Identifier of the key, as `weir keys ls` shows it.")],
) -> None:
    """Revoke a key: the service refuses it within seconds."""
    with declarations() as weir:
        weir.revoke_key(id)
    typer.echo(f"revoked {id}")


def seconds_of(text: str) -> float:
    match = re.fullmatch(r"([0-9]{1,9})([smhd])", text)
    if match is None:
        raise InvalidInput("not a length of time", "--expires", text, "write 90d, 12h or 30m")
    return float(int(match[1]) * UNITS_S[match[2]])


def key_told(one: KeyInfo) -> dict[str, Any]:
    fields = one.model_dump(exclude={"key"}) | {"scopes": list(one.scopes)}
    return fields | {name: None if fields[name] is None else moment(fields[name]) for name in TIMES}


def line_of(one: KeyInfo, now: datetime) -> tuple[str, ...]:
    is_over = one.expires_at is not None and one.expires_at <= now
    state = "revoked" if one.revoked_at is not None else "expired" if is_over else "live"
    times = (
        when(one.created_at),
        "never" if one.expires_at is None else when(one.expires_at),
        "never" if one.used_at is None else when(one.used_at),
    )
    return (one.id, one.principal, " ".join(one.scopes), state, *times)
