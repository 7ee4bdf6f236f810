"""Dashboards come to a Grafana once, are changed when they have changed, and leave alone what is somebody else's."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from configs.errors import InvalidInput
from services.dashboards.all import documents
from services.dashboards.grafana import Grafana
from services.dashboards.push import DATASOURCE_UID, Wish, push
from tests.support.grafana_server import Server, grafana

PROMETHEUS = "http://prometheus:9090"
UIDS = ["weir-overview", "weir-tenant", "weir-control", "weir-streams", "weir-runtime"]
WISH = Wish(documents(), datasource_url=PROMETHEUS)
WITHOUT_SOURCE = replace(WISH, datasource_url=None)


@pytest.fixture
def server() -> Iterator[Server]:
    with grafana() as found:
        yield found


def brought(server: Server, wish: Wish = WISH, dry_run: bool = False, role: Any = "Admin") -> list[str]:
    """What was done, by name; as somebody with that role."""
    with Grafana(server.url, server.token(role), pause_s=0.001) as there:
        return [f"{step.action} {step.uid}" for step in push(there, wish, dry_run)]


def state(server: Server) -> object:
    return copy.deepcopy((server.folders, server.sources, server.dashboards, server.annotations))


ALL_NEW = ["create weir", f"create {DATASOURCE_UID}", *(f"create {uid}" for uid in UIDS)]
ALL_KEPT = ["keep weir", f"keep {DATASOURCE_UID}", *(f"keep {uid}" for uid in UIDS)]


# -- what is there afterwards --------------------------------------------------------------------------------------


@pytest.mark.parametrize("exists", [409, 412])
def test_an_empty_grafana_gets_everything_and_a_second_time_nothing(exists: int) -> None:
    with grafana(exists=exists) as server:
        assert brought(server) == ALL_NEW
        before, writes = state(server), list(server.writes)
        assert brought(server) == ALL_KEPT
        assert (state(server), server.writes) == (before, writes)
    assert {uid: one["folderUid"] for uid, one in server.dashboards.items()} == dict.fromkeys(UIDS, "weir")
    assert server.sources[DATASOURCE_UID]["url"] == PROMETHEUS
    chosen = [
        one["dashboard"]["templating"]["list"][0]["current"]["value"] for one in server.dashboards.values()
    ]
    assert chosen == [DATASOURCE_UID] * len(UIDS)


def test_a_dry_run_tells_the_same_and_writes_nothing(server: Server) -> None:
    assert brought(server, dry_run=True) == ALL_NEW
    assert server.writes == []


def test_only_the_dashboard_that_has_changed_is_written(server: Server) -> None:
    brought(server)
    server.writes.clear()
    changed = [copy.deepcopy(dict(one)) for one in WISH.dashboards]
    changed[2]["panels"][1]["title"] = "Another title"
    wish = replace(WISH, dashboards=changed)
    assert brought(server, wish) == [
        line if "control" not in line else "change weir-control" for line in ALL_KEPT
    ]
    assert server.writes == ["POST /api/dashboards/db"]
    assert server.dashboards["weir-control"]["dashboard"]["version"] == 2
    assert brought(server, wish) == ALL_KEPT


def test_what_somebody_has_changed_in_a_dashboard_of_ours_is_put_right(server: Server) -> None:
    brought(server)
    del server.dashboards["weir-tenant"]["dashboard"]["panels"][3]
    server.dashboards["weir-runtime"]["folderUid"] = ""
    assert [line for line in brought(server) if not line.startswith("keep")] == [
        "change weir-tenant",
        "change weir-runtime",
    ]
    assert brought(server) == ALL_KEPT


def test_a_data_source_that_somebody_has_chosen_stays_chosen(server: Server) -> None:
    assert brought(server, WITHOUT_SOURCE, role="Editor")[:2] == ["create weir", "create weir-overview"]
    assert server.sources == {}
    theirs = {"text": "Mimir", "value": "mimir"}
    one = server.dashboards["weir-overview"]["dashboard"]
    one["templating"]["list"][0]["current"] = theirs
    one["title"] = "Another title"
    assert "change weir-overview" in brought(server, WITHOUT_SOURCE, role="Editor")
    there = server.dashboards["weir-overview"]["dashboard"]
    assert (there["title"], there["templating"]["list"][0]["current"]) == ("Weir / Overview", theirs)
    assert set(brought(server, WITHOUT_SOURCE, role="Editor")) == {f"keep {uid}" for uid in ["weir", *UIDS]}


def test_a_data_source_gets_its_new_address_and_keeps_the_rest(server: Server) -> None:
    brought(server)
    mine = {
        "isDefault": True,
        "jsonData": {"timeInterval": "5s"},
        "secureJsonData": {"basicAuthPassword": "x"},
    }
    server.sources[DATASOURCE_UID] |= mine
    new = replace(WISH, datasource_url="http://other:9090/")
    assert f"change {DATASOURCE_UID}" in brought(server, new)
    there = server.sources[DATASOURCE_UID]
    assert {key: there[key] for key in (*mine, "url", "name")} == {
        **mine,
        "url": "http://other:9090/",
        "name": "Weir Prometheus",
    }
    assert brought(server, new) == ALL_KEPT


# -- what is somebody else's ---------------------------------------------------------------------------------------


def refused(server: Server, wish: Wish = WISH) -> str:
    """Why; nothing is written for it."""
    before = state(server)
    with pytest.raises(InvalidInput) as raised:
        brought(server, wish)
    assert (state(server), server.writes) == (before, [])
    return str(raised.value)


def test_a_folder_that_is_there_keeps_its_title(server: Server) -> None:
    folder = {"id": 7, "uid": "team", "title": "The team's", "version": 3}
    server.folders["team"] = dict(folder)
    assert brought(server, replace(WISH, folder_uid="team", folder_title="Ours"))[0] == "keep team"
    assert server.folders == {"team": folder}
    assert {one["folderUid"] for one in server.dashboards.values()} == {"team"}


def test_somebody_elses_folder_of_the_same_title_is_left_alone() -> None:
    with grafana(has_unique_titles=True) as server:
        server.folders["theirs"] = {"id": 1, "uid": "theirs", "title": "Weir", "version": 1}
        with pytest.raises(InvalidInput, match="somebody else's folder has this title"):
            brought(server)
        assert (list(server.folders), server.dashboards, server.sources) == (["theirs"], {}, {})
        assert brought(server, replace(WISH, folder_uid="theirs"))[0] == "keep theirs"


def test_a_folder_that_somebody_makes_meanwhile_is_as_good(server: Server) -> None:
    made = {"id": 1, "uid": "weir", "title": "By hand", "version": 1}
    server.before_write = lambda: server.folders.update(weir=made)
    assert brought(server)[0] == "create weir"
    assert server.folders == {"weir": made}
    assert brought(server) == ALL_KEPT


def test_a_dashboard_of_somebody_else_is_not_overwritten(server: Server) -> None:
    theirs = {"uid": "weir-tenant", "title": "Their weir", "tags": ["rivers"], "version": 4, "id": 9}
    server.dashboards["weir-tenant"] = {"dashboard": theirs, "folderUid": "", "provisioned": False}
    assert refused(server).startswith(
        "dashboard weir-tenant: somebody else's dashboard has this uid, 'Their weir'\n  hint: delete it"
    )


def test_a_dashboard_from_a_file_is_not_written_and_may_stay_if_it_is_the_same(server: Server) -> None:
    brought(server)
    for one in server.dashboards.values():
        one["provisioned"] = True
    assert brought(server) == ALL_KEPT
    server.writes.clear()
    server.dashboards["weir-streams"]["dashboard"]["title"] = "Streams"
    assert refused(server).startswith("dashboard weir-streams: is provisioned from a file")


@pytest.mark.parametrize(
    ("theirs", "why"),
    [
        ({"type": "loki"}, "is none of Prometheus"),
        ({"readOnly": True, "url": "http://x"}, "is provisioned from a file"),
    ],
)
def test_a_data_source_that_cannot_be_ours_is_left_alone(
    server: Server, theirs: dict[str, Any], why: str
) -> None:
    brought(server)
    server.writes.clear()
    server.sources[DATASOURCE_UID] |= theirs
    assert why in refused(server)


def test_a_data_source_of_the_same_name_is_left_alone(server: Server) -> None:
    server.sources["theirs"] = {
        "uid": "theirs",
        "name": "Weir Prometheus",
        "type": "prometheus",
        "version": 1,
    }
    with pytest.raises(InvalidInput, match="somebody else's data source has this name"):
        brought(server)
    assert (list(server.sources), server.dashboards) == (["theirs"], {})


def test_steps_are_told_in_the_order_in_which_they_can_be_done(server: Server) -> None:
    with Grafana(server.url, server.token("Admin")) as there:
        steps = push(there, WISH)
    assert [step.kind for step in steps] == ["folder", "datasource", *["dashboard"] * len(UIDS)]
