"""Declarations as tables, JSON and YAML. Secrets of sources, mirrors and sessions are always hidden."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
import yaml
from rich.console import Console, RenderableType
from rich.markup import escape

from configs.classes.utility import told as utility_told
from configs.documents.declarations import name_of
from configs.numbers import UNKNOWN, ago, exact
from services.cli.tables.sheet import Output, Sheet, screen
from services.remote.models import Declared, QueryRun

OutputOption = Annotated[
    Output,
    typer.Option(
        "--output",
        "-o",
        help="Output format: table, wide (a table with all columns and full texts), json or yaml.",
    ),
]


def show(output: Output, data: object, table: Callable[[], RenderableType]) -> None:
    """Print data in the format of the option `--output`; in YAML, a list becomes several documents."""
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
    """Return a table with a line per declaration; for tenants, `states` are the states of their classes, if known."""
    columns = COLUMNS[kind]
    is_limited = any(entry.run is not None for entry in stored)
    heads = (
        "name",
        *columns,
        *(("runs",) if is_limited else ()),
        *(() if states is None else ("state",)),
        "version",
    )
    rows = (
        (
            name_of(entry.ref),
            *(cell(value_in(entry.declaration)) for value_in in columns.values()),
            *((run_told(entry.run),) if is_limited else ()),
            *(() if states is None else (states.get(entry.declaration.name, "not running"),)),
            str(entry.version),
        )
        for entry in stored
    )
    least = [head for head in ("version", "utility") if head in heads]
    table = lines_table(heads, rows, least, [head for head in heads if head in LONG])
    table.caption = "" if stored else f"no {kind} is declared"
    return table


# Headings of the columns that may contain long texts.
LONG = {"text", "sql", "declared as", "overrides", "streams"}


COLUMNS: Mapping[str, Mapping[str, Callable[[Any], object]]] = {
    "PriorityClass": {
        "priority": lambda terms: terms.priority,
        "target ms": lambda terms: terms.delay_target_ms,
        "min share": lambda terms: terms.min_share,
        "max drop": lambda terms: terms.max_drop,
    },
    "Tenant": {
        "class": lambda tenant: tenant.priority_class,
        "overrides": lambda tenant: ", ".join(tenant.overrides.model_dump(exclude_none=True)),
        "shards": lambda tenant: tenant.shards,
    },
    "Stream": {
        "declared as": lambda stream: stream.declaration(stream.name),
        "source": lambda stream: "" if stream.source is None else stream.source.format,
    },
    "Feed": {
        "source": lambda feed: feed.source.format,
        "streams": lambda feed: ", ".join(feed.streams),
    },
    "Session": {"master": lambda session: session.master},
    "Mirror": {"declared as": lambda mirror: mirror.sql},
    "Query": {
        "sql": lambda query: query.sql,
        "utility": lambda query: utility_told(query.utility),
        "weight": lambda query: query.weight,
    },
    "Notice": {
        "text": lambda notice: notice.text,
        "until": lambda notice: UNKNOWN if notice.until is None else notice.until.isoformat(),
    },
}


def run_told(run: QueryRun | None) -> str:
    """Return when a query runs, such as `waiting until 2026-11-21T08:00:00Z`."""
    match run:
        case QueryRun(state="waiting"):
            return f"waiting until {moment(run.start)}"
        case QueryRun(state="ended"):
            return f"ended at {moment(run.stop)}"
        case QueryRun(stop=datetime()):
            return f"until {moment(run.stop)}"
    return UNKNOWN


def cell(value: object) -> str:
    """Return a value as a text in one line."""
    return (exact(value) if isinstance(value, float) else " ".join(str(value).split())) or UNKNOWN


def lines_table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    least: Sequence[str] = (),
    cut: Sequence[str] = (),
    prose: Sequence[str] = (),
) -> Sheet:
    """Return a table of texts. Columns in `least` are hidden first, columns in `cut` are shortened to one line, and columns in `prose` are wrapped."""
    places, cuts = ([heads.index(head) for head in named] for named in (prose, cut))
    table = Sheet("", heads, left=len(heads), prose=places, least=least, cut=cuts)
    for row in rows:
        table.add_row(*map(escape, row))
    return table


def when(at: datetime | None) -> str:
    """Return the age of a moment for people, such as `3m ago`."""
    return UNKNOWN if at is None else ago((datetime.now(UTC) - at).total_seconds())


def moment(at: datetime | None) -> str:
    """Return a moment for programs: ISO 8601 in UTC, to the second."""
    return UNKNOWN if at is None else at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def warn(warnings: Iterable[str]) -> None:
    """Print warnings on stderr, because stdout is for the results of a command."""
    for warning in filter(None, warnings):
        console = Console(stderr=True, highlight=False, soft_wrap=True)
        console.print(f"[yellow]warning:[/] {escape(warning)}")
