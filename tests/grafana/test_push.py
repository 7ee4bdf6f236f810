"""`weir dashboards push` and `annotate` against a real Grafana: what they store, what a second call changes, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from services.dashboards.push import DATASOURCE_UID
from tests.grafana.server import Organisation
from tests.support.breaking import Reply, replying
from tests.support.dashboard_documents import DOCUMENTS
from tests.support.terminal import Outcome, Terminal

pytestmark = pytest.mark.grafana

PROMETHEUS = "http://127.0.0.1:1/prometheus"
UIDS = [document["uid"] for document in DOCUMENTS]
ALL_NEW = {"weir": "created", **dict.fromkeys(UIDS, "created")}
ALL_KEPT = dict.fromkeys(ALL_NEW, "unchanged")


def push(weir: Terminal, organisation: Organisation, token: str, *options: str) -> dict[str, str]:
    """Push the dashboards. Return the action for each object in Grafana, by the uid of the object."""
    outcome = pushed(weir, organisation, token, *options, "-o", "json")
    assert (outcome.code, outcome.err) == (0, "")
    return {step["uid"]: step["action"] for step in outcome.json}


def pushed(weir: Terminal, organisation: Organisation, token: str, *options: str) -> Outcome:
    weir.monkeypatch.setenv("GRAFANA_TOKEN", token)
    return weir("dashboards", "push", "--grafana", organisation.server.url, *options)


def stored(organisation: Organisation, uid: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a dashboard and Grafana's metadata of the dashboard."""
    told = organisation.told("GET", f"/api/dashboards/uid/{uid}")
    return told["dashboard"], told["meta"]


def versions(organisation: Organisation) -> dict[str, int]:
    return {uid: stored(organisation, uid)[0]["version"] for uid in UIDS}


def chosen(document: dict[str, Any]) -> dict[str, Any]:
    """Return the data source that is selected in the first variable of a dashboard."""
    choice: dict[str, Any] = document["templating"]["list"][0].get("current", {})
    return choice


# -- what a push stores --------------------------------------------------------------------------------------------


def test_first_push_creates_all_dashboards_and_the_second_push_changes_nothing(
    weir: Terminal, organisation: Organisation
) -> None:
    token, options = organisation.token("Admin"), ("--datasource-url", PROMETHEUS)
    would = push(weir, organisation, token, *options, "--dry-run")
    assert set(would.values()) == {"would be created"}
    assert organisation.told("GET", "/api/search?type=dash-db") == []
    assert push(weir, organisation, token, *options) == ALL_NEW | {DATASOURCE_UID: "created"}
    folder = organisation.told("GET", "/api/folders/weir")
    assert folder["title"] == "Weir"
    for document in DOCUMENTS:
        found, meta = stored(organisation, document["uid"])
        assert (meta["folderUid"], meta["provisioned"], found["title"]) == ("weir", False, document["title"])
        assert chosen(found)["value"] == DATASOURCE_UID
        assert len(found["panels"]) == len(document["panels"])
    source = organisation.told("GET", f"/api/datasources/uid/{DATASOURCE_UID}")
    assert (source["type"], source["url"], source["jsonData"]) == (
        "prometheus",
        PROMETHEUS,
        {"httpMethod": "POST"},
    )
    assert push(weir, organisation, token, *options) == ALL_KEPT | {DATASOURCE_UID: "unchanged"}
    assert versions(organisation) == dict.fromkeys(UIDS, 1)


def test_an_editor_can_push_the_dashboards(weir: Terminal, organisation: Organisation) -> None:
    token = organisation.token("Editor")
    assert push(weir, organisation, token) == ALL_NEW
    assert push(weir, organisation, token) == ALL_KEPT
    assert [chosen(stored(organisation, uid)[0]) for uid in UIDS] == [{}] * len(UIDS)


