"""Mirrors in the console, with a service that really polls: a working mirror, a mirror with failing objects, a mirror that cannot start."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import expect

from configs.documents.declarations import MirrorDeclaration, documents_of
from configs.service.service_settings import ServiceSettings
from services.api.server import Serving
from services.api.service import service_of
from services.catalog.catalog import Catalog
from services.common.weir_home import Home
from services.mirror.mirror_definition import read_mirror
from services.mirror.mirror_threads import Mirrors
from tests.browser.pages import Console
from tests.support.mirrors import Told, mirror, seen
from tests.support.object_server import Store, object_store

pytestmark = pytest.mark.browser

NOTHING_RUNS = "status of 503"
Opening = Callable[..., Console]


@dataclass(frozen=True)
class Polled:
    url: str
    admin: str
    tenant: str
    mirrors: Mirrors
    store: Store


@pytest.fixture
def polled(tmp_path: Path) -> Iterator[Polled]:
    with ExitStack() as stack:
        store = stack.enter_context(
            object_store(a={"price": 7}, **{f"item{number}": {"price": number} for number in range(39)})
        )
        catalog = stack.enter_context(closing(Catalog(Home(tmp_path))))
        mirrors = stack.enter_context(Mirrors(Told()))
        origin = f"FROM HTTP '{store.url}{{key}}' BANDWIDTH 50 PER SECOND"
        documents = [
            mirror(rest=f"{origin} KEYS FROM URL '{store.url}'"),
            mirror(rest=f"{origin} KEYS ('a', 'item2', 'garbage') LOOKUPS FROM acme/looked", name="stock"),
            mirror(rest=f"{origin} KEYS FROM URL '{store.url}broken'", name="rates"),
        ]
        tenant = "{kind: Tenant, name: acme, priority_class: gold}"
        catalog.apply([*documents_of(tenant), *documents], "test")
        for document in documents:
            assert isinstance(document.declaration, MirrorDeclaration)
            mirrors.begin(read_mirror(document.declaration))
        admin, _ = catalog.keys.create("root", ["admin"], "test")
        acme, _ = catalog.keys.create("acme-app", ["tenant:acme"], "test")
        service = service_of(catalog, ServiceSettings(port=0))
        service.mirrors = mirrors.progress
        serving = stack.enter_context(Serving(service))
        seen(
            mirrors,
            "prices",
            lambda progress: (
                progress.statistics.held == 40 and progress.statistics.perceived_measured is not None
            ),
        )
        seen(
            mirrors,
            "stock",
            lambda progress: progress.statistics.failing == 1 and progress.statistics.uses > 0,
        )
        yield Polled(serving.url, admin, acme, mirrors, store)


@pytest.mark.parametrize(("width", "theme"), [(1440, "light"), (1440, "dark"), (390, "light")])
def test_mirrors_are_shown_with_their_problems(
    polled: Polled, open_console: Opening, pictures: Path, width: int, theme: str
) -> None:
    console = open_console(polled.url, width, color_scheme=theme)
    console.expected = [NOTHING_RUNS]
    page = console.sign_in(polled.admin).open("Mirrors").page
    rows = page.locator("#mirrors-table tbody tr")
    expect(page.locator("#mirrors-table tbody th")).to_have_text(["prices", "stock", "rates"])
    expect(rows.nth(0)).to_contain_text("40 of 40")
    expect(rows.nth(0).locator(".badge.good")).to_contain_text("polling")
    expect(rows.nth(1)).to_contain_text("polls of 1 of 3 objects fail")
    expect(rows.nth(1)).to_contain_text("the object is not JSON: b'<html>'")
    expect(rows.nth(2).locator(".badge.bad")).to_contain_text("cannot start")
    expect(rows.nth(2)).to_contain_text("500 Internal Server Error")
    console.picture(pictures, f"mirrors-{width}-{theme}")


def test_tenant_sees_freshness_of_mirrors_but_not_their_problems(
    polled: Polled, open_console: Opening, pictures: Path
) -> None:
    console = open_console(polled.url)
    console.expected = [NOTHING_RUNS]
    page = console.sign_in(polled.tenant).open("Mirrors").page
    expect(page.locator("#mirrors-table tbody th")).to_have_text(["prices", "stock", "rates"])
    expect(page.locator("#mirrors-table thead th")).to_have_text(
        ["Mirror", "Perceived freshness", "Objects held", "State"]
    )
    expect(page.locator("#mirrors")).not_to_contain_text("Internal Server Error")
    console.picture(pictures, "mirrors-tenant")
    polled.mirrors.end("prices")
    expect(page.locator("#mirrors-table tbody tr").first).to_contain_text("starting")
