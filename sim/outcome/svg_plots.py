"""Plots as SVG elements of a page: plots use the page's colours, light or dark, and each line has its own marker."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatterSciNotation

from configs import numbers

# Colours of classes in their order, by Okabe and Ito, which colour-blind readers can distinguish.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7f7f7f")
MARKS = ("o", "s", "^", "D", "P", "v", "X")
# Number of markers on each line.
MARKS_A_LINE = 9
# matplotlib's own colours for text and axes, and for grids.
INK, GRID = "#000000", "#b0b0b0"
COLOUR = re.compile("|".join((*COLOURS, INK, GRID)), re.IGNORECASE)
NAMES = {colour.lower(): f"var(--series-{place})" for place, colour in enumerate(COLOURS, start=1)} | {
    INK: "currentColor",
    GRID: "var(--grid)",
}
# Style of a page with plots; the page itself sets `color-scheme: light dark`.
PLOT_STYLE = """
:root { --card: light-dark(#fff, #16181c); --grid: light-dark(#b0b0b0, #6b7280);
  --series-1: light-dark(#0072b2, #5ab0ea); --series-2: light-dark(#d55e00, #ff8f52); --series-3: light-dark(#009e73, #2fc79a);
  --series-4: light-dark(#cc79a7, #e6a0c8); --series-5: light-dark(#b87900, #f0b840); --series-6: light-dark(#2f8fc4, #9ad6ff);
  --series-7: light-dark(#6f6f6f, #b8b8b8) }
figure { background: var(--card); border: 1px solid var(--line); border-radius: 6px; padding: .5rem }
figure svg { width: 100%; height: auto; display: block } figure svg text { fill: currentColor }
"""


class LineStyle(NamedTuple):
    """Colour and marker of the lines of one class."""

    colour: str
    mark: str
    place: int
    """Position of the class in the order of classes."""

    def marked(self, points: int) -> dict[str, Any]:
        """Return the matplotlib settings of a line; markers of different classes are at different points."""
        step = max(1, points // MARKS_A_LINE)
        start = step * self.place // len(MARKS)
        return {"color": self.colour, "marker": self.mark, "ms": 4.5, "markevery": (start, step)}


def svg(drawing: Figure, salt: str) -> str:
    """Return the figure as an SVG element; the same figure and salt give the same text."""
    drawing.patch.set_alpha(0)
    for axes in drawing.axes:
        axes.patch.set_alpha(0)
    with matplotlib.rc_context({"svg.hashsalt": salt, "svg.fonttype": "none", "font.family": "sans-serif"}):
        text = io.StringIO()
        drawing.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    svg = text.getvalue()
    return COLOUR.sub(lambda colour: NAMES[colour[0].lower()], svg[svg.index("<svg") :])


class WholeNumbers(LogFormatterSciNotation):
    """Formatter of labels for logarithmic axes: numbers without exponents. Between powers of ten, labels appear only if there is room."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        return f"{x:,.10g}" if super().__call__(x, pos) else ""


def logarithmic(axes: Axes, side: Literal["x", "y"]) -> None:
    """Make the x or y axis logarithmic."""
    axes.set(**{f"{side}scale": "log"})
    axis = axes.xaxis if side == "x" else axes.yaxis
    axis.set_major_formatter(WholeNumbers())
    axis.set_minor_formatter(WholeNumbers(minor_thresholds=(1, 0.4)))


def draw_bars(axes: Axes, bars: Mapping[str, float], label: str, log: bool) -> None:
    """Draw horizontal bars, so that long names can be read; the first bar is at the top."""
    colours = [COLOURS[place % len(COLOURS)] for place in range(len(bars))]
    drawn = axes.barh(list(bars), list(bars.values()), color=colours, height=0.65)
    axes.bar_label(
        drawn,
        [numbers.figure(value) for value in bars.values()],
        padding=4,
        fontsize="small",
    )
    axes.invert_yaxis()
    if log:
        logarithmic(axes, "x")
    axes.margins(x=0.12)
    axes.set_xlabel(label)
    axes.grid(axis="x", alpha=0.25)
