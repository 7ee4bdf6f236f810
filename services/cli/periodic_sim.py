"""`weir sim` of periodic queries: one schedule, or every one side by side."""

from __future__ import annotations

import json
from pathlib import Path

import typer
from rich.console import Console

from configs.periodic import schedule_of
from configs.periodic_scenario import PeriodicScenario
from configs.problems import InvalidInput
from services.cli.periodic_tables import claims_table, groups_table, schedules_table
from services.cli.progress import progress
from sim.periodic_report import write_report
from sim.periodic_results import compare, compared, run_scenario


def run_periodic_sim(
    scenario: PeriodicScenario,
    schedule: str | None,
    schedules: bool,
    seed: int,
    as_json: bool,
    report: Path | None,
) -> None:
    """Run, print, and write a page if a folder is given."""
    if schedules and schedule is not None:
        raise InvalidInput("--schedules runs every one", "--schedule", schedule, "leave out one of the two")
    out = Console()
    if schedules:
        with progress(scenario.name, len(compared(scenario))) as advance:
            answer = compare(scenario, seed, advance)
    else:
        settings = scenario.schedule if schedule is None else schedule_of(schedule, scenario.schedule)
        answer = run_scenario(scenario, settings, seed)
    if as_json:
        typer.echo(json.dumps(answer, indent=2, ensure_ascii=False))
    elif schedules:
        out.print(schedules_table(answer))
        if answer["claims"]:
            out.print(claims_table(answer["claims"]))
    else:
        out.print(groups_table(answer))
    if report is not None:
        typer.echo(f"report: {write_report(scenario, answer, report)}", err=as_json)
