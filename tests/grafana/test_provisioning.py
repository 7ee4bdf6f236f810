"""Dashboards that a real Grafana loads from files when it starts, and the effect of `weir dashboards push` on these dashboards."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from services.dashboards.push import DATASOURCE_UID
from tests.grafana.provisioned import CHART_FOLDER, SOURCE_URL
from tests.grafana.server import Organisation, RealServer
from tests.support.dashboard_documents import DOCUMENTS
from tests.support.terminal import Terminal

pytestmark = pytest.mark.grafana

UIDS = {document["uid"] for document in DOCUMENTS}
LOAD_S = 30.0


@pytest.fixture
def first(server: RealServer) -> Organisation:
    """Organisation of the dashboards and data sources that Grafana has loaded from files."""
    found = Organisation(server, 1)
    wait_until(lambda: len(loaded(found)) == 2 * len(UIDS))
    return found


def loaded(organisation: Organisation) -> list[str]:
    return [found["uid"] for found in organisation.told("GET", "/api/search?type=dash-db")]


def wait_until(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + LOAD_S
    while not is_so():
        assert time.monotonic() < until, f"Grafana has not loaded the files within {LOAD_S:g} s"
        time.sleep(0.2)


def test_the_documented_provider_loads_the_files_of_the_chart(first: Organisation) -> None:
    for document in DOCUMENTS:
        told = first.told("GET", f"/api/dashboards/uid/{document['uid']}")
        meta = told["meta"]
        assert (meta["folderUid"], meta["folderTitle"], meta["provisioned"]) == ("weir", "Weir", True)
        assert told["dashboard"]["panels"] == document["panels"]


def test_each_dashboard_of_a_release_has_its_own_address_and_links_to_the_other_dashboards_of_the_release(
    first: Organisation,
) -> None:
    found = first.told("GET", "/api/search?type=dash-db")
    of_chart = {one["uid"]: one for one in found if one["folderUid"] == CHART_FOLDER}
    assert len(of_chart) == len(UIDS)
    assert {one["title"] for one in of_chart.values()} == {
        f"{document['title']} (streams/east-weir)" for document in DOCUMENTS
    }
    for uid in of_chart:
        links = first.told("GET", f"/api/dashboards/uid/{uid}")["dashboard"]["links"]
        linked = {link["url"].removeprefix("/d/").partition("?")[0] for link in links}
        assert linked == of_chart.keys() - {uid}


def test_push_keeps_a_provisioned_dashboard_that_is_equal_and_refuses_to_change_one_that_differs(
    first: Organisation, weir: Terminal
) -> None:
    weir.monkeypatch.setenv("GRAFANA_TOKEN", first.token("Admin"))
    push = ("dashboards", "push", "--grafana", first.server.url)
    assert {step["action"] for step in weir.json(*push)} == {"unchanged"}
    for options in (("--folder", "other"), ("--datasource-url", SOURCE_URL)):
        refused = weir(*push, *options)
        assert refused.code == 2
        assert "dashboard weir-overview: the dashboard is provisioned from a file" in refused.err
    refused = weir(*push, "--datasource-url", "http://127.0.0.1:2")
    assert refused.code == 2
    assert f"the data source {DATASOURCE_UID} is provisioned from a file" in refused.err
