"""Calls of Grafana's API: errors are reported in plain words, and the test server keeps the rules of a real Grafana."""

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
    """Return the number of steps that a push takes."""
    with Grafana(server.url, server.token(role), pause_s=0.001) as client:
        return len(push(client, wish))


# -- rules of a real Grafana that the test server keeps -----------------------------------------------------------

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
        ("PUT", "/api/datasources/uid/s", SOURCE | {"version": 0}, 409),
        ("PUT", "/api/datasources/uid/s", SOURCE | {"version": 7}, 200),
        ("PUT", "/api/datasources/uid/none", SOURCE, 404),
        ("PUT", "/api/datasources/uid/s", SOURCE | {"id": 1}, 400),
        ("POST", "/api/annotations", {"time": 1, "tags": [], "text": ""}, 400),
        ("POST", "/api/annotations", {"time": 1, "tags": [], "text": "t", "dashboardId": 1}, 400),
    ],
)
def test_the_test_server_keeps_the_rules_of_a_real_grafana(
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


# -- errors in plain words ----------------------------------------------------------------------------------------


def test_calls_to_grafana_are_repeated_after_temporary_errors(server: Server) -> None:
    server.first = [(503, b"", {}), (502, b"<html>", {})]
    assert steps(server) == 3
    server.first = [(503, b'{"message": "starting"}', {})] * 3
    with pytest.raises(Away, match="could not report its health: 503 starting"):
        steps(server)
    assert server.first == []


def test_an_unknown_token_and_a_missing_permission_are_different_errors(server: Server) -> None:
    with (
        Grafana(server.url, "glsa_unknown") as client,
        pytest.raises(NotAllowed, match="does not accept the token"),
    ):
        push(client, WISH)
    with pytest.raises(NotAllowed, match="the token may not make the folder"):
        steps(server, Wish(WISH.dashboards), role="Viewer")
    with pytest.raises(NotAllowed, match="the token may not make a data source"):
        steps(server, role="Editor")


@pytest.mark.parametrize("reply", [Reply(body=b"<html>"), Reply(body=b"[]"), Reply(body=b"null"), Reply(404, b"null"), Reply(404, b"<html>"), Reply(body=b'{"status": "ok"}'), Reply(302, headers={"Location": "/login"})])  # fmt: skip
def test_a_server_that_is_not_a_grafana_is_reported(reply: Reply) -> None:
    with (
        replying([reply]) as heard,
        Grafana(heard.endpoint, "glsa_x") as client,
        pytest.raises(InvalidInput) as raised,
    ):
        push(client, WISH)
    hint = "\n  hint: use Grafana's address as shown in a browser: https://HOST or https://HOST/grafana"
    redirects = "the server redirects to another address"
    what = redirects if reply.status == 302 else "the server at this address is not a Grafana"
    assert str(raised.value) == f"--grafana: {what} (got '{heard.endpoint}'){hint}"


def test_a_grafana_server_whose_address_has_a_path_is_found() -> None:
    health = Reply(body=b'{"database": "ok", "version": "11.2.0"}')
    with replying([health]) as heard, Grafana(f"{heard.endpoint}/deep/grafana/", "glsa_x") as client:
        assert client.version() == "11.2.0"
    assert heard.paths == ["GET /deep/grafana/api/health"]


def test_a_server_that_does_not_answer_is_reported(server: Server) -> None:
    with replying([]) as heard:
        pass
    with (
        Grafana(heard.endpoint, "glsa_x", pause_s=0.001) as client,
        pytest.raises(Away, match="does not answer"),
    ):
        push(client, WISH)


def test_an_untrusted_certificate_is_reported_and_can_be_given_as_a_file(tmp_path: Path) -> None:
    pair = certificate_in(tmp_path)
    with grafana(pair) as server:
        token = server.token("Admin")
        with (
            Grafana(server.url, token) as client,
            pytest.raises(Away, match=r"cannot be trusted: self.signed"),
        ):
            push(client, WISH)
        with Grafana(server.url, token, ca_file=str(pair[0])) as client:
            assert len(push(client, WISH)) == 3
        with (
            Grafana(server.url.replace("https", "http"), token, pause_s=0.001) as client,
            pytest.raises(Away),
        ):
            push(client, WISH)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("grafana:3000", "this is not an HTTP address"),
        ("ftp://grafana", "this is not an HTTP address"),
        ("http://grafana:0", "this is not an HTTP address"),
        ("http://[::1", "this is not an HTTP address"),
        ("https://admin:secret@grafana", "the address contains a user name or password"),
        ("https://grafana/?orgId=1", "the address contains a query, a fragment or a blank"),
    ],
)
def test_an_invalid_address_is_refused_and_its_password_is_not_shown(url: str, why: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        Grafana(url, "glsa_x")
    assert str(raised.value).startswith(f"--grafana: {why}\n")
    assert "secret" not in str(raised.value)
