"""`weir keys create | ls | revoke`: manage the API keys of a service."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from services.cli.lazy_commands import CommandGroup
from services.cli.service_location import declarations
from services.cli.shared_options import seconds_of
from services.cli.tables.catalog_views import OutputOption, lines_table, moment, show, when
from services.cli.tables.sheet import Description
from services.remote.models import KeyInfo

TIMES = ("created_at", "expires_at", "used_at", "revoked_at")

keys = CommandGroup(help="Create, list and revoke the keys that the service accepts.", no_args_is_help=True)


@keys.command()
def create(
    principal: Annotated[
        str,
        typer.Argument(help="Person or program that uses the key, and can have at most two valid keys."),
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
        typer.Option(help="Time until the key expires, such as 90d, 12h or 30m.", show_default="never"),
    ] = None,
    output: OutputOption = "table",
) -> None:
    """Create a key and print it. A key cannot be shown again later."""
    expires_s = None if expires is None else seconds_of(expires, "--expires")
    with declarations() as weir:
        created = weir.create_key(principal, scope, expires_s)
    fields = {"key": created.key, **key_told(created)}
    show(output, fields, lambda: Description("store the key now: it is not shown again", fields))


@keys.command()
def ls(output: OutputOption = "table") -> None:
    """List the identifiers, scopes and states of all keys, including revoked and expired keys."""
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
    """Revoke a key. The service refuses a revoked key within seconds."""
    with declarations() as weir:
        weir.revoke_key(id)
    typer.echo(f"revoked {id}")


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
