"""The `weir` command: its subcommands, and the exit codes of its errors.

Exit codes (docs/cli.md):
    0    success
    1    completed with a negative result: a broken promise, a replayed decision that differs, a difference found by `diff`,
         a target that would be missed, a ledger that does not close, rejected rows
    2    invalid input
    3    the service or the catalog does not answer
    4    the key does not allow the operation
    130  interrupted by Ctrl-C
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Annotated, ClassVar

import typer
from rich.console import Console

from configs.errors import Away, NotAllowed, Several, WeirError
from services.cli.lazy_commands import CommandPlace, LazyGroup

EXIT_NO = 1
EXIT_WRONG_INPUT = 2
EXIT_AWAY = 3
EXIT_NOT_ALLOWED = 4
EXIT_INTERRUPTED = 130

EPILOG = (
    "Exit codes: 0 success; 1 completed with a negative result (a difference, a broken promise, a missed target); "
    "2 invalid input; 3 the service or the catalog does not answer; 4 the key does not allow the operation; 130 Ctrl-C."
)
SERVICE, TENANTS, RUNS, FILES = (
    "The service",
    "Tenants, streams and queries",
    "Running queries",
    "Without a service",
)
ABOUT = "About this command"
APPLY_COMMANDS = ("apply", "diff", "get", "describe", "delete")


class MainCommands(LazyGroup):
    """Subcommands of `weir`, in the order in which the help lists them."""

    places: ClassVar = {
        "up": CommandPlace("services.cli.commands.up", SERVICE),
        "down": CommandPlace("services.cli.commands.down", SERVICE),
        "demo": CommandPlace("services.cli.commands.demo", SERVICE),
        "top": CommandPlace("services.cli.commands.top", SERVICE),
        "ingest": CommandPlace("services.cli.commands.ingest", SERVICE),
        "mirror": CommandPlace("services.cli.commands.mirror", SERVICE),
        "plan": CommandPlace("services.cli.commands.plan", TENANTS),
        **dict.fromkeys(APPLY_COMMANDS, CommandPlace("services.cli.commands.apply", TENANTS)),
        "query": CommandPlace("services.cli.commands.query", TENANTS),
        "keys": CommandPlace("services.cli.commands.keys", TENANTS),
        "results": CommandPlace("services.cli.commands.results", RUNS),
        "ask": CommandPlace("services.cli.commands.ask", RUNS),
        "explain": CommandPlace("services.cli.commands.account", RUNS),
        "ledger": CommandPlace("services.cli.commands.account", RUNS),
        "rows": CommandPlace("services.cli.commands.rows", RUNS),
        "dashboards": CommandPlace("services.cli.commands.dashboards", RUNS),
        "run": CommandPlace("services.cli.commands.run", FILES),
        "sim": CommandPlace("services.cli.commands.sim", FILES),
        "bench": CommandPlace("services.cli.commands.bench", FILES),
        "config": CommandPlace("services.cli.commands.config", FILES),
        "help": CommandPlace("services.cli.help_layout", ABOUT),
        "version": CommandPlace("services.cli.help_layout", ABOUT),
    }


app = typer.Typer(
    cls=MainCommands,
    help="Run continuous queries for many tenants, each with its own priority and delay target.",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"weir {version('weir')}")
        raise typer.Exit


@app.callback()
def root(
    _: Annotated[
        bool,
        typer.Option("--version", callback=show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Declare the options of `weir` itself."""


def main(command: typer.Typer = app, name: str = "weir") -> None:
    """Run the command and exit; a WeirError is printed on stderr without a traceback."""
    try:
        command(prog_name=name)
    except WeirError as problem:
        console = Console(stderr=True, soft_wrap=True, highlight=False)
        for each in problem.problems if isinstance(problem, Several) else (problem,):
            console.print(f"[bold red]error:[/] {escaped(each)}")
        sys.exit(exit_code_of(problem))
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)


def exit_code_of(problem: WeirError) -> int:
    # The module `wire` is imported only after an error, so that commands that succeed do not wait for the import.
    from services.remote.wire import WouldMissTarget

    match problem:
        case Away():
            return EXIT_AWAY
        case NotAllowed():
            return EXIT_NOT_ALLOWED
        case WouldMissTarget():
            return EXIT_NO
    return EXIT_WRONG_INPUT


def escaped(problem: WeirError) -> str:
    """Return the error text with its brackets escaped, so that rich does not read them as markup."""
    return str(problem).replace("[", r"\[")
