"""Arguments and options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
