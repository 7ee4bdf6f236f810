"""`weir up` serves REST from its start to its end: a tenant declares, pushes and reads, and finds everything again after a restart."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.live.test_catalog import up
from tests.support.waiting import eventually

pytestmark = pytest.mark.live

STREAM = {"columns": {"ts": "timestamp", "value": "int64"}, "time": "ts"}
RESULTS = "/v1/tenants/acme/queries/some/results"


@contextmanager
def service(folder: Path) -> Iterator[httpx.Client]:
    """Start `weir up`; yield a client with the administrator's key once the service is ready."""
    with up(folder) as running:
        status = running.until(lambda status: "api" in status)
        key = Path(status["admin_key"]).read_text(encoding="utf-8").strip()
        assert (folder / "home" / "endpoint").read_text(encoding="utf-8") == status["api"]
        headers = {"Authorization": f"Bearer {key}"}
        with httpx.Client(base_url=status["api"], headers=headers, timeout=30) as client:
            assert client.get("/readyz").status_code == 200
            yield client
    assert not (folder / "home" / "endpoint").exists()


def push_until_answered(client: httpx.Client, number: int) -> list[Any]:
    """Push rows until one is answered, because a query reads only rows that arrive after its start."""

    def answers() -> list[Any]:
        row = {"ts": "2026-01-01T00:00:00Z", "value": number}
        assert client.post("/v1/streams/ticks/rows", json=[row]).json()["accepted"] == 1
        found = client.get(RESULTS, params={"wait_s": 1})
        return [row for row in found.json().get("rows", ()) if row["value"] == number]

    return eventually(answers, "an answer")


def test_declarations_are_kept_and_new_rows_are_answered_after_weir_up_is_restarted(tmp_path: Path) -> None:
    last: list[bytes] = []
    with service(tmp_path) as client:
        assert client.put("/v1/streams/ticks", json=STREAM).status_code == 201
        assert client.put("/v1/tenants/acme", json={"priority_class": "gold"}).status_code == 201
        sql = {"sql": "SELECT value FROM ticks WHERE value > 0"}
        assert client.put("/v1/tenants/acme/queries/some", json=sql).status_code == 201
        assert push_until_answered(client, 1)[0]["value"] == 1
        reads = threading.Event()

        def read() -> None:
            url, key = str(client.base_url), client.headers["Authorization"]
            with httpx.stream("GET", f"{url}{RESULTS}/stream", headers={"Authorization": key}) as answer:
                for piece in answer.iter_raw():
                    last.append(piece)
                    if b"event: rows" in b"".join(last):
                        reads.set()

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        assert reads.wait(30)
    # Check that an open reader does not delay the end of the service, and that the reader's response ends properly.
    reader.join(30)
    assert not reader.is_alive()
    with service(tmp_path) as client:
        shown = client.get("/v1/tenants/acme/queries/some")
        assert shown.json()["sql"] == sql["sql"]
        assert push_until_answered(client, 2)[0]["value"] == 2
