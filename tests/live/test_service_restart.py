"""Declarations of two tenants are kept over a restart and run again: their keys stay valid, and new rows are answered."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.live.test_catalog import up
from tests.support.waiting import eventually

pytestmark = pytest.mark.live

DOCUMENTS = """
{kind: PriorityClass, name: brass, priority: 2, delay_target_ms: 450}
---
{kind: Stream, name: ticks, columns: {ts: timestamp, value: int64}, time: ts, watermark: 5 seconds}
---
{kind: Stream, name: notes, columns: {n: int64, text: string}}
---
{kind: Tenant, name: acme, priority_class: gold, overrides: {delay_target_ms: 350}, limits: {queries: 7}}
---
{kind: Query, tenant: acme, name: odd, sql: SELECT value FROM ticks WHERE value % 2 = 1}
---
{kind: Query, tenant: acme, name: large, sql: SELECT value FROM odd WHERE value > 10}
---
{kind: Tenant, name: globex, priority_class: brass}
---
{kind: Query, tenant: globex, name: all, sql: "SELECT n, text FROM notes"}
"""
NOT_YET = 503
YAML = {"Content-Type": "application/yaml"}
KINDS = ("priority-classes", "tenants", "streams", "queries", "keys")
# Paths of the queries. Each path begins with the name of the tenant.
ODD, LARGE, ALL = "acme/queries/odd", "acme/queries/large", "globex/queries/all"
SCOPES = {"acme": ["tenant:acme"], "globex": ["tenant:globex"], "feeder": ["ingest:ticks", "ingest:notes"]}


class Service:
    """Client of the service, which can use the key of each caller."""

    def __init__(self, url: str, keys: dict[str, str]) -> None:
        self.keys = keys
        self._client = httpx.Client(base_url=f"{url}/v1", timeout=60)

    def close(self) -> None:
        self._client.close()

    def call(self, caller: str, method: str, path: str, **more: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.keys[caller]}", **more.pop("headers", {})}
        answer = self._client.request(method, path, headers=headers, **more)
        if answer.status_code == NOT_YET:
            raise ValueError(answer.text)
        assert answer.status_code < 300, answer.text
        return answer.json()

    def declared(self) -> dict[str, Any]:
        """Return all declarations and keys with their versions, without the time of each key's last use."""
        found = {kind: self.call("admin", "GET", f"/{kind}")["items"] for kind in KINDS}
        for key in found["keys"]:
            del key["used_at"]
        return found

    def push(self, number: int) -> None:
        """Push a number to stream `ticks`, with the present time, and to stream `notes`."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        for stream, row in (("ticks", {"ts": now, "value": number}), ("notes", {"n": number, "text": "ü"})):
            assert self.call("feeder", "POST", f"/streams/{stream}/rows", json=[row])["accepted"] == 1

    def answers(self, query: str) -> list[Any]:
        """Return a query's answers without their sequence numbers, after checking that nothing was shed."""
        page = self.call(query.partition("/")[0], "GET", f"/tenants/{query}/results")
        assert {row["_kept"] for row in page["rows"]} <= {1.0}
        return [
            {name: value for name, value in row.items() if name not in ("_seq", "_kept")}
            for row in page["rows"]
        ]

    def answer_all(self, number: int) -> None:
        """Push rows until every query has answered them, because new streams and queries need time to start."""
        value, note = {"value": number}, {"n": number, "text": "ü"}

        def is_answered() -> bool:
            self.push(number)
            return value in self.answers(ODD) and value in self.answers(LARGE) and note in self.answers(ALL)

        eventually(is_answered, f"answers to {number}")


@contextmanager
def running(folder: Path, keys: dict[str, str]) -> Iterator[Service]:
    """Start `weir up`, print the time until it is ready, and yield a client."""
    began = time.monotonic()
    with up(folder) as process:
        status = process.until(lambda status: "api" in status)
        print(f"weir up to ready: {time.monotonic() - began:.1f} s")
        assert httpx.get(f"{status['api']}/readyz").status_code == 200
        keys["admin"] = Path(status["admin_key"]).read_text(encoding="utf-8").strip()
        service = Service(status["api"], keys)
        yield service
        service.close()


def test_declarations_and_keys_are_kept_and_queries_run_after_a_restart(tmp_path: Path) -> None:
    keys: dict[str, str] = {}
    with running(tmp_path, keys) as service:
        made = service.call("admin", "POST", "/apply", content=DOCUMENTS, headers=YAML)
        assert [change["action"] for change in made["changes"]] == ["created"] * 8
        for caller, scopes in SCOPES.items():
            body = {"principal": caller, "scopes": scopes}
            keys[caller] = service.call("admin", "POST", "/keys", json=body)["key"]
        service.answer_all(11)
        before, admin = service.declared(), keys["admin"]
    with running(tmp_path, keys) as service:
        assert (service.declared(), keys["admin"]) == (before, admin)
        assert {item["name"] for item in service.call("admin", "GET", "/classes")["items"]} == {
            "acme",
            "globex",
        }
        service.answer_all(13)
        # A tenant still sees only its own queries.
        seen = service.call("globex", "GET", "/queries")["items"]
        assert [item["document"]["tenant"] for item in seen] == ["globex"]
