"""Exporter of metrics where no service runs: it listens on the loopback address and demands a token."""

from __future__ import annotations

import httpx
import pytest

from services.metrics.exporter import Exporter
from services.metrics.text import CONTENT_TYPE


def test_a_request_with_the_token_gets_the_metrics() -> None:
    with Exporter(lambda: b"up 1\n") as exporter:
        answer = httpx.get(
            f"http://{exporter.address}/metrics", headers={"Authorization": f"Bearer {exporter.token}"}
        )
    assert (answer.status_code, answer.content, answer.headers["Content-Type"]) == (
        200,
        b"up 1\n",
        CONTENT_TYPE,
    )
    assert exporter.address.startswith("127.0.0.1:")


@pytest.mark.parametrize(
    "given", [None, "", "Bearer", "Bearer x", "Basic {token}", "Bearer {token}x", "bearer ü"]
)
def test_a_request_without_the_right_token_is_refused(given: str | None) -> None:
    with Exporter(lambda: b"up 1\n") as exporter:
        header = b"" if given is None else given.format(token=exporter.token).encode("latin-1")
        headers = {} if given is None else {b"Authorization": header}
        answer = httpx.get(f"http://{exporter.address}/metrics", headers=headers)
    assert (answer.status_code, b"up 1" in answer.content) == (401, False)


def test_exporter_refuses_paths_other_than_metrics_and_methods_other_than_get() -> None:
    with Exporter(lambda: b"up 1\n") as exporter:
        wanted = {"Authorization": f"Bearer {exporter.token}"}
        assert httpx.get(f"http://{exporter.address}/", headers=wanted).status_code == 404
        assert httpx.post(f"http://{exporter.address}/metrics", headers=wanted).status_code == 501


def test_the_port_is_closed_after_the_exporter_has_stopped() -> None:
    with Exporter(lambda: b"") as exporter:
        address = exporter.address
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://{address}/metrics")
