"""The console in a browser as a user operates it, and the errors that the browser reports meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import BrowserContext, ConsoleMessage, Page, expect

# Longest wait for an element, enough for a busy machine; a test that finds the element earlier continues at once.
PATIENCE_MS = 20_000
expect.set_options(timeout=PATIENCE_MS)


@dataclass
class Console:
    """Browser with one page."""

    context: BrowserContext
    url: str
    page: Page = field(init=False)
    expected: Sequence[str] = ()
    """Parts of error messages that a test causes on purpose."""
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.context.set_default_timeout(PATIENCE_MS)
        self.page = self.context.new_page()
        self.page.on("console", self._record)
        self.page.on("pageerror", lambda problem: self.complaints.append(str(problem)))
        self.page.on("dialog", lambda dialog: self.complaints.append(f"dialog: {dialog.message}"))

    def _record(self, message: ConsoleMessage) -> None:
        text = f"{message.text} {message.location.get('url', '')}"
        if message.type in ("error", "warning") and not any(part in text for part in self.expected):
            self.complaints.append(text)

    def sign_in(self, key: str) -> Console:
        self.page.goto(self.url)
        self.page.get_by_label("Key").fill(key)
        # The form loads a new page. A click does not wait for it, and a script that runs in between finds no body.
        with self.page.expect_navigation():
            self.page.get_by_role("button", name="Sign in").click()
        return self

    def open(self, tab: str) -> Console:
        self.page.get_by_role("tab", name=tab).click()
        expect(self.page.get_by_role("tab", name=tab)).to_have_attribute("aria-selected", "true")
        return self

    def picture(self, folder: Path, name: str) -> None:
        """Save a picture of the whole page, after checking that it is no wider than its window."""
        widths = "[document.documentElement.scrollWidth, innerWidth]"
        wide, window = self.page.evaluate(widths)
        assert wide <= window, name
        self.page.screenshot(path=folder / f"{name}.png", full_page=True)
