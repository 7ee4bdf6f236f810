"""What was found of the papers as Markdown, for a page of the documentation."""

from __future__ import annotations

from collections.abc import Iterator

from sim.papers.claim import Finding
from sim.papers.collection import PAPERS, Results


def markdown(results: Results) -> str:
    """A section a paper, a table an experiment; the reasons stand under the tables."""
    return "\n".join(lines(results)) + "\n"


def lines(results: Results) -> Iterator[str]:
    before = ""
    for experiment, found in results:
        if experiment.paper != before:
            before, paper = experiment.paper, PAPERS[experiment.paper]
            own = [one for other, f in results if other.paper == before for one in f.findings]
            yield f"## {paper.title}"
            yield f"{paper.authors}. {sum(one.holds for one in own)} of {len(own)} claims hold."
            yield ""
        yield f"### `{experiment.name}` {experiment.title}"
        if experiment.setup:
            yield experiment.setup
        yield ""
        yield from ("| | claim | claimed | got |", "|---|---|---|---|")
        yield from (row(one) for one in found.findings)
        yield ""
        reasons = [one for one in found.findings if one.why]
        for one in reasons:
            yield f"- {'✓' if one.holds else '✗'} {one.claim}: {one.why}"
        if reasons:
            yield ""


def row(one: Finding) -> str:
    cells = ("✓" if one.holds else "**✗**", f"{one.claim} ({one.where})", one.claimed, one.got)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
