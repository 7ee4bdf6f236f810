"""Onboarding of a tenant in the browser, from an empty system to live answers. The service is started by `weir up`."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
from playwright.sync_api import expect

from services.common.weir_home import Home
from tests.browser.pages import Console
from tests.support.waiting import eventually

pytestmark = pytest.mark.browser

COMMAND = [
    sys.executable,
    "-c",
    "from services.cli.main import main; main()",
    "up",
    "-o",
    "json",
    "--api-port",
    "0",
]
HUNG_S = 60.0
MARKUP = "<img src=x onerror=alert(1)>"
ROW = {"ts": "2026-01-01T00:00:00Z", "sensor": 7, "temp": 21.5, "note": MARKUP}
Opening = Callable[..., Console]


class Up(NamedTuple):
    url: str
    admin: str


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("up")
    home = Home(folder / "home")
    environ = {**os.environ, "WEIR_HOME": str(home.folder)}
    with subprocess.Popen(COMMAND, env=environ, cwd=folder, stdout=subprocess.DEVNULL) as process:
        try:
            eventually(lambda: is_ready(home), "the service")
            yield Up(url_of(home), home.admin_key.read_text("utf-8").strip())
            process.send_signal(signal.SIGTERM)
            assert process.wait(HUNG_S) == 128 + signal.SIGTERM
        finally:
            process.kill()


def url_of(home: Home) -> str:
    return home.endpoint.read_text("utf-8").strip()


def is_ready(home: Home) -> bool:
    return home.endpoint.exists() and httpx.get(f"{url_of(home)}/readyz").status_code == 200


def test_tenant_is_onboarded_and_its_answers_arrive_live(
    up: Up, open_console: Opening, pictures: Path
) -> None:
    console = open_console(up.url).sign_in(up.admin)
    console.expected = ["/v1/streams/readings/rows"]
    page = console.page
    page.get_by_role("button", name="Onboard a tenant").click()
    page.get_by_label("Name of the tenant").fill("acme")
    page.get_by_label("silver").check()
    page.get_by_label("Name of the stream").fill("readings")
    page.get_by_role("button", name="Add a column").click()
    page.get_by_label("Name of the column").last.fill("note")
    page.get_by_label("Type of the column").last.select_option("string")
    page.get_by_label("Rows per second, if known").fill("1000")
    page.get_by_label("Name of the query").fill("hot")
    page.get_by_label("SQL").fill("SELECT sensor, temp, note FROM readings WHERE temp > 0")
    page.get_by_role("button", name="Preview").click()
    preview = page.locator("#preview")
    expect(preview.locator("li b").first).to_have_text("Tenant acme")
    expect(preview.get_by_text("Every delay target would be met")).to_be_visible()
    expect(preview.locator("tbody th")).to_have_text(["acme"])
    console.picture(pictures, "preview-1440-light")
    headers = {"Authorization": f"Bearer {up.admin}"}
    assert httpx.get(f"{up.url}/v1/tenants/acme", headers=headers).status_code == 404

    page.get_by_role("button", name="Onboard", exact=True).click()
    expect(preview).to_contain_text("Done.")
    console.picture(pictures, "onboarded-1440-light")
    page.get_by_role("button", name="See the answers of acme/hot").click()
    expect(page.locator("#query .badge")).to_have_text(re.compile("live"))
    page.locator("#query summary").click()
    page.locator("#query").get_by_label("Rows of readings").fill(json.dumps([ROW]))

    def answers() -> int:
        # A new class reads only rows that arrive after its start, and a new stream may not accept rows yet.
        with page.expect_response("**/v1/streams/readings/rows"):
            page.locator("#query").get_by_role("button", name="Send to readings").click()
        return page.locator("#query .rows tbody tr").count()

    eventually(answers, "an answer")
    expect(page.locator("#query details .badge")).to_have_text(re.compile("1 accepted"))
    expect(page.locator("#query .rows th")).to_have_text(["sensor", "temp", "note", "kept"])
    expect(page.locator("#query .rows tbody tr").first.locator("td")).to_have_text(["7", "21.5", MARKUP, ""])
    expect(page.locator("#query")).to_contain_text(
        re.compile("[0-9]+ answers in .* on average .*slowdown .*×.* utility [0-9.]+%")
    )
    console.picture(pictures, "answers-1440-light")

    console.open("Overview")
    expect(page.locator("#classes tbody th")).to_have_text(["acme"])
    console.open("Ledger")
    expect(page.locator("#ledger-table")).to_contain_text("The account closes")


def test_terms_that_request_less_than_the_priority_class_offers_become_overrides_of_the_new_tenant(
    up: Up, open_console: Opening
) -> None:
    page = open_console(up.url).sign_in(up.admin).open("Onboard").page
    page.get_by_label("Name of the tenant").fill("frugal")
    page.get_by_label("bronze").check()
    page.get_by_text("Request less than the class offers").click()
    page.get_by_label("Delay target, ms").fill("800")
    page.get_by_label("Maximum drop, %").fill("95")
    page.get_by_label("Drop rows older than, ms").fill("1500")
    page.get_by_label("Name of the stream").fill("meters")
    page.get_by_label("Name of the query").fill("high")
    page.get_by_label("SQL").fill("SELECT sensor, temp FROM meters WHERE temp > 0")
    page.get_by_role("button", name="Onboard", exact=True).click()
    expect(page.locator("#preview")).to_contain_text("Done.")
    headers = {"Authorization": f"Bearer {up.admin}"}
    assert httpx.get(f"{up.url}/v1/tenants/frugal", headers=headers).json() == {
        "kind": "Tenant",
        "name": "frugal",
        "priority_class": "bronze",
        "overrides": {"delay_target_ms": 800, "max_drop": 0.95, "max_age_ms": 1500},
    }


def test_console_shows_an_error_if_rows_that_a_user_sends_are_invalid(up: Up, open_console: Opening) -> None:
    console = open_console(up.url).sign_in(up.admin)
    console.expected = ["status of 4"]
    page = console.page
    page.goto(f"{up.url}/console/#queries/acme%2Fhot")
    page.locator("#query summary").click()
    rows = page.locator("#query").get_by_label("Rows of readings")
    for text in ("no JSON", json.dumps([ROW | {"sensor": "seven"}])):
        rows.fill(text)
        page.locator("#query").get_by_role("button", name="Send to readings").click()
        expect(page.locator("#query details").locator(".problem, .badge.bad")).to_be_visible()
