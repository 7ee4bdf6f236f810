"""Rows that a service accepts are offered to every class that reads their stream, even while the system still starts."""

from __future__ import annotations

import itertools
import json
import threading
import time
from pathlib import Path

import httpx
import pytest

from services.common.weir_home import Home
from tests.live.test_own_system import POLL_S, up
from tests.support.waiting import eventually

pytestmark = pytest.mark.live

DOCUMENTS = """
{kind: Stream, name: trips, columns: {ts: timestamp, trip: int64}, time: ts}
---
{kind: Tenant, name: ops, priority_class: gold}
---
{kind: Tenant, name: city, priority_class: bronze}
---
{kind: Query, tenant: ops, name: all, sql: SELECT trip FROM trips}
---
{kind: Query, tenant: city, name: all, sql: SELECT trip FROM trips}
"""
ROWS_AFTER_READY = 50


class Pusher(threading.Thread):
    """Thread that pushes single rows and counts the accepted rows. It starts before the service listens, and runs until it is stopped."""

    def __init__(self, home: Home) -> None:
        super().__init__(daemon=True)
        self.home, self.accepted, self.ended = home, 0, threading.Event()

    def run(self) -> None:
        for trip in itertools.count():
            if self.ended.is_set():
                return
            row = {"ts": "2026-01-01T00:00:00Z", "trip": trip}
            try:
                url = self.home.served_at()
                key = (self.home.folder / "admin.key").read_text("utf-8").strip()
                answer = httpx.post(
                    f"{url}/v1/streams/trips/rows", json=[row], headers={"Authorization": f"Bearer {key}"}
                )
            except (OSError, httpx.HTTPError, httpx.InvalidURL):
                time.sleep(POLL_S)
                continue
            if answer.status_code == 200:
                self.accepted += 1
            else:
                assert answer.status_code in (429, 503), answer.text
                time.sleep(POLL_S)


def test_rows_accepted_while_a_system_restarts_are_offered_to_its_classes(
    tmp_path: Path,
) -> None:
    documents = tmp_path / "documents.yaml"
    documents.write_text(DOCUMENTS, encoding="utf-8")
    with up(tmp_path / "own", "-f", str(documents)):
        pass
    pusher = Pusher(Home(tmp_path / "own" / "home"))
    pusher.start()
    with up(tmp_path / "own") as again:
        at_ready = pusher.accepted
        eventually(lambda: pusher.accepted >= at_ready + ROWS_AFTER_READY, "rows")
        pusher.ended.set()
        pusher.join()

        def offered() -> dict[str, int]:
            accounts = json.loads(again.weir("ledger", "-o", "json").stdout)["items"]
            return {account["tenant"]: account["offered"] for account in accounts}

        wanted = {"ops": pusher.accepted, "city": pusher.accepted}
        eventually(lambda: offered() == wanted, f"{wanted}, not {offered()}")
