"""Findings as one HTML page: every claim with its rule, and the charts.

The page loads no other files, and can be read on a phone and on paper. The same findings give the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.papers.claim import Chart, Experiment, ExperimentOutcome, Finding
from bench.papers.collection import PAPERS, Results
from sim.outcome.html_page import document
from sim.outcome.svg_plots import COLOURS, PLOT_STYLE, draw_bars, logarithmic, svg

FILE = "papers.html"
# Pattern of inline code, which is the only Markdown in descriptions of set-ups.
CODE = re.compile(r"`([^`]+)`")
# Checkbox that filters the claims with CSS, without a script.
ONLY = '<label class="only"><input type="checkbox" id="only"> Show only what does not hold</label>'
# Line styles of a chart: when all colours are used, the next lines are dashed, and the lines after that dotted.
DASHES = ("-", "--", ":")

STYLE = (
    f"""
:root {{ color-scheme: light dark; --line: #8884; --soft: #8881; --dim: light-dark(#57606a, #9aa4ae);
  --good: light-dark(#1a7f37, #56d364); --bad: light-dark(#cf222e, #ff7b72) }}
{PLOT_STYLE}"""
    + """
* { box-sizing: border-box }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1120px; margin: 2rem auto; padding: 0 1rem; overflow-wrap: anywhere }
h1 { font-size: 1.7rem; line-height: 1.2; margin-bottom: .2rem }
h2 { font-size: 1.3rem; line-height: 1.25; margin: 3rem 0 0; border-top: 2px solid var(--line); padding-top: 1.2rem }
h3 { font-size: 1.05rem; margin: 2rem 0 .2rem } h3 code { font-weight: 400; color: var(--dim); font-size: .85em }
.dim, small { color: var(--dim) } small { font-size: .86rem; display: block; margin-top: .2rem }
.good { color: var(--good); font-weight: 600 } .bad { color: var(--bad); font-weight: 600 }
.big { font-size: 1.15rem; margin: .6rem 0 1rem }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; margin: .8rem 0 }
th, td { padding: .45rem .6rem; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line) }
th { font-weight: 600; font-size: .86rem; color: var(--dim) }
.claims { table-layout: fixed } .claims th:nth-child(1) { width: 2.2rem } .claims th:nth-child(2) { width: 44% } .claims th:nth-child(5) { width: 5rem }
.why, .note { border-left: 3px solid var(--line); padding-left: .6rem; margin-top: .4rem; color: inherit } .why { border-color: var(--bad) }
.number, .count th:not(:first-child) { text-align: right; white-space: nowrap }
figure { margin: 0 } figcaption { font-size: .9rem; padding: .1rem .4rem .4rem; font-weight: 600 }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 500px), 1fr)); gap: .8rem; margin: .8rem 0 }
@media (max-width: 640px) {
  .claims thead { display: none } .claims, .claims tbody, .claims tr, .claims td { display: block; width: 100% }
  .claims td:first-child { float: left; width: 1.5rem }
  .claims tr { border-bottom: 1px solid var(--line); padding: .6rem 0 } .claims td { border: 0; padding: .1rem 0 }
  .claims td[data-is]::before { content: attr(data-is) ": "; color: var(--dim) }
}
.contents ul { columns: 2 20rem; margin: .3rem 0 .8rem } .contents summary { cursor: pointer }
.only { display: flex; gap: .5rem; align-items: center; margin: 1rem 0; position: sticky; top: 0; background: Canvas; padding: .4rem 0 }
body:has(#only:checked) .all-hold, body:has(#only:checked) .claims tr.holds { display: none }
section { scroll-margin-top: 3rem }
@media print { .only { display: none } h3, figure, tr { break-inside: avoid } }
"""
)


def write_page(results: Results, quick: bool, folder: Path) -> Path:
    """Write the page into the folder, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE
    path.write_text(page(results, quick), encoding="utf-8")
    return path


def page(results: Results, quick: bool) -> str:
    title = "What the papers claim, and what Weir finds"
    papers = [key for key in PAPERS if any(experiment.paper == key for experiment, _ in results)]
    parts = [
        f"<h1>{title}</h1>",
        '<p class="dim">Each set-up is repeated in virtual time, where a run depends only on its seed. The rule that is printed under a '
        "claim decides whether the claim holds. The claim agrees if its figures are within 25% of the paper's. Ratios are compared and "
        "not times, because the papers used other machines."
        f"{' <b>Quick form</b>: shorter runs of the same set-ups.' if quick else ''}</p>",
        f'<p class="big">{verdicts([finding for _, outcome in results for finding in outcome.findings])}</p>',
        count_table(papers, results),
        failed_list(results),
        contents(papers, results),
        ONLY,
    ]
    for key in papers:
        paper = PAPERS[key]
        of_paper = [(experiment, outcome) for experiment, outcome in results if experiment.paper == key]
        mark = all_hold(finding for _, outcome in of_paper for finding in outcome.findings)
        parts += [
            f'<section{mark}><h2 id="{key}">{escape(paper.title)}</h2>',
            f'<p class="dim">{escape(paper.authors)}</p>',
        ]
        for experiment, outcome in of_paper:
            parts += section(experiment, outcome)
        parts.append("</section>")
    return document(title, STYLE, parts)


def verdicts(findings: Sequence[Finding]) -> str:
    hold = sum(finding.holds for finding in findings)
    figured = [finding for finding in findings if finding.agrees is not None]
    text = f'<span class="good">{hold} of {len(findings)} claims hold</span>'
    fail = len(findings) - hold
    if fail:
        text += f', <span class="bad">{fail} {"does" if fail == 1 else "do"} not</span>'
    if figured:
        text += f"; {sum(finding.agrees is True for finding in figured)} of {len(figured)} with figures agree"
    return text


def count_table(papers: Sequence[str], results: Results) -> str:
    rows = []
    for key in papers:
        findings = [
            finding
            for experiment, outcome in results
            if experiment.paper == key
            for finding in outcome.findings
        ]
        hold = sum(finding.holds for finding in findings)
        figured = [finding for finding in findings if finding.agrees is not None]
        rows.append(
            f'<tr><td><a href="#{key}">{escape(PAPERS[key].title)}</a></td><td class="number">{len(findings)}</td>'
            f'<td class="number good">{hold}</td><td class="number{" bad" if hold < len(findings) else ""}">'
            f'{len(findings) - hold}</td><td class="number">{len(figured)}</td>'
            f'<td class="number">{sum(finding.agrees is True for finding in figured)}</td></tr>'
        )
    heads = ("paper", "claims", "hold", "do not", "with a figure", "agree")
    head = f"<tr>{''.join(f'<th>{name}</th>' for name in heads)}</tr>"
    return f'<table class="count"><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table>'


def failed_list(results: Results) -> str:
    """Return a list of the claims that do not hold, with their reasons."""
    lines = "".join(
        f'<li>{escape(finding.claim)} <a href="#{escape(experiment.name)}">{escape(experiment.name)}</a>'
        f'<small class="reason">Claimed {escape(finding.claimed)}, got {escape(finding.got)}. '
        f"{'Why: ' + escape(finding.why) if finding.why else 'No reason is known.'}</small></li>"
        for experiment, outcome in results
        for finding in outcome.findings
        if not finding.holds
    )
    return f"<h3>What does not hold</h3><ul>{lines}</ul>" if lines else ""


def contents(papers: Sequence[str], results: Results) -> str:
    """Return a list of links to the set-ups, by paper."""
    parts = []
    for key in papers:
        links = "".join(
            f'<li><a href="#{escape(experiment.name)}">{escape(experiment.title)}</a></li>'
            for experiment, _ in results
            if experiment.paper == key
        )
        parts.append(f"<details><summary>{escape(PAPERS[key].title)}</summary><ul>{links}</ul></details>")
    return f'<nav class="contents" aria-label="Contents"><h3>Contents</h3>{"".join(parts)}</nav>'


def all_hold(findings: Iterable[Finding]) -> str:
    """Return the HTML attribute by which the page can hide a part in which all claims hold; empty if a claim does not hold."""
    return ' class="all-hold"' if all(finding.holds for finding in findings) else ""


def section(experiment: Experiment, found: ExperimentOutcome) -> list[str]:
    title = f"{escape(experiment.title)} <code>{escape(experiment.name)}</code>"
    parts = [f'<section{all_hold(found.findings)}><h3 id="{escape(experiment.name)}">{title}</h3>']
    if experiment.setup:
        setup = CODE.sub(r"<code>\1</code>", escape(experiment.setup))
        parts.append(f'<p class="dim">{setup}</p>')
    parts.append(claim_table(found.findings))
    if found.charts:
        drawn = "\n".join(
            figure(chart, f"{experiment.name} {place}") for place, chart in enumerate(found.charts)
        )
        parts.append(f'<div class="charts">{drawn}</div>')
    parts.append("</section>")
    return parts


def claim_table(findings: Sequence[Finding]) -> str:
    head = "<tr><th></th><th>claim</th><th>claimed</th><th>got</th><th>figures</th></tr>"
    return f'<table class="claims"><thead>{head}</thead><tbody>{"".join(map(claim_row, findings))}</tbody></table>'


def claim_row(finding: Finding) -> str:
    mark = (
        '<span class="good" title="holds">✓</span>'
        if finding.holds
        else '<span class="bad" title="does not hold">✗</span>'
    )
    agrees = {True: "agrees", False: "differs", None: "–"}[finding.agrees]
    rule = f". Rule: {escape(finding.rule)}" if finding.rule else ""
    text = f"{escape(finding.claim)}<small>{escape(finding.where)}{rule}</small>"
    if finding.reason:
        begins = "Why the figures differ" if finding.holds else "Why not"
        text += (
            f'<small class="{"note" if finding.holds else "why"}">{begins}: {escape(finding.reason)}</small>'
        )
    if finding.note:
        text += f'<small class="note">{escape(finding.note)}</small>'
    kind = ' class="holds"' if finding.holds else ""
    return (
        f'<tr{kind}><td>{mark}</td><td>{text}</td><td data-is="claimed">{escape(finding.claimed)}</td>'
        f'<td data-is="got">{escape(finding.got)}</td><td data-is="figures">{agrees}</td></tr>'
    )


# --- charts -----------------------------------------------------------------------------------------------


def figure(chart: Chart, salt: str) -> str:
    """Return a chart with its title as text, so that the title can be searched and read aloud."""
    height = 2.9 if chart.lines else 0.9 + 0.32 * len(chart.bars)
    drawing = Figure(figsize=(5.6, height), layout="constrained")
    axes = drawing.subplots()
    if chart.lines:
        draw_lines(axes, chart)
    else:
        draw_bars(axes, chart.bars, chart.y_label, chart.log_y)
    axes.spines[["top", "right"]].set_visible(False)
    return f"<figure><figcaption>{escape(chart.title)}</figcaption>{svg(drawing, salt)}</figure>"


def draw_lines(axes: Axes, chart: Chart) -> None:
    for place, (name, points) in enumerate(chart.lines.items()):
        axes.plot(
            [x for x, _ in points],
            [y for _, y in points],
            color=COLOURS[place % len(COLOURS)],
            ls=DASHES[place // len(COLOURS) % len(DASHES)],
            lw=1.2,
            marker="o" if len(points) <= 20 else None,
            ms=3.5,
            label=name,
        )
    if chart.log_y:
        logarithmic(axes, "y")
    axes.set_xlabel(chart.x_label)
    axes.set_ylabel(chart.y_label)
    axes.grid(alpha=0.25)
    # The legend is above the plot, because names may be long and would cover lines.
    axes.legend(
        loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False, fontsize="small", borderaxespad=0
    )
