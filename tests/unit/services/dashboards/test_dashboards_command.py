"""`weir dashboards`: pushing dashboards to a Grafana, and annotating moves of shares in Grafana."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from services.dashboards.grafana import Grafana
from services.dashboards.notes import Note, annotate, notes_of
from services.dashboards.push import DATASOURCE_UID
from tests.support.breaking import Reply, replying
from tests.support.grafana_server import Server, grafana
from tests.support.terminal import Terminal

PROMETHEUS = "http://prometheus:9090"


@pytest.fixture
def server() -> Iterator[Server]:
    with grafana() as found:
        yield found


# -- annotations of moves of shares --------------------------------------------------------------------------------

LENDING = {
    "items": [],
    "moves": [
        {
            "at": "2026-01-01T12:00:00.51Z",
            "branch": "redistribution",
            "words": "redistribution: a lends to b",
        },
        {"at": "2026-01-01T12:00:01Z", "branch": "reclaim by a", "words": "reclaim by a: a 0.4 → 0.6"},
    ],
}


def test_share_moves_are_annotated_once_although_annotate_is_repeated(server: Server) -> None:
    notes = notes_of(LENDING)
    assert notes[0] == Note(
        datetime(2026, 1, 1, 12, 0, 0, 510_000, UTC),
        "redistribution: a lends to b",
        ("weir", "redistribution"),
    )
    with Grafana(server.url, server.token("Editor")) as client:
        assert annotate(client, notes, dry_run=True) == notes
        assert server.writes == []
        assert annotate(client, notes[:1]) == notes[:1]
        assert annotate(client, notes) == notes[1:]
        assert annotate(client, notes) == []
        assert annotate(client, []) == []
    stored = [{key: one[key] for key in ("time", "text", "tags")} for one in server.annotations]
    assert stored == [
        {"time": 1767268800510, "text": "redistribution: a lends to b", "tags": ["weir", "redistribution"]},
        {"time": 1767268801000, "text": "reclaim by a: a 0.4 → 0.6", "tags": ["weir", "reclaim"]},
    ]


# -- the command weir dashboards -----------------------------------------------------------------------------------


@pytest.fixture
def weir(terminal: Terminal) -> Terminal:
    terminal.set_columns(100)
    return replace(terminal, begins=("dashboards",))


def test_dashboards_push_prints_a_list_of_what_it_has_done(weir: Terminal, server: Server) -> None:
    Path("token").write_text(f"{server.token('Admin')}\n", encoding="utf-8")
    options = (
        "push",
        "--grafana",
        server.url,
        "--token-file",
        "token",
        "--datasource-url",
        PROMETHEUS,
        "-o",
        "json",
    )
    code, out, err = weir(*options, "--dry-run")
    assert (code, err, {one["action"] for one in json.loads(out)}) == (0, "", {"would be created"})
    code, out, err = weir(*options)
    assert (code, err) == (0, "")
    assert json.loads(out)[:3] == [
        {"kind": "datasource", "uid": DATASOURCE_UID, "title": "Weir Prometheus", "action": "created"},
        {"kind": "folder", "uid": "weir", "title": "Weir", "action": "created"},
        {"kind": "dashboard", "uid": "weir-overview", "title": "Weir / Overview", "action": "created"},
    ]
    assert {one["action"] for one in json.loads(weir(*options)[1])} == {"unchanged"}
    assert weir(*options[:-2])[1].split()[:4] == ["kind", "uid", "title", "action"]


def test_push_uses_the_common_exit_codes_and_never_shows_the_token(weir: Terminal, server: Server) -> None:
    assert weir("push", "--grafana", server.url)[0] == 4
    weir.monkeypatch.setenv("GRAFANA_TOKEN", "glsa_secret")
    outcomes = [
        weir("push", "--grafana", server.url),
        weir("push", "--grafana", "nowhere"),
        weir("push", "--grafana", server.url, "--token-file", "absent"),
        weir("push", "--grafana", server.url, "--folder", "no uid"),
        weir("push", "--grafana", server.url, "--datasource-url", "http://u:hidden@prometheus"),
        weir("push", "--grafana", server.url, "--ca-file", "absent.pem"),
        weir("annotate", "--grafana", server.url),
    ]
    assert [code for code, _, _ in outcomes] == [4, 2, 2, 2, 2, 2, 3]
    assert "secret" not in str(outcomes)
    assert "hidden" not in str(outcomes)
    weir.monkeypatch.setenv("GRAFANA_TOKEN", "two words")
    code, _, err = weir("push", "--grafana", server.url)
    assert (code, "two words" in err) == (2, False)


def test_annotate_adds_the_share_moves_of_the_service(weir: Terminal, server: Server) -> None:
    weir.monkeypatch.setenv("GRAFANA_TOKEN", server.token("Editor"))
    weir.monkeypatch.setenv("WEIR_API_KEY", "weir_" + "x" * 43)
    with replying([Reply(body=json.dumps(LENDING).encode())] * 2) as heard:
        weir.monkeypatch.setenv("WEIR_ENDPOINT", heard.endpoint)
        code, out, err = weir("annotate", "--grafana", server.url, "-o", "json")
        assert (code, err) == (0, "")
        assert [one["text"] for one in json.loads(out)] == [one["words"] for one in LENDING["moves"]]
        assert json.loads(weir("annotate", "--grafana", server.url, "-o", "json")[1]) == []
