"""`weir query add | rm | ls | quality`: change and show the queries of tenants, without documents."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from configs.classes.utility import points_in
from configs.documents.declarations import Document, QueryDeclaration, name_of, ref_named
from configs.errors import InvalidInput, WeirError
from configs.yaml_loading import parse_model, read_text
from services.catalog.redaction import shown_document
from services.cli.commands.apply import change_told, changes_table, delete_named
from services.cli.completion import queries, tenants
from services.cli.lazy_commands import CommandGroup
from services.cli.service_location import declarations, named_query, service
from services.cli.shared_options import QUERY_HELP, TenantArgument, TenantsArgument, YesOption
from services.cli.tables.catalog_views import OutputOption, declarations_table, show, warn
from services.cli.tables.class_tables import quality_table
from services.cli.tables.sheet import Sheet
from services.remote.models import Declared
from services.watch.losses import FAILED_LEAST

STDIN = "-"

StartOption = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Time, with time zone, from which the query runs: 2026-11-21T08:00:00Z.",
        show_default="at once",
    ),
]
StopOption = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Time, with time zone, at which the query ends.",
        show_default="when the query is removed",
    ),
]
LifetimeOption = Annotated[
    str | None,
    typer.Option(help="Time from the start of the query to its end, such as 2h, instead of --stop."),
]

query = CommandGroup(help="Add, list and remove the queries of tenants.", no_args_is_help=True)


@query.command()
def add(
    *,
    name: Annotated[
        str,
        typer.Argument(metavar="TENANT/QUERY", help=QUERY_HELP),
    ],
    sql: Annotated[
        str | None, typer.Argument(help="The SELECT statement; `-` reads it from standard input.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", help="File with the SELECT statement, instead of the argument SQL."),
    ] = None,
    utility: Annotated[
        str | None,
        typer.Option(
            metavar="MS:UTILITY,…",
            help="Utility of an answer, from 0 to 1, by its latency in ms: 200:1,400:0.5,900:0.",
            show_default="the utility graph of its class",
        ),
    ] = None,
    weight: Annotated[
        float | None,
        typer.Option(
            help="Weight of this query's freshness compared with other queries, from 0.001 to 1000.",
            show_default="1",
        ),
    ] = None,
    start: StartOption = None,
    stop: StopOption = None,
    lifetime: LifetimeOption = None,
    output: OutputOption = "table",
) -> None:
    """Add a query, or change its statement. Answers begin within seconds, or after --start."""
    data: dict[str, object] = {"kind": "Query", "sql": sql_of(sql, file)}
    if utility is not None:
        data["utility"] = points_in(utility, "--utility")
    if weight is not None:
        data["weight"] = weight
    times = {"start": start, "stop": stop, "lifetime": lifetime}
    data |= {name: text for name, text in times.items() if text is not None}
    with declarations() as weir:
        ref = ref_named("Query", named_query(weir, "Query", name))
        data |= {"tenant": ref.tenant, "name": ref.name}
        result = weir.apply([Document(parse_model(QueryDeclaration, data), str(ref))])
    warn(result.warnings)
    show(output, change_told(result.changes[0]), lambda: changes_table(result.changes))


@query.command()
def rm(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="TENANT/QUERY", help="Queries to remove.", autocompletion=queries),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Remove every query, after a confirmation.")
    ] = False,
    tenant: Annotated[
        str | None, typer.Option(help="Tenant to which --all is limited.", autocompletion=tenants)
    ] = None,
    yes: YesOption = False,
) -> None:
    """Remove queries that no other query reads."""
    if tenant is not None and not everything:
        raise InvalidInput(
            "this option can only be given together with --all",
            "--tenant",
            tenant,
            "add --all, or write TENANT/QUERY",
        )
    with declarations() as weir:
        delete_named(weir, "Query", names=names, everything=everything, yes=yes, tenant=tenant)


@query.command()
def ls(
    tenant: TenantsArgument = None,
    output: OutputOption = "table",
) -> None:
    """List queries in the order in which they were added, one per line."""
    with declarations() as weir:
        entries = weir.all("Query", tenant)
    documents = [shown_document(entry.declaration) for entry in entries]
    show(output, documents, lambda: queries_table(entries, {} if output != "table" else failing_queries()))


def queries_table(found: Sequence[Declared], failing: Mapping[str, str]) -> Sheet:
    """Return a table of queries, and below it a line for each query in which rows fail."""
    table = declarations_table("Query", found)
    names = [name_of(shown.ref) for shown in found]
    lines = [f"{name}: {failing[name]}" for name in names if name in failing]
    if lines:
        table.caption = "\n".join(f"[yellow]{escape(line)}[/]" for line in lines)
    return table


def failing_queries() -> dict[str, str]:
    """Return a text for each query in which rows failed: the part of failed rows, and the reason. Without a service, return no texts."""
    losses: list[tuple[float, str, str]] = []
    with suppress(WeirError), service() as weir:
        for class_ in weir.live.classes():
            for failure in class_.get("failures", ()):
                names = (f"{class_['name']}/{query}" for query in failure["queries"])
                losses += [(failure["part"], failure["reason"], name) for name in names]
    # If rows fail in several operators of a query, the text shows the operator with the largest part of failed rows.
    return {
        name: f"{part:.0%} of its rows in the last minute of input failed: {reason}"
        for part, reason, name in sorted(losses)
        if part >= FAILED_LEAST
    }


@query.command()
def quality(
    tenant: TenantArgument = None,
    output: OutputOption = "table",
) -> None:
    """Show the quality of past answers: response times, utility, missed deadlines and staleness."""
    with service() as weir:
        answer = weir.live.quality(tenant)
    show(output, answer, lambda: quality_table(answer))


def sql_of(sql: str | None, file: Path | None) -> str:
    """Return the statement from the argument, from the file, or from standard input if the argument is `-`."""
    if (sql is None) == (file is None):
        hint = 'write weir query add TENANT/QUERY "SELECT …", or --file FILE'
        raise InvalidInput("the command needs the statement either as SQL or in a file", "SQL", hint=hint)
    if file is not None:
        return read_text(file)
    assert sql is not None
    return sys.stdin.read() if sql == STDIN else sql
