"""Arguments and options that several commands have, with confirmations and durations."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from configs.durations import HOW_TO_WRITE, seconds_in
from configs.errors import InvalidInput
from services.cli.completion import tenants

TenantArgument = Annotated[
    str | None,
    typer.Argument(help="Tenant to show.", show_default="the tenant of the key", autocompletion=tenants),
]
TenantsArgument = Annotated[
    str | None,
    typer.Argument(help="Tenant to show.", show_default="all tenants", autocompletion=tenants),
]
QUERY_HELP = "Tenant and name of the query; with a tenant's own key, QUERY is enough."
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
RecordOption = Annotated[
    Path | None,
    typer.Option(
        help="Folder in which the run's events and decisions are recorded, for `weir sim --replay`."
    ),
]


def confirm(question: str, unasked: InvalidInput) -> None:
    """Ask the user `question`, and end the command if the user refuses. Without a terminal, raise the error `unasked`."""
    if not sys.stdin.isatty():
        raise unasked
    typer.confirm(question, abort=True)


def seconds_of(text: str, option: str) -> float:
    """Return the seconds of a duration such as 90d, 12h, 30m or 10s; `option` is named in the error message."""
    seconds = seconds_in(text)
    if seconds is None:
        raise InvalidInput("this is not a duration", option, text, HOW_TO_WRITE)
    return seconds
