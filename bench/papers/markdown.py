"""Findings as Markdown: docs/papers.md, written from the committed results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.papers.claim import Experiment, Finding
from bench.papers.collection import EXPERIMENTS, PAPERS, tally
from bench.papers.omissions import OMISSIONS
from bench.papers.record import ROOT, ExperimentRecord, PaperRecord

PAGE = ROOT / "docs" / "papers.md"
PREFACE = Path(__file__).parent / "preface.md"
HEADS = ("holds", "agrees", "claim", "source", "experiment", "seeds", "claimed", "measured")
MARKS = {True: "✓", False: "**✗**", None: "–"}


def markdown(record: PaperRecord) -> str:
    """Return the page: the totals, then for each paper its experiments with a table of claims, and what is left out."""
    return PREFACE.read_text(encoding="utf-8") + "\n".join(lines(record)) + "\n"


def lines(record: PaperRecord) -> Iterator[str]:
    yield from totals(record)
    for key, paper in PAPERS.items():
        experiments = [experiment for experiment in EXPERIMENTS if experiment.paper == key]
        findings = findings_of(record, experiments)
        yield from (f"## {paper.title}", f"{paper.authors}. {tally(findings)}", "")
        for experiment in experiments:
            yield from section(experiment, record)
        yield from omissions(key)


def findings_of(record: PaperRecord, experiments: Sequence[Experiment]) -> list[Finding]:
    return [finding for experiment in experiments for finding in record.findings(experiment.name)]


def totals(record: PaperRecord) -> Iterator[str]:
    """Yield the table of totals, with a row per paper and a row for all papers."""
    yield from (
        "## Totals",
        "",
        *table("paper", "claims", "hold", "with a figure", "agree", "no reason is known"),
    )
    every = findings_of(record, EXPERIMENTS)
    for key, paper in PAPERS.items():
        own = [experiment for experiment in EXPERIMENTS if experiment.paper == key]
        yield row(paper.short, *counts(findings_of(record, own)))
    yield row("**all**", *counts(every))
    yield ""
    if record.experiments:
        yield f"The full runs on this page took {sum(record.minutes.values()):.1f} minutes of processor time."
        yield ""


def counts(findings: Sequence[Finding]) -> tuple[str, ...]:
    figured = [finding for finding in findings if finding.agrees is not None]
    unknown = [finding for finding in findings if finding.deviates and not finding.reason]
    return tuple(
        str(count)
        for count in (
            len(findings),
            sum(finding.holds for finding in findings),
            len(figured),
            sum(finding.agrees is True for finding in figured),
            len(unknown),
        )
    )


def section(experiment: Experiment, record: PaperRecord) -> Iterator[str]:
    run = next((run for run in record.experiments if run.name == experiment.name), None)
    yield f"### `{experiment.name}` {experiment.title}"
    yield experiment.setup
    yield ""
    if run is None:
        yield from ("This experiment has no full run yet.", "")
        return
    yield from run_lines(experiment, run)


def run_lines(experiment: Experiment, run: ExperimentRecord) -> Iterator[str]:
    """Yield the table of an experiment's claims, and the reasons and notes below it."""
    yield from table(*HEADS)
    short = PAPERS[experiment.paper].short
    for finding in run.findings:
        seeds = experiment.seeds if finding.seeds is None else finding.seeds
        yield row(
            MARKS[finding.holds],
            MARKS[finding.agrees],
            finding.claim,
            f"{short} {finding.where}",
            f"`{experiment.name}`",
            str(seeds or MARKS[None]),
            finding.claimed,
            finding.got,
        )
    yield ""
    for finding in run.findings:
        if finding.deviates:
            yield f"- ✗ {finding.claim}: {finding.reason or 'the reason is not known'}."
        if finding.note:
            yield f"- {finding.claim}: {finding.note}."
    yield f"- Measured with commit {run.commit}."
    yield ""


def omissions(paper: str) -> Iterator[str]:
    """Yield the table of what the experiments leave out of a paper."""
    own = [omission for omission in OMISSIONS if omission.paper == paper]
    yield from (
        f"### What is left out of {PAPERS[paper].short}",
        "",
        *table("source", "part", "kind", "reason"),
    )
    kinds = {"claim": "claim that is not judged", "set-up": "set-up that is not repeated"}
    for omission in own:
        yield row(omission.where, omission.text, kinds[omission.kind], omission.why)
    yield ""


def table(*heads: str) -> tuple[str, str]:
    return row(*heads), "|" + "---|" * len(heads)


def row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
