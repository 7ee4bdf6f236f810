"""One self-contained HTML page of a run, with the papers' kinds of plots over time (DILoS Figs 2–8)."""

from __future__ import annotations

import html
import io
from collections.abc import Callable, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from scheduler.capacity import ShareMove
from sim.outcome import Outcome
from sim.promises import Promise
from sim.series import ClassSeries

# Okabe–Ito: told apart by colour-blind readers, in the order of classes.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7f7f7f")
CLASSES_PLOTTED = 7
QUERIES_SHOWN = 50  # of each class
MOVES_SHOWN = 40
# A class's first estimates may be far off, and would press all others flat: so many times the lanes are drawn.
LOAD_SHOWN = 2.5

STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1080px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin-bottom: .2rem } h2 { font-size: 1.15rem; margin-top: 2rem }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
th, td { padding: .3rem .6rem; text-align: right; border-bottom: 1px solid var(--line) }
th:first-child, td:first-child { text-align: left }
figure { margin: 1rem 0; background: #fff; border: 1px solid var(--line); border-radius: 6px; padding: .5rem }
figure svg { width: 100%; height: auto } .wide { overflow-x: auto }
figcaption { color: #444; font-size: .9rem; padding: 0 .6rem .3rem }
.kept { color: #1a7f37 } .broken { color: #cf222e; font-weight: 600 }
@media (prefers-color-scheme: dark) { .kept { color: #56d364 } .broken { color: #ff7b72 } }
code, li { font-size: .92rem }
"""


def write_report(run: Outcome, promises: Sequence[Promise], folder: Path, more: Sequence[str] = ()) -> Path:
    """Write the page into the folder, with more parts in HTML at its end; its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{run.result['scenario']}-{run.result['manager']}.html"
    path.write_text(page(run, promises, more), encoding="utf-8")
    return path


def page(run: Outcome, promises: Sequence[Promise], more: Sequence[str] = ()) -> str:
    result = run.result
    title = f"{result['scenario']} under {result['manager']}"
    names = ", ".join(f"{c['name']} {c['priority']:g}" for c in result["classes"])
    parts = [
        f"<h1>{html.escape(title)}</h1>",
        f"<p>{html.escape(run.description)}<br>{length(result)}, "
        f"policy {html.escape(result['policy'])}, {run.lanes} lane(s); priorities {html.escape(names)}; "
        f"utilisation {result['utilisation']:.1%}, scheduling overhead {result['scheduling_overhead_pct']:.1f}%</p>",
        "<h2>Promises</h2>",
        promise_list(promises),
        "<h2>Classes</h2>",
        class_table(result),
        "<h2>Answers</h2>",
        answers_table(result),
        "<h2>Over time</h2>",
        *plots(run),
    ]
    if result["lending"]:
        parts += ["<h2>Who lent to whom</h2>", lending_table(result["lending"])]
    if run.moves:
        parts += ["<h2>Moves of capacity</h2>", move_list(run.moves)]
    body = "\n".join([*parts, *more])
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head>'
        f"<body>{body}</body></html>\n"
    )


def length(result: Mapping[str, Any]) -> str:
    """Without chance there is no seed."""
    seed = "" if result["seed"] is None else f", seed {result['seed']}"
    return f"{result['seconds']:g} s{seed}"


def promise_list(promises: Sequence[Promise]) -> str:
    lines = (
        f'<li><span class="{"kept" if one.kept else "broken"}">{"✓ kept" if one.kept else "✗ broken"}</span> '
        f"{html.escape(one.text)} <small>({html.escape(one.detail)})</small></li>"
        for one in promises
    )
    return f"<ul>{''.join(lines)}</ul>"


def class_table(result: Mapping[str, Any]) -> str:
    columns: list[tuple[str, Callable[[Mapping[str, Any]], str]]] = [
        ("class", lambda c: html.escape(c["name"])),
        ("target ms", lambda c: f"{c['delay_target_ms']:g}"),
        ("mean ms", lambda c: f"{c['response_ms']['mean']:.2f}"),
        ("p95 ms", lambda c: f"{c['response_ms']['p95']:.1f}"),
        ("p99 ms", lambda c: f"{c['response_ms']['p99']:.1f}"),
        ("in target", lambda c: f"{c['target_met_pct']:.1f}%"),
        ("offered", lambda c: f"{c['offered']:,}"),
        ("shed", lambda c: f"{c['shed']:,}"),
        ("loss", lambda c: f"{c['loss_pct']:.2f}%"),
        ("queued", lambda c: f"{c['queued']:,}"),
        ("share", lambda c: f"{c['share']['original']:.2f} → {c['share']['mean']:.2f}"),
        ("headroom", lambda c: "–" if c["headroom_last"] is None else f"{c['headroom_last']:.3f}"),
    ]
    head = "".join(f"<th>{name}</th>" for name, _ in columns)
    rows = "".join(
        "<tr>" + "".join(f"<td>{show(one)}</td>" for _, show in columns) + "</tr>"
        for one in result["classes"]
    )
    return f'<div class="wide"><table><tr>{head}</tr>{rows}</table></div>'


def answers_table(result: Mapping[str, Any]) -> str:
    """How good answers were, of each class and of its queries."""
    names = (
        "",
        "answers",
        "mean ms",
        "slowdown",
        "worth",
        "missed deadlines",
        "stale",
        "tardy",
        "mean tardiness",
    )
    rows = []
    for one in result["classes"]:
        means = {name: (one[name] or {}).get("mean") for name in ("slowdown", "utility", "staleness")}
        told = one | means | {"missed": (one["utility"] or {}).get("missed")}
        rows.append(answers_row(f"<b>{html.escape(one['name'])}</b>", told, one["response_ms"]["mean"]))
        queries = list((one["queries"] or {}).items())
        rows += [
            answers_row(f"&emsp;{html.escape(name)}", query, query["mean_ms"])
            for name, query in queries[:QUERIES_SHOWN]
        ]
        if queries[QUERIES_SHOWN:]:
            more = f"&emsp;and {len(queries) - QUERIES_SHOWN:,} more queries"
            rows.append(f'<tr><td colspan="{len(names)}">{more}</td></tr>')
    head = "".join(f"<th>{name}</th>" for name in names)
    return f'<div class="wide"><table><tr>{head}</tr>{"".join(rows)}</table></div>'


def answers_row(name: str, told: Mapping[str, Any], mean_ms: float) -> str:
    """Of a class or a query; what was not measured is a dash."""
    count, missed, late = told["results"], told["missed"], told["tardiness"] or {"due": 0}
    shown = (
        name,
        f"{count:,}",
        f"{mean_ms:.2f}",
        "–" if told["slowdown"] is None else f"{told['slowdown']:,.4g}",
        "–" if told["utility"] is None else f"{told['utility']:.3f}",
        "–" if missed is None else f"{missed:,}" + (f" ({missed / count:.1%})" if missed and count else ""),
        "–" if told["staleness"] is None else f"{told['staleness']:.1%}",
        f"{late['tardy'] / late['due']:.1%}" if late["due"] else "–",
        f"{late['mean_ms']:.1f} ms" if late["due"] else "–",
    )
    return f"<tr>{''.join(f'<td>{one}</td>' for one in shown)}</tr>"


def lending_table(lending: Mapping[str, Mapping[str, float]]) -> str:
    rows = "".join(
        f"<tr><td>{html.escape(lender)}</td><td>{html.escape(borrower)}</td><td>{seconds:.2f}</td></tr>"
        for lender, borrowers in lending.items()
        for borrower, seconds in borrowers.items()
    )
    return f"<table><tr><th>lender</th><th>borrower</th><th>processor-seconds</th></tr>{rows}</table>"


def move_list(moves: Sequence[ShareMove]) -> str:
    moved = [move for move in moves if move.before != move.after]
    lines = "".join(
        f"<li>{move.at:.2f} s, {html.escape(move.sentence())}</li>" for move in moved[:MOVES_SHOWN]
    )
    more = f"<p>and {len(moved) - MOVES_SHOWN} more</p>" if len(moved) > MOVES_SHOWN else ""
    return f"<ul>{lines}</ul>{more}"


# --- plots ----------------------------------------------------------------------------------------------

Draw = Callable[[Axes, str, ClassSeries, str], None]


def plots(run: Outcome) -> list[str]:
    """The figures, each with what it shows in words."""
    return [
        figure(run, "response time, ms (log)", draw_response(run), log=True)
        + "mean since the point before; dashed: the class's delay target</figcaption></figure>",
        figure(run, "headroom and load, processors", draw_headroom, most=LOAD_SHOWN * run.lanes)
        + "solid: capacity the class believes it has; dotted: load offered to it</figcaption></figure>",
        figure(run, "share of the lanes", draw_share)
        + "lending shows as shares that leave their start</figcaption></figure>",
        figure(run, "drop rate", draw_drop) + "part of the input that is shed</figcaption></figure>",
        figure(run, "queued tuples", draw_queue)
        + "everything waiting inside the class</figcaption></figure>",
    ]


def figure(run: Outcome, label: str, draw: Draw, log: bool = False, most: float = inf) -> str:
    drawing = Figure(figsize=(9.6, 2.7), layout="constrained")
    axes = drawing.subplots()
    for colour, (name, series) in zip(COLOURS, list(run.series.items())[:CLASSES_PLOTTED], strict=False):
        draw(axes, name, series, colour)
    if log:
        axes.set_yscale("log")
    else:
        axes.set_ylim(0, min(axes.get_ylim()[1], most))
    axes.set_xlim(0, max([run.result["seconds"], *(one.at_s[-1] for one in run.series.values() if one.at_s)]))
    axes.set_xlabel("time, s")
    axes.set_ylabel(label)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    return f"<figure>{svg(drawing, label)}<figcaption>"


def draw_response(run: Outcome) -> Draw:
    targets = {one["name"]: one["delay_target_ms"] for one in run.classes}

    def draw(axes: Axes, name: str, series: ClassSeries, colour: str) -> None:
        points = [(at, ms) for at, ms in zip(series.at_s, series.response_ms, strict=True) if ms]
        axes.plot([at for at, _ in points], [ms for _, ms in points], color=colour, lw=0.9, label=name)
        axes.axhline(targets[name], color=colour, lw=1, ls="--", alpha=0.8)

    return draw


def draw_headroom(axes: Axes, name: str, series: ClassSeries, colour: str) -> None:
    known = [
        (at, h, load)
        for at, h, load in zip(series.at_s, series.headroom, series.load, strict=True)
        if h and load is not None
    ]
    if known:
        at_s, headroom, load = zip(*known, strict=True)
        axes.plot(at_s, headroom, color=colour, lw=1.4, label=name)
        axes.plot(at_s, load, color=colour, lw=0.8, ls=":")


def draw_share(axes: Axes, name: str, series: ClassSeries, colour: str) -> None:
    axes.plot(series.at_s, series.share, color=colour, lw=1.4, label=name, drawstyle="steps-post")


def draw_drop(axes: Axes, name: str, series: ClassSeries, colour: str) -> None:
    axes.plot(series.at_s, series.drop, color=colour, lw=1, label=name, drawstyle="steps-post")


def draw_queue(axes: Axes, name: str, series: ClassSeries, colour: str) -> None:
    axes.plot(series.at_s, series.queued, color=colour, lw=0.9, label=name)


def svg(drawing: Figure, label: str) -> str:
    # A fixed salt and no date: the same run gives the same page.
    with matplotlib.rc_context({"svg.hashsalt": label, "svg.fonttype": "none", "font.family": "sans-serif"}):
        text = io.StringIO()
        drawing.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return text.getvalue()[text.getvalue().index("<svg") :]


def draw_bars(axes: Axes, bars: Mapping[str, float], label: str, log: bool) -> None:
    """Lying, so that long names can be read; the first on top."""
    colours = [COLOURS[place % len(COLOURS)] for place in range(len(bars))]
    drawn = axes.barh(list(bars), list(bars.values()), color=colours, height=0.65)
    axes.bar_label(
        drawn,
        [f"{value:,.0f}" if value >= 1000 else f"{value:.3g}" for value in bars.values()],
        padding=4,
        fontsize="small",
    )
    axes.invert_yaxis()
    if log:
        axes.set_xscale("log")
    axes.margins(x=0.12)
    axes.set_xlabel(label)
    axes.grid(axis="x", alpha=0.25)
