"""`weir ask`: answer a query once, from what the running queries of a tenant keep in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer
import yaml

from services.cli.commands.query import sql_of
from services.cli.commands.results import Output, percent, writer_of
from services.cli.completion import tenants
from services.cli.service_location import service


def ask(
    sql: Annotated[
        str,
        typer.Argument(
            help="SELECT with aggregates over a window of time; `-` reads it from standard input."
        ),
    ],
    tenant: Annotated[
        str | None,
        typer.Option(
            "--tenant",
            "--class",
            help="Tenant whose running queries answer.",
            show_default="the tenant of the key",
            autocompletion=tenants,
        ),
    ] = None,
    output: Annotated[
        Output,
        typer.Option(
            "--output",
            "-o",
            help="Output format: table, wide (a table with all columns), json (one object with rows and times), yaml or csv.",
        ),
    ] = "table",
) -> None:
    """Answer a query once, now, from the windows that the running queries of a tenant keep in memory.

    No query is added. The answer covers the RANGE of the query up to the present event time; a line says which rows it counts.
    """
    with service() as weir:
        answer = weir.ask(sql_of(sql, None), tenant)
    match output:
        case "json":
            typer.echo(json.dumps(answer, indent=2))
        case "yaml":
            typer.echo(yaml.safe_dump(answer, sort_keys=False, allow_unicode=True), nl=False)
        case _:
            if answer["rows"]:
                writer = writer_of(output, False)
                writer.write([column["name"] for column in answer["columns"]], answer["rows"])
                writer.end()
            # Programs read the rows on stdout, so the lines about them are printed on stderr.
            for line in coverage_lines(answer):
                typer.echo(line, err=True)


def coverage_lines(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each unit: which event time its answer covers, and from how many rows the answer was computed."""
    several = len(answer["covers"]) > 1
    for part in answer["covers"]:
        unit = f"{part['unit']}: " if several else ""
        if part["start"] is None:
            yield f"{unit}no row of {answer['stream']} has arrived yet"
            continue
        kept = (
            ""
            if part["kept"] >= 1
            else f" ({percent(part['kept'])} of the input; the other rows were shed or late)"
        )
        since = "; earlier rows are not kept" if part["short"] else ""
        yield (
            f"{unit}{part['rows']:,} rows of {answer['stream']}{kept} from {part['start']} to {part['end']}{since};"
            f" event time has reached {part['complete_to']}"
        )
