"""The `weir` command: its subcommands, and how it fails.

Exit codes: 0 done (and every promise kept, for `demo`), 1 a promise was broken, a replay decided otherwise or `diff` found
a difference, 2 the input was wrong, 3 the catalog does not answer, 130 interrupted.
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Annotated

import typer
from rich.console import Console

from configs.problems import WeirError
from services.catalog.database import CatalogAway
from services.cli.apply import apply, delete, describe, diff, get
from services.cli.bench import bench
from services.cli.demo import demo
from services.cli.ingest import ingest
from services.cli.keys import keys
from services.cli.run import run
from services.cli.sim import sim
from services.cli.top import top
from services.cli.up import up

EXIT_WRONG_INPUT = 2
EXIT_AWAY = 3
EXIT_INTERRUPTED = 130

app = typer.Typer(
    help="Weir: continuous queries for many tenants, each with what it was promised.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command()(sim)
app.command()(demo)
app.command()(top)
app.command()(run)
app.command()(ingest)
app.command()(up)
for command in (apply, diff, get, describe, delete):
    app.command()(command)
app.add_typer(keys, name="keys")
app.command()(bench)


def show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"weir {version('weir')}")
        raise typer.Exit


@app.callback()
def root(
    _: Annotated[
        bool,
        typer.Option("--version", callback=show_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Options of every subcommand."""


def main() -> None:
    """Run the command; a problem on purpose is a line on stderr, not a traceback."""
    try:
        app()
    except WeirError as problem:
        Console(stderr=True, soft_wrap=True, highlight=False).print(f"[bold red]error:[/] {escaped(problem)}")
        sys.exit(EXIT_AWAY if isinstance(problem, CatalogAway) else EXIT_WRONG_INPUT)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)


def escaped(problem: WeirError) -> str:
    """The text without rich taking its brackets for markup."""
    return str(problem).replace("[", r"\[")
