"""Command `python -m bench.patterns`: runs drawn scenarios in virtual time, and judges Weir's promises."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import groupby, product
from multiprocessing import get_context
from os import cpu_count
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from rich.markup import escape

from bench.papers.command import leave_interrupts
from bench.patterns.generator import PATTERNS, drawn
from bench.patterns.verdicts import PROMISES, Verdicts, judged
from configs.errors import InvalidInput
from services.cli.tables.progress import progress
from services.cli.tables.sheet import Sheet, screen

# Number of scenarios of a whole check.
SCENARIOS = 40
# Least number of judged promises per run of a whole check. With fewer judged promises, the scenarios would no longer test the promise.
LEAST_PER_RUN = {"shed": 2.0, "late": 1.5, "whole": 0.7, "order": 0.4, "ledger": 1.0}

app = typer.Typer(
    context_settings={"help_option_names": ["-h", "--help"]},
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.command()
def patterns(
    scenarios: Annotated[int, typer.Option(min=1, help="Number of drawn scenarios.")] = SCENARIOS,
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds per scenario.")] = 20,
    only: Annotated[int | None, typer.Option(min=1, help="Run only the scenario with this number.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Run only this seed.")] = None,
    save: Annotated[
        Path | None,
        typer.Option(help="Write the scenario of --only to this file, for `weir sim`, and run nothing."),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Number of processes. Default: the number of processors.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Run drawn scenarios, and judge what Weir promises to classes within their original shares.

    The exit code is 1 if a promise is not kept, or if too few promises could be judged.
    """
    if save is not None:
        if only is None:
            raise InvalidInput("--save needs one scenario", "--save", str(save), "add --only with its number")
        data = drawn(only).scenario.model_dump(mode="json", exclude_unset=True)
        save.write_text(yaml.safe_dump(data, sort_keys=False), "utf-8")
        return
    numbers = range(1, scenarios + 1) if only is None else [only]
    runs = [*product(numbers, range(1, seeds + 1) if seed is None else [seed])]
    verdicts = run_all(runs, jobs or cpu_count() or 1)
    missing = too_few(verdicts) if only is None and seed is None and scenarios >= SCENARIOS else []
    if as_json:
        typer.echo(json.dumps(answer(verdicts, missing), indent=2))
    else:
        show(verdicts, missing)
    if verdicts.findings or missing:
        raise typer.Exit(1)


def run_all(runs: Sequence[tuple[int, int]], jobs: int) -> Verdicts:
    """Return the verdicts on all runs, each of which is a pair of a scenario's number and a seed."""
    verdicts = Verdicts()
    workers = min(jobs, len(runs))
    with (
        progress("patterns", len(runs)) as advance,
        ProcessPoolExecutor(workers, get_context("spawn"), initializer=leave_interrupts) as pool,
    ):
        numbers, seeds = zip(*runs, strict=True)
        every = pool.map(judged, numbers, seeds) if workers > 1 else map(judged, numbers, seeds)
        for place, of_run in enumerate(every, start=1):
            verdicts.include(of_run)
            advance(place)
    return verdicts


def too_few(verdicts: Verdicts) -> list[str]:
    """Return a text for each promise that could be judged too rarely."""
    texts = []
    for promise, least_per_run in LEAST_PER_RUN.items():
        least = int(least_per_run * verdicts.runs)
        times = sum(
            count for (_, judged_promise), count in verdicts.judged.items() if judged_promise == promise
        )
        if times < least:
            texts.append(f"{promise} was judged {times:,} times, but must be judged {least:,} times")
    return texts


def answer(verdicts: Verdicts, missing: list[str]) -> dict[str, Any]:
    broken = verdicts.broken()
    return {
        "runs": verdicts.runs,
        "judged": [
            {"pattern": kind, "promise": promise, "judged": count, "broken": broken[kind, promise]}
            for (kind, promise), count in sorted(verdicts.judged.items())
        ],
        "too_few": missing,
        "findings": [
            {
                "scenario": finding.scenario,
                "seed": finding.seed,
                "pattern": finding.kind,
                "promise": finding.promise,
                "detail": finding.detail,
                "command": finding.command,
            }
            for finding in verdicts.findings
        ],
    }


def show(verdicts: Verdicts, missing: list[str]) -> None:
    console = screen()
    broken = verdicts.broken()
    table = Sheet(f"promises broken, of those judged, in {verdicts.runs:,} runs", ("pattern", *PROMISES))
    for kind in (*PATTERNS, "run"):
        cells = [
            f"{broken[kind, promise]:,} of {verdicts.judged[kind, promise]:,}"
            if verdicts.judged[kind, promise]
            else ""
            for promise in PROMISES
        ]
        if any(cells):
            table.add_row(kind, *cells)
    console.print(table)
    for command, findings in groupby(verdicts.findings, lambda finding: finding.command):
        console.print(command)
        for finding in findings:
            console.print(f"  [bold red]✗[/] {finding.promise}, {finding.kind}: {escape(finding.detail)}")
    for text in missing:
        console.print(f"[bold red]✗[/] {text}")
    if not verdicts.findings and not missing:
        console.print("[green]every promise that was judged is kept[/]")
