"""Panels drawn without a Grafana: their queries, values with units, legends, pictures and the page that holds them."""

from __future__ import annotations

import io
import math
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

import matplotlib.image
import numpy as np
import pytest

from services.dashboards.all import BOARDS
from services.dashboards.answers import AnsweredPanel, TimeSpan, answers, substituted
from services.dashboards.boards import Board, Kind, Panel, PanelQuery, Row, TableColumn
from services.dashboards.overview import OVERVIEW
from services.dashboards.pictures import DPI, boards_html, colour, legend_of, picture, shown
from services.metrics.prometheus import LabelledSeries, Prometheus

SPAN = TimeSpan(1000.0, 1060.0, 10.0)
BOARD = Board("b", "B & Co", "What it <is>.", (), ())
ROW = Row("R", ())


def over(values: list[float], **labels: str) -> LabelledSeries:
    return LabelledSeries(labels, [(SPAN.begin + at, value) for at, value in enumerate(values)])


def panel(kind: Kind, *queries: PanelQuery, **more: Any) -> Panel:
    return Panel("T", "About it.", "percentunit", queries or (PanelQuery("x"),), kind=kind, **more)


def drawn(one: Panel, *series: list[LabelledSeries]) -> np.ndarray:
    """Draw a panel and return its pixels."""
    found = dict(zip("ABCDEF", series, strict=False))
    png = io.BytesIO(picture(AnsweredPanel(BOARD, ROW, one, found), SPAN))
    return np.asarray(matplotlib.image.imread(png, "png"))


def is_blank(pixels: np.ndarray) -> bool:
    return bool((pixels[..., :3] == 1).all())


# -- queries of the panels -----------------------------------------------------------------------------------------


@dataclass
class RecordingPrometheus(Prometheus):
    """Stand-in for Prometheus that gives every query the same result and records the queries."""

    asked: list[tuple[str, str]] = field(default_factory=list)

    def ask(self, expr: str, at: float | None = None) -> list[LabelledSeries]:
        self.asked.append(("now", expr))
        return [LabelledSeries({}, [(at or 0.0, 1.0)])]

    def over(self, expr: str, begin: float, end: float, step_s: float) -> list[LabelledSeries]:
        self.asked.append(("over", expr))
        return [over([1.0])]


def test_every_panel_query_is_asked_once_without_variables_of_grafana() -> None:
    prometheus = RecordingPrometheus()
    found = list(answers(prometheus, BOARDS, SPAN, {"tenant": "acme"}))
    panels = [one for board in BOARDS for one in board.panels]
    assert [one.panel for one in found] == panels
    assert len(prometheus.asked) == sum(len(one.queries) for one in panels)
    assert [expr for _, expr in prometheus.asked if "$" in expr] == []
    kinds = [one.kind for one in panels for _ in one.queries]
    assert [how for how, _ in prometheus.asked] == ["now" if kind == "table" else "over" for kind in kinds]


def test_dashboard_variables_in_queries_become_the_chosen_value_or_match_everything() -> None:
    asked = substituted('rate(x{tenant=~"$tenant", node=~"$node"}[$__rate_interval]) + y[$__range]', SPAN, {"tenant": "acme"})  # fmt: skip
    assert asked == 'rate(x{tenant=~"acme", node=~".*"}[10s]) + y[60s]'


# -- texts in the panels ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.5, "percentunit", "50.0%"),
        (0.25, "s", "250 ms"),
        (2.5e-5, "s", "25 µs"),
        (0, "s", "0 s"),
        (12.0, "s", "12 s"),
        (1500, "count:rows/s", "1.5 k/s"),
        (3, "count:/s", "3/s"),
        (2e6, "bytes", "2 MB"),
        (0, "short", "0"),
        (7, "short", "7"),
        (math.nan, "short", "–"),
    ],
)
def test_a_value_is_shown_with_its_unit(value: float, unit: str, text: str) -> None:
    assert shown(value, unit) == text


def test_a_legend_has_the_values_of_its_labels() -> None:
    assert legend_of("{{tenant}} → {{ borrower }}{{none}}", {"tenant": "a", "borrower": "b"}) == "a → b"


