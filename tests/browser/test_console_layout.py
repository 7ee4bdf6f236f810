"""Layout of the console: texts do not overlap, rows of plots are full, labels of an axis differ, numbers are aligned."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from playwright.sync_api import expect

from actors.runtime.run_dirs import RunDirs
from bench.local_places import LocalPlaces
from configs.documents.declarations import documents_of
from configs.service.service_settings import ServiceSettings
from engine.class_.explain import PlanLine
from engine.class_.steps import Answer, Commit
from engine.data.train import train_from_arrow
from engine.plan.plan import Query
from engine.sql import SqlCatalog as SqlCatalog
from engine.sql import parse_create_stream, plan_query
from services.api.routes.results import results_of
from services.api.server import Serving
from services.api.service import Service, service_of
from services.catalog.catalog import Catalog
from services.common.weir_home import Home
from services.watch.watch import Watch
from tests.browser.looks import (
    boxes_of,
    overlapping,
    record_drawn_texts,
    rows_of,
    scrolls_sideways,
    ticks_of,
)
from tests.browser.pages import Console
from tests.support.answer_logs import ClassLog
from tests.support.watched import InProcess, declared

pytestmark = pytest.mark.browser

NAMES = ("iot", "clickstream-analytics", "fraud-detection")
DOCUMENTS = """
{kind: Stream, name: Readings, columns: {ts: timestamp, sensor: int32, temp: float64}, time: ts}
---
{kind: Tenant, name: iot, priority_class: gold}
---
{kind: Tenant, name: clickstream-analytics, priority_class: silver}
---
{kind: Tenant, name: fraud-detection, priority_class: bronze}
---
{kind: Query, tenant: iot, name: peak, sql: "SELECT window_start, window_end, sensor, MAX(temp) AS peak, COUNT(*) AS n FROM Readings [RANGE 10 SECONDS] GROUP BY sensor"}
"""
STREAM = parse_create_stream(
    "CREATE STREAM s (window_start timestamp, window_end timestamp, sensor int32, peak float64, n int64)"
)
QUERY = "SELECT window_start, window_end, sensor, peak, n FROM s"
SECOND_US = 1_000_000
BEGAN_US = 1_795_000_000 * SECOND_US
PEAKS = (69.28545809210702, 7.25, 1234567.891, 0.0000123, 70.0)
TABS = ("Overview", "Queries", "Tenants", "Ledger", "Decisions", "Audit", "Keys")
Opening = Callable[..., Console]


class LongNames(InProcess):
    """System with long names of operators and of queries."""

    def plan(self, class_name: str) -> list[PlanLine]:
        queries = ("click_before_pay", "click_then_refund", "pages_per_session_and_minute")
        return [
            PlanLine(0, "source:clickstream_events", (1, 2), queries, 120_000, 0.1, 0.5875, float("inf"), 0),
            PlanLine(1, "join:click_before_pay", (), queries[:1], 120_000, 12.25, 0.02, 1.5, 5_000_000),
        ]


@dataclass
class Served:
    url: str
    admin: str
    tenant: str
    service: Service
    system: InProcess
    watch: Watch


def put_answers(log: ClassLog) -> None:
    """Write answers of the query `peak` to the log, one for each value of PEAKS."""
    query: Query = plan_query("peak", QUERY, SqlCatalog.of(streams=[STREAM]))
    log.queries = {"peak": query}
    log.log.describe(log.queries)
    starts = [BEGAN_US + 10 * SECOND_US * place for place in range(len(PEAKS))]
    columns = [
        pa.array(starts, pa.timestamp("us")),
        pa.array([start + 10 * SECOND_US for start in starts], pa.timestamp("us")),
        pa.array(range(len(PEAKS)), pa.int32()),
        pa.array(PEAKS, pa.float64()),
        pa.array([100] * len(PEAKS), pa.int64()),
    ]
    rows = pa.RecordBatch.from_arrays(columns, names=["window_start", "window_end", "sensor", "peak", "n"])
    answer = Answer("peak", 0, train_from_arrow(rows, STREAM.schema, 0.0, 0.5))
    log.log.append(Commit((), (answer,), {"peak": len(PEAKS)}))


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """Serve the console of a system with three classes, which runs in this process and has answers in a log."""
    clock = [0.0]
    system = LongNames().declare(
        *(declared(name, share) for name, share in zip(NAMES, (6.0, 3.0, 1.0), strict=True))
    )
    with ExitStack() as stack:
        catalog = stack.enter_context(closing(Catalog(Home(tmp_path / "home"))))
        catalog.apply(documents_of(DOCUMENTS), "test")
        admin, _ = catalog.keys.create("root", ["admin"], "test")
        tenant, _ = catalog.keys.create("iot-app", ["tenant:iot"], "test")
        service = service_of(catalog, ServiceSettings(port=0))
        watch = service.watch = Watch(system, clock=lambda: clock[0], wall=lambda: 2e9 + clock[0])
        dirs = RunDirs(tmp_path / "runs", "s", "n")
        log = stack.enter_context(closing(ClassLog(dirs.class_log("iot"), 1 << 20)))
        put_answers(log)
        service.results = stack.enter_context(closing(results_of(service, LocalPlaces(dirs), lambda: "")))
        for clock[0] in range(1, 40):
            busy = 0.05 if clock[0] < 20 else 0.35
            for place, name in enumerate(NAMES):
                figures: dict[str, Any] = {
                    "results": 10,
                    "p95_ms": 40.0 + clock[0] * (1 + place),
                    "mean_ms": 8.0,
                }
                system.cycle(name, busy * (1 + place), **figures)
            watch.look()
            watch.history.note(watch.view())
        serving = stack.enter_context(Serving(service))
        yield Served(serving.url, admin, tenant, service, system, watch)


@pytest.fixture
def lending(served: Served) -> Served:
    for name, load in zip(NAMES, (0.02, 0.28, 0.9), strict=True):
        for _ in range(3):
            served.system.cycle(name, load)
    served.system.redistribute()
    served.system.now += 1
    served.watch.look()
    return served


def opened(served: Served, open_console: Opening, width: int = 1440) -> Console:
    console = open_console(served.url, width)
    record_drawn_texts(console.context)
    return console.sign_in(served.admin)


def show_answers(console: Console) -> None:
    console.page.goto(f"{console.url}/console/#queries/iot%2Fpeak")
    console.page.get_by_role("button", name="From the oldest").click()
    expect(console.page.locator("#query .rows tbody tr")).to_have_count(len(PEAKS))


# -- pages in a narrow window ----------------------------------------------------------------------------------


@pytest.mark.parametrize("tab", TABS)
@pytest.mark.parametrize("width", [390, 1440])
def test_texts_of_a_console_view_do_not_overlap(
    lending: Served, open_console: Opening, width: int, tab: str
) -> None:
    console = opened(lending, open_console, width).open(tab)
    panel = console.page.locator(f"#{tab.lower()}")
    expect(panel.locator("table, .picks").first).to_be_visible()
    if tab == "Decisions":
        expect(panel.locator("#operators tbody tr")).to_have_count(2)
    assert overlapping(panel) == []
    assert not scrolls_sideways(console.page)


@pytest.mark.parametrize(("width", "theme"), [(1440, "light"), (1440, "dark"), (390, "light"), (390, "dark")])
def test_every_view_of_a_running_system_fits_its_window(
    lending: Served, open_console: Opening, pictures: Path, width: int, theme: str
) -> None:
    console = open_console(lending.url, width, color_scheme=theme).sign_in(lending.admin)
    for tab in TABS:
        console.open(tab)
        expect(console.page.locator(f"#{tab.lower()}").locator("table, .picks, .empty").first).to_be_visible()
        console.picture(pictures, f"small-{tab.lower()}-{width}-{theme}")
    show_answers(console)
    console.picture(pictures, f"small-answers-{width}-{theme}")
    console.page.get_by_role("button", name="Edit the query").click()
    console.picture(pictures, f"small-query-edited-{width}-{theme}")
    for address in ("fraud-detection", "class%2Fsilver"):
        console.page.goto(f"{console.url}/console/#tenants/{address}")
        expect(console.page.locator("#tenant dl")).to_be_visible()
        console.picture(pictures, f"small-{address[:5]}-{width}-{theme}")
        console.page.locator("#tenant").get_by_role("button", name="Edit", exact=True).click()
        console.picture(pictures, f"small-{address[:5]}-edited-{width}-{theme}")
    console.page.keyboard.press("Escape")
    console.page.get_by_role("button", name="Keyboard shortcuts").click()
    console.picture(pictures, f"small-shortcuts-{width}-{theme}")


# -- plots and the labels of their axes ------------------------------------------------------------------------


@pytest.mark.parametrize("width", [390, 1000, 1440])
def test_every_row_of_plots_fills_the_page_width(served: Served, open_console: Opening, width: int) -> None:
    console = opened(served, open_console, width)
    expect(console.page.locator("#plots canvas").first).to_be_visible()
    edges = rows_of(console.page.locator("#plots figure"))
    assert [row for row in edges if row != edges[0]] == []


def test_no_axis_of_a_plot_has_two_equal_labels(served: Served, open_console: Opening) -> None:
    console = opened(served, open_console)
    canvases = console.page.locator("#plots canvas")
    expect(canvases.first).to_be_visible()
    for canvas in canvases.all():
        for labels in ticks_of(canvas):
            assert len(labels) > 1
            assert sorted(set(labels)) == sorted(labels)


TICKS = """async (cases) => {
  const { href } = [...document.scripts].map((script) => new URL("format.js", script.src)).at(-1);
  const { tickTexts } = await import(href);
  return cases.map(([kind, values, step]) => tickTexts[kind](values, step));
}"""


def test_labels_of_an_axis_have_as_many_digits_as_its_tick_distance_needs(
    served: Served, open_console: Opening
) -> None:
    page = opened(served, open_console).page
    expect(page.get_by_role("tab", name="Overview")).to_be_visible()
    cases = [
        ("plain", [0, 0.5, 1, 1.5], 0.5),
        ("plain", [0, 0.05, 0.1], 0.05),
        ("percent", [0, 0.005, 0.01], 0.005),
        ("percent", [0, 0.5, 1], 0.5),
        ("count", [0, 500_000, 1_000_000, 1_500_000], 500_000),
        ("count", [0, 5000, 10_000, 15_000], 5000),
        ("count", [0, 2, 4], 2),
    ]
    assert page.evaluate(TICKS, cases) == [
        ["0", "0.5", "1.0", "1.5"],
        ["0", "0.05", "0.10"],
        ["0%", "0.5%", "1.0%"],
        ["0%", "50%", "100%"],
        ["0", "0.5M", "1.0M", "1.5M"],
        ["0", "5k", "10k", "15k"],
        ["0", "2", "4"],
    ]


# -- the page about lending ------------------------------------------------------------------------------------


def test_lending_view_without_a_loan_shows_a_text_instead_of_a_table(
    served: Served, open_console: Opening
) -> None:
    console = opened(served, open_console)
    served.system.redistribute()
    served.watch.look()
    lending = console.page.locator("#lending")
    expect(lending).to_contain_text("No class has lent")
    expect(lending.get_by_text("As a table")).to_be_hidden()


def test_lending_plot_uses_the_width_of_its_card(lending: Served, open_console: Opening) -> None:
    console = opened(lending, open_console)
    expect(console.page.locator("#lending .band").first).to_be_attached()
    card = console.page.locator("#lending").bounding_box()
    assert card is not None
    right = max(box.right for box in boxes_of(console.page.locator("#lending")))
    assert right > card["x"] + card["width"] / 2


# -- the page about answers ------------------------------------------------------------------------------------


def test_answers_are_rounded_and_the_tooltip_shows_the_exact_value(
    served: Served, open_console: Opening
) -> None:
    console = opened(served, open_console)
    show_answers(console)
    page = console.page
    peak = page.locator("#query .rows tbody td:nth-child(4)")
    expect(peak).to_have_text(["70", "0.0000123", "1234567.89", "7.25", "69.2855"])
    assert peak.last.get_attribute("title") == "69.28545809210702"
    start = page.locator("#query .rows tbody td:nth-child(1)").last
    expect(start).to_have_text("11:06:40")
    expect(page.locator("#query .rows thead th").first).to_have_text("window_start2026-11-18, UTC")
    assert start.get_attribute("title") == "2026-11-18T11:06:40.000000Z"
    align = "element => getComputedStyle(element).textAlign"
    cells = page.locator("#query .rows tbody tr").first.locator("td").all()
    assert [cell.evaluate(align) for cell in cells] == ["left", "left", "right", "right", "right", "right"]


def test_numeric_answers_are_plotted_by_column(served: Served, open_console: Opening) -> None:
    console = opened(served, open_console)
    show_answers(console)
    plot = console.page.locator("#query .trend")
    choice = plot.get_by_label("Plotted column")
    expect(choice.locator("option")).to_have_text(["sensor", "peak", "n"])
    choice.select_option("peak")
    expect(plot.get_by_role("img")).to_have_attribute("aria-label", "peak over window_start. Last: 70.")
    across, up = ticks_of(plot.locator("canvas"))
    assert "11:07:00" in across
    assert (len(set(across)), len(set(up))) == (len(across), len(up))


def test_downloaded_answers_have_all_digits(served: Served, open_console: Opening) -> None:
    console = opened(served, open_console)
    show_answers(console)
    with console.page.expect_download() as downloading:
        console.page.get_by_role("button", name="Download CSV").click()
    assert downloading.value.suggested_filename == "iot-peak.csv"
    lines = Path(downloading.value.path()).read_text(encoding="utf-8").splitlines()
    assert [lines[0], lines[1], len(lines)] == [
        "_seq,_kept,window_start,window_end,sensor,peak,n",
        "0,0.5,2026-11-18T11:06:40.000000Z,2026-11-18T11:06:50.000000Z,0,69.28545809210702,100",
        1 + len(PEAKS),
    ]


def test_all_columns_of_a_window_query_are_visible(served: Served, open_console: Opening) -> None:
    console = opened(served, open_console)
    show_answers(console)
    rows = console.page.locator("#query .rows")
    assert rows.evaluate("element => element.scrollWidth <= element.clientWidth")


def test_chosen_query_is_visible_in_a_narrow_window(served: Served, open_console: Opening) -> None:
    console = opened(served, open_console, 390).open("Queries")
    console.page.set_viewport_size({"width": 390, "height": 300})
    console.page.get_by_role("button", name="iot/peak").click()
    expect(console.page.get_by_role("heading", name="iot/peak")).to_be_in_viewport()


def test_fields_of_the_query_form_are_at_least_8_pixels_apart(served: Served, open_console: Opening) -> None:
    console = opened(served, open_console)
    show_answers(console)
    console.page.get_by_role("button", name="Edit the query").click()
    field = console.page.get_by_label("SQL").bounding_box()
    label = console.page.get_by_text("Utility by latency", exact=True).bounding_box()
    assert field is not None
    assert label is not None
    assert label["y"] - field["y"] - field["height"] >= 8


def test_sections_of_the_query_view_are_at_least_8_pixels_apart(
    served: Served, open_console: Opening
) -> None:
    console = opened(served, open_console)
    show_answers(console)
    parts = [part.bounding_box() for part in console.page.locator("#query > *").all() if part.is_visible()]
    boxes = [box for box in parts if box is not None and box["height"]]
    gaps = [after["y"] - before["y"] - before["height"] for before, after in pairwise(boxes)]
    assert min(gaps) >= 8