def test_push_undoes_changes_of_users_except_their_choice_of_a_data_source(
    weir: Terminal, organisation: Organisation
) -> None:
    token = organisation.token("Editor")
    push(weir, organisation, token)
    document, _ = stored(organisation, "weir-control")
    theirs = {"selected": True, "text": "Mimir", "value": "mimir"}
    document["templating"]["list"][0]["current"] = theirs
    save(organisation, document, "weir")
    assert push(weir, organisation, token) == ALL_KEPT
    del document["panels"][2]
    save(organisation, document, "weir")
    assert push(weir, organisation, token) == ALL_KEPT | {"weir-control": "changed"}
    document, _ = stored(organisation, "weir-control")
    assert (document["version"], chosen(document)) == (4, theirs)
    organisation.told("POST", "/api/folders", {"uid": "elsewhere", "title": "Elsewhere"})
    save(organisation, document, "elsewhere")
    assert push(weir, organisation, token) == ALL_KEPT | {"weir-control": "changed"}
    assert stored(organisation, "weir-control")[1]["folderUid"] == "weir"


def save(organisation: Organisation, document: dict[str, Any], folder: str) -> None:
    """Save a dashboard as a user does in the browser."""
    organisation.told(
        "POST", "/api/dashboards/db", {"dashboard": document, "folderUid": folder, "overwrite": True}
    )


def test_push_with_a_new_address_changes_only_the_address_of_the_data_source(
    weir: Terminal, organisation: Organisation
) -> None:
    token = organisation.token("Admin")
    push(weir, organisation, token, "--datasource-url", PROMETHEUS)
    found = organisation.told("GET", f"/api/datasources/uid/{DATASOURCE_UID}")
    secret = {"basicAuth": True, "basicAuthUser": "u", "secureJsonData": {"basicAuthPassword": "p"}}
    interval = {"jsonData": {"httpMethod": "POST", "timeInterval": "5s"}}
    organisation.told("PUT", f"/api/datasources/uid/{DATASOURCE_UID}", found | secret | interval)
    other = "http://127.0.0.1:2"
    assert push(weir, organisation, token, "--datasource-url", other)[DATASOURCE_UID] == "changed"
    changed = organisation.told("GET", f"/api/datasources/uid/{DATASOURCE_UID}")
    assert (changed["url"], changed["jsonData"], changed["basicAuthUser"]) == (
        other,
        interval["jsonData"],
        "u",
    )
    assert changed["secureJsonFields"] == {"basicAuthPassword": True}


def test_push_keeps_the_title_of_an_existing_folder(weir: Terminal, organisation: Organisation) -> None:
    organisation.told("POST", "/api/folders", {"uid": "team", "title": "The team's"})
    options = ("--folder", "team", "--folder-title", "Ours")
    assert push(weir, organisation, organisation.token("Editor"), *options)["team"] == "unchanged"
    assert organisation.told("GET", "/api/folders/team")["title"] == "The team's"
    assert {stored(organisation, uid)[1]["folderUid"] for uid in UIDS} == {"team"}


# -- what is refused -----------------------------------------------------------------------------------------------


def test_wrong_tokens_and_roles_are_refused_with_a_reason(weir: Terminal, organisation: Organisation) -> None:
    source = ("--datasource-url", PROMETHEUS)
    asked = {
        "does not accept the token": ("glsa_" + "x" * 32 + "_00000000", ()),
        "the token may not make the folder": (organisation.token("Viewer"), ()),
        "the token may not make a data source": (organisation.token("Editor"), source),
    }
    for reason, (token, options) in asked.items():
        outcome = pushed(weir, organisation, token, *options)
        assert (outcome.code, outcome.out) == (4, ""), outcome
        assert reason in outcome.err
        assert "hint: " in outcome.err
        assert token not in outcome.err
    assert organisation.told("GET", "/api/search") == []


