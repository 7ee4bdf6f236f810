"""Debian's Chromium without a window, and the folder for pictures of the console."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.browser.pages import Console

ROOT = Path(__file__).resolve().parents[2]
ARTIFACTS = "WEIR_ARTIFACTS"


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    path = shutil.which("chromium")
    assert path is not None, "install Debian's chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def open_console(chromium: Browser) -> Iterator[Callable[..., Console]]:
    """Provide a function that opens a separate browser; errors and warnings of any page fail the test."""
    opened: list[Console] = []

    def opening(url: str, width: int = 1440, **options: Any) -> Console:
        height = 900 if width > 700 else 844
        context = chromium.new_context(viewport={"width": width, "height": height}, **options)
        opened.append(Console(context, url))
        return opened[-1]

    yield opening
    for console in opened:
        console.context.close()
    assert [complaint for console in opened for complaint in console.complaints] == []


@pytest.fixture(scope="session")
def pictures() -> Path:
    """Return the folder of pictures, which Git ignores."""
    folder = Path(os.environ.get(ARTIFACTS) or ROOT / "build" / "screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
