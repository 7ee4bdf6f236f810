"""Panels drawn as pictures, for reports without a Grafana: PNG files by matplotlib, and HTML that lays them out as Grafana would."""

from __future__ import annotations

import base64
import html
import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from services.dashboards.answers import AnsweredPanel, TimeSpan
from services.dashboards.boards import PER_S, ROWS_PER_S, Panel, TableColumn
from services.metrics.prometheus import LabelledSeries

# Size of a square of the dashboard grid in inches: 24 columns are 1,080 CSS pixels wide, and pictures have 1.5 dots per pixel.
COLUMN_IN, ROW_IN, DPI = 45 / 72, 26 / 72, 108
LINES_MOST = 12
ROWS_MOST = 12
# Colours of series (the colour-blind-safe palette of Okabe and Ito), and colours of thresholds by their names in Grafana.
SERIES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7f7f7f")
NAMED = {
    "green": "#1a7f37",
    "yellow": "#9a6700",
    "orange": "#bc4c00",
    "red": "#cf222e",
    "blue": "#0969da",
    "text": "#24292f",
}
LABEL = re.compile(r"{{\s*(\w+)\s*}}")
SCALES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
PER_SECOND = {ROWS_PER_S: "/s", PER_S: "/s", "Bps": "B/s"}

STYLE = """
.board { display: grid; grid-template-columns: repeat(24, 1fr); gap: .5rem }
.board h4 { grid-column: 1 / -1; margin: .8rem 0 0; font-size: 1rem }
.board figure { margin: 0; min-width: 0; background: #fff } .board img { width: 100%; height: auto; display: block }
.board summary { font-size: .8rem; color: #24292f; cursor: help; padding: .1rem .3rem }
.board details p { font-size: .8rem; color: #57606a; margin: .2rem .3rem }
@media (max-width: 800px) { .board figure { grid-column: 1 / -1 !important } }
"""


def boards_html(answered: Iterable[AnsweredPanel], span: TimeSpan) -> str:
    """Return HTML with all dashboards, each panel as a picture at its position on the dashboard."""
    parts = [f"<style>{STYLE}</style>"]
    for board, of_board in groupby(answered, lambda one: one.board):
        parts.append(f"<h3>{html.escape(board.title)}</h3><p>{html.escape(board.about)}</p>")
        parts.append('<div class="board">')
        for row, of_row in groupby(of_board, lambda one: one.row):
            parts.append(f"<h4>{html.escape(row.title)}</h4>")
            parts += [panel_html(panel, span) for panel in of_row]
        parts.append("</div>")
    return "\n".join(parts)


def panel_html(one: AnsweredPanel, span: TimeSpan) -> str:
    panel = one.panel
    data = base64.b64encode(picture(one, span)).decode()
    title, about = html.escape(panel.title), html.escape(panel.description)
    return (
        f'<figure style="grid-column: span {panel.width}"><details><summary>{title}</summary><p>{about}</p></details>'
        f'<img alt="{title}" src="data:image/png;base64,{data}"></figure>'
    )


def picture(one: AnsweredPanel, span: TimeSpan) -> bytes:
    """Return the panel as a PNG file."""
    panel = one.panel
    drawing = Figure(figsize=(panel.width * COLUMN_IN, panel.height * ROW_IN), layout="constrained")
    axes = drawing.subplots()
    if one.is_empty:
        tell(axes, panel.nothing, NAMED["text"], size=10)
    else:
        match panel.kind:
            case "stat":
                draw_tile(axes, one)
            case "table":
                draw_table(axes, one)
            case "heatmap":
                draw_spread(axes, one, span)
            case "timeseries":
                draw_plot(axes, one, span)
    file = io.BytesIO()
    drawing.savefig(file, format="png", dpi=DPI, metadata={"Software": None})
    return file.getvalue()


def legend_of(template: str, labels: Mapping[str, str]) -> str:
    return LABEL.sub(lambda found: labels.get(found[1], ""), template)


