"""`weir sim` of periodic queries: a run under one schedule, or a comparison of all schedules."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from configs.classes.periodic_schedules import PeriodicSettings, schedule_of
from configs.scenario.periodic_scenario import PeriodicScenario
from services.cli.tables.periodic_tables import claims_table, groups_table, schedules_table
from services.cli.tables.progress import progress
from services.cli.tables.sheet import Format, screen
from services.cli.usage import excluded
from sim.windows.periodic_report import write_report
from sim.windows.periodic_results import compare, compared, run_scenario


def wanted_schedule(
    scenario: PeriodicScenario, schedule: str | None, schedules: bool
) -> PeriodicSettings | None:
    """Return the schedule to run, or None to compare all schedules."""
    if schedules:
        if schedule is not None:
            raise excluded("--schedule", schedule, "--schedules, which runs every schedule")
        return None
    return scenario.schedule if schedule is None else schedule_of(schedule, scenario.schedule)


def run_periodic_sim(
    scenario: PeriodicScenario,
    schedule: PeriodicSettings | None,
    seed: int,
    output: Format,
    report: Path | None,
) -> None:
    """Run the given schedule, or all schedules if none is given; print the results, and write a report if a folder is given."""
    out = screen(output)
    if schedule is None:
        with progress(scenario.name, len(compared(scenario))) as advance:
            answer = compare(scenario, seed, advance)
    else:
        answer = run_scenario(scenario, schedule, seed)
    if output == "json":
        typer.echo(json.dumps(answer, indent=2, ensure_ascii=False))
    elif schedule is not None:
        out.print(groups_table(answer))
    else:
        out.print(schedules_table(answer))
        if answer["claims"]:
            out.print(claims_table(answer["claims"]))
    if report is not None:
        typer.echo(f"report: {write_report(scenario, answer, report)}", err=output == "json")
