"""What the catalog says, as people and scripts read it. Secrets of sources, mirrors and sessions are hidden everywhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer
import yaml
from rich.console import Console, RenderableType
from rich.markup import escape

from configs.classes.utility import told as utility_told
from configs.documents.declarations import (
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
from configs.numbers import UNKNOWN, ago, exact
from services.cli.tables.sheet import Output, Sheet, screen
from services.remote.models import Declared

NOTHING_RUNS = "not running"

OutputOption = Annotated[
    Output,
    typer.Option(
        "--output", "-o", help="Format: a table, a table with every column and whole texts, JSON, or YAML."
    ),
]


def show(output: Output, data: object, table: Callable[[], RenderableType]) -> None:
    """Print data in the format that the command line asks for; a list is several documents in YAML."""
    match output:
        case "json":
            typer.echo(json.dumps(data, indent=2))
        case "yaml" if isinstance(data, list):
            typer.echo(yaml.safe_dump_all(data, sort_keys=False, allow_unicode=True), nl=False)
        case "yaml":
            typer.echo(yaml.safe_dump(data, sort_keys=False, allow_unicode=True), nl=False)
        case _:
            screen(output).print(table())


def declarations_table(
    kind: str, stored: Sequence[Declared], states: Mapping[str, str] | None = None
) -> Sheet:
    """Return a table with a line for each declaration; tenants with the states of their classes, where they are known."""
    heads = ("name", *COLUMNS[kind], *(() if states is None else ("state",)), "version")
    rows = (
        (
            name_of(entry.ref),
            *map(cell, summary(entry.declaration)),
            *(() if states is None else (states.get(entry.declaration.name, NOTHING_RUNS),)),
            str(entry.version),
        )
        for entry in stored
    )
    least = [head for head in ("version", "utility") if head in heads]
    table = lines_table(heads, rows, least, [head for head in heads if head in LONG])
    table.caption = "" if stored else f"no {kind} is declared"
    return table


# Columns that may hold long texts.
LONG = {"sql", "declared as", "overrides", "streams"}


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
    """Return a value in one line."""
    return (exact(value) if isinstance(value, float) else " ".join(str(value).split())) or UNKNOWN


def lines_table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    least: Sequence[str] = (),
    cut: Sequence[str] = (),
    prose: Sequence[str] = (),
) -> Sheet:
    """Return a table of texts; columns of `least` are hidden first, `cut` may be cut to one line, `prose` wrapped."""
    places, cuts = ([heads.index(head) for head in named] for named in (prose, cut))
    table = Sheet(heads, left=len(heads), prose=places, least=least, cut=cuts)
    for row in rows:
        table.add_row(*map(escape, row))
    return table


def when(at: datetime | None) -> str:
    """Return how long ago a moment was, as people read it."""
    return UNKNOWN if at is None else ago((datetime.now(UTC) - at).total_seconds())


def moment(at: datetime | None) -> str:
    """Return a moment to the second, as programs read it."""
    return UNKNOWN if at is None else at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def warn(warnings: Iterable[str]) -> None:
    """What is not wrong, and better known; stdout is for what was asked for."""
    for warning in filter(None, warnings):
        console = Console(stderr=True, highlight=False, soft_wrap=True)
        console.print(f"[yellow]warning:[/] {escape(warning)}")
