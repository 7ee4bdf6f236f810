"""Pushing dashboards to a Grafana: only changes are written, and objects of other people are left alone."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from configs.errors import InvalidInput, NotAllowed
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


def pushed(server: Server, wish: Wish = WISH, dry_run: bool = False, role: Any = "Admin") -> list[str]:
    """Push as a user with this role, and return the action and the uid of each step."""
    with Grafana(server.url, server.token(role), pause_s=0.001) as client:
        return [f"{step.action} {step.uid}" for step in push(client, wish, dry_run)]


def state(server: Server) -> object:
    return copy.deepcopy((server.folders, server.sources, server.dashboards, server.annotations))


ALL_NEW = [f"create {DATASOURCE_UID}", "create weir", *(f"create {uid}" for uid in UIDS)]
ALL_KEPT = [f"keep {DATASOURCE_UID}", "keep weir", *(f"keep {uid}" for uid in UIDS)]


# -- what a push writes to Grafana --------------------------------------------------------------------------------


@pytest.mark.parametrize("is_later", [False, True])
def test_the_first_push_creates_everything_and_the_second_writes_nothing(is_later: bool) -> None:
    with grafana(is_later=is_later) as server:
        assert pushed(server) == ALL_NEW
        before, writes = state(server), list(server.writes)
        assert pushed(server) == ALL_KEPT
        assert (state(server), server.writes) == (before, writes)
    assert {uid: one["folderUid"] for uid, one in server.dashboards.items()} == dict.fromkeys(UIDS, "weir")
    assert server.sources[DATASOURCE_UID]["url"] == PROMETHEUS
    chosen = [
        one["dashboard"]["templating"]["list"][0]["current"]["value"] for one in server.dashboards.values()
    ]
    assert chosen == [DATASOURCE_UID] * len(UIDS)


def test_a_dry_run_of_a_push_lists_the_same_steps_as_the_push_and_writes_nothing(server: Server) -> None:
    assert pushed(server, dry_run=True) == ALL_NEW
    assert server.writes == []


def test_only_a_changed_dashboard_is_written(server: Server) -> None:
    pushed(server)
    server.writes.clear()
    changed = [copy.deepcopy(dict(one)) for one in WISH.dashboards]
    changed[2]["panels"][1]["title"] = "Another title"
    wish = replace(WISH, dashboards=changed)
    assert pushed(server, wish) == [
        line if "control" not in line else "change weir-control" for line in ALL_KEPT
    ]
    assert server.writes == ["POST /api/dashboards/db"]
    assert server.dashboards["weir-control"]["dashboard"]["version"] == 2
    assert pushed(server, wish) == ALL_KEPT


def test_a_push_undoes_manual_changes_of_dashboards(server: Server) -> None:
    pushed(server)
    del server.dashboards["weir-tenant"]["dashboard"]["panels"][3]
    server.dashboards["weir-runtime"]["folderUid"] = ""
    assert [line for line in pushed(server) if not line.startswith("keep")] == [
        "change weir-tenant",
        "change weir-runtime",
    ]
    assert pushed(server) == ALL_KEPT


def test_a_data_source_chosen_by_a_user_stays_chosen(server: Server) -> None:
    assert pushed(server, WITHOUT_SOURCE, role="Editor")[:2] == ["create weir", "create weir-overview"]
    assert server.sources == {}
    theirs = {"text": "Mimir", "value": "mimir"}
    one = server.dashboards["weir-overview"]["dashboard"]
    one["templating"]["list"][0]["current"] = theirs
    one["title"] = "Another title"
    assert "change weir-overview" in pushed(server, WITHOUT_SOURCE, role="Editor")
    stored = server.dashboards["weir-overview"]["dashboard"]
    assert (stored["title"], stored["templating"]["list"][0]["current"]) == ("Weir / Overview", theirs)
    assert set(pushed(server, WITHOUT_SOURCE, role="Editor")) == {f"keep {uid}" for uid in ["weir", *UIDS]}


def test_push_with_a_new_address_changes_only_the_address_of_the_data_source(server: Server) -> None:
    pushed(server)
    mine = {
        "isDefault": True,
        "jsonData": {"timeInterval": "5s"},
        "secureJsonData": {"basicAuthPassword": "x"},
    }
    server.sources[DATASOURCE_UID] |= mine
    new = replace(WISH, datasource_url="http://other:9090/")
    assert f"change {DATASOURCE_UID}" in pushed(server, new)
    stored = server.sources[DATASOURCE_UID]
    assert {key: stored[key] for key in (*mine, "url", "name")} == {
        **mine,
        "url": "http://other:9090/",
        "name": "Weir Prometheus",
    }
    assert pushed(server, new) == ALL_KEPT


# -- objects of other people --------------------------------------------------------------------------------------


def refused(server: Server, wish: Wish = WISH) -> str:
    """Return why a push is refused, after checking that it has written nothing."""
    before = state(server)
    with pytest.raises(InvalidInput) as raised:
        pushed(server, wish)
    assert (state(server), server.writes) == (before, [])
    return str(raised.value)


def test_an_existing_folder_keeps_its_title(server: Server) -> None:
    folder = {"id": 7, "uid": "team", "title": "The team's", "version": 3}
    server.folders["team"] = dict(folder)
    assert pushed(server, replace(WISH, folder_uid="team", folder_title="Ours"))[1] == "keep team"
    assert server.folders == {"team": folder}
    assert {one["folderUid"] for one in server.dashboards.values()} == {"team"}


def test_another_folder_with_the_same_title_is_left_alone() -> None:
    with grafana() as server:
        server.folders["theirs"] = {"id": 1, "uid": "theirs", "title": "Weir", "version": 1}
        with pytest.raises(InvalidInput, match="another folder already has this title"):
            pushed(server)
        assert (list(server.folders), server.dashboards) == (["theirs"], {})
        assert pushed(server, replace(WISH, folder_uid="theirs"))[1] == "keep theirs"


@pytest.mark.parametrize("is_later", [False, True])
def test_a_folder_that_a_user_creates_during_a_push_is_used(is_later: bool) -> None:
    made = {"id": 1, "uid": "weir", "title": "By hand", "version": 1}
    with grafana(is_later=is_later) as server:
        server.before_write = lambda: server.folders.update(weir=made)
        assert pushed(server, WITHOUT_SOURCE, role="Editor")[0] == "create weir"
        assert server.folders == {"weir": made}
        assert set(pushed(server, WITHOUT_SOURCE, role="Editor")) == {
            f"keep {uid}" for uid in ["weir", *UIDS]
        }


def test_another_dashboard_with_the_same_uid_is_not_overwritten(server: Server) -> None:
    theirs = {"uid": "weir-tenant", "title": "Their weir", "tags": ["rivers"], "version": 4, "id": 9}
    server.dashboards["weir-tenant"] = {"dashboard": theirs, "folderUid": "", "provisioned": False}
    assert refused(server).startswith(
        "dashboard weir-tenant: another dashboard has this uid: 'Their weir'\n  hint: delete the other dashboard"
    )


def test_a_provisioned_dashboard_is_kept_if_equal_and_otherwise_refused(server: Server) -> None:
    pushed(server)
    for one in server.dashboards.values():
        one["provisioned"] = True
    assert pushed(server) == ALL_KEPT
    server.writes.clear()
    server.dashboards["weir-streams"]["dashboard"]["title"] = "Streams"
    assert refused(server).startswith("dashboard weir-streams: the dashboard is provisioned from a file")


@pytest.mark.parametrize(
    ("theirs", "why"),
    [
        ({"type": "loki"}, "has another type than Prometheus"),
        ({"readOnly": True, "url": "http://x"}, "is provisioned from a file"),
    ],
)
def test_a_data_source_of_another_type_or_from_a_file_is_left_alone(
    server: Server, theirs: dict[str, Any], why: str
) -> None:
    pushed(server)
    server.writes.clear()
    server.sources[DATASOURCE_UID] |= theirs
    assert why in refused(server)


def test_another_data_source_with_the_same_name_is_left_alone(server: Server) -> None:
    server.sources["theirs"] = {
        "uid": "theirs",
        "name": "Weir Prometheus",
        "type": "prometheus",
        "version": 1,
    }
    with pytest.raises(InvalidInput, match="another data source already has this name"):
        pushed(server)
    assert (list(server.sources), server.dashboards) == (["theirs"], {})


def test_a_folder_that_the_token_may_not_see_is_refused(server: Server) -> None:
    server.folders["weir"] = {"id": 1, "uid": "weir", "title": "Secret", "version": 1}
    server.hidden.add("weir")
    with pytest.raises(NotAllowed, match="the token may not see the folder weir"):
        pushed(server, WITHOUT_SOURCE, role="Editor")
    assert server.dashboards == {}


def test_an_editor_cannot_push_a_data_source_and_writes_nothing(server: Server) -> None:
    before = state(server)
    with pytest.raises(NotAllowed, match="the token may not make a data source"):
        pushed(server, role="Editor")
    assert state(server) == before


def test_a_push_writes_the_data_source_then_the_folder_then_the_dashboards(server: Server) -> None:
    with Grafana(server.url, server.token("Admin")) as client:
        steps = push(client, WISH)
    assert [step.kind for step in steps] == ["datasource", "folder", *["dashboard"] * len(UIDS)]
