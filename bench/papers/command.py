"""Command `python -m bench.papers`: repeats the experiments of the papers in virtual time, and judges each claim."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from os import cpu_count
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding

from bench.papers.claim import Experiment, ExperimentOutcome, Finding
from bench.papers.collection import PAPERS, Results, chosen, named
from bench.papers.markdown import markdown
from bench.papers.page import write_page
from services.cli.commands.sim import make_folder
from services.cli.tables.progress import progress
from services.cli.tables.sheet import Sheet, screen

ENDED_S = 0.05
PapersFormat = Literal["table", "wide", "json", "markdown"]


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
    quick: Annotated[bool, typer.Option("--quick", help="Run the same set-ups for a shorter time.")] = False,
    output: Annotated[
        PapersFormat,
        typer.Option(
            "--output",
            "-o",
            help="Format: tables, tables with every column, one JSON object, or Markdown as in docs/papers.md.",
        ),
    ] = "table",
    out: Annotated[Path, typer.Option(help="Folder for the HTML page.")] = Path("weir-papers"),
    listed: Annotated[bool, typer.Option("--list", help="List the experiments and run none.")] = False,
) -> None:
    """Repeat the experiments of the papers, and compare each claim with the result.

    All experiments together take tens of minutes. The exit code is 1 if a claim fails for an unknown reason.
    """
    experiments = chosen(names or ())
    console = screen(output)
    if listed:
        table = Sheet("experiments", ("name", "title"), left=2, prose=(1,))
        for experiment_ in experiments:
            table.add_row(experiment_.name, escape(experiment_.title))
        console.print(table)
        return
    make_folder("--out", out)
    results = run_all(experiments, quick)
    path = write_page(results, quick, out)
    if output == "json":
        typer.echo(json.dumps(answer(results, quick), indent=2, ensure_ascii=False))
    elif output == "markdown":
        typer.echo(markdown(results), nl=False)
    else:
        for experiment, result in results:
            show(console, experiment, result)
        console.print(summary([finding for _, result in results for finding in result.findings]))
    typer.echo(f"page: {path}", err=output in ("json", "markdown"))
    if any(unexplained(finding) for _, result in results for finding in result.findings):
        raise typer.Exit(1)


def unexplained(one: Finding) -> bool:
    return not one.holds and not one.why


def run_all(experiments: Sequence[Experiment], quick: bool) -> Results:
    """Run the experiments in as many processes as there are processors; return the outcomes in the order of `experiments`."""
    done: dict[str, ExperimentOutcome] = {}
    workers = min(len(experiments), cpu_count() or 1)
    with (
        progress("papers", len(experiments)) as advance,
        ProcessPoolExecutor(workers, get_context("spawn"), initializer=leave_interrupts) as pool,
    ):
        try:
            pending = {
                pool.submit(run_one, experiment.name, quick): experiment.name for experiment in experiments
            }
            for future in as_completed(pending):
                done[pending[future]] = future.result()
                advance(len(done))
        except BaseException:
            # Running experiments are killed immediately, because an experiment may take minutes.
            with undisturbed():
                pool.shutdown(wait=False, cancel_futures=True)
                children = active_children()
                for child in children:
                    child.terminate()
                for child in children:
                    # The pool's own thread also waits for the child process, so `join` may return before the child has ended.
                    while child.is_alive():
                        child.join(ENDED_S)
            raise
    return [(experiment, done[experiment.name]) for experiment in experiments]


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


def run_one(name: str, quick: bool) -> ExperimentOutcome:
    return named(name).run(quick)


# --- output of findings -------------------------------------------------------------------------------------------------


def answer(results: Results, quick: bool) -> dict[str, Any]:
    findings = [finding for _, result in results for finding in result.findings]
    return {
        "quick": quick,
        "claims": len(findings),
        "hold": sum(finding.holds for finding in findings),
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
                        "why": finding.why,
                    }
                    for finding in result.findings
                ],
            }
            for experiment, result in results
        ],
    }


def show(console: Console, experiment: Experiment, found: ExperimentOutcome) -> None:
    console.print(finding_table(f"{experiment.name}: {experiment.title}", found.findings))
    for finding in found.findings:
        if finding.why or not finding.holds:
            mark = "[yellow]note[/]" if finding.holds else "[bold red]✗[/]"
            why = escape(finding.why) if finding.why else "[bold red]no reason is known[/]"
            console.print(Padding(f"{mark} {escape(finding.where)}: {why}", (0, 0, 1, 2), expand=False))


def summary(findings: Sequence[Finding]) -> str:
    hold = sum(finding.holds for finding in findings)
    without = sum(unexplained(finding) for finding in findings)
    unexplained_count = len(findings) - hold - without
    text = f"[green]{hold} of {len(findings)} claims hold[/]"
    if unexplained_count:
        text += f", [yellow]{unexplained_count} {'does' if unexplained_count == 1 else 'do'} not, for a known reason[/]"
    if without:
        text += f", [bold red]{without} {'does' if without == 1 else 'do'} not, and no reason is known[/]"
    return text


def finding_table(title: str, findings: Sequence[Finding]) -> Sheet:
    """Return a table of claims and results."""
    table = Sheet(escape(title), ("", "claim", "claimed", "got"), left=4, prose=(1, 2, 3))
    for finding in findings:
        mark = "[green]✓[/]" if finding.holds else "[bold red]✗[/]"
        table.add_row(
            mark,
            f"{escape(finding.claim)}\n[dim]{escape(finding.where)}[/]",
            escape(finding.claimed),
            escape(finding.got),
        )
    return table