def test_a_value_has_the_colour_of_the_highest_threshold_it_reaches() -> None:
    steps = ((None, "green"), (0.8, "yellow"), (1.0, "red"))
    found = [colour(steps, value) for value in (0.79, 0.8, 1.0, 9.0)]
    assert len(set(found)) == 3
    assert found[2] == found[3]


# -- pictures of the panels ------------------------------------------------------------------------------------------

TABLE = panel(
    "table",
    PanelQuery("x"),
    columns={"tenant": TableColumn("Tenant"), "A": TableColumn("Late", "percentunit", ((None, "green"),))},
    sorted_by="Late",
    width=12,
)
SPREAD = [over([1, 2, 3], le="0.1"), over([2, 4, 6], le="1"), over([2, 5, 9], le="+Inf")]


@pytest.mark.parametrize(
    ("one", "series"),
    [
        (panel("timeseries", PanelQuery("x", "{{a}}")), [over([1, 2, 3], a="1"), over([3, 2], a="2")]),
        (
            panel("timeseries", PanelQuery("x", "{{a}}"), stacked=True),
            [over([1, 2, 3], a="1"), over([3], a="2")],
        ),
        (panel("timeseries", PanelQuery("x", "most"), limits=("most",)), [over([1, 1])]),
        (panel("timeseries", PanelQuery("x"), thresholds=((None, "green"), (1.0, "red"))), [over([0, 2])]),
        (panel("timeseries", PanelQuery("x"), max=1), [over([0.0, 0.0])]),
        (panel("stat", PanelQuery("x"), thresholds=((None, "green"),)), [over([1, 2])]),
        (panel("stat", PanelQuery("x"), texts={"0": "none"}), [over([1, 0])]),
        (panel("stat", PanelQuery("x", "{{version}}")), [over([1], version="0.1"), over([1], version="0.2")]),
        (panel("heatmap", PanelQuery("x", "{{le}}"), width=12), SPREAD),
        (TABLE, [over([0.5], tenant="a"), over([math.nan], tenant="b")]),
    ],
    ids=lambda one: one.kind if isinstance(one, Panel) else "",
)
def test_results_of_any_panel_kind_are_drawn_in_the_size_of_the_panel(
    one: Panel, series: list[LabelledSeries]
) -> None:
    pixels = drawn(one, series)
    assert not is_blank(pixels)
    height, width, _ = pixels.shape
    assert abs(width - one.width * 45 / 72 * DPI) <= 1
    assert abs(height - one.height * 26 / 72 * DPI) <= 1
    assert (pixels != drawn(one, [])).any()


def test_a_panel_without_results_says_that_it_has_no_results() -> None:
    nothing = drawn(panel("timeseries"), [])
    assert not is_blank(nothing)
    assert (nothing == drawn(panel("timeseries"))).all()


def test_a_heatmap_band_leaves_out_the_counts_of_lower_buckets() -> None:
    """Draw two heatmaps with equal totals, in the lowest and in the highest bucket: the pictures must differ."""
    low = [over([5, 5], le="0.1"), over([5, 5], le="+Inf")]
    high = [over([0, 0], le="0.1"), over([5, 5], le="+Inf")]
    assert (drawn(panel("heatmap"), low) != drawn(panel("heatmap"), high)).any()


# -- the page that holds the pictures --------------------------------------------------------------------------------


class Elements(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.images: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag == "img":
            self.images.append(dict(attributes)["src"] or "")
        else:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_page_has_a_picture_per_panel_and_loads_nothing_from_other_hosts() -> None:
    found = list(answers(RecordingPrometheus(), [OVERVIEW], SPAN, {}))
    text = boards_html(found, SPAN)
    page = Elements(text)
    assert page.open == []
    assert len(page.images) == len(found)
    assert all(one.startswith("data:image/png;base64,") for one in page.images)
    assert [title for title in (one.panel.title for one in found) if title not in text] == []
    assert re.findall(r"https?://", text) == []


def test_texts_of_dashboards_are_escaped_in_html() -> None:
    text = boards_html([AnsweredPanel(BOARD, ROW, panel("stat"), {"A": [over([1])]})], SPAN)
    assert "B &amp; Co" in text
    assert "What it &lt;is&gt;." in text
