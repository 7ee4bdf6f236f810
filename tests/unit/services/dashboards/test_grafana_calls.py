"""A Grafana that refuses, is not there or is none is told of in words; and the one of these tests keeps the real one's rules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from configs.errors import Away, InvalidInput, NotAllowed
from services.dashboards.all import documents
from services.dashboards.grafana import Grafana
from services.dashboards.push import Wish, push
from tests.support.breaking import Reply, replying
from tests.support.grafana_server import Role, Server, grafana
from tests.support.served import certificate_in

WISH = Wish(documents()[:1], datasource_url="http://prometheus:9090")


@pytest.fixture
def server() -> Iterator[Server]:
    with grafana() as found:
        yield found


def steps(server: Server, wish: Wish = WISH, role: Role = "Admin") -> int:
    """How many there were."""
    with Grafana(server.url, server.token(role), pause_s=0.001) as there:
        return len(push(there, wish))


# -- the Grafana of these tests ------------------------------------------------------------------------------------

DASHBOARD = {"uid": "d", "title": "D", "version": 0}
SOURCE = {"uid": "s", "name": "S", "type": "prometheus", "access": "proxy"}


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/api/health", None, 200),
        ("GET", "/api/dashboards/uid/d", None, 200),
        ("GET", "/api/dashboards/uid/none", None, 404),
        ("GET", "/api/dashboards/id/1", None, 404),
        ("GET", "/api/folders/id/1", None, 404),
        ("POST", "/api/folders", {"uid": "f", "title": "F"}, 412),
        ("POST", "/api/folders", {"uid": "g", "title": ""}, 400),
        ("POST", "/api/folders", {"uid": "g" * 41, "title": "G"}, 400),
        ("POST", "/api/dashboards/db", {"dashboard": DASHBOARD}, 412),
        ("POST", "/api/dashboards/db", {"dashboard": DASHBOARD, "overwrite": True}, 200),
        ("POST", "/api/dashboards/db", {"dashboard": DASHBOARD | {"version": 1}}, 200),
        ("POST", "/api/dashboards/db", {"dashboard": DASHBOARD, "folderId": 1}, 400),
        ("POST", "/api/dashboards/db", {"dashboard": {"uid": "e", "title": "E"}, "folderUid": "none"}, 400),
        ("POST", "/api/dashboards/db", {"dashboard": {"uid": "f", "title": "E"}}, 400),
        ("POST", "/api/dashboards/db", {"dashboard": {"uid": "e"}}, 400),
        ("GET", "/api/datasources/1", None, 404),
        ("PUT", "/api/datasources/1", SOURCE, 404),
        ("POST", "/api/datasources", SOURCE, 409),
        ("PUT", "/api/datasources/uid/s", SOURCE | {"version": 7}, 409),
        ("PUT", "/api/datasources/uid/none", SOURCE, 404),
        ("PUT", "/api/datasources/uid/s", SOURCE | {"id": 1}, 400),
        ("POST", "/api/annotations", {"time": 1, "tags": [], "text": ""}, 400),
        ("POST", "/api/annotations", {"time": 1, "tags": [], "text": "t", "dashboardId": 1}, 400),
    ],
)
def test_the_grafana_of_these_tests_keeps_its_rules(
    server: Server, method: str, path: str, body: Any, status: int
) -> None:
    server.folders["f"] = {"id": 1, "uid": "f", "title": "F", "version": 1}
    server.sources["s"] = SOURCE | {"id": 1, "version": 1}
    stored = DASHBOARD | {"version": 1, "id": 1}
    server.dashboards["d"] = {"dashboard": stored, "folderUid": "f", "provisioned": False}
    shown = {"Authorization": f"Bearer {server.token('Admin')}"}
    assert (
        requests.request(method, server.url + path, json=body, headers=shown, timeout=10).status_code
        == status
    )
    if path != "/api/health":
        assert requests.request(method, server.url + path, json=body, timeout=10).status_code == 401


# -- what goes wrong -----------------------------------------------------------------------------------------------


def test_what_passes_is_tried_again(server: Server) -> None:
    server.first = [(503, b"", {}), (502, b"<html>", {})]
    assert steps(server) == 3
    server.first = [(503, b'{"message": "starting"}', {})] * 3
    with pytest.raises(Away, match="could not tell its health: 503 starting"):
        steps(server)
    assert server.first == []


def test_a_token_that_is_unknown_or_may_not_is_told_apart(server: Server) -> None:
    with (
        Grafana(server.url, "glsa_unknown") as there,
        pytest.raises(NotAllowed, match="does not know the token"),
    ):
        push(there, WISH)
    with pytest.raises(NotAllowed, match="the token may not make the folder"):
        steps(server, Wish(WISH.dashboards), role="Viewer")
    with pytest.raises(NotAllowed, match="the token may not see the data source"):
        steps(server, role="Editor")


@pytest.mark.parametrize("reply", [Reply(body=b"<html>"), Reply(body=b"[]"), Reply(body=b"null"), Reply(404, b"null"), Reply(404, b"<html>"), Reply(body=b'{"status": "ok"}'), Reply(302, headers={"Location": "/login"})])  # fmt: skip
def test_what_is_no_grafana_is_called_so(reply: Reply) -> None:
    with (
        replying([reply]) as heard,
        Grafana(heard.endpoint, "glsa_x") as there,
        pytest.raises(InvalidInput) as raised,
    ):
        push(there, WISH)
    hint = "\n  hint: give the address that a browser shows: https://HOST, or https://HOST/grafana"
    what = "sends elsewhere" if reply.status == 302 else "no Grafana answers there"
    assert str(raised.value) == f"--grafana: {what} (got '{heard.endpoint}'){hint}"


def test_a_grafana_below_a_path_is_found_there() -> None:
    health = Reply(body=b'{"database": "ok", "version": "11.2.0"}')
    with replying([health]) as heard, Grafana(f"{heard.endpoint}/deep/grafana/", "glsa_x") as there:
        assert there.version() == "11.2.0"
    assert heard.paths == ["GET /deep/grafana/api/health"]


def test_nobody_there_is_told(server: Server) -> None:
    with replying([]) as heard:
        pass
    with (
        Grafana(heard.endpoint, "glsa_x", pause_s=0.001) as there,
        pytest.raises(Away, match="does not answer"),
    ):
        push(there, WISH)


def test_a_certificate_that_is_not_trusted_is_told_and_can_be_given(tmp_path: Path) -> None:
    pair = certificate_in(tmp_path)
    with grafana(pair) as server:
        token = server.token("Admin")
        with (
            Grafana(server.url, token) as there,
            pytest.raises(Away, match=r"cannot be trusted: self.signed"),
        ):
            push(there, WISH)
        with Grafana(server.url, token, ca_file=str(pair[0])) as there:
            assert len(push(there, WISH)) == 3
        with Grafana(server.url.replace("https", "http"), token, pause_s=0.001) as there, pytest.raises(Away):
            push(there, WISH)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("grafana:3000", "not an address"),
        ("ftp://grafana", "not an address"),
        ("http://grafana:0", "not an address"),
        ("http://[::1", "not an address"),
        ("https://admin:secret@grafana", "a password does not belong into an address"),
        ("https://grafana/?orgId=1", "more than an address"),
    ],
)
def test_an_address_that_is_none_is_refused_and_not_shown(url: str, why: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        Grafana(url, "glsa_x")
    assert str(raised.value).startswith(f"--grafana: {why}\n")
    assert "secret" not in str(raised.value)
