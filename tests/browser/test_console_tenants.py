"""Tenants, priority classes and queries in the console: what each key may see, and the changes that the console previews, makes or refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Locator, expect

from configs.classes.live_class import LiveSettings
from configs.documents.declarations import Ref, as_document, documents_of
from configs.service.service_settings import ServiceSettings
from services.api.server import Serving
from services.api.service import Service, service_of
from services.catalog.catalog import Catalog
from services.common.weir_home import Home
from services.plan.measurement import Rate
from services.plan.planner import Planner
from tests.browser.pages import Console
from tests.support.planned_api import Told

pytestmark = pytest.mark.browser

DOCUMENTS = """
{kind: Stream, name: readings, columns: {ts: timestamp, sensor: int32}, time: ts}
---
{kind: Tenant, name: acme, priority_class: gold, overrides: {max_drop: 0.95, windows: {schedule: none}}, limits: {queries: 20}, key: sensor}
---
{kind: Tenant, name: globex, priority_class: silver}
---
{kind: Query, tenant: acme, name: hot, sql: SELECT ts FROM readings WHERE sensor > 0, weight: 2}
---
{kind: Query, tenant: globex, name: cold, sql: SELECT ts FROM readings WHERE sensor < 0}
"""
NOTHING_DROPPED = "{kind: PriorityClass, name: gold, priority: 6, delay_target_ms: 300, max_drop: 0}"
EXPECTED = ["status of 503", "status of 422", "status of 412", "status of 409"]
Opening = Callable[..., Console]


@dataclass
class Served:
    service: Service
    url: str
    admin: str
    tenant: str

    def declared(self, kind: str, name: str, tenant: str = "") -> dict[str, Any]:
        """Return a declaration in the catalog as a document."""
        return as_document(self.service.catalog.get(Ref(kind, name, tenant)).declaration)

    def put(self, path: str, body: dict[str, Any]) -> None:
        """Change a declaration through the REST API, as another user would."""
        headers = {"Authorization": f"Bearer {self.admin}"}
        httpx.put(f"{self.url}{path}", json=body, headers=headers).raise_for_status()


@pytest.fixture
def served(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Served]:
    """Serve a catalog. If the test sets `admission`, more rows arrive than any machine can process."""
    admission = getattr(request, "param", None)
    with closing(Catalog(Home(tmp_path))) as catalog:
        catalog.apply(documents_of(DOCUMENTS), "test")
        admin, _ = catalog.keys.create("root", ["admin"], "test")
        tenant, _ = catalog.keys.create("acme-app", ["tenant:acme"], "test")
        service = service_of(catalog, ServiceSettings(port=0, admission=admission or "warn"))
        if admission is not None:
            catalog.apply(documents_of(NOTHING_DROPPED), "test")
            service.planner = Planner(catalog, LiveSettings(), Told({"readings": Rate(1e9, 0.1)}))
        with Serving(service) as serving:
            yield Served(service, serving.url, admin, tenant)


@pytest.fixture
def console(served: Served, open_console: Opening) -> Console:
    return opened(served, open_console, served.admin)


def opened(served: Served, open_console: Opening, key: str) -> Console:
    console = open_console(served.url)
    console.expected = EXPECTED
    console.sign_in(key)
    return console.open("Tenants")


def pick(console: Console, name: str) -> Locator:
    """Return the button that shows a tenant or a priority class."""
    return console.page.locator("#tenants-list .picks b").get_by_text(name, exact=True)


def form_of(console: Console, name: str) -> Locator:
    """Open the form of a tenant or a priority class."""
    pick(console, name).click()
    expect(console.page.locator("#tenant-title")).to_have_text(name)
    console.page.locator("#tenant").get_by_role("button", name="Edit", exact=True).click()
    return console.page.get_by_role("form", name=f"Edit {name}")


# -- pages that show tenants and priority classes --------------------------------------------------------------


def test_tenants_and_priority_classes_are_shown_with_all_their_settings(console: Console) -> None:
    names = console.page.locator("#tenants-list .picks b")
    expect(names).to_have_text(["acme", "globex", "gold", "silver", "bronze"])
    pick(console, "acme").click()
    expect(console.page.locator("#tenant dl")).to_be_visible()
    terms, texts = (console.page.locator(f"#tenant {tag}").all_inner_texts() for tag in ("dt", "dd"))
    assert dict(zip(terms, texts, strict=True)) == {
        "Priority class": "gold",
        "Priority": "6",
        "Delay target": "300 ms",
        "Maximum drop": "95 % overridden",
        "Drop rows older than": "no limit",
        "Minimum share": "0 %",
        "Lendable fraction": "100 %",
        "Borrow limit": "100 %",
        "Never sheds": "no",
        "Maximum queries": "20 overridden",
        "Maximum keys of groups and joins": "1000000",
        "Maximum state": "512 MiB",
        "Kept answers": "system default",
        "key": "sensor",
        "windows": '{"schedule":"none"}',
        "Queries": "hot",
    }


def test_key_of_a_tenant_shows_only_that_tenant_and_changes_only_queries(
    served: Served, open_console: Opening
) -> None:
    console = opened(served, open_console, served.tenant)
    expect(console.page.locator("#tenants-list .picks b")).to_have_text(["acme", "gold"])
    for name in ("acme", "gold"):
        pick(console, name).click()
        expect(console.page.locator("#tenant dl")).to_be_visible()
        for button in ("Edit", "Delete the tenant", "Delete the class"):
            expect(console.page.get_by_role("button", name=button, exact=True)).to_have_count(0)
    expect(console.page.locator("body")).not_to_contain_text("globex")
    console.page.goto(f"{console.url}/console/#queries/acme%2Fhot")
    expect(console.page.get_by_role("button", name="Edit the query")).to_be_visible()


# -- changes of tenants and priority classes -------------------------------------------------------------------


def test_changing_some_settings_of_a_tenant_leaves_its_other_settings_unchanged(
    console: Console, served: Served
) -> None:
    form = form_of(console, "acme")
    form.get_by_label("Priority class").select_option("silver")
    expect(form.get_by_label("Delay target, ms")).to_have_attribute("placeholder", "400")
    form.get_by_label("Delay target, ms").fill("450")
    form.get_by_label("Maximum drop, %").fill("")
    form.get_by_label("Lendable fraction, %").fill("100")
    form.get_by_label("Priority", exact=True).fill("2")
    form.get_by_label("Maximum queries").fill("7")
    before = served.service.catalog.revision()
    form.get_by_role("button", name="Preview").click()
    expect(form.locator(".outcome li")).to_have_text(
        "Tenant acme is changed: priority_class, overrides.max_drop, overrides.priority, "
        "overrides.delay_target_ms, overrides.lendable, limits.queries"
    )
    assert served.service.catalog.revision() == before
    form.get_by_role("button", name="Save").click()
    expect(console.page.locator("#tenant .notice.good")).to_have_text(
        "Saved. The change of acme takes effect within seconds."
    )
    assert served.declared("Tenant", "acme") == {
        "kind": "Tenant",
        "name": "acme",
        "priority_class": "silver",
        "overrides": {"windows": {"schedule": "none"}, "priority": 2, "delay_target_ms": 450, "lendable": 1},
        "limits": {"queries": 7},
        "key": "sensor",
    }
    expect(console.page.locator("#tenant dl")).to_contain_text("450 ms overridden")


@pytest.mark.parametrize(
    ("label", "value", "wrong"),
    [
        ("Delay target, ms", "100", "priority class gold gives at least 300"),
        ("Priority", "60", "priority class gold gives at most 6"),
        ("Maximum drop, %", "99", "the value must be at most 0.95"),
        ("Minimum share, %", "much", "the value must be a number (got 'much')"),
        ("Maximum queries", "0", "the value must be at least 1"),
    ],
)
def test_refused_setting_is_explained_at_its_field(
    console: Console, served: Served, label: str, value: str, wrong: str
) -> None:
    form = form_of(console, "acme")
    before = served.declared("Tenant", "acme")
    field = form.get_by_label(label, exact=True)
    field.fill(value)
    form.get_by_role("button", name="Save").click()
    expect(field).to_be_focused()
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(form.locator(".wrong:visible")).to_contain_text(wrong)
    assert served.declared("Tenant", "acme") == before


def test_maximum_age_of_rows_is_changed_for_a_priority_class_and_a_tenant(
    console: Console, served: Served
) -> None:
    form = form_of(console, "gold")
    form.get_by_label("Drop rows older than, ms").fill("2000")
    form.get_by_role("button", name="Save").click()
    facts = console.page.locator("#tenant dl")
    expect(facts).to_contain_text("2000 ms")
    pick(console, "acme").click()
    expect(facts).to_contain_text("2000 ms")
    form = form_of(console, "acme")
    age = form.get_by_label("Drop rows older than, ms")
    expect(age).to_have_attribute("placeholder", "2000")
    age.fill("1500")
    form.get_by_role("button", name="Save").click()
    expect(facts).to_contain_text("1500 ms overridden")
    own = served.declared("Tenant", "acme")["overrides"]
    assert (served.declared("PriorityClass", "gold")["max_age_ms"], own) == (
        2000,
        {"max_drop": 0.95, "windows": {"schedule": "none"}, "max_age_ms": 1500},
    )


def test_settings_of_a_priority_class_can_be_changed(console: Console, served: Served) -> None:
    form = form_of(console, "gold")
    form.get_by_label("Priority", exact=True).fill("9")
    form.get_by_label("Maximum queries").fill("10")
    form.get_by_label("Maximum state, MiB").fill("256")
    form.get_by_label("Never sheds").select_option("yes")
    form.get_by_role("button", name="Save").click()
    expect(form.locator(".problem, .wrong:visible")).to_contain_text("priority class gold gives at most 10")
    form.get_by_label("Maximum queries").fill("50")
    form.get_by_role("button", name="Save").click()
    expect(console.page.locator("#tenant .notice.good")).to_contain_text("Saved.")
    assert served.declared("PriorityClass", "gold") == {
        "kind": "PriorityClass",
        "name": "gold",
        "priority": 9,
        "delay_target_ms": 300,
        "lossless": True,
        "limits": {"queries": 50, "state_bytes": 256 << 20},
    }


def test_priority_class_is_created_and_deleted_unless_in_use(console: Console, served: Served) -> None:
    page = console.page
    page.get_by_role("button", name="New priority class").click()
    form = page.get_by_role("form", name="New priority class")
    form.get_by_label("Name of the class").fill("platinum")
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_label("Priority", exact=True)).to_have_attribute("aria-invalid", "true")
    form.get_by_label("Priority", exact=True).fill("12")
    form.get_by_label("Delay target, ms").fill("100")
    form.get_by_role("button", name="Save").click()
    expect(page.locator("#tenant-title")).to_have_text("platinum")
    assert served.declared("PriorityClass", "platinum") == {
        "kind": "PriorityClass",
        "name": "platinum",
        "priority": 12,
        "delay_target_ms": 100,
    }
    page.get_by_role("button", name="Delete the class").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete it").click()
    expect(page.locator("#tenants-list .picks b")).to_have_text(
        ["acme", "globex", "gold", "silver", "bronze"]
    )
    pick(console, "gold").click()
    page.get_by_role("button", name="Delete the class").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete it").click()
    expect(page.locator("#tenant .problem")).to_contain_text("acme")


def test_change_that_another_user_made_while_a_form_was_open_is_not_overwritten(
    console: Console, served: Served
) -> None:
    form = form_of(console, "acme")
    form.get_by_label("Priority", exact=True).fill("2")
    served.put("/v1/tenants/acme", {"priority_class": "bronze"})
    form.get_by_role("button", name="Save").click()
    expect(form.locator(".problem")).to_contain_text("version")
    assert served.declared("Tenant", "acme")["priority_class"] == "bronze"
    expect(form.get_by_label("Priority", exact=True)).to_have_value("2")


@pytest.mark.parametrize("served", ["warn"], indirect=True)
def test_with_admission_set_to_warn_a_change_that_misses_a_delay_target_is_saved_with_a_warning(
    console: Console, served: Served
) -> None:
    form = form_of(console, "acme")
    form.get_by_label("Maximum drop, %").fill("")
    form.get_by_role("button", name="Preview").click()
    expect(form.locator(".outcome")).to_contain_text("A delay target would be missed")
    expect(form.locator(".outcome tbody th").first).to_be_visible()
    form.get_by_role("button", name="Save").click()
    expect(console.page.locator("#tenant .notice").last).to_contain_text("would miss its delay target")
    assert "max_drop" not in served.declared("Tenant", "acme")["overrides"]


@pytest.mark.parametrize("served", ["refuse"], indirect=True)
def test_with_admission_set_to_refuse_a_change_that_misses_a_delay_target_is_refused(
    console: Console, served: Served
) -> None:
    form = form_of(console, "acme")
    before = served.declared("Tenant", "acme")
    form.get_by_label("Maximum drop, %").fill("")
    form.get_by_role("button", name="Save").click()
    expect(form.locator(".problem")).to_contain_text("would miss its delay target")
    expect(form.locator(".outcome")).to_contain_text("A delay target would be missed")
    assert served.declared("Tenant", "acme") == before


# -- changes of queries ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("caller", ["admin", "tenant"])
def test_sql_of_a_query_can_be_changed(served: Served, open_console: Opening, caller: str) -> None:
    console = opened(served, open_console, getattr(served, caller))
    page = console.page
    page.goto(f"{console.url}/console/#queries/acme%2Fhot")
    page.get_by_role("button", name="Edit the query").click()
    form = page.get_by_role("form", name="Edit acme/hot")
    sql = form.get_by_label("SQL")
    expect(sql).to_have_value("SELECT ts FROM readings WHERE sensor > 0")
    sql.fill("SELECT nothing FROM readings")
    form.get_by_role("button", name="Save").click()
    expect(sql).to_be_focused()
    expect(form.locator(".wrong:visible")).to_contain_text(
        "line 1, column 8: there is no such column (got 'nothing')"
    )
    sql.fill("SELECT sensor FROM readings")
    form.get_by_label("Utility by latency").fill("200:1, 900:0")
    form.get_by_role("button", name="Preview").click()
    expect(form.locator(".outcome li")).to_have_text("Query acme/hot is changed: sql, utility")
    form.get_by_role("button", name="Save").click()
    expect(page.locator("#query .notice.good")).to_contain_text("Saved.")
    expect(page.locator("#query pre")).to_have_text("SELECT sensor FROM readings")
    assert served.declared("Query", "hot", "acme") == {
        "kind": "Query",
        "tenant": "acme",
        "name": "hot",
        "sql": "SELECT sensor FROM readings",
        "weight": 2,
        "utility": [{"latency_ms": 200, "utility": 1}, {"latency_ms": 900, "utility": 0}],
    }


# -- audit log and keyboard -------------------------------------------------------------------------------------


def test_audit_log_lists_changes_with_their_principals(console: Console, served: Served) -> None:
    served.put("/v1/tenants/acme", {"priority_class": "bronze"})
    console.open("Audit")
    first = console.page.locator("#audit-list tbody tr").first
    expect(first.locator("th, td")).to_have_count(5)
    assert first.locator("th, td").all_inner_texts()[:4] == [
        "Tenant acme",
        "changed",
        "priority_class, overrides, limits, key",
        "root",
    ]
    console.page.get_by_label("Find").last.fill("globex")
    expect(console.page.locator("#audit-list tbody th")).to_have_text(["Query globex/cold", "Tenant globex"])


def test_keyboard_shortcuts_work_except_while_typing_in_a_field(console: Console) -> None:
    page = console.page
    page.keyboard.press("2")
    expect(page.get_by_role("tab", name="Queries")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("/")
    expect(page.locator("#queries-find")).to_be_focused()
    page.keyboard.type("1?/")
    expect(page.locator("#queries-find")).to_have_value("1?/")
    expect(page.get_by_role("tab", name="Queries")).to_have_attribute("aria-selected", "true")
    page.locator("#queries-find").evaluate("element => element.blur()")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Keyboard shortcuts")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
