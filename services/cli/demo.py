"""`weir demo`: the paper's three classes while the load of the first one changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from configs.problems import InvalidInput
from services.cli.sim import DEFAULT_MANAGER, configured, make_folder, policy_name
from services.cli.tables import live_table, promise_table, result_table
from sim.promises import check_promises
from sim.report import write_report
from sim.results import results
from sim.simulation import Simulation

# Cycles of the run between two pictures; the run is faster than an eye.
CYCLES_A_PICTURE = 10
EXIT_BROKEN = 1


def demo(
    scenario: Annotated[str, typer.Option(help="A preset or a YAML file.")] = "dilos-steps",
    manager: Annotated[str, typer.Option("--manager", "-m", help="As in `weir sim`.")] = DEFAULT_MANAGER,
    seconds: Annotated[float | None, typer.Option(help="Length in virtual time.")] = None,
    report: Annotated[Path, typer.Option(help="Folder for the HTML page.")] = Path("weir-demo"),
    json_path: Annotated[
        Path | None, typer.Option("--json", help="Also write the result to this file.", show_default=False)
    ] = None,
) -> None:
    """Watch capacity being lent and taken back; exits with 0 only if every promise was kept."""
    chosen = configured(scenario, None, seconds)
    make_folder("--report", report)
    if json_path is not None:
        if json_path.is_dir():
            raise InvalidInput("is a folder", "--json", str(json_path), "name a file in it")
        make_folder("--json", json_path.parent)
    console = Console()
    run = watched(Simulation(chosen, manager), console)
    result, promises = results(run, policy_name(chosen)), check_promises(run)
    console.print(result_table(result))
    console.print(promise_table(promises))
    typer.echo(f"report: {write_report(run, result, promises, report)}")
    if json_path is not None:
        json_path.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
        typer.echo(f"result: {json_path}")
    if not all(one.kept for one in promises):
        raise typer.Exit(EXIT_BROKEN)


def watched(run: Simulation, console: Console) -> Simulation:
    """Run with a table that moves, if there is a terminal to move it on."""
    if not console.is_terminal:
        console.print(
            f"{run.scenario.name} under {run.manager}, {run.scenario.seconds:g} s of virtual time …"
        )
        return run.run()
    with Live(live_table(run), console=console, transient=True, auto_refresh=False) as screen:

        def picture(now: Simulation) -> None:
            if now.ring.cycles % CYCLES_A_PICTURE == 0:
                screen.update(live_table(now), refresh=True)

        run.on_cycle = picture
        return run.run()
