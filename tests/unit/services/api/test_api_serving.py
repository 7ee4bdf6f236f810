"""The service on the network: it listens, by TLS or not, is bounded there too, and ends soon whoever is still reading."""

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


def test_it_listens_where_it_says_until_it_ends(api: Api) -> None:
    with Serving(api.service) as serving:
        assert call(serving, api, "/v1/tenants/acme").json()["name"] == "acme"
        assert httpx.get(f"{serving.url}/healthz").json() == {"status": "ok"}
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{serving.url}/healthz")


def test_it_is_ready_when_nothing_is_missing(api: Api) -> None:
    missing = "the system is being started"
    api.service.waits_for = lambda: missing
    told = [api("GET", "/readyz", who=None), api("GET", "/healthz", who=None)]
    missing = ""
    told.append(api("GET", "/readyz", who=None))
    assert [one.status_code for one in told] == [503, 200, 200]
    assert (told[0].json()["type"], told[0].headers["Retry-After"]) == ("urn:weir:problem:not-running", "1")


def test_what_needs_the_system_says_that_it_is_being_started(api: Api) -> None:
    api.service.waits_for = lambda: "the system is being started"
    answer = api("POST", "/v1/streams/ticks/rows?force=true", [{"value": 1}])
    told = answer.json()
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert (told["detail"], told["hint"]) == ("the system is being started", "ask again in a few seconds")


def test_changes_by_others_are_followed(api: Api) -> None:
    with Serving(api.service) as serving:
        api.service.catalog.apply(documents_of("{kind: Tenant, name: late, priority_class: gold}"), "another")
        until_s = time.monotonic() + 30
        while call(serving, api, "/v1/tenants/late").status_code != 200:
            assert time.monotonic() < until_s
    used = {one.principal: one.used_at for one in api.service.catalog.keys.all()}
    assert used["admin"] is not None
    assert used["acme"] is None


def test_readers_are_sent_away_when_it_ends(api: Api) -> None:
    """One that has begun to read, one that still waits, and one that does not read what it is sent."""
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
    """Routes that go on until they are ended, beside those that are there."""

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
def test_head_of_a_request_is_bounded(api: Api, head: bytes) -> None:
    with Serving(api.service) as serving:
        where = urlsplit(serving.url)
        with socket.create_connection((where.hostname, where.port), timeout=30) as caller:
            caller.sendall(head)
            told, _, body = read_all(caller).partition(b"\r\n\r\n")
        assert told.startswith(b"HTTP/1.1 431")
        assert json.loads(body)["type"] == "urn:weir:problem:head-too-large"
        assert httpx.get(f"{serving.url}/healthz").status_code == 200


def test_what_is_not_http_is_told_so(api: Api) -> None:
    with Serving(api.service) as serving:
        where = urlsplit(serving.url)
        with socket.create_connection((where.hostname, where.port), timeout=30) as caller:
            caller.sendall(b"HELLO\r\n\r\n")
            head, _, body = read_all(caller).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    assert json.loads(body)["type"] == "urn:weir:problem:malformed"


def test_port_that_is_taken_is_told(api: Api) -> None:
    with Serving(api.service) as serving:
        taken = ServiceSettings(port=urlsplit(serving.url).port)
        another = Serving(Service(api.service.catalog, taken, api.service.snapshot))
        with pytest.raises(InvalidInput, match="cannot be listened at"):
            another.start()


# -- TLS -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return certificate_in(tmp_path_factory.mktemp("tls"))


def test_it_is_served_by_tls_alone_if_it_is_set(tmp_path: Path, pair: tuple[Path, Path]) -> None:
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
def test_files_that_are_no_pair_are_told(
    tmp_path: Path, pair: tuple[Path, Path], certificate: str, key: str, field: str
) -> None:
    folder = pair[0].parent
    settings: dict[str, Any] = {"port": 0, "tls_certificate": folder / certificate, "tls_key": folder / key}
    with api_over(Home(tmp_path), **settings) as api, pytest.raises(InvalidInput) as told:
        Serving(api.service).start()
    assert told.value.field == field


# -- the description -------------------------------------------------------------------------------------------


def test_description_is_as_the_routes_are() -> None:
    """`python -m services.api.openapi` writes it anew."""
    assert openapi.FILE.read_text(encoding="utf-8") == openapi.described()


def test_description_names_every_operation_once_with_its_problems() -> None:
    described = json.loads(openapi.described())
    operations = [
        (f"{method} {path}", one)
        for path, methods in described["paths"].items()
        for method, one in methods.items()
    ]
    names = [one["operationId"] for _, one in operations]
    assert described["openapi"] == "3.1.0"
    assert sorted(set(names)) == sorted(names)
    lacking = [
        label
        for label, one in operations
        if "security" not in one and not {"401", "429"} <= one["responses"].keys()
    ]
    assert lacking == []
    named = set(re.findall(r'"#/components/schemas/([^"]+)"', openapi.described()))
    assert named - described["components"]["schemas"].keys() == set()


def test_form_that_does_not_come_keeps_no_connection(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has shown a key yet."""
    monkeypatch.setattr(console, "FORM_S", 0.01)
    head = b"POST /console/sign-in HTTP/1.1\r\nHost: weir\r\nContent-Length: %d\r\n\r\nkey="
    with Serving(api.service) as serving:
        address = urlsplit(serving.url)
        for length, status in ((100, b"400"), (FORM_BYTES + 1, b"413")):
            with socket.create_connection((address.hostname, address.port)) as slow:
                slow.sendall(head % length)
                told = slow.makefile("rb").read()  # up to the end of the connection
            assert told.split()[1] == status