def shown(value: float, unit: str, decimals: int | None = None) -> str:
    """Return a value with its unit as text, in about the format that Grafana uses."""
    if math.isnan(value):
        return "–"
    match unit:
        case "percentunit":
            return f"{value:.{1 if decimals is None else decimals}%}"
        case "s":
            if value and abs(value) < 1:
                return f"{1e3 * value:.3g} ms" if abs(value) >= 1e-3 else f"{1e6 * value:.3g} µs"
            return f"{value:.3g} s"
        case "bytes" | "Bps":
            return f"{scaled(value)}{'B/s' if unit == 'Bps' else 'B'}"
    return f"{scaled(value)}{PER_SECOND.get(unit, '')}"


def scaled(value: float) -> str:
    for size, letter in SCALES:
        if abs(value) >= size:
            return f"{value / size:.3g} {letter}"
    return f"{value:.3g} "[: None if value % 1 else -1] if value else "0"


def seconds(value: float, _place: float) -> str:
    return f"{value:g} s"


def colour(thresholds: Sequence[tuple[float | None, str]], value: float) -> str:
    """Return the colour of the highest threshold that the value reaches."""
    named = "text"
    for at, name in thresholds:
        if at is None or value >= at:
            named = name
    return NAMED.get(named, named)


def tell(axes: Axes, text: str, color: str, size: float) -> None:
    axes.axis("off")
    axes.text(0.5, 0.5, text, color=color, fontsize=size, ha="center", va="center", transform=axes.transAxes)


def lines(one: AnsweredPanel) -> list[tuple[str, LabelledSeries]]:
    """Return all series of a panel, each with its legend."""
    pairs = []
    for query, series in zip(one.panel.queries, one.series.values(), strict=True):
        pairs += [(legend_of(query.legend, each.labels) or one.panel.title, each) for each in series]
    return pairs


def draw_tile(axes: Axes, one: AnsweredPanel) -> None:
    panel, texts = one.panel, []
    color = NAMED["text"]
    for name, series in lines(one)[:LINES_MOST]:
        _, value = series.points[-1]
        color = colour(panel.thresholds, value)
        text = panel.texts.get(f"{value:g}", shown(value, panel.unit, panel.decimals))
        texts.append(name if any(query.legend for query in panel.queries) else text)
    tell(axes, "\n".join(texts), color, size=18 if len(texts) == 1 else 10)


def draw_plot(axes: Axes, one: AnsweredPanel, span: TimeSpan) -> None:
    panel, pairs = one.panel, lines(one)
    free = [(name, each) for name, each in pairs if name not in panel.limits]
    highest = sorted(free, key=lambda pair: -max(value for _, value in pair[1].points))[:LINES_MOST]
    if panel.stacked:
        draw_stack(axes, highest, span)
    else:
        for place, (name, each) in enumerate(highest):
            draw_line(axes, name, each, span, color=SERIES[place % len(SERIES)], style="-")
    for name, each in pairs:
        if name in panel.limits:
            draw_line(axes, name, each, span, color=NAMED["red"], style="--")
    if len(panel.thresholds) > 1:
        for at, name in panel.thresholds:
            if at is not None:
                axes.axhline(at, color=NAMED.get(name, name), lw=0.9, ls=":")
    finish(axes, panel, span)


def draw_line(
    axes: Axes, name: str, series: LabelledSeries, span: TimeSpan, *, color: str, style: str
) -> None:
    at_s, values = zip(*series.points, strict=True)
    axes.plot([at - span.begin for at in at_s], values, color=color, lw=1.2, ls=style, label=name)


def draw_stack(axes: Axes, found: Sequence[tuple[str, LabelledSeries]], span: TimeSpan) -> None:
    """Draw series on top of each other. At times without a value, a series counts as 0."""
    moments = sorted({at for _, each in found for at, _ in each.points})
    values = [[dict(each.points).get(at, 0.0) for at in moments] for _, each in found]
    colours = [SERIES[place % len(SERIES)] for place in range(len(found))]
    axes.stackplot(
        [at - span.begin for at in moments],
        values,
        labels=[name for name, _ in found],
        colors=colours,
        alpha=0.75,
    )


