"""The quickstart page describes the browser correctly, for the system and the tenant that the page itself creates."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.pages import Console
from tests.support.quickstart import Reader, blocks, section

# The file tests/live/test_quickstart.py tests the rest of the quickstart page.
pytestmark = [pytest.mark.browser, pytest.mark.live, pytest.mark.slow]

BROWSER = "In the browser"
QUERY = "acme/hot"


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    """Run the commands of the quickstart page up to the second tenant."""
    found = Reader(tmp_path)
    for block in blocks(("Start", "On the command line")):
        found.follow(block)
    yield found
    found.leave()


def test_console_shows_in_a_browser_what_the_quickstart_page_describes(
    reader: Reader, open_console: Callable[..., Console]
) -> None:
    text = section(BROWSER)
    (address,) = re.findall(r"<(http\S+)>", text)
    key, sign_in, *tabs = re.findall(r"\*\*(.+?)\*\*", text)
    console = open_console(reader.at(address))
    console.page.goto(reader.at(address))
    console.page.get_by_label(key).fill(reader.admin_key)
    console.page.get_by_role("button", name=sign_in).click()
    assert len(tabs) == 5
    for tab in tabs:
        console.open(tab)
    console.open("Overview")
    expect(console.page.locator("#classes tbody th")).to_have_text(["acme"])
    console.open("Queries")
    assert f"`{QUERY}`" in text
    console.page.get_by_role("button", name=QUERY).click()
    expect(console.page.locator("#query .badge").first).to_have_text(re.compile("live"))
    expect(console.page.locator("#query .rows tbody tr").first).to_be_visible()
    console.open("Ledger")
    expect(console.page.locator("#ledger-table")).to_contain_text("The account closes")
