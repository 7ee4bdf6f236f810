"""The console over a system under load: figures, plots, lending, ledgers and decisions, in both themes and two widths."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import expect

from actors.gateway.replay_feeder import Feeder
from actors.system import System, start
from configs.classes.live_class import LiveSettings
from configs.documents.declarations import (
    Declaration,
    Document,
    QueryDeclaration,
    StreamDeclaration,
    TenantDeclaration,
)
from configs.scenario import w11
from configs.scenario.arrivals import RateStep, StepArrivals
from configs.service.service_settings import ServiceSettings
from services.api.server import Serving
from services.api.service import service_of
from services.catalog.catalog import Catalog
from services.cli.demonstration.demo_feed import PERIOD_S, inputs
from services.common.weir_home import Home
from services.results.results import Results
from services.watch.source import RunningSystem
from services.watch.watch import Watch
from tests.browser.pages import Console
from tests.support.waiting import eventually

pytestmark = pytest.mark.browser

TENANTS = {"acme": "gold", "globex": "silver", "initech": "bronze"}
# Each pair has a time in seconds and the tuples per second from that time on. The rates overload the lane, a small part of a processor.
RATES: dict[str, list[tuple[float, float]]] = {
    "acme": [(0, 500), (15, 6000), (20, 600)],
    "globex": [(0, 6000), (10, 40_000)],
    "initech": [(0, 5000), (5, 100_000)],
}
SETTINGS = LiveSettings(lane_part=0.05, train_max=1000)
# Number of samples that are taken, one per second, before the tests look at plots.
SAMPLES = 20
Opening = Callable[..., Console]


@dataclass(frozen=True)
class Loaded:
    url: str
    admin: str
    tenant: str


def declared() -> Iterator[Declaration]:
    for tenant, priority_class in TENANTS.items():
        names = w11.names(f"{tenant}_").values()
        for name, sql in zip(names, w11.streams(f"{tenant}_"), strict=True):
            yield StreamDeclaration(kind="Stream", name=name, sql=sql)
        yield TenantDeclaration(kind="Tenant", name=tenant, priority_class=priority_class)
        for name, sql in w11.queries(f"{tenant}_").items():
            yield QueryDeclaration(kind="Query", tenant=tenant, name=name, sql=sql)


def started_feeder(system: System, node: str) -> Feeder:
    tables = inputs()
    streams = {
        tenant: {stream: tables[name] for name, stream in w11.names(f"{tenant}_").items()}
        for tenant in TENANTS
    }
    feeder = Feeder(system.door(node), streams, "ts", 1000 * PERIOD_S)
    feeder.offer(
        {
            name: StepArrivals(
                kind="steps", steps=tuple(RateStep(at_s=at_s, rate=rate) for at_s, rate in steps)
            )
            for name, steps in RATES.items()
        }
    )
    return feeder


def past(watch: Watch | None) -> Sequence[float]:
    """Return the times of the samples in the history, which plots show."""
    return watch.history.past(3600.0, list(TENANTS)).at if watch is not None else ()


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loaded]:
    with ExitStack() as running:
        catalog = running.enter_context(closing(Catalog(Home(tmp_path_factory.mktemp("home")))))
        catalog.apply([Document(declaration) for declaration in declared()], "test")
        admin, _ = catalog.keys.create("root", ["admin"], "test")
        tenant, _ = catalog.keys.create("globex-app", ["tenant:globex"], "test")
        system = running.enter_context(start(SETTINGS, catalog.desired().classes, pinned=False))
        (node,) = system.status().system.nodes
        service = service_of(catalog, ServiceSettings(port=0))
        service.watch = running.enter_context(Watch(RunningSystem(system)))
        service.results = Results(service.watch)
        running.callback(service.results.close)
        serving = running.enter_context(Serving(service))
        running.callback(started_feeder(system, node).stop)
        eventually(lambda: any(system.lending().values()), "a loan")
        eventually(lambda: len(past(service.watch)) >= SAMPLES, "enough for plots")
        yield Loaded(serving.url, admin, tenant)


@pytest.mark.parametrize(("width", "theme"), [(1440, "light"), (1440, "dark"), (390, "light"), (390, "dark")])
def test_every_view_of_the_console_shows_the_running_system(
    loaded: Loaded, open_console: Opening, pictures: Path, width: int, theme: str
) -> None:
    console = open_console(loaded.url, width, color_scheme=theme).sign_in(loaded.admin)
    page = console.page
    expect(page.locator("#classes tbody th")).to_have_text(list(TENANTS))
    expect(page.locator("#classes .badge", has_text="sheds").first).to_be_visible()
    expect(page.locator("#plots canvas")).to_have_count(7)
    expect(page.locator("#lending .band").first).to_be_attached()
    console.picture(pictures, f"overview-{width}-{theme}")

    console.open("Queries")
    page.get_by_role("button", name="acme/S3").click()
    expect(page.locator("#query tbody tr").nth(5)).to_be_visible()
    console.picture(pictures, f"queries-{width}-{theme}")

    console.open("Ledger")
    expect(page.locator("#ledger-table")).to_contain_text("All 6 accounts close")
    console.picture(pictures, f"ledger-{width}-{theme}")

    console.open("Decisions")
    page.get_by_label("Class", exact=True).select_option("globex")
    expect(page.locator("#decisions-told li", has_text="globex").first).to_be_visible()
    expect(page.locator("#operators tbody tr").first).to_be_visible()
    console.picture(pictures, f"decisions-{width}-{theme}")


def test_class_can_be_hidden_in_plots_and_shown_again(loaded: Loaded, open_console: Opening) -> None:
    page = open_console(loaded.url).sign_in(loaded.admin).page
    legend = page.locator("#plots-legend > span")
    expect(legend).to_have_text(list(TENANTS))
    page.get_by_label("Plot globex").uncheck()
    expect(legend).to_have_text(["acme", "initech"])
    page.get_by_label("Plot globex").check()
    expect(legend).to_have_text(list(TENANTS))
    figure = page.locator("#plots [role=img]").first
    expect(figure).to_have_attribute(
        "aria-label", re.compile("Response time, p95. Now: .*globex .* of 400 ms")
    )


def test_tenant_sees_its_class_but_not_the_names_of_lenders(loaded: Loaded, open_console: Opening) -> None:
    console = open_console(loaded.url).sign_in(loaded.tenant)
    page = console.page
    expect(page.locator("#classes tbody th")).to_have_text(["globex"])
    expect(page.locator("#lending title", has_text="another class").first).to_be_attached()
    for tab in ("Ledger", "Decisions", "Queries"):
        console.open(tab)
        expect(page.locator("main")).to_contain_text("globex")
    for other in ("acme", "initech"):
        expect(page.locator("body")).not_to_contain_text(other)


def test_answers_can_be_paused_and_continued(loaded: Loaded, open_console: Opening) -> None:
    page = open_console(loaded.url).sign_in(loaded.admin).page
    page.goto(f"{loaded.url}/console/#queries/acme%2FS3")
    expect(page.locator("#query .badge")).to_have_text(re.compile("live"))
    expect(page.locator("#query tbody tr").first).to_be_visible()
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("#query .badge")).to_have_text(re.compile("paused"))
    page.get_by_role("button", name="Continue").click()
    expect(page.locator("#query .badge")).to_have_text(re.compile("live"))
    page.get_by_role("button", name="From the oldest").click()
    expect(page.locator("#query")).to_contain_text(re.compile("answers, last 100 shown"))
