"""Feeds in the console: a running feed, a restarted feed, a failed feed, and streams that producers push."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import expect

from configs.documents.declarations import documents_of
from loadshed.ledger import TupleLedger
from services.ingest.progress import FeedProgress
from tests.browser.pages import Console
from tests.support.metered import Metered, metering, stream
from tests.support.served import served
from tests.support.watched import declared

pytestmark = pytest.mark.browser

DOCUMENTS = """
{kind: Stream, name: Readings, columns: {ts: timestamp, sensor: int32, temp: float64}, time: ts, source: {format: rate}}
---
{kind: Stream, name: again, columns: {v: int64}, source: {format: rate}}
---
{kind: Stream, name: broken, columns: {v: int64}, source: {format: json, options: {path: /nowhere}, schema: v BIGINT}}
---
{kind: Stream, name: pushed, columns: {v: int64}}
---
{kind: Tenant, name: gold, priority_class: gold}
"""
MISSING = "Path does not exist: /nowhere/" + "a-long-name" * 8
Opening = Callable[..., Console]


@dataclass(frozen=True)
class Fed:
    url: str
    admin: str
    tenant: str


@pytest.fixture
def fed(tmp_path: Path) -> Iterator[Fed]:
    with ExitStack() as stack:
        found = stack.enter_context(served(tmp_path / "home"))
        found.catalog.apply(documents_of(DOCUMENTS), "test")
        found.service.snapshot.refresh()
        system = Metered(
            inflows=[stream("Readings", 480), stream("pushed", 12) | {"dead": {"no event time: ts": 150}}]
        )
        system.declare(declared("gold"))
        system.cycle("gold", 0.2, (TupleLedger(offered=200, delivered=150, late=50), 0))
        metered = stack.enter_context(metering(system))
        metered.told()
        now = time.time()
        feeds = [
            FeedProgress(
                "Readings", "running", 500, 99.6, 7, 150.0, 20.0, batch_at=now, event_time=now - 10 * 86_400
            ),
            FeedProgress(
                "again", "running", 5, 1.0, 7, lag=0.0, restarts=1, last_error="no room", batch_at=now
            ),
            FeedProgress(
                "broken", "failed", restarts=3, last_error=MISSING, last_error_at=now, next_try_s=4.4
            ),
        ]
        found.service.watch, found.service.nodes = metered.watch, metered.nodes
        found.service.brought = lambda: feeds
        yield Fed(found.url, found.key("admin"), found.key("tenant:gold"))


@pytest.mark.parametrize(("width", "theme"), [(1440, "light"), (1440, "dark"), (390, "light"), (390, "dark")])
def test_feeds_are_shown_with_their_states_and_errors(
    fed: Fed, open_console: Opening, pictures: Path, width: int, theme: str
) -> None:
    console = open_console(fed.url, width, color_scheme=theme).sign_in(fed.admin).open("Feeds")
    page = console.page
    rows = page.locator("#feeds-table tbody tr")
    expect(page.locator("#feeds-table tbody th")).to_have_text(["Readings", "again", "broken"])
    expect(rows.nth(0).locator(".badge.good")).to_contain_text("running")
    expect(rows.nth(0)).to_contain_text("100/s")
    expect(rows.nth(0)).to_contain_text("10 days, 20 to read")
    expect(rows.nth(0)).to_contain_text("25.0%")
    expect(rows.nth(1)).to_contain_text("It runs again after an error. no room.")
    expect(rows.nth(2).locator(".badge.bad")).to_contain_text("failed")
    expect(rows.nth(2)).to_contain_text(f"{MISSING}. Next try in 5 s.")
    expect(page.locator("#pushed-table tbody th")).to_have_text(["pushed"])
    expect(page.locator("#pushed-table tbody tr")).to_contain_text("150 no event time: ts")
    console.picture(pictures, f"feeds-{width}-{theme}")


def test_tenant_sees_states_of_feeds_without_sources_and_errors(
    fed: Fed, open_console: Opening, pictures: Path
) -> None:
    console = open_console(fed.url).sign_in(fed.tenant).open("Feeds")
    page = console.page
    expect(page.locator("#feeds-table tbody th")).to_have_text(["Readings", "again", "broken"])
    expect(page.locator("#feeds-table thead th")).to_have_text(
        ["Feed", "State", "Rows", "Behind", "Late", "Rejected", "Last batch", "Restarts", "Streams"]
    )
    expect(page.locator("#feeds")).not_to_contain_text("Path does not exist")
    console.picture(pictures, "feeds-tenant")
