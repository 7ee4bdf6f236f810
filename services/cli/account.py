"""`weir explain | ledger`: why a class was steered as it was, and what became of every tuple."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from services.cli.catalog_views import OutputOption, show
from services.cli.completion import tenants
from services.cli.here import service
from services.cli.tables import plain_table

EXIT_OPEN = 1
FATES = ("offered", "delivered", "shed", "late", "rejected", "failed", "queued")

TenantArgument = Annotated[
    str | None,
    typer.Argument(help="Whose class.", show_default="the one whose key it is", autocompletion=tenants),
]


def explain(
    tenant: TenantArgument = None,
    last: Annotated[int, typer.Option(min=1, max=1000, help="Decisions of each kind.")] = 10,
    output: OutputOption = "table",
) -> None:
    """Say in words how a tenant's class fares, and why it was steered so."""
    with service() as weir:
        told = weir.explain(tenant, last)
    show(output, told, lambda: explanation(told))


def ledger(
    tenant: Annotated[
        str | None, typer.Argument(help="Of one tenant.", show_default="all", autocompletion=tenants)
    ] = None,
    output: OutputOption = "table",
) -> None:
    """Account for every tuple that was offered, by class and stream; exit code 1 if an account does not close."""
    with service() as weir:
        told = weir.ledger(tenant)
    show(output, told, lambda: ledger_table(told))
    if not told["closes"]:
        raise typer.Exit(EXIT_OPEN)


def explanation(told: Mapping[str, Any]) -> Group:
    lines = (Text(f"{clock(one['at'])}  {one['words']}") for one in told["items"])
    return Group(Text(f"{told['tenant']}: {told['words']}"), *lines)


def ledger_table(told: Mapping[str, Any]) -> Table:
    """Without the fates that no tuple has met."""
    items: Sequence[Mapping[str, Any]] = told["items"]
    met = [fate for fate in FATES if fate == FATES[0] or any(one[fate] for one in items)]
    table = plain_table("", ("class", "stream", *met), left=2)
    table.title = None
    for column in table.columns:
        # A figure that is cut off is none.
        column.no_wrap, column.overflow = False, "fold"
    for one in items:
        mark = "" if one["closes"] else "[bold red]"
        counts = (f"{mark}{one[fate]:,}" for fate in met)
        table.add_row(escape(one["tenant"]), escape(one["stream"]), *counts)
    table.caption, table.caption_justify = in_words(told), "left"
    return table


def in_words(told: Mapping[str, Any]) -> str:
    if not told["closes"]:
        return "[bold red]the accounts in red do not close[/]"
    return "every account closes" if told["items"] else "no class has reported yet"


def clock(at: str) -> str:
    """Of the day, to the hundredth."""
    return datetime.fromisoformat(at).strftime("%H:%M:%S.%f")[:-4]
