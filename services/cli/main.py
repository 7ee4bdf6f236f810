"""The `weir` command: its subcommands, and how it fails.

Exit codes (docs/cli.md): 0 done, 1 done, and it does not hold: a promise was broken, a replay decided otherwise, `diff` found a
difference, a target would be missed, an account is open, rows were rejected; 2 the input was wrong, 3 the service or the catalog
does not answer, 4 the key may not, 130 interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated

import typer
from rich.console import Console

from configs.problems import Away, NotAllowed, WeirError
from services.cli.account import explain, ledger
from services.cli.apply import apply, delete, describe, diff, get
from services.cli.bench import bench
from services.cli.config import config
from services.cli.demo import demo
from services.cli.ingest import ingest
from services.cli.keys import keys
from services.cli.plan import plan
from services.cli.query import query
from services.cli.results import results
from services.cli.rows import rows
from services.cli.run import run
from services.cli.sim import sim
from services.cli.top import top
from services.cli.up import up
from services.remote.wire import WouldMissTarget

EXIT_NO = 1
EXIT_WRONG_INPUT = 2
EXIT_AWAY = 3
EXIT_NOT_ALLOWED = 4
EXIT_INTERRUPTED = 130

EPILOG = (
    "Exit codes: 0 done; 1 done, and it does not hold (a difference, a broken promise, a missed target); 2 wrong input; "
    "3 the service or the catalog does not answer; 4 the key may not; 130 Ctrl-C."
)
app = typer.Typer(
    help="Weir: continuous queries for many tenants, each with what it was promised.",
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
TENANTS = "Tenants, streams and queries"
RUNS = "What runs"
FILES = "Without a service"


def add(panel: str, *commands: Callable[..., None]) -> None:
    for one in commands:
        app.command(rich_help_panel=panel)(one)


add("The service", up, demo, top, ingest)
add(TENANTS, plan, apply, diff, get, describe, delete)
app.add_typer(query, name="query", rich_help_panel=TENANTS)
app.add_typer(keys, name="keys", rich_help_panel=TENANTS)
add(RUNS, results, explain, ledger)
app.add_typer(rows, name="rows", rich_help_panel=RUNS)
add(FILES, run, sim, bench, config)


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
        app(prog_name="weir")
    except WeirError as problem:
        Console(stderr=True, soft_wrap=True, highlight=False).print(f"[bold red]error:[/] {escaped(problem)}")
        sys.exit(exit_code_of(problem))
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)


def exit_code_of(problem: WeirError) -> int:
    match problem:
        case Away():
            return EXIT_AWAY
        case NotAllowed():
            return EXIT_NOT_ALLOWED
        case WouldMissTarget():
            return EXIT_NO
    return EXIT_WRONG_INPUT


def escaped(problem: WeirError) -> str:
    """The text without rich taking its brackets for markup."""
    return str(problem).replace("[", r"\[")
