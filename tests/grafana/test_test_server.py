"""The test server of the fast tests answers as a real Grafana does: the same calls are sent to both, one after another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import requests

from tests.grafana.server import Organisation
from tests.support.grafana_server import Role, Server, grafana

pytestmark = pytest.mark.grafana

TIMEOUT_S = 30.0
SOURCE = {"uid": "s", "name": "S", "type": "prometheus", "access": "proxy", "url": "http://127.0.0.1:1"}
PANEL = {"id": 1, "type": "stat", "title": "P", "gridPos": {"h": 1, "w": 1, "x": 0, "y": 0}, "links": []}
DASHBOARD = {"uid": "d", "title": "D", "tags": ["weir"], "panels": [PANEL], "schemaVersion": 42}
NOTE = {"time": 1767268800510, "text": "a lends to b", "tags": ["weir", "redistribution"]}


class Call(NamedTuple):
    """Request that both servers must answer in the same way."""

    method: str
    path: str
    body: Any = None
    role: Role | None = "Admin"
    """Role of the service account that calls; None for a call without a token."""


FOLDERS = [
    Call("GET", "/api/health", role=None),
    Call("GET", "/api/folders/f", role=None),
    Call("GET", "/api/folders/f"),
    Call("GET", "/api/folders/f", role="Editor"),
    Call("GET", "/api/folders/f", role="Viewer"),
    Call("POST", "/api/folders", {"uid": "f", "title": "F"}, "Viewer"),
    Call("POST", "/api/folders", {"uid": "f", "title": "F"}, "Editor"),
    Call("GET", "/api/folders/f", role="Viewer"),
    Call("GET", "/api/folders?limit=1000", role="Viewer"),
    Call("POST", "/api/folders", {"uid": "f", "title": "Another"}),
    Call("POST", "/api/folders", {"uid": "g", "title": "F"}, "Editor"),
    Call("POST", "/api/folders", {"uid": "g", "title": ""}),
    Call("POST", "/api/folders", {"uid": "g" * 41, "title": "G"}),
    Call("POST", "/api/folders", {"uid": "g/g", "title": "G"}),
]
SOURCES = [
    Call("GET", "/api/datasources/uid/s"),
    Call("GET", "/api/datasources/uid/s", role="Viewer"),
    Call("POST", "/api/datasources", SOURCE, "Editor"),
    Call("POST", "/api/datasources", {"type": "prometheus", "access": "proxy"}),
    Call("POST", "/api/datasources", SOURCE | {"jsonData": {"httpMethod": "POST"}}),
    Call("GET", "/api/datasources/uid/s", role="Viewer"),
    Call("POST", "/api/datasources", SOURCE | {"uid": "t"}),
    Call("POST", "/api/datasources", SOURCE | {"name": "T"}),
    Call("PUT", "/api/datasources/uid/none", SOURCE),
    Call("PUT", "/api/datasources/uid/s", SOURCE, "Editor"),
    Call("PUT", "/api/datasources/uid/s", SOURCE | {"url": "http://127.0.0.1:2", "version": 1}),
    Call("PUT", "/api/datasources/uid/s", SOURCE | {"version": 1}),
    Call("PUT", "/api/datasources/uid/s", SOURCE | {"version": 7}),
    Call("GET", "/api/datasources/uid/s"),
]
DASHBOARDS = [
    Call("GET", "/api/dashboards/uid/d"),
    Call("GET", "/api/dashboards/uid/d", role="Editor"),
    Call("POST", "/api/dashboards/db", {"dashboard": DASHBOARD, "folderUid": "f"}, "Viewer"),
    Call("POST", "/api/dashboards/db", {"dashboard": DASHBOARD, "folderUid": "none"}),
    Call("POST", "/api/dashboards/db", {"dashboard": {"uid": "d"}, "folderUid": "f"}),
    Call("POST", "/api/dashboards/db", {"dashboard": DASHBOARD | {"uid": "d" * 41}}),
    Call("POST", "/api/dashboards/db", {"dashboard": DASHBOARD | {"uid": "d/d"}}),
    Call("POST", "/api/dashboards/db", {"dashboard": DASHBOARD | {"uid": "f"}}),
    Call("POST", "/api/dashboards/db", {"dashboard": DASHBOARD | {"id": 99_999, "uid": "e"}}),
    Call("POST", "/api/dashboards/db", {"dashboard": DASHBOARD, "folderUid": "f", "message": "m"}, "Editor"),
    Call("GET", "/api/dashboards/uid/d", role="Viewer"),
    Call("POST", "/api/dashboards/db", {"dashboard": DASHBOARD | {"version": 7}, "folderUid": "f"}),
    Call("POST", "/api/dashboards/db", {"dashboard": DASHBOARD, "folderUid": "f", "overwrite": True}),
    Call("POST", "/api/dashboards/db", {"dashboard": DASHBOARD | {"title": "E"}, "overwrite": True}),
    Call("GET", "/api/dashboards/uid/d"),
]
ANNOTATIONS = [
    Call("POST", "/api/annotations", NOTE, "Viewer"),
    Call("POST", "/api/annotations", NOTE | {"text": ""}),
    Call("POST", "/api/annotations", NOTE, "Editor"),
    Call("GET", "/api/annotations?tags=weir&from=1767268800000&to=1767268801000&limit=5000", role="Viewer"),
    Call("GET", "/api/annotations?tags=other&from=1767268800000&to=1767268801000&limit=5000"),
    Call("GET", "/api/nothing"),
]
CALLS = [*FOLDERS, *SOURCES, *DASHBOARDS, *ANNOTATIONS]

# Fields with values that may differ between the two servers. Only the types of these values must be equal.
OF_SERVER = {"id", "version", "commit", "pluginVersion"}


def sent(call: Call, server: Server | Organisation) -> tuple[int, Any]:
    """Send a request with a new token, because Grafana remembers the rights of a token for a minute."""
    url = server.url if isinstance(server, Server) else server.server.url
    headers = {} if call.role is None else {"Authorization": f"Bearer {server.token(call.role)}"}
    answer = requests.request(
        call.method, url + call.path, json=call.body, headers=headers, timeout=TIMEOUT_S
    )
    return answer.status_code, answer.json()


def differences(ours: Any, real: Any, at: str = "") -> Iterator[str]:
    """Yield each difference between an answer of the test server and of the real Grafana. The real answer may have more fields."""
    if isinstance(ours, dict) and isinstance(real, dict):
        for name, value in ours.items():
            if name not in real:
                yield f"{at}.{name}: {value!r}, which the real one lacks"
            elif name in OF_SERVER:
                if type(value) is not type(real[name]):
                    yield f"{at}.{name}: {value!r}, not {real[name]!r}"
            else:
                yield from differences(value, real[name], f"{at}.{name}")
    elif isinstance(ours, list) and isinstance(real, list) and len(ours) == len(real):
        for number, (mine, other) in enumerate(zip(ours, real, strict=True)):
            yield from differences(mine, other, f"{at}[{number}]")
    elif ours != real:
        yield f"{at}: {ours!r}, not {real!r}"


def test_the_test_server_gives_the_answers_of_a_real_grafana(
    organisation: Organisation, capsys: pytest.CaptureFixture[str]
) -> None:
    found = []
    with grafana() as server:
        for number, call in enumerate(CALLS):
            (status, answer), (right, expected) = sent(call, server), sent(call, organisation)
            name = f"{number} {call.method} {call.path} {call.role}"
            if status != right:
                found.append(f"{name}: {status} {answer}, not {right} {expected}")
            found += [f"{name}: {problem}" for problem in differences(answer, expected)]
    with capsys.disabled():
        print(f"\n{len(CALLS)} calls were sent to both servers")
    assert found == []


def test_real_grafana_and_the_test_server_refuse_an_unknown_token_alike(organisation: Organisation) -> None:
    headers = {"Authorization": "Bearer glsa_unknown"}
    with grafana() as server:
        answers = [
            requests.get(f"{url}/api/folders/f", headers=headers, timeout=TIMEOUT_S)
            for url in (server.url, organisation.server.url)
        ]
    assert [(answer.status_code, answer.json()["message"]) for answer in answers] == [
        (401, "invalid API key")
    ] * 2
