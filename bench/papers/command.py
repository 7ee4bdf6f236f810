"""Command `python -m bench.papers`: repeats the experiments of the papers in virtual time, and judges their claims.

A full run also renews the committed results and docs/papers.md, for the experiments that it ran.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from os import cpu_count
from pathlib import Path
from time import process_time
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding

from bench.papers.claim import Experiment, ExperimentOutcome, Finding
from bench.papers.collection import PAPERS, Results, chosen, named
from bench.papers.markdown import PAGE, markdown
from bench.papers.page import write_page
from bench.papers.record import ExperimentRecord, current_commit, load_record, rounded, save_record
from services.cli.commands.sim import make_folder
from services.cli.tables.progress import progress
from services.cli.tables.sheet import Sheet, screen

ENDED_S = 0.05
PapersFormat = Literal["table", "wide", "json"]
Runs = dict[str, tuple[ExperimentOutcome, float]]
"""Outcome of each experiment that has ended, by name, with the minutes of processor time."""


app = typer.Typer(
    context_settings={"help_option_names": ["-h", "--help"]},
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.command()
def papers(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help=f"Papers ({', '.join(PAPERS)}) or names of experiments; see --list.",
            show_default="all papers",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Run the same set-ups for a shorter time, and renew no results.")
    ] = False,
    output: Annotated[
        PapersFormat,
        typer.Option("--output", "-o", help="Format: tables, tables with every column, or one JSON object."),
    ] = "table",
    out: Annotated[Path, typer.Option(help="Folder for the HTML page.")] = Path("weir-papers"),
    listed: Annotated[bool, typer.Option("--list", help="List the experiments and run none.")] = False,
    page: Annotated[
        bool, typer.Option("--page", help="Write docs/papers.md from the committed results, and run nothing.")
    ] = False,
    limit_min: Annotated[
        float,
        typer.Option(
            help="Minutes after which the experiments that still run are stopped; they keep their old results.",
            min=0.01,
            max=10_000,
        ),
    ] = 240.0,
) -> None:
    """Repeat the experiments of the papers, and compare their claims with the results.

    A full run takes tens of minutes, and renews the results in docs/papers.md. The exit code is 1 if a claim fails for an unknown
    reason, or if an experiment does not end in time.
    """
    experiments = chosen(names or ())
    console = screen(output)
    if page:
        PAGE.write_text(markdown(load_record()), encoding="utf-8")
        return
    if listed:
        list_experiments(console, experiments)
        return
    make_folder("--out", out)
    runs = run_all(experiments, quick, 60 * limit_min)
    results = [
        (experiment, runs[experiment.name][0]) for experiment in experiments if experiment.name in runs
    ]
    if not quick:
        renew(runs)
    path = write_page(results, quick, out)
    if output == "json":
        typer.echo(json.dumps(answer(results, quick), indent=2, ensure_ascii=False))
    else:
        show_all(console, results)
    typer.echo(f"page: {path}", err=output == "json")
    stopped = [experiment.name for experiment in experiments if experiment.name not in runs]
    if stopped:
        typer.echo(f"stopped after {limit_min:g} minutes: {', '.join(stopped)}", err=True)
    if stopped or any(unexplained(finding) for _, result in results for finding in result.findings):
        raise typer.Exit(1)


def list_experiments(console: Console, experiments: Sequence[Experiment]) -> None:
    table = Sheet("experiments", ("name", "title"), left=2, prose=(1,))
    for experiment in experiments:
        table.add_row(experiment.name, escape(experiment.title))
    console.print(table)


def renew(runs: Runs) -> None:
    """Replace the committed results of the experiments that were run, and write docs/papers.md."""
    commit = current_commit()
    record = load_record().renewed(
        [
            ExperimentRecord(name=name, commit=commit, minutes=round(minutes, 2), findings=rounded(outcome))
            for name, (outcome, minutes) in runs.items()
        ]
    )
    save_record(record)
    PAGE.write_text(markdown(record), encoding="utf-8")


def unexplained(finding: Finding) -> bool:
    return not finding.holds and not finding.why


def run_all(experiments: Sequence[Experiment], quick: bool, limit_s: float) -> Runs:
    """Run the experiments in as many processes as there are processors, and stop those that still run after `limit_s` seconds.

    The experiments that took longest in the last full run begin first, so that all processors are busy until the end.
    """
    done: Runs = {}
    minutes = load_record().minutes
    order = sorted(experiments, key=lambda experiment: -minutes.get(experiment.name, float("inf")))
    workers = min(len(experiments), cpu_count() or 1)
    with (
        progress("papers", len(experiments)) as advance,
        ProcessPoolExecutor(workers, get_context("spawn"), initializer=leave_interrupts) as pool,
    ):
        try:
            pending = {pool.submit(run_one, experiment.name, quick): experiment.name for experiment in order}
            for future in as_completed(pending, limit_s):
                done[pending[future]] = future.result()
                advance(len(done))
                if not quick:
                    report_end(pending[future], done, len(experiments))
        except TimeoutError:
            end_workers(pool)
        except BaseException:
            end_workers(pool)
            raise
    return done


def report_end(name: str, done: Runs, total: int) -> None:
    typer.echo(f"{len(done)} of {total}: {name} took {done[name][1]:.1f} minutes of processor time", err=True)


def end_workers(pool: ProcessPoolExecutor) -> None:
    """Kill running experiments immediately, because an experiment may take minutes."""
    with undisturbed():
        pool.shutdown(wait=False, cancel_futures=True)
        children = active_children()
        for child in children:
            child.terminate()
        for child in children:
            # The pool's own thread also waits for the child process, so `join` may return before the child has ended.
            while child.is_alive():
                child.join(ENDED_S)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Ignore Ctrl-C in this context: interrupting the shutdown of a pool would print a traceback."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def leave_interrupts() -> None:
    """Ignore Ctrl-C in this worker process. The parent also gets Ctrl-C, and ends all workers without a traceback for each worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def run_one(name: str, quick: bool) -> tuple[ExperimentOutcome, float]:
    """Return the outcome of an experiment, and the minutes of processor time that it took."""
    began_s = process_time()
    outcome = named(name).run(quick)
    return outcome, (process_time() - began_s) / 60


