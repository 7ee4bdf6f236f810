"""The service on the network: it listens with or without TLS, limits requests, and ends soon even while clients still read."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.responses import StreamingResponse

from configs.documents.declarations import documents_of
from configs.errors import InvalidInput
from configs.service.service_settings import ServiceSettings
from services.api import openapi
from services.api.rate_limits import FORM_BYTES
from services.api.routes import console
from services.api.server import Serving
from services.api.service import Service
from services.common.weir_home import Home
from tests.support.api import Api, api_over
from tests.support.served import certificate_in


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with api_over(Home(tmp_path / "home"), port=0) as found:
        yield found


def call(serving: Serving, api: Api, path: str, **more: Any) -> httpx.Response:
    headers = {"Authorization": f"Bearer {api.keys['admin']}"}
    return httpx.get(serving.url + path, headers=headers, **more)


def test_service_listens_at_its_address_until_it_ends(api: Api) -> None:
    with Serving(api.service) as serving:
        assert call(serving, api, "/v1/tenants/acme").json()["name"] == "acme"
        assert httpx.get(f"{serving.url}/healthz").json() == {"status": "ok"}
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{serving.url}/healthz")


def test_service_is_ready_when_nothing_is_missing(api: Api) -> None:
    missing = "the system is being started"
    api.service.waits_for = lambda: missing
    answers = [api("GET", "/readyz", who=None), api("GET", "/healthz", who=None)]
    missing = ""
    answers.append(api("GET", "/readyz", who=None))
    assert [answer.status_code for answer in answers] == [503, 200, 200]
    assert (answers[0].json()["type"], answers[0].headers["Retry-After"]) == (
        "urn:weir:problem:not-running",
        "1",
    )


def test_rows_are_refused_while_the_system_is_starting(api: Api) -> None:
    api.service.waits_for = lambda: "the system is being started"
    answer = api("POST", "/v1/streams/ticks/rows?force=true", [{"value": 1}])
    problem = answer.json()
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert (problem["detail"], problem["hint"]) == (
        "the system is being started",
        "try again in a few seconds",
    )


def test_running_service_follows_changes_that_other_processes_make_in_the_catalog(api: Api) -> None:
    with Serving(api.service) as serving:
        api.service.catalog.apply(documents_of("{kind: Tenant, name: late, priority_class: gold}"), "another")
        until_s = time.monotonic() + 30
        while call(serving, api, "/v1/tenants/late").status_code != 200:
            assert time.monotonic() < until_s
    used = {info.principal: info.used_at for info in api.service.catalog.keys.all()}
    assert used["admin"] is not None
    assert used["acme"] is None


def test_readers_are_disconnected_when_the_service_ends(api: Api) -> None:
    """The first reader has begun to read, the second waits for rows, and the third never reads the data that it receives."""
    serving = Serving(api.service)
    add_endless(serving)
    serving.start()
    where = urlsplit(serving.url)
    readers = [opened(where, api, path) for path in ("/endless", "/waits", "/much")]
    first = readers[0].recv(10_000)
    serving.stop()
    last = [read_all(readers[0]), read_all(readers[1])]
    assert first.startswith(b"HTTP/1.1 200")
    assert last[0].endswith(b"0\r\n\r\n")
    assert last[1].startswith(b"HTTP/1.1 503")
    for reader in readers:
        reader.close()


def add_endless(serving: Serving) -> None:
    """Add routes with responses that continue until the service ends."""

    async def endlessly(size: int) -> Any:
        while True:
            yield b"x" * size
            await asyncio.sleep(0.01)

    async def waits() -> None:
        await asyncio.Event().wait()

    serving.app.add_api_route("/endless", lambda: StreamingResponse(endlessly(10)), methods=["GET"])
    serving.app.add_api_route("/much", lambda: StreamingResponse(endlessly(1_000_000)), methods=["GET"])
    serving.app.add_api_route("/waits", waits, methods=["GET"])


def opened(where: Any, api: Api, path: str) -> socket.socket:
    found = socket.create_connection((where.hostname, where.port), timeout=30)
    found.sendall(
        f"GET {path} HTTP/1.1\r\nHost: weir\r\nAuthorization: Bearer {api.keys['admin']}\r\n\r\n".encode()
    )
    return found


def read_all(reader: socket.socket) -> bytes:
    found = b""
    while piece := reader.recv(65_536):
        found += piece
    return found


@pytest.mark.parametrize(
    "head",
    [
        b"GET /healthz HTTP/1.1\r\nX: " + b"x" * 1_000_000,
        b"GET /" + b"x" * 1_000_000,
        b"GET /healthz HTTP/1.1\r\n" + b"A: b\r\n" * 200_000,
    ],
)
def test_size_of_a_request_head_is_limited(api: Api, head: bytes) -> None:
    with Serving(api.service) as serving:
        where = urlsplit(serving.url)
        with socket.create_connection((where.hostname, where.port), timeout=30) as caller:
            caller.sendall(head)
            response, _, body = read_all(caller).partition(b"\r\n\r\n")
        assert response.startswith(b"HTTP/1.1 431")
        assert json.loads(body)["type"] == "urn:weir:problem:head-too-large"
        assert httpx.get(f"{serving.url}/healthz").status_code == 200


def test_bytes_that_are_not_http_are_refused(api: Api) -> None:
    with Serving(api.service) as serving:
        where = urlsplit(serving.url)
        with socket.create_connection((where.hostname, where.port), timeout=30) as caller:
            caller.sendall(b"HELLO\r\n\r\n")
            head, _, body = read_all(caller).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    assert json.loads(body)["type"] == "urn:weir:problem:malformed"


def test_starting_a_service_on_a_port_in_use_is_reported(api: Api) -> None:
    with Serving(api.service) as serving:
        taken = ServiceSettings(port=urlsplit(serving.url).port)
        another = Serving(Service(api.service.catalog, taken, api.service.snapshot))
        with pytest.raises(InvalidInput, match="the service cannot listen at this address"):
            another.start()


# -- connections with TLS --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return certificate_in(tmp_path_factory.mktemp("tls"))


def test_service_with_tls_refuses_plain_http(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    certificate, key = pair
    settings: dict[str, Any] = {"port": 0, "tls_certificate": certificate, "tls_key": key}
    with api_over(Home(tmp_path), **settings) as api, Serving(api.service) as serving:
        context = ssl.create_default_context(cafile=str(certificate))
        assert serving.url.startswith("https://127.0.0.1:")
        assert call(serving, api, "/v1/tenants/acme", verify=context).status_code == 200
        with pytest.raises(httpx.TransportError):
            httpx.get(serving.url.replace("https:", "http:"))
        with pytest.raises(httpx.ConnectError):
            httpx.get(serving.url)


@pytest.mark.parametrize(
    ("certificate", "key", "field"),
    [
        ("none", "key.pem", "--tls-certificate"),
        ("cert.pem", "none", "--tls-key"),
        ("key.pem", "cert.pem", "--tls-certificate"),
    ],
)
def test_mismatched_certificate_and_key_are_reported(
    tmp_path: Path, pair: tuple[Path, Path], certificate: str, key: str, field: str
) -> None:
    folder = pair[0].parent
    settings: dict[str, Any] = {"port": 0, "tls_certificate": folder / certificate, "tls_key": folder / key}
    with api_over(Home(tmp_path), **settings) as api, pytest.raises(InvalidInput) as caught:
        Serving(api.service).start()
    assert caught.value.field == field


# -- the OpenAPI description -----------------------------------------------------------------------------------


def test_openapi_file_matches_the_routes() -> None:
    """After a change of routes, `python -m services.api.openapi` writes the file again."""
    assert openapi.FILE.read_text(encoding="utf-8") == openapi.described()


def test_openapi_names_every_operation_once_with_its_problems() -> None:
    described = json.loads(openapi.described())
    operations = [
        (f"{method} {path}", operation)
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    ]
    names = [operation["operationId"] for _, operation in operations]
    assert described["openapi"] == "3.1.0"
    assert sorted(set(names)) == sorted(names)
    lacking = [
        label
        for label, operation in operations
        if "security" not in operation and not {"401", "429"} <= operation["responses"].keys()
    ]
    assert lacking == []
    named = set(re.findall(r'"#/components/schemas/([^"]+)"', openapi.described()))
    assert named - described["components"]["schemas"].keys() == set()


def test_connection_is_closed_if_the_sign_in_form_arrives_incomplete(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller has not sent a valid key yet, so its connection must not be kept open."""
    monkeypatch.setattr(console, "FORM_S", 0.01)
    head = b"POST /console/sign-in HTTP/1.1\r\nHost: weir\r\nContent-Length: %d\r\n\r\nkey="
    with Serving(api.service) as serving:
        address = urlsplit(serving.url)
        for length, status in ((100, b"400"), (FORM_BYTES + 1, b"413")):
            with socket.create_connection((address.hostname, address.port)) as slow:
                slow.sendall(head % length)
                response = slow.makefile("rb").read()  # The caller reads up to the end of the connection.
            assert response.split()[1] == status
