"""What the catalog says, as people and scripts read it. Secrets of sources, mirrors and sessions are hidden everywhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Literal

import typer
import yaml
from rich.console import Console, RenderableType
from rich.markup import escape
from rich.table import Table

from configs.declarations import (
    Declaration,
    FeedDeclaration,
    MirrorDeclaration,
    PriorityClassDeclaration,
    QueryDeclaration,
    SessionDeclaration,
    StreamDeclaration,
    TenantDeclaration,
    name_of,
)
from configs.utility import told as utility_told
from services.cli.tables import plain_table
from services.remote.models import Declared

TEXT_SHOWN = 60

Output = Literal["table", "json", "yaml"]
OutputOption = Annotated[Output, typer.Option("--output", "-o", help="How it is shown.")]


def show(output: Output, data: object, table: Callable[[], RenderableType]) -> None:
    """As it was asked for; a list is several documents in YAML."""
    match output:
        case "json":
            typer.echo(json.dumps(data, indent=2))
        case "yaml" if isinstance(data, list):
            typer.echo(yaml.safe_dump_all(data, sort_keys=False, allow_unicode=True), nl=False)
        case "yaml":
            typer.echo(yaml.safe_dump(data, sort_keys=False, allow_unicode=True), nl=False)
        case _:
            Console(highlight=False, soft_wrap=True).print(table())


def declarations_table(kind: str, stored: Sequence[Declared]) -> Table:
    """A line a declaration."""
    rows = ((name_of(one.ref), *map(cell, summary(one.declaration)), str(one.version)) for one in stored)
    return lines_table(("name", *COLUMNS[kind], "version"), rows)


COLUMNS: Mapping[str, Sequence[str]] = {
    "PriorityClass": ("priority", "target ms", "min share", "max drop"),
    "Tenant": ("class", "overrides", "shards"),
    "Stream": ("declared as", "source"),
    "Feed": ("source", "streams"),
    "Session": ("master",),
    "Mirror": ("declared as",),
    "Query": ("sql", "utility", "weight"),
}


def summary(one: Declaration) -> tuple[object, ...]:
    match one:
        case PriorityClassDeclaration():
            return (one.priority, one.delay_target_ms, one.min_share, one.max_drop)
        case TenantDeclaration():
            return (one.priority_class, ", ".join(one.overrides.model_dump(exclude_none=True)), one.shards)
        case StreamDeclaration():
            return (one.declaration(one.name), "" if one.source is None else one.source.format)
        case FeedDeclaration():
            return (one.source.format, ", ".join(one.streams))
        case SessionDeclaration():
            return (one.master,)
        case MirrorDeclaration():
            return (one.sql,)
        case QueryDeclaration():
            return (one.sql, utility_told(one.utility), one.weight)


def cell(value: object) -> str:
    text = f"{value:g}" if isinstance(value, float) else " ".join(str(value).split())
    return (text if len(text) <= TEXT_SHOWN else text[: TEXT_SHOWN - 1] + "…") or "–"


def pairs_table(title: str, pairs: Mapping[str, object]) -> Table:
    """A thing with all that is known of it."""
    table = plain_table(title, ("", ""), left=2, wrapped=1)
    table.show_header, table.columns[1].overflow = False, "fold"
    for name, value in pairs.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        table.add_row(name, escape(text))
    return table


def lines_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """The first column whole, the others in as many lines as they need."""
    table = plain_table("", heads, left=len(heads))
    table.title = None
    for column in table.columns[1:]:
        column.no_wrap, column.overflow = False, "fold"
    for row in rows:
        table.add_row(*(escape(one) for one in row))
    return table


def moment(at: datetime | None) -> str:
    """To the second, as every machine reads it."""
    return "–" if at is None else at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def warn(warnings: Iterable[str]) -> None:
    """What is not wrong, and better known; stdout is for what was asked for."""
    for one in filter(None, warnings):
        console = Console(stderr=True, highlight=False, soft_wrap=True)
        console.print(f"[yellow]warning:[/] {escape(one)}")