# --- output of findings -------------------------------------------------------------------------------------------------


def answer(results: Results, quick: bool) -> dict[str, Any]:
    findings = [finding for _, result in results for finding in result.findings]
    return {
        "quick": quick,
        "claims": len(findings),
        "hold": sum(finding.holds for finding in findings),
        "figured": sum(finding.agrees is not None for finding in findings),
        "agree": sum(finding.agrees is True for finding in findings),
        "unexplained": sum(unexplained(finding) for finding in findings),
        "experiments": [
            {
                "paper": experiment.paper,
                "name": experiment.name,
                "title": experiment.title,
                "setup": experiment.setup,
                "findings": [
                    {
                        "where": finding.where,
                        "claim": finding.claim,
                        "claimed": finding.claimed,
                        "got": finding.got,
                        "rule": finding.rule,
                        "holds": finding.holds,
                        "agrees": finding.agrees,
                        "why": finding.reason,
                        "note": finding.note,
                    }
                    for finding in result.findings
                ],
            }
            for experiment, result in results
        ],
    }


def show_all(console: Console, results: Results) -> None:
    for experiment, result in results:
        show(console, experiment, result)
    console.print(summary([finding for _, result in results for finding in result.findings]))


def show(console: Console, experiment: Experiment, found: ExperimentOutcome) -> None:
    console.print(finding_table(f"{experiment.name}: {experiment.title}", found.findings))
    for finding in found.findings:
        if finding.deviates:
            mark = "[yellow]≠[/]" if finding.holds else "[bold red]✗[/]"
            why = escape(finding.reason) or "the reason is not known"
            console.print(Padding(f"{mark} {escape(finding.where)}: {why}", (0, 0, 1, 2), expand=False))
        if finding.note:
            text = f"[dim]note[/] {escape(finding.where)}: {escape(finding.note)}"
            console.print(Padding(text, (0, 0, 1, 2), expand=False))


def summary(findings: Sequence[Finding]) -> str:
    hold = sum(finding.holds for finding in findings)
    without = sum(unexplained(finding) for finding in findings)
    explained = len(findings) - hold - without
    figured = [finding for finding in findings if finding.agrees is not None]
    text = f"[green]{hold} of {len(findings)} claims hold[/]"
    if figured:
        text += f", {sum(finding.agrees is True for finding in figured)} of {len(figured)} with figures agree"
    if explained:
        text += f", [yellow]{explained} {'does' if explained == 1 else 'do'} not hold, for a known reason[/]"
    if without:
        text += (
            f", [bold red]{without} {'does' if without == 1 else 'do'} not hold, and no reason is known[/]"
        )
    return text


AGREES = {True: "[green]✓[/]", False: "[yellow]≠[/]", None: "–"}


def finding_table(title: str, findings: Sequence[Finding]) -> Sheet:
    """Return a table of claims and results; the first column says whether a claim holds, and the second whether its figures agree."""
    table = Sheet(escape(title), ("holds", "agrees", "claim", "claimed", "got"), left=5, prose=(2, 3, 4))
    for finding in findings:
        table.add_row(
            "[green]✓[/]" if finding.holds else "[bold red]✗[/]",
            AGREES[finding.agrees],
            f"{escape(finding.claim)}\n[dim]{escape(finding.where)}[/]",
            escape(finding.claimed),
            escape(finding.got),
        )
    return table
