"""Findings as Markdown, for docs/papers.md."""

from __future__ import annotations

from collections.abc import Iterator

from bench.papers.claim import Finding
from bench.papers.collection import PAPERS, Results


def markdown(results: Results) -> str:
    """Return a section per paper with a table per experiment; reasons are listed below the tables."""
    return "\n".join(lines(results)) + "\n"


def lines(results: Results) -> Iterator[str]:
    before = ""
    for experiment, outcome in results:
        if experiment.paper != before:
            before, paper = experiment.paper, PAPERS[experiment.paper]
            own = [finding for other, f in results if other.paper == before for finding in f.findings]
            yield f"## {paper.title}"
            yield f"{paper.authors}. {sum(finding.holds for finding in own)} of {len(own)} claims hold."
            yield ""
        yield f"### `{experiment.name}` {experiment.title}"
        if experiment.setup:
            yield experiment.setup
        yield ""
        yield from ("| | claim | claimed | got |", "|---|---|---|---|")
        yield from (row(finding) for finding in outcome.findings)
        yield ""
        reasons = [finding for finding in outcome.findings if finding.why]
        for reason in reasons:
            yield f"- {'✓' if reason.holds else '✗'} {reason.claim}: {reason.why}"
        if reasons:
            yield ""


def row(one: Finding) -> str:
    cells = ("✓" if one.holds else "**✗**", f"{one.claim} ({one.where})", one.claimed, one.got)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
