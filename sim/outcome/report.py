"""Report of a run as one HTML page: a summary, tables, and plots over time like those of the DILoS paper (Figs 2–8)."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from configs import numbers
from scheduler.capacity.core import ShareMove
from sim.outcome.html_page import document, row, table
from sim.outcome.outcome import Outcome
from sim.outcome.promises import Promise
from sim.outcome.svg_plots import COLOURS, MARKS, PLOT_STYLE, LineStyle, logarithmic, svg
from sim.outcome.verdict import verdict
from sim.series import ClassSeries

CLASSES_PLOTTED = len(COLOURS)
QUERIES_SHOWN = 50  # Maximum number of queries listed for each class
MOVES_SHOWN = 40
# Highest load in plots, as a multiple of the lanes: the first estimates of a load may be far too high, and would flatten all curves.
LOAD_SHOWN = 2.5

STYLE = f"""
:root {{ color-scheme: light dark; --line: #8884; --dim: light-dark(#57606a, #9aa4ae) }}
* {{ box-sizing: border-box }}
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 1080px; margin: 2rem auto; padding: 0 1rem; overflow-wrap: anywhere }}
h1 {{ font-size: 1.6rem; margin-bottom: .2rem }} h2 {{ font-size: 1.15rem; margin-top: 2rem }}
table {{ border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; overflow-wrap: normal }}
th, td {{ padding: .3rem .6rem; text-align: right; border-bottom: 1px solid var(--line) }}
th:first-child, td:first-child, .text td, .text th {{ text-align: left }} .text td:last-child, .text th:last-child {{ text-align: right }}
td {{ vertical-align: top }} .wide td:not(:first-child) {{ white-space: nowrap }}
figure {{ margin: 1rem 0 }} .wide {{ overflow-x: auto }}
figcaption, .dim, small {{ color: var(--dim); font-size: .9rem }} figcaption {{ padding: 0 .6rem .3rem }}
.verdict {{ font-size: 1.1rem; border-left: 4px solid light-dark(#1a7f37, #56d364); padding: .1rem .9rem; margin: 1rem 0 }}
.verdict.bad {{ border-color: light-dark(#cf222e, #ff7b72) }} .verdict p {{ margin: .3rem 0 }}
.kept {{ color: light-dark(#1a7f37, #56d364) }} .broken {{ color: light-dark(#cf222e, #ff7b72); font-weight: 600 }}
summary {{ cursor: pointer; padding: .3rem 0 }} code, li {{ font-size: .92rem }}
{PLOT_STYLE}"""


def write_report(run: Outcome, promises: Sequence[Promise], folder: Path, more: Sequence[str] = ()) -> Path:
    """Write the page into the folder and return its path; the HTML texts in `more` are added at the end of the page."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{run.result['scenario']}-{run.result['manager']}.html"
    path.write_text(page(run, promises, more), encoding="utf-8")
    return path


def page(run: Outcome, promises: Sequence[Promise], more: Sequence[str] = ()) -> str:
    result = run.result
    title = f"{result['scenario']} under {result['manager']}"
    names = ", ".join(f"{c['name']} {c['priority']:g}" for c in result["classes"])
    is_kept = all(promise.kept for promise in promises)
    sentences = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in verdict(run, promises))
    parts = [
        f"<h1>{html.escape(title)}</h1>",
        f"<p>{html.escape(run.description)}</p>",
        f'<div class="verdict{"" if is_kept else " bad"}">{sentences}</div>',
        f'<p class="dim">{length(result)}, policy {html.escape(result["policy"])}, {run.lanes} lane(s); priorities '
        f"{html.escape(names)}; utilisation {result['utilisation']:.1%}, "
        f"scheduling overhead {result['scheduling_overhead_pct']:.1f}%</p>",
        "<h2>Over time</h2>",
        *plots(run),
        "<h2>Promises</h2>",
        promise_list(promises),
        "<h2>Classes</h2>",
        class_table(result),
    ]
    if result["lending"]:
        parts += ["<h2>Lending between classes</h2>", lending_table(result["lending"])]
    if run.moves:
        parts += ["<h2>Moves of capacity</h2>", move_list(run.moves)]
    parts += ["<h2>Answers</h2>", *answers(run)]
    return document(title, STYLE, [*parts, *more])


def length(result: Mapping[str, Any]) -> str:
    """Return the length of the run and its seed; a run without randomness has no seed."""
    seed = "" if result["seed"] is None else f", seed {result['seed']}"
    return f"{result['seconds']:g} s{seed}"


def promise_list(promises: Sequence[Promise]) -> str:
    lines = (
        f'<li><span class="{"kept" if promise.kept else "broken"}">{"✓ kept" if promise.kept else "✗ broken"}</span> '
        f"{html.escape(promise.text)} <small>({html.escape(promise.detail)})</small></li>"
        for promise in promises
    )
    return f"<ul>{''.join(lines)}</ul>"


def class_table(result: Mapping[str, Any]) -> str:
    columns: list[tuple[str, Callable[[Mapping[str, Any]], str]]] = [
        ("class", lambda c: html.escape(c["name"])),
        ("target ms", lambda c: numbers.exact(c["delay_target_ms"])),
        ("mean ms", lambda c: f"{c['response_ms']['mean']:,.2f}"),
        ("p95 ms", lambda c: f"{c['response_ms']['p95']:,.1f}"),
        ("p99 ms", lambda c: f"{c['response_ms']['p99']:,.1f}"),
        ("in target", lambda c: f"{c['target_met_pct']:.1f}%"),
        ("offered", lambda c: f"{c['offered']:,}"),
        ("shed", lambda c: f"{c['shed']:,}"),
        ("loss", lambda c: f"{c['loss_pct']:.2f}%"),
        ("queued", lambda c: f"{c['queued']:,}"),
        ("share", lambda c: f"{c['share']['original']:.2f} → {c['share']['mean']:.2f}"),
        ("headroom", lambda c: "–" if c["headroom_last"] is None else f"{c['headroom_last']:.3f}"),
    ]
    rows = (row(*(show(class_) for _, show in columns)) for class_ in result["classes"])
    return table((name for name, _ in columns), rows)


ANSWERS = (
    "answers",
    "mean ms",
    "slowdown",
    "worth",
    "missed deadlines",
    "stale",
    "uneven",
    "tardy",
    "mean tardiness",
)


def answers(run: Outcome) -> list[str]:
    """Return a table with a row for each class, and for each class a folded table of its queries."""
    classes = run.classes
    parts = [
        '<p class="dim">Slowdown: response time divided by the time that an answer takes in an idle system. Worth: utility by response '
        "time, at most 1. Stale: part of the time for which an output was behind its input. Uneven: standard deviation of the answers per "
        "second, divided by their mean; 0 if answers come evenly. Tardy: part of the window answers that came after their deadline.</p>",
        table(("class", *ANSWERS), [class_row(class_) for class_ in classes]),
    ]
    for class_ in classes:
        queries = list((class_["queries"] or {}).items())
        if not queries:
            continue
        rows = [
            answers_row(query_cell(name, run.queries), query, query["mean_ms"])
            for name, query in queries[:QUERIES_SHOWN]
        ]
        if queries[QUERIES_SHOWN:]:
            more = f"and {len(queries) - QUERIES_SHOWN:,} more queries"
            rows.append(f'<tr><td colspan="{len(ANSWERS) + 1}">{more}</td></tr>')
        summary = f"<summary>Each query of {html.escape(class_['name'])}</summary>"
        parts.append(f"<details>{summary}{table(('query', *ANSWERS), rows)}</details>")
    return parts


def class_row(one: Mapping[str, Any]) -> str:
    means = {
        name: (one[name] or {}).get("mean") for name in ("slowdown", "utility", "staleness", "unevenness")
    }
    figures = {**one, **means, "missed": (one["utility"] or {}).get("missed")}
    return answers_row(html.escape(one["name"]), figures, one["response_ms"]["mean"])


def query_cell(name: str, computes: Mapping[str, str]) -> str:
    """Return a table cell with a query's name, and below it what the query computes."""
    text = computes.get(name)
    below = f"<br><small>{html.escape(text)}</small>" if text else ""
    return f"{html.escape(name)}{below}"


def answers_row(name: str, figures: Mapping[str, Any], mean_ms: float) -> str:
    """Return the table row of a class or query; a dash stands for a figure that was not measured."""
    count, missed, late = figures["results"], figures["missed"], figures["tardiness"] or {"due": 0}
    cells = (
        name,
        f"{count:,}",
        f"{mean_ms:,.2f}",
        "–" if figures["slowdown"] is None else numbers.figure(figures["slowdown"]),
        "–" if figures["utility"] is None else f"{figures['utility']:.3f}",
        "–" if missed is None else f"{missed:,}" + (f" ({missed / count:.1%})" if missed and count else ""),
        "–" if figures["staleness"] is None else f"{figures['staleness']:.1%}",
        "–" if figures.get("unevenness") is None else numbers.figure(figures["unevenness"]),
        f"{late['tardy'] / late['due']:.1%}" if late["due"] else "–",
        numbers.duration(late["mean_ms"]) if late["due"] else "–",
    )
    return row(*cells)


def lending_table(lending: Mapping[str, Mapping[str, float]]) -> str:
    rows = "".join(
        row(html.escape(lender), html.escape(borrower), f"{seconds:.2f}")
        for lender, borrowers in lending.items()
        for borrower, seconds in borrowers.items()
    )
    return f'<table class="text"><tr><th>lender</th><th>borrower</th><th>processor-seconds</th></tr>{rows}</table>'


def move_list(moves: Sequence[ShareMove]) -> str:
    moved = [move for move in moves if move.is_visible]
    lines = "".join(
        f"<li>{move.at:.2f} s, {html.escape(move.sentence())}</li>" for move in moved[:MOVES_SHOWN]
    )
    more = f"<p>and {len(moved) - MOVES_SHOWN} more</p>" if len(moved) > MOVES_SHOWN else ""
    return f"<ul>{lines}</ul>{more}"


# --- plots ----------------------------------------------------------------------------------------------

Draw = Callable[[Axes, str, ClassSeries, LineStyle], None]


def plots(run: Outcome) -> list[str]:
    """Return the plots, each with a caption."""
    return [
        figure(run, "share of the lanes", draw_column("share", 1.4, "steps-post"))
        + "a class that lends or borrows leaves its initial share</figcaption></figure>",
        figure(run, "response time, ms (log)", draw_response(run), log=True)
        + "mean response time since the previous point; dashed: the class's delay target</figcaption></figure>",
        figure(run, "headroom and load, processors", draw_headroom, most=LOAD_SHOWN * run.lanes)
        + "solid: headroom, the capacity that the class can spend; dotted: load offered to the class</figcaption></figure>",
        figure(run, "drop rate", draw_column("drop", 1, "steps-post"))
        + "part of the input that is shed</figcaption></figure>",
        figure(run, "queued tuples", draw_column("queued", 0.9))
        + "tuples that are queued inside the class</figcaption></figure>",
    ]


def figure(run: Outcome, label: str, draw: Draw, log: bool = False, most: float = inf) -> str:
    drawing = Figure(figsize=(9.6, 2.7), layout="constrained")
    axes = drawing.subplots()
    for place, (name, series) in enumerate(list(run.series.items())[:CLASSES_PLOTTED]):
        draw(axes, name, series, LineStyle(COLOURS[place], MARKS[place], place))
    if log:
        logarithmic(axes, "y")
    else:
        axes.set_ylim(0, min(axes.get_ylim()[1], most))
    axes.set_xlim(
        0, max([run.result["seconds"], *(series.at_s[-1] for series in run.series.values() if series.at_s)])
    )
    axes.set_xlabel("time, s")
    axes.set_ylabel(label)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    return f"<figure>{svg(drawing, label)}<figcaption>"


def draw_response(run: Outcome) -> Draw:
    targets = {class_["name"]: class_["delay_target_ms"] for class_ in run.classes}

    def draw(axes: Axes, name: str, series: ClassSeries, look: LineStyle) -> None:
        points = [(at, ms) for at, ms in zip(series.at_s, series.response_ms, strict=True) if ms]
        at_s, values = [at for at, _ in points], [ms for _, ms in points]
        axes.plot(at_s, values, lw=0.9, label=name, **look.marked(len(points)))
        axes.axhline(targets[name], color=look.colour, lw=1, ls="--", alpha=0.8)

    return draw


def draw_headroom(axes: Axes, name: str, series: ClassSeries, look: LineStyle) -> None:
    points = [
        (at, h, load)
        for at, h, load in zip(series.at_s, series.headroom, series.load, strict=True)
        if h and load is not None
    ]
    if points:
        at_s, headroom, load = zip(*points, strict=True)
        marked = look.marked(len(points))
        axes.plot(at_s, headroom, lw=1.4, label=name, **marked)
        axes.plot(at_s, load, lw=0.8, ls=":", markerfacecolor="none", **marked)


def draw_column(column: str, lw: float, drawstyle: str = "default") -> Draw:
    """Return a function that draws a column of a class's time series."""

    def draw(axes: Axes, name: str, series: ClassSeries, look: LineStyle) -> None:
        marked = look.marked(len(series.at_s))
        axes.plot(series.at_s, getattr(series, column), lw=lw, label=name, drawstyle=drawstyle, **marked)

    return draw
