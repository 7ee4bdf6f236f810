"""Report of periodic queries as one HTML page: one schedule by group, or a comparison of all schedules."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from configs.scenario.periodic_scenario import PeriodicScenario
from sim.outcome.html_page import document, row, table
from sim.outcome.report import STYLE
from sim.outcome.svg_plots import draw_bars, svg
from sim.windows.periodic_results import metric_of, title_of, words_of

Answer = Mapping[str, Any]

# Figures that a page draws, each with its label.
DRAWN = {
    "throughput": "answers per second (more is better)",
    "latency_updates": "latency, updates beyond the slide (less is better)",
    "tardiness.mean_ms": "mean tardiness, ms (less is better)",
}
SOONER = "have a period shorter than their slide"
FIGURES = ("queries", "answers", "answers/s", "latency, updates", "tardiness, ms", "most, ms")
BAR_IN, FRAME_IN = 0.28, 0.9
BARS_DRAWN = 40


def write_report(scenario: PeriodicScenario, answer: Answer, folder: Path) -> Path:
    """Write the page of a run or of a comparison into the folder, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    what = re.sub(r"[^a-z0-9]+", "-", str(answer.get("schedule", "schedules")))
    path = folder / f"{scenario.name}-{what}.html"
    path.write_text(page(scenario, answer), encoding="utf-8")
    return path


def page(scenario: PeriodicScenario, answer: Answer) -> str:
    title = title_of(answer)
    compared: Sequence[Answer] | None = answer.get("schedules")
    parts = [f"<h1>{html.escape(title)}</h1>", f"<p>{html.escape(scenario.description)}</p>"]
    if compared is not None:
        parts += [
            "<h2>Schedules</h2>",
            runs_table(
                "schedule",
                [runs_row(result["schedule"], result, sooner(result)) for result in compared],
                SOONER,
            ),
        ]
        if answer["claims"]:
            parts += ["<h2>The paper's findings</h2>", claims(answer["claims"])]
        parts += charts({result["schedule"]: result for result in compared})
    else:
        groups = answer["groups"]
        parts += [
            "<h2>Groups</h2>",
            f"<p>{sooner(answer)} of the queries {SOONER}</p>",
            runs_table(
                "group", [*(runs_row(group["name"], group) for group in groups), runs_row("all", answer)]
            ),
            *charts({group["name"]: group for group in groups}),
            "<h2>Sub-groups</h2>",
            *(f"<h3>{html.escape(group['name'])}</h3>{sub_groups(group['sub_groups'])}" for group in groups),
        ]
    return document(title, STYLE, parts)


def runs_table(first: str, rows: Sequence[str], *last: str) -> str:
    return table((first, *FIGURES, "runs", "answers per run", "shared runs", "busy, s", *last), rows)


def sooner(answer: Answer) -> str:
    return f"{answer['shortened_pct']:.0f}%"


def runs_row(name: str, one: Answer, *last: str) -> str:
    shared = f"{one['shared'] / one['runs']:.0%}" if one["runs"] else "–"
    return row(
        html.escape(name),
        *figures(one),
        f"{one['runs']:,}",
        told(one["answers_per_run"], ".1f"),
        shared,
        *last,
    )


def figures(one: Answer) -> list[str]:
    return [
        f"{one['queries']:,}",
        f"{one['answers']:,}",
        f"{one['throughput']:.2f}",
        told(one["latency_updates"], ".2f"),
        told(metric_of(one, "tardiness.mean_ms"), ",.1f"),
        told(metric_of(one, "tardiness.max_ms"), ",.1f"),
    ]


def sub_groups(ones: Sequence[Answer]) -> str:
    rows = (
        row(
            f"{'≤ ' if group['at_most'] else ''}{group['slide_s']:g} s",
            f"{group['period_s']:g} s",
            f"{group['range_max_s']:g} s",
            *figures(group),
        )
        for group in ones
    )
    return table(("slide", "runs every", "longest range", *FIGURES), rows)


def claims(ones: Sequence[Answer]) -> str:
    rows = (
        row(
            *map(html.escape, words_of(claim)),
            f'<span class="{"kept" if claim["holds"] else "broken"}">{"yes" if claim["holds"] else "no"}</span>',
            html.escape(claim["source"]),
        )
        for claim in ones
    )
    return table(("finding", "claimed", "here", "holds", "source"), rows)


def told(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def charts(rows: Mapping[str, Answer]) -> list[str]:
    """Return a bar chart of each figure; rows without answers have no bar."""
    drawings = []
    for metric, label in DRAWN.items():
        bars = {name: metric_of(result, metric) for name, result in rows.items()}
        figures = {name: value for name, value in bars.items() if value is not None}
        if figures:
            figures = dict(islice(figures.items(), BARS_DRAWN))
            drawing = Figure(figsize=(9.6, FRAME_IN + BAR_IN * len(figures)), layout="constrained")
            axes = drawing.subplots()
            draw_bars(axes, figures, "", log=False)
            axes.spines[["top", "right"]].set_visible(False)
            drawings.append(
                f"<figure>{svg(drawing, metric)}<figcaption>{html.escape(label)}</figcaption></figure>"
            )
    return drawings
