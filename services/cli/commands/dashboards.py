"""`weir dashboards push | annotate`: send dashboards to Grafana, and annotate them with moves of shares."""

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

dashboards = CommandGroup(help="Send dashboards and annotations to Grafana.", no_args_is_help=True)

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
        help="File of CA certificates (PEM) to verify Grafana's certificate with.",
        show_default="the certificates that this machine trusts",
    ),
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Show what would change in Grafana, without changing anything.")
]


@dashboards.command()
def push(
    grafana: GrafanaOption,
    token_file: TokenOption = None,
    folder: Annotated[
        str,
        typer.Option(
            metavar="UID", help="Uid of the Grafana folder for the dashboards; a missing folder is created."
        ),
    ] = "weir",
    folder_title: Annotated[str, typer.Option(help="Title of the folder if it is created.")] = "Weir",
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
    """Create or update the dashboards in Grafana. Dashboards that are up to date are not changed."""
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
    """Annotate the dashboards with the last moves of shares between classes and the reasons for them."""
    from services.dashboards.notes import annotate, notes_of

    with service() as weir:
        notes = notes_of(weir.live.lending())
    with opened(grafana, token_file, ca_file) as there:
        new = annotate(there, notes, dry_run)
    lines: list[dict[str, Any]] = [{"at": note.at.isoformat(), "text": note.text} for note in new]
    show(output, lines, lambda: lines_table(("at", "text"), (tuple(line.values()) for line in lines)))


def opened(url: str, token_file: Path | None, ca_file: str | None) -> Grafana:
    # Grafana's client is imported when it is used, so that `--help` does not wait for this import.
    from services.dashboards.grafana import Grafana

    return Grafana(url, token_of(token_file), ca_file)


def token_of(path: Path | None) -> str:
    """Return the token from the file or the environment. No option takes a token, because all users of a machine can read command lines."""
    if path is None:
        token = os.environ.get(TOKEN, "").strip()
    else:
        try:
            with path.open(encoding="utf-8") as file:
                token = file.read(TOKEN_MOST).strip()
        except (OSError, UnicodeDecodeError) as broken:
            raise InvalidInput("the file cannot be read", "--token-file", str(path), str(broken)) from None
    if not token:
        hint = f"create a token of a service account in Grafana; set {TOKEN}, or write --token-file FILE"
        raise NotAllowed(
            "Grafana requires a token, and none is given",
            TOKEN if path is None else "--token-file",
            hint=hint,
        )
    return token
