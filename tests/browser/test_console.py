"""The console of a service without a running system: signing in, navigation, refused input, changes, keys, and a service that stops."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import expect

from actors.runtime.run_dirs import RunDirs
from bench.local_places import LocalPlaces
from configs.classes.utility import told as utility_told
from configs.documents.declarations import QueryDeclaration, Ref, documents_of
from configs.service.service_settings import ServiceSettings
from services.api.routes.console import WRONG
from services.api.routes.results import results_of
from services.api.server import Serving
from services.api.service import Service, service_of
from services.catalog.catalog import Catalog
from services.common.weir_home import Home
from tests.browser.pages import Console
from tests.support.answer_logs import ClassLog

pytestmark = pytest.mark.browser

DECLARED = """
{kind: Stream, name: readings, columns: {ts: timestamp, sensor: int32}, time: ts}
---
{kind: Tenant, name: acme, priority_class: gold}
---
{kind: Query, tenant: acme, name: some, sql: SELECT ts FROM readings WHERE sensor > 0}
"""
# The stream and the query of the log of answers that one test writes.
LOGGED = """
{kind: Stream, name: s, columns: {n: int64, s: string}}
---
{kind: Query, tenant: acme, name: q, sql: "SELECT n, s FROM s"}
"""
NOTHING_RUNS = "status of 503"
REFUSED = "status of 422"
MARKUP = "<img src=x onerror=alert(1)>"
TABS = [
    "Overview",
    "Queries",
    "Tenants",
    "Ledger",
    "Decisions",
    "Feeds",
    "Mirrors",
    "Onboard",
    "Keys",
    "Audit",
]

Opening = Callable[..., Console]


@dataclass
class Served:
    service: Service
    url: str
    admin: str
    tenant: str


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with closing(Catalog(Home(tmp_path))) as catalog:
        catalog.apply(documents_of(DECLARED), "test")
        admin, _ = catalog.keys.create("root", ["admin"], "test")
        tenant, _ = catalog.keys.create("acme-app", ["tenant:acme"], "test")
        service = service_of(catalog, ServiceSettings(port=0))
        with Serving(service) as serving:
            yield Served(service, serving.url, admin, tenant)


@pytest.fixture
def console(served: Served, open_console: Opening) -> Console:
    found = open_console(served.url)
    found.expected = [NOTHING_RUNS]
    return found.sign_in(served.admin)


# -- signing in and signing out --------------------------------------------------------------------------------


def test_console_requires_a_valid_key(served: Served, open_console: Opening) -> None:
    console = open_console(served.url)
    console.expected = ["status of 401"]
    console.page.goto(f"{served.url}/console/")
    expect(console.page).to_have_url(f"{served.url}/console/sign-in")
    console.sign_in("weir_wrong")
    expect(console.page.get_by_role("alert")).to_have_text(WRONG)
    expect(console.page.get_by_role("tab")).to_have_count(0)


def test_administrator_sees_all_tabs_and_can_sign_out(console: Console) -> None:
    expect(console.page.get_by_role("tab")).to_have_text(TABS)
    console.page.get_by_role("button", name="Sign out").click()
    expect(console.page.get_by_role("alert")).to_have_text("You have signed out.")
    console.page.goto(f"{console.url}/console/")
    expect(console.page).to_have_url(f"{console.url}/console/sign-in")


def test_tenant_sees_its_own_queries_and_no_keys(served: Served, open_console: Opening) -> None:
    served.service.catalog.apply(documents_of("{kind: Tenant, name: other, priority_class: gold}"), "test")
    sql = "{kind: Query, tenant: other, name: secret, sql: SELECT ts FROM readings}"
    served.service.catalog.apply(documents_of(sql), "test")
    console = open_console(served.url)
    console.expected = [NOTHING_RUNS]
    console.sign_in(served.tenant)
    expect(console.page.get_by_role("tab")).to_have_text([*TABS[:7], "New query"])
    console.open("Queries")
    expect(console.page.locator(".picks b")).to_have_text(["acme/some"])


# -- navigation, themes and motion -----------------------------------------------------------------------------


def test_arrow_keys_home_and_end_switch_between_tabs(console: Console) -> None:
    page = console.page
    expect(page.get_by_role("tab", name="Overview")).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.get_by_role("tab", name="Overview").focus()
    found = []
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft", "End", "ArrowRight", "ArrowLeft", "Home"):
        page.keyboard.press(key)
        expect(page.locator("[role=tabpanel]:visible")).to_have_count(1)
        focused = page.locator("[role=tab]:focus")
        expect(focused).to_have_attribute("aria-selected", "true")
        assert page.locator("[role=tabpanel]:visible").get_attribute("aria-labelledby") == (
            focused.get_attribute("id")
        )
        found.append(focused.inner_text())
    assert found == ["Queries", "Tenants", "Queries", "Audit", "Overview", "Audit", "Overview"]
    assert (
        page.locator("[role=tab]:focus").evaluate("element => getComputedStyle(element).outlineStyle")
        == "solid"
    )


def test_reloading_the_page_shows_the_same_view_again(console: Console) -> None:
    console.open("Queries").page.get_by_role("button", name="acme/some").click()
    expect(console.page).to_have_url(f"{console.url}/console/#queries/acme%2Fsome")
    console.page.reload()
    expect(console.page.get_by_role("heading", name="acme/some")).to_be_visible()
    console.page.go_back()
    expect(console.page.get_by_role("heading", name="Answers")).to_be_visible()


def background(console: Console) -> str:
    found: str = console.page.evaluate("getComputedStyle(document.body).backgroundColor")
    return found


def test_theme_follows_the_system_until_the_user_chooses(served: Served, open_console: Opening) -> None:
    light, dark = (open_console(served.url, color_scheme=theme) for theme in ("light", "dark"))
    for console in (light, dark):
        console.expected = [NOTHING_RUNS]
        console.sign_in(served.admin)
    in_light, in_dark = background(light), background(dark)
    assert in_light != in_dark
    switch = light.page.get_by_role("button", name="Theme")
    seen = []
    for _ in range(3):
        switch.click()
        seen.append((switch.inner_text(), background(light)))
    assert seen == [("◐ Theme: light", in_light), ("◐ Theme: dark", in_dark), ("◐ Theme: system", in_light)]
    switch.click()
    switch.click()
    light.page.reload()
    assert background(light) == in_dark


def test_reduced_motion_switches_transitions_off(served: Served, open_console: Opening) -> None:
    found = []
    for motion in ("no-preference", "reduce"):
        console = open_console(served.url, reduced_motion=motion)
        console.page.goto(served.url)
        button = console.page.get_by_role("button", name="Sign in")
        found.append(button.evaluate("element => getComputedStyle(element).transitionDuration"))
    assert found == ["0.15s", "0s"]


@pytest.mark.parametrize(("width", "theme"), [(1440, "light"), (1440, "dark"), (390, "light"), (390, "dark")])
def test_without_a_running_system_every_view_shows_what_to_do_next(
    served: Served, open_console: Opening, pictures: Path, width: int, theme: str
) -> None:
    console = open_console(served.url, width, color_scheme=theme)
    console.expected = [NOTHING_RUNS]
    console.page.goto(served.url)
    console.picture(pictures, f"sign-in-{width}-{theme}")
    console.sign_in(served.admin)
    expect(console.page.locator("#classes")).to_contain_text("Start a system with “weir up”")
    for tab in TABS:
        panel = tab.lower()
        console.open(tab)
        expect(
            console.page.locator(f"#{panel} .empty, #{panel} table, #{panel} .picks").first
        ).to_be_visible()
        console.picture(pictures, f"idle-{panel}-{width}-{theme}")


# -- input that the console refuses ----------------------------------------------------------------------------


def fill_onboarding(console: Console, **values: str) -> None:
    console.open("Onboard")
    expect(console.page.get_by_label("gold")).to_be_checked()
    console.page.get_by_text("New stream").click()
    given = {"tenant": "initech", "stream": "temps", "query": "hot"} | values
    for name, value in given.items():
        console.page.locator(f"#onboard [name={name}]").fill(value)


def test_markup_in_a_refused_name_is_shown_as_text(console: Console) -> None:
    console.expected = [NOTHING_RUNS, REFUSED]
    fill_onboarding(console, tenant=MARKUP)
    console.page.get_by_role("button", name="Preview").click()
    name = console.page.get_by_label("Name of the tenant")
    expect(name).to_be_focused()
    expect(name).to_have_attribute("aria-invalid", "true")
    expect(console.page.locator("#onboard-form .wrong", has_text=MARKUP)).to_be_visible()
    assert console.page.locator("main img").count() == 0


@pytest.mark.parametrize(
    ("values", "label", "message"),
    [
        (
            {"sql": "SELECT nothing FROM temps"},
            "SQL",
            "^line 1, column 8: there is no such column \\(got 'nothing'\\): known: ",
        ),
        ({"sql": "SELECT"}, "SQL", "^line 1, column 1: a continuous query must read a stream"),
        ({"query": "9"}, "Name of the query", "^this is not a valid name \\(got '9'\\): give a name"),
        ({"stream": ""}, "Name of the stream", "^this is not a valid name"),
    ],
)
def test_invalid_value_is_reported_at_its_form_field(
    console: Console, values: dict[str, str], label: str, message: str
) -> None:
    console.expected = [NOTHING_RUNS, REFUSED]
    fill_onboarding(console, **values)
    console.page.get_by_role("button", name="Onboard", exact=True).click()
    field = console.page.get_by_label(label, exact=True)
    expect(field).to_be_focused()
    expect(field).to_have_attribute("aria-invalid", "true")
    wrong = console.page.locator("#onboard-form .wrong:visible")
    expect(wrong).to_have_count(1)
    expect(wrong).to_have_text(re.compile(message))


def test_shorter_delay_target_than_the_priority_class_offers_is_refused_at_its_field(
    console: Console,
) -> None:
    console.expected = [NOTHING_RUNS, REFUSED]
    fill_onboarding(console)
    console.page.get_by_text("Request less than the class offers").click()
    console.page.get_by_label("Delay target, ms").fill("1")
    console.page.get_by_role("button", name="Preview").click()
    expect(console.page.get_by_label("Delay target, ms")).to_be_focused()
    expect(console.page.locator("#onboard-form .wrong:visible")).to_contain_text("gold gives at least 300")


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ("200:0.5, 400:1", "utility must not rise with latency, but it is 0.5 at 200 ms"),
        ("200:1, soon:0", "the value must be a number (got 'soon')"),
        ("200", "the key has no value"),
    ],
)
def test_invalid_utility_is_refused_at_its_field(console: Console, points: str, message: str) -> None:
    console.expected = [NOTHING_RUNS, REFUSED]
    fill_onboarding(console)
    console.page.get_by_text("Set the utility of late answers").click()
    field = console.page.get_by_label("Utility by latency")
    field.fill(points)
    console.page.get_by_role("button", name="Preview").click()
    expect(field).to_be_focused()
    expect(console.page.locator("#onboard-form .wrong:visible")).to_contain_text(message)


def test_invalid_weight_is_refused_at_its_field(console: Console) -> None:
    console.expected = [NOTHING_RUNS, REFUSED]
    fill_onboarding(console)
    console.page.get_by_text("Set the utility of late answers").click()
    field = console.page.get_by_label("Weight of fresh answers")
    field.fill("0")
    console.page.get_by_role("button", name="Preview").click()
    expect(field).to_be_focused()
    expect(console.page.locator("#onboard-form .wrong:visible")).to_contain_text(
        "the value must be at least 0.001"
    )


# -- changes of declarations -----------------------------------------------------------------------------------


def test_preview_changes_nothing_and_onboarding_creates_everything(console: Console, served: Served) -> None:
    fill_onboarding(console)
    expect(console.page.get_by_label("SQL")).to_have_value("SELECT * FROM temps")
    before = served.service.catalog.revision()
    console.page.get_by_label("Name of the tenant").press("Enter")
    preview = console.page.locator("#preview")
    expect(preview.locator("li b")).to_have_text(["Tenant initech", "Stream temps", "Query initech/hot"])
    assert served.service.catalog.revision() == before
    console.page.get_by_role("button", name="Onboard", exact=True).click()
    expect(preview).to_contain_text("Done.")
    found = [str(item.ref) for item in served.service.catalog.all()][-3:]
    assert found == ["Tenant initech", "Stream temps", "Query initech/hot"]
    preview.get_by_role("button", name="Create a key for initech").click()
    expect(console.page.get_by_label("Scopes")).to_have_value("tenant:initech")


def test_tenant_adds_and_deletes_a_query(served: Served, open_console: Opening) -> None:
    console = open_console(served.url)
    console.expected = [NOTHING_RUNS]
    console.sign_in(served.tenant).open("New query")
    expect(console.page.get_by_text("Streams: readings (ts, sensor)")).to_be_visible()
    console.page.locator("#onboard [name=query]").fill("more")
    console.page.get_by_label("SQL").fill("SELECT sensor FROM readings")
    console.page.get_by_text("Set the utility of late answers").click()
    console.page.get_by_label("Utility by latency").fill("200:1, 900:0")
    console.page.get_by_label("Weight of fresh answers").fill("2.5")
    console.page.get_by_role("button", name="Add the query").click()
    console.page.get_by_role("button", name="See the answers of acme/more").click()
    expect(console.page.locator(".picks b")).to_have_text(["acme/some", "acme/more"])
    made = served.service.catalog.get(Ref("Query", "more", "acme")).declaration
    assert isinstance(made, QueryDeclaration)
    assert (utility_told(made.utility), made.weight) == ("200:1,900:0", 2.5)
    console.page.get_by_role("button", name="Delete the query").click()
    dialog = console.page.get_by_role("dialog")
    expect(dialog).to_contain_text("Delete the query acme/more?")
    dialog.get_by_role("button", name="Keep it").click()
    expect(dialog).to_have_count(0)
    console.page.get_by_role("button", name="Delete the query").click()
    dialog.get_by_role("button", name="Delete it").click()
    expect(console.page.locator(".picks b")).to_have_text(["acme/some"])


def test_answers_show_how_much_of_their_input_was_kept(
    served: Served, open_console: Opening, tmp_path: Path
) -> None:
    dirs = RunDirs(tmp_path / "runs", "s", "n")
    served.service.catalog.apply(documents_of(LOGGED), "test")
    served.service.snapshot.refresh()
    with (
        closing(results_of(served.service, LocalPlaces(dirs), lambda: "")) as served.service.results,
        closing(ClassLog(dirs.class_log("acme"), 1 << 20)) as log,
    ):
        for kept in (1.0, 0.42, 0.99999):
            log.commit(1, kept=kept)
        console = open_console(served.url)
        console.expected = [NOTHING_RUNS]
        page = console.sign_in(served.tenant).page
        page.goto(f"{served.url}/console/#queries/acme%2Fq")
        page.get_by_role("button", name="From the oldest").click()
        expect(page.locator("#query thead th")).to_have_text(["n", "s", "kept"])
        expect(page.locator("#query tbody td:last-child")).to_have_text(["99.9%", "42.0%", ""])
        expect(page.locator("#query thead th").last).to_have_attribute("title", re.compile("was kept"))


def test_new_key_is_shown_only_once_and_works_until_it_is_revoked(console: Console, served: Served) -> None:
    page = console.open("Keys").page
    page.get_by_label("Principal").fill("feeder")
    page.get_by_label("Scopes").fill("ingest:readings tenant:acme")
    page.get_by_role("button", name="Create the key").click()
    key = page.locator("#keys-made code").inner_text()

    def status() -> int:
        headers = {"Authorization": f"Bearer {key}"}
        return httpx.get(f"{served.url}/v1/tenants/acme", headers=headers).status_code

    assert status() == 200
    (made,) = (info for info in served.service.catalog.keys.all() if info.principal == "feeder")
    expect(page.locator("#keys-made")).to_contain_text(made.id)
    console.open("Queries").open("Keys")
    expect(page.locator("#keys-made")).to_be_empty()
    row = page.locator("#keys-list tbody tr", has_text="feeder")
    expect(row).to_contain_text("live")
    expect(row.locator("td").first).to_have_text(made.id)
    row.get_by_role("button", name="Revoke the key of feeder").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke it").click()
    expect(row).to_contain_text("revoked")
    assert status() == 401
    console.open("Audit")
    expect(page.locator("#audit-list tbody tr", has_text=f"Key {made.id}").first).to_contain_text("revoked")


def test_key_for_an_unknown_tenant_is_refused_at_its_field(console: Console) -> None:
    console.expected = [NOTHING_RUNS, REFUSED]
    page = console.open("Keys").page
    page.get_by_label("Principal").fill("feeder")
    page.get_by_label("Scopes").fill("tenant:nobody")
    page.get_by_role("button", name="Create the key").click()
    expect(page.get_by_label("Scopes")).to_be_focused()
    expect(page.locator("#keys-form .wrong:visible")).to_contain_text("tenant:nobody")


# -- a service that stops answering, and hidden pages ----------------------------------------------------------


def test_banner_is_shown_while_the_service_does_not_answer(console: Console) -> None:
    console.expected = [NOTHING_RUNS, "ERR_INTERNET_DISCONNECTED"]
    banner = console.page.locator("#connection")
    expect(console.page.locator("#classes")).to_contain_text("No system runs here")
    console.context.set_offline(True)
    expect(banner).to_contain_text("Weir does not answer")
    console.context.set_offline(False)
    expect(banner).to_be_hidden()
    expect(console.page.locator("#said")).to_have_text("Weir answers again.")


def test_after_a_session_has_ended_the_console_shows_the_sign_in_page(
    console: Console, served: Served
) -> None:
    console.expected = [NOTHING_RUNS, "status of 401"]
    expect(console.page.locator("#classes")).to_contain_text("No system runs here")
    (token,) = [cookie["value"] for cookie in console.context.cookies() if cookie["name"] == "weir_session"]
    served.service.sessions.end(token)
    expect(console.page.get_by_role("alert")).to_have_text("The session has ended. Sign in again.")


HIDE = """hidden => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


def test_hidden_page_sends_no_requests(served: Served, open_console: Opening) -> None:
    console = open_console(served.url)
    console.expected = [NOTHING_RUNS]
    console.page.clock.install()
    console.sign_in(served.admin)
    expect(console.page.locator("#classes")).to_contain_text("No system runs here")
    console.page.wait_for_load_state("networkidle")
    asked: list[str] = []
    console.page.on("request", lambda request: asked.append(request.url))
    console.page.evaluate(HIDE, True)
    console.page.clock.run_for(60_000)
    while_hidden = list(asked)
    with console.page.expect_request("**/v1/classes"):
        console.page.evaluate(HIDE, False)
        console.page.clock.run_for(1)
    assert while_hidden == []