def test_push_leaves_dashboards_and_data_sources_of_other_people_unchanged(
    weir: Terminal, organisation: Organisation
) -> None:
    token = organisation.token("Admin")
    organisation.told("POST", "/api/folders", {"uid": "theirs", "title": "Theirs"})
    save(organisation, {"uid": "weir-tenant", "title": "Their weir", "tags": ["rivers"]}, "theirs")
    refused = pushed(weir, organisation, token)
    assert (refused.code, "another dashboard has this uid: 'Their weir'" in refused.err) == (2, True)
    assert [found["uid"] for found in organisation.told("GET", "/api/search?type=dash-db")] == ["weir-tenant"]
    loki = {"uid": DATASOURCE_UID, "name": "Logs", "type": "loki", "access": "proxy", "url": PROMETHEUS}
    organisation.told("POST", "/api/datasources", loki)
    refused = pushed(weir, organisation, token, "--datasource-url", PROMETHEUS)
    assert (refused.code, "has another type than Prometheus" in refused.err) == (2, True)


def test_push_is_refused_if_the_name_of_its_data_source_is_taken(
    weir: Terminal, organisation: Organisation
) -> None:
    taken = {"uid": "theirs", "name": "Weir Prometheus", "type": "prometheus", "access": "proxy"}
    organisation.told("POST", "/api/datasources", taken | {"url": PROMETHEUS})
    refused = pushed(weir, organisation, organisation.token("Admin"), "--datasource-url", PROMETHEUS)
    assert (refused.code, "another data source already has this name" in refused.err) == (2, True)


def test_push_is_refused_if_the_title_of_its_folder_is_taken(
    weir: Terminal, organisation: Organisation
) -> None:
    organisation.told("POST", "/api/folders", {"uid": "theirs", "title": "Weir"})
    refused = pushed(weir, organisation, organisation.token("Editor"))
    assert (refused.code, "another folder already has this title" in refused.err) == (2, True)


def test_push_is_refused_if_the_token_may_not_see_the_folder(
    weir: Terminal, organisation: Organisation
) -> None:
    organisation.told("POST", "/api/folders", {"uid": "weir", "title": "Secret"})
    organisation.told("POST", "/api/folders/weir/permissions", {"items": []})
    refused = pushed(weir, organisation, organisation.token("Editor"))
    assert (refused.code, "the token may not see the folder weir" in refused.err) == (4, True)


# -- annotations ---------------------------------------------------------------------------------------------------

LENDING = {
    "items": [],
    "moves": [
        {"at": "2026-01-01T12:00:00.51Z", "branch": "redistribution", "words": "a lends to b"},
        {"at": "2026-01-01T12:00:01Z", "branch": "reclaim by a", "words": "reclaim by a: a 0.4 → 0.6"},
    ],
}


def test_share_moves_are_annotated_once_although_annotate_is_repeated(
    weir: Terminal, organisation: Organisation
) -> None:
    weir.monkeypatch.setenv("GRAFANA_TOKEN", organisation.token("Editor"))
    with replying([Reply(body=json.dumps(LENDING).encode())] * 2) as heard:
        weir.at(heard.endpoint, "weir_" + "x" * 43)
        call = ("dashboards", "annotate", "--grafana", organisation.server.url)
        assert [note["text"] for note in weir.json(*call)] == [move["words"] for move in LENDING["moves"]]
        assert weir.json(*call) == []
    # A dashboard asks for its annotations by this tag.
    found = organisation.told("GET", "/api/annotations?tags=weir&from=1767268800000&to=1767268802000")
    assert [(note["time"], note["text"], note["tags"]) for note in found] == [
        (1767268801000, "reclaim by a: a 0.4 → 0.6", ["weir", "reclaim"]),
        (1767268800510, "a lends to b", ["weir", "redistribution"]),
    ]


def test_a_viewer_of_grafana_cannot_annotate_dashboards(weir: Terminal, organisation: Organisation) -> None:
    weir.monkeypatch.setenv("GRAFANA_TOKEN", organisation.token("Viewer"))
    with replying([Reply(body=json.dumps(LENDING).encode())]) as heard:
        weir.at(heard.endpoint, "weir_" + "x" * 43)
        refused = weir("dashboards", "annotate", "--grafana", organisation.server.url)
    assert (refused.code, "the token may not annotate" in refused.err) == (4, True)
