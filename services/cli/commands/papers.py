"""`weir papers`: what the papers claim, repeated in virtual time, claim by claim."""

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

from services.cli.commands.sim import make_folder
from services.cli.tables.outcome_tables import finding_table
from services.cli.tables.progress import progress
from services.cli.tables.sheet import plain_table, screen
from sim.papers.claim import Experiment, ExperimentOutcome, Finding
from sim.papers.collection import PAPERS, Results, chosen, named
from sim.papers.markdown import markdown
from sim.papers.page import write_page

ENDED_S = 0.05
PapersFormat = Literal["table", "wide", "json", "markdown"]


def known_names(incomplete: str) -> list[str]:
    """Return the papers and experiments that begin so."""
    names = [*PAPERS, *(experiment.name for experiment in chosen(()))]
    return [name for name in names if name.startswith(incomplete)]


def papers(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help=f"Papers ({', '.join(PAPERS)}) or experiments of them.",
            show_default="all papers",
            autocompletion=known_names,
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
    """Repeat the experiments of the papers and compare each claim with what comes out.

    All of them take tens of minutes. Exit code 1 if a claim fails for an unknown reason.
    """
    experiments = chosen(names or ())
    console = screen(output)
    if listed:
        table = plain_table("experiments", ("name", "what is run"), left=2, wrapped=1)
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
    """Every experiment, on as many processes as there are processors; in the order given."""
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
            # Nobody waits for what is still running: an experiment may take minutes.
            with undisturbed():
                pool.shutdown(wait=False, cancel_futures=True)
                children = active_children()
                for child in children:
                    child.terminate()
                for child in children:
                    # The pool's own thread waits for it, too: to one of the two it seems to have ended before it has.
                    while child.is_alive():
                        child.join(ENDED_S)
            raise
    return [(experiment, done[experiment.name]) for experiment in experiments]


@contextmanager
def undisturbed() -> Iterator[None]:
    """By Ctrl-C once more: what is under way takes a moment, and a pool that is left amid its end says so in a traceback."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def leave_interrupts() -> None:
    """Ctrl-C reaches every process of the terminal: who started this one ends it, without a traceback for each."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def run_one(name: str, quick: bool) -> ExperimentOutcome:
    return named(name).run(quick)


# --- shown --------------------------------------------------------------------------------------------------


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
            why = escape(finding.why) if finding.why else "[bold red]nobody has told why[/]"
            console.print(Padding(f"{mark} {escape(finding.where)}: {why}", (0, 0, 1, 2), expand=False))


def summary(findings: Sequence[Finding]) -> str:
    hold = sum(finding.holds for finding in findings)
    without = sum(unexplained(finding) for finding in findings)
    unexplained_count = len(findings) - hold - without
    text = f"[green]{hold} of {len(findings)} claims hold[/]"
    if unexplained_count:
        text += f", [yellow]{unexplained_count} {'does' if unexplained_count == 1 else 'do'} not, and the reason is told[/]"
    if without:
        text += f", [bold red]{without} {'does' if without == 1 else 'do'} not, and nobody has told why[/]"
    return text
