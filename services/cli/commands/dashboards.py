"""`weir dashboards push | annotate`: dashboards in a Grafana, and what has moved marked in them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from configs.errors import InvalidInput, NotAllowed
from services.cli.lazy_commands import CommandGroup
from services.cli.service_location import service
from services.cli.tables.catalog_views import OutputOption, lines_table, show

if TYPE_CHECKING:
    from services.dashboards.grafana import Grafana

TOKEN = "GRAFANA_TOKEN"
TOKEN_MOST = 4096
DONE: Mapping[str, str] = {"create": "created", "change": "changed", "keep": "unchanged"}

dashboards = CommandGroup(help="Send dashboards and annotations to a Grafana.", no_args_is_help=True)

GrafanaOption = Annotated[
    str,
    typer.Option(
        "--grafana", metavar="URL", help="Address of Grafana: https://HOST, or https://HOST/grafana."
    ),
]
TokenOption = Annotated[
    Path | None,
    typer.Option(help="File with the token of a service account.", show_default=f"the variable {TOKEN}"),
]
CaOption = Annotated[
    str | None,
    typer.Option(
        help="File of certificates (PEM) that Grafana's certificate is checked with.",
        show_default="those that this machine trusts",
    ),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and do nothing.")]


@dashboards.command()
def push(
    grafana: GrafanaOption,
    token_file: TokenOption = None,
    folder: Annotated[
        str,
        typer.Option(
            metavar="UID", help="Uid of the folder for the dashboards; it is created if it is not there."
        ),
    ] = "weir",
    folder_title: Annotated[str, typer.Option(help="Title of a folder that is created.")] = "Weir",
    datasource_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Create a data source for the Prometheus at this address, as Grafana reaches it.",
            show_default="leave data sources alone",
        ),
    ] = None,
    ca_file: CaOption = None,
    dry_run: DryRunOption = False,
    output: OutputOption = "table",
) -> None:
    """Create or change the dashboards in a Grafana; those that are up to date are left alone."""
    from services.dashboards.all import documents
    from services.dashboards.push import Wish, push

    wish = Wish(documents(), folder, folder_title, datasource_url)
    with opened(grafana, token_file, ca_file) as there:
        steps = push(there, wish, dry_run)
    words = (
        {action: f"would be {done}" for action, done in DONE.items()} | {"keep": "unchanged"}
        if dry_run
        else DONE
    )
    lines = [
        {"kind": step.kind, "uid": step.uid, "title": step.title, "action": words[step.action]}
        for step in steps
    ]
    show(output, lines, lambda: lines_table(tuple(lines[0]), (tuple(line.values()) for line in lines)))


@dashboards.command()
def annotate(
    grafana: GrafanaOption,
    token_file: TokenOption = None,
    ca_file: CaOption = None,
    dry_run: DryRunOption = False,
    output: OutputOption = "table",
) -> None:
    """Annotate the dashboards with the last moves of shares between classes, and why they were made."""
    from services.dashboards.notes import annotate, notes_of

    with service() as weir:
        notes = notes_of(weir.live.lending())
    with opened(grafana, token_file, ca_file) as there:
        new = annotate(there, notes, dry_run)
    lines: list[dict[str, Any]] = [{"at": note.at.isoformat(), "text": note.text} for note in new]
    show(output, lines, lambda: lines_table(("at", "text"), (tuple(line.values()) for line in lines)))


def opened(url: str, token_file: Path | None, ca_file: str | None) -> Grafana:
    # Who only asks for help need not wait for it.
    from services.dashboards.grafana import Grafana

    return Grafana(url, token_of(token_file), ca_file)


def token_of(path: Path | None) -> str:
    """From the file, else from the environment; on a command line everybody on the machine could read it."""
    if path is None:
        token = os.environ.get(TOKEN, "").strip()
    else:
        try:
            with path.open(encoding="utf-8") as file:
                token = file.read(TOKEN_MOST).strip()
        except (OSError, UnicodeDecodeError) as broken:
            raise InvalidInput("cannot be read", "--token-file", str(path), str(broken)) from None
    if not token:
        hint = f"make a token of a service account in Grafana; set {TOKEN}, or give --token-file"
        raise NotAllowed("a token is needed", TOKEN if path is None else "--token-file", hint=hint)
    return token
