"""`weir query add | rm | ls`: the queries of a tenant, without a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from configs.declarations import Document, QueryDeclaration, ref_named
from configs.problems import InvalidInput
from configs.reading import parse_model, read_text
from configs.utility import points_in
from services.catalog.hidden import shown_document
from services.cli.apply import change_told, changes_table
from services.cli.catalog_views import OutputOption, declarations_table, show, warn
from services.cli.completion import queries, tenants
from services.cli.here import declarations, service
from services.cli.tables import quality_table

STDIN = "-"

query = typer.Typer(help="Queries of tenants: registered, listed, ended.", no_args_is_help=True)

QueryArgument = Annotated[
    str, typer.Argument(metavar="TENANT/QUERY", help="Whose, and which.", autocompletion=queries)
]


@query.command()
def add(
    name: Annotated[str, typer.Argument(metavar="TENANT/QUERY", help="Whose, and its name.")],
    sql: Annotated[
        str | None, typer.Argument(help="A SELECT; `-` reads it from stdin.", show_default=False)
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="A file that holds it instead.", show_default=False)
    ] = None,
    utility: Annotated[
        str | None,
        typer.Option(
            metavar="MS:UTILITY,…",
            help="What an answer is worth by its latency: 200:1,400:0.5,900:0.",
            show_default="as its class says",
        ),
    ] = None,
    weight: Annotated[
        float | None,
        typer.Option(
            help="How much the freshness of its output counts beside other queries', 0.001 to 1000.",
            show_default="1",
        ),
    ] = None,
    output: OutputOption = "table",
) -> None:
    """Register a query, or change what it asks. It begins to answer within seconds."""
    ref = ref_named("Query", name)
    data: dict[str, object] = {"kind": "Query", "tenant": ref.tenant, "name": ref.name}
    data["sql"] = sql_of(sql, file)
    if utility is not None:
        data["utility"] = points_in(utility, "--utility")
    if weight is not None:
        data["weight"] = weight
    document = Document(parse_model(QueryDeclaration, data), str(ref))
    with declarations() as weir:
        made = weir.apply([document])
    warn(made.warnings)
    show(output, change_told(made.changes[0]), lambda: changes_table(made.changes))


@query.command()
def rm(name: QueryArgument) -> None:
    """End a query that no other reads."""
    ref = ref_named("Query", name)
    with declarations() as weir:
        weir.delete("Query", name)
    typer.echo(f"deleted {ref}")


@query.command()
def ls(
    tenant: Annotated[
        str | None, typer.Argument(help="Whose.", show_default="all", autocompletion=tenants)
    ] = None,
    output: OutputOption = "table",
) -> None:
    """List queries, in the order in which they were registered."""
    with declarations() as weir:
        found = weir.all("Query", tenant)
    told = [shown_document(one.declaration) for one in found]
    show(output, told, lambda: declarations_table("Query", found))


@query.command()
def quality(
    tenant: Annotated[
        str | None,
        typer.Argument(help="Whose.", show_default="the one whose key it is", autocompletion=tenants),
    ] = None,
    output: OutputOption = "table",
) -> None:
    """Show how good answers have been: slowdown, worth by their latency, missed deadlines, staleness, tardiness of windows."""
    with service() as weir:
        told = weir.quality(tenant)
    show(output, told, lambda: quality_table(told))


def sql_of(sql: str | None, file: Path | None) -> str:
    """From one of the places where it may be."""
    if (sql is None) == (file is None):
        hint = 'write weir query add TENANT/QUERY "SELECT …", or --file FILE'
        raise InvalidInput("give the query once", "SQL", hint=hint)
    if file is not None:
        return read_text(file)
    assert sql is not None
    return sys.stdin.read() if sql == STDIN else sql
