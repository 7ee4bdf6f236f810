"""What two tenants have declared is there after a restart, and runs: their keys let in, and new rows have answers."""

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
# By query, whose it is.
ODD, LARGE, ALL = "acme/queries/odd", "acme/queries/large", "globex/queries/all"
SCOPES = {"acme": ["tenant:acme"], "globex": ["tenant:globex"], "feeder": ["ingest:ticks", "ingest:notes"]}


class Service:
    """As those who have keys call it."""

    def __init__(self, url: str, keys: dict[str, str]) -> None:
        self.keys = keys
        self._client = httpx.Client(base_url=f"{url}/v1", timeout=60)

    def close(self) -> None:
        self._client.close()

    def call(self, who: str, method: str, path: str, **more: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.keys[who]}", **more.pop("headers", {})}
        answer = self._client.request(method, path, headers=headers, **more)
        if answer.status_code == NOT_YET:
            raise ValueError(answer.text)
        assert answer.status_code < 300, answer.text
        return answer.json()

    def declared(self) -> dict[str, Any]:
        """All that an administrator sees of it, with versions; when keys were used last is no declaration."""
        found = {kind: self.call("admin", "GET", f"/{kind}")["items"] for kind in KINDS}
        for key in found["keys"]:
            del key["used_at"]
        return found

    def bring(self, number: int) -> None:
        """An odd number, as a tick of now and as a note."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        for stream, row in (("ticks", {"ts": now, "value": number}), ("notes", {"n": number, "text": "ü"})):
            assert self.call("feeder", "POST", f"/streams/{stream}/rows", json=[row])["accepted"] == 1

    def answers(self, query: str) -> list[Any]:
        """Without their numbers, as the tenant reads them; nothing was shed of them."""
        page = self.call(query.partition("/")[0], "GET", f"/tenants/{query}/results")
        assert {row["_kept"] for row in page["rows"]} <= {1.0}
        return [
            {name: one for name, one in row.items() if name not in ("_seq", "_kept")} for row in page["rows"]
        ]

    def answer_all(self, number: int) -> None:
        """What is brought comes out of every query; streams and queries that are new take a while to begin."""
        value, note = {"value": number}, {"n": number, "text": "ü"}

        def is_answered() -> bool:
            self.bring(number)
            return value in self.answers(ODD) and value in self.answers(LARGE) and note in self.answers(ALL)

        eventually(is_answered, f"answers to {number}")


@contextmanager
def running(folder: Path, keys: dict[str, str]) -> Iterator[Service]:
    """Once it is ready; how long that takes is told to whoever runs the test with -s."""
    began = time.monotonic()
    with up(folder) as process:
        told = process.until(lambda told: "api" in told)
        print(f"weir up to ready: {time.monotonic() - began:.1f} s")
        assert httpx.get(f"{told['api']}/readyz").status_code == 200
        keys["admin"] = Path(told["admin_key"]).read_text(encoding="utf-8").strip()
        service = Service(told["api"], keys)
        yield service
        service.close()


def test_everything_that_was_declared_is_there_and_runs_after_a_restart(tmp_path: Path) -> None:
    keys: dict[str, str] = {}
    with running(tmp_path, keys) as service:
        made = service.call("admin", "POST", "/apply", content=DOCUMENTS, headers=YAML)
        assert [one["action"] for one in made["changes"]] == ["created"] * 8
        for who, scopes in SCOPES.items():
            body = {"principal": who, "scopes": scopes}
            keys[who] = service.call("admin", "POST", "/keys", json=body)["key"]
        service.answer_all(11)
        before, admin = service.declared(), keys["admin"]
    with running(tmp_path, keys) as service:
        assert (service.declared(), keys["admin"]) == (before, admin)
        assert {one["name"] for one in service.call("admin", "GET", "/classes")["items"]} == {
            "acme",
            "globex",
        }
        service.answer_all(13)
        # A tenant sees its own, as before.
        seen = service.call("globex", "GET", "/queries")["items"]
        assert [one["document"]["tenant"] for one in seen] == ["globex"]