def finish(axes: Axes, panel: Panel, span: TimeSpan) -> None:
    low, high = axes.get_ylim()
    least = min(low, 0.0) if panel.min is None else panel.min
    most = high if panel.max is None else min(high, 1.05 * panel.max)
    axes.set_ylim(least, most if most > least else least + 1)
    axes.set_xlim(0, span.end - span.begin)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: shown(value, panel.unit, 0)))
    axes.xaxis.set_major_formatter(FuncFormatter(seconds))
    axes.tick_params(labelsize=8)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    if panel.width > 8:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=8)
    else:
        columns = max(1, panel.width // 3)
        axes.legend(loc="upper left", bbox_to_anchor=(0, -0.14), ncols=columns, frameon=False, fontsize=8)


def draw_spread(axes: Axes, one: AnsweredPanel, span: TimeSpan) -> None:
    """Draw a heatmap of a histogram. Buckets are cumulative, so the count of a band is its bucket's count minus that of the next lower bucket."""
    buckets = sorted(
        (math.inf if each.labels["le"] == "+Inf" else float(each.labels["le"]), dict(each.points))
        for each in next(iter(one.series.values()))
    )
    moments = sorted({at for _, points in buckets for at in points})
    counts, below = [], dict.fromkeys(moments, 0.0)
    for _, points in buckets:
        counts.append([max(0.0, points.get(at, 0.0) - below[at]) for at in moments])
        below = {at: points.get(at, below[at]) for at in moments}
    shades = LinearSegmentedColormap.from_list("answers", ["#ffffff", "#fdae6b", "#a63603"])
    edges_s = [at - span.begin for at in [*moments, moments[-1] + span.step_s]]
    mesh = axes.pcolormesh(edges_s, range(len(buckets) + 1), counts, cmap=shades)
    axes.set_yticks(
        range(1, len(buckets) + 1),
        [f"≤ {shown(bound, 's')}" if math.isfinite(bound) else "more" for bound, _ in buckets],
    )
    axes.xaxis.set_major_formatter(FuncFormatter(seconds))
    axes.tick_params(labelsize=8)
    bar = axes.figure.colorbar(mesh, ax=axes)
    bar.ax.tick_params(labelsize=8)
    bar.set_label("answers/s", fontsize=8)


def draw_table(axes: Axes, one: AnsweredPanel) -> None:
    """Draw a table with a row for each combination of label values, highest value of the sorted column first."""
    panel = one.panel
    keys = [key for key in panel.columns if key.islower()]
    values_by_line: dict[tuple[str, ...], dict[str, float]] = {}
    for letter, series in one.series.items():
        for each in series:
            line = tuple(each.labels.get(key, "") for key in keys)
            values_by_line.setdefault(line, {})[letter] = each.points[-1][1]
    sorted_by = next(key for key, column in panel.columns.items() if column.title == panel.sorted_by)
    ordered = sorted(values_by_line.items(), key=lambda pair: -sortable(pair[1].get(sorted_by)))[:ROWS_MOST]
    cells, colours = [], []
    for line, values in ordered:
        named = dict(zip(keys, line, strict=True))
        cells_of_line = [
            cell(column, named.get(key), values.get(key)) for key, column in panel.columns.items()
        ]
        cells.append([text for text, _ in cells_of_line])
        colours.append([shade for _, shade in cells_of_line])
    axes.axis("off")
    drawn_table = axes.table(
        cellText=cells, colLabels=[column.title for column in panel.columns.values()], loc="upper center"
    )
    drawn_table.auto_set_font_size(False)
    drawn_table.set_fontsize(9)
    drawn_table.scale(1, 1.4)
    for (row, place), box in drawn_table.get_celld().items():
        box.set_edgecolor("#d0d7de")
        if row:
            box.get_text().set_color(colours[row - 1][place])


def sortable(value: float | None) -> float:
    return -math.inf if value is None or math.isnan(value) else value


def cell(column: TableColumn, name: str | None, value: float | None) -> tuple[str, str]:
    if name is not None:
        return name, NAMED["text"]
    if value is None:
        return "–", NAMED["text"]
    return shown(value, column.unit), colour(column.thresholds, value)
