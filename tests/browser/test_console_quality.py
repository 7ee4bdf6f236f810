"""Quality of answers in the console, shown next to response times: per class, over time, and per query."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from actors.messages.unit_messages import Qualities, UnitCounts
from configs.documents.declarations import documents_of
from configs.service.service_settings import ServiceSettings
from services.api.server import Serving
from services.api.service import service_of
from services.catalog.catalog import Catalog
from services.common.weir_home import Home
from services.watch.watch import Watch
from tests.browser.pages import Console
from tests.support.watched import InProcess, declared

pytestmark = pytest.mark.browser

DOCUMENTS = """
{kind: Stream, name: Readings, columns: {ts: timestamp, sensor: int32, temp: float64}, time: ts}
---
{kind: Tenant, name: gold, priority_class: gold}
---
{kind: Query, tenant: gold, name: q, sql: SELECT sensor FROM Readings WHERE temp > 0}
"""
FIGURES: dict[str, Any] = {
    "utility_now": 0.75,
    "missed_now": 0.4,
    "staleness_now": 0.3,
    "slowdown_now": 12.0,
    "tardiness": {"due": 8, "tardy": 2, "mean_ms": 25.0, "max_ms": 90.0},
    "tardy_now": 0.25,
}
Opening = Callable[..., Console]


@pytest.fixture
def console(tmp_path: Path, open_console: Opening) -> Iterator[Console]:
    """Open the console of a system that runs in this process. One class of the system has answered late."""
    clock = [0.0]
    system = InProcess().declare(declared("gold", 6.0))
    with closing(Catalog(Home(tmp_path))) as catalog:
        catalog.apply(documents_of(DOCUMENTS), "test")
        admin, _ = catalog.keys.create("root", ["admin"], "test")
        service = service_of(catalog, ServiceSettings(port=0))
        watch = service.watch = Watch(system, clock=lambda: clock[0], wall=lambda: 2e9 + clock[0])
        quality = Qualities(("q",), (8,), (6.0,), (3,), (0.8,), (0.25,), (0.3,), (8,), (2,), (0.2,), (96.0,))
        for clock[0] in (1.0, 2.0):
            counted = UnitCounts(1, 1.0, False, quality=quality)
            system.cycle(
                "gold",
                0.2,
                counted=counted,
                results=8,
                results_per_s=4.0,
                mean_ms=100,
                p50_ms=90,
                p95_ms=150,
                **FIGURES,
            )
            watch.look()
            watch.history.note(watch.view())
        with Serving(service) as serving:
            found = open_console(serving.url)
            found.expected = ["status of 503"]
            yield found.sign_in(admin)


def test_utility_of_a_class_is_shown_next_to_its_response_times(console: Console) -> None:
    row = console.page.locator("#classes tbody tr")
    expect(row).to_contain_text(re.compile("75% *40% late, 25% tardy, stale 30%"))
    figure = console.page.locator("#plots [role=img]").nth(1)
    label = "Utility of answers. Now: gold 75%, 40% late, 25% tardy, stale 30%."
    expect(figure).to_have_attribute("aria-label", label)


def test_tardiness_of_a_querys_windows_is_shown(console: Console) -> None:
    console.open("Queries")
    console.page.get_by_role("button", name="gold/q").click()
    expect(console.page.locator("#query")).to_contain_text("2 of 8 window answers tardy, by 25 ms on average")
