"""`weir mirror` beside `weir up`: what changes at a store of objects comes out as answers, and lookups are learned."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from services.client import Client
from tests.live.test_catalog import HUNG_S, up
from tests.live.waiting import eventually
from tests.object_server import object_store

pytestmark = pytest.mark.live

DOCUMENTS = """
{kind: Stream, name: prices, columns: {item: string, price: float64, changed_at: timestamp, seen_at: timestamp}, time: seen_at}
---
{kind: Stream, name: orders, columns: {ts: timestamp, item: string}, time: ts}
---
{kind: Tenant, name: acme, priority_class: gold}
---
{kind: Query, tenant: acme, name: dear, sql: "SELECT item, price FROM prices WHERE price > 1"}
---
{kind: Query, tenant: acme, name: looked, sql: SELECT item FROM orders}
"""


def test_changes_of_remote_objects_are_answers_and_lookups_are_learned(tmp_path: Path) -> None:
    (tmp_path / "documents.yaml").write_text(DOCUMENTS, encoding="utf-8")
    with (
        object_store(a={"price": 1}, b={"price": 2}) as store,
        up(tmp_path, "-f", "documents.yaml") as running,
    ):
        told = running.runs("acme")
        told = running.until(lambda told: "api" in told)
        key = Path(told["admin_key"]).read_text(encoding="utf-8").strip()
        (tmp_path / "prices.sql").write_text(
            f"CREATE MIRROR prices (item string, price float64) FROM HTTP '{store.url}{{key}}' "
            f"KEYS FROM URL '{store.url}' BANDWIDTH 20 PER SECOND LOOKUPS FROM acme/looked",
            encoding="utf-8",
        )
        environ = {**os.environ, "WEIR_ENDPOINT": told["api"], "WEIR_API_KEY": key}
        program = [sys.executable, "-c", "from services.cli.main import main; main()", "mirror", "prices.sql"]
        with (
            Client(told["api"], key) as weir,
            subprocess.Popen(
                [*program, "--json"], env=environ, cwd=tmp_path, stdout=subprocess.PIPE, text=True
            ) as mirror,
        ):

            def answers() -> dict[str, float]:
                return {row["item"]: row["price"] for row in weir.results("dear", "acme")}

            def mirrored() -> dict[str, Any]:
                assert mirror.stdout is not None
                (found,) = json.loads(mirror.stdout.readline())["mirrors"]
                assert isinstance(found, dict)
                return found

            try:
                eventually(lambda: answers() == {"b": 2.0}, "the first answer")
                store.objects["a"] = {"price": 7}
                eventually(lambda: answers() == {"a": 7.0, "b": 2.0}, "the changed object")

                def learned() -> bool:
                    weir.put_rows("orders", [{"ts": "2026-01-01T00:00:00Z", "item": "a"}])
                    return bool(mirrored()["uses"] > 0)

                eventually(learned, "a lookup")
                told = mirrored()
                assert (told["objects"], told["held"], told["published"], told["problems"]) == (2, 2, 3, {})
                assert told["perceived_measured"] is not None
                mirror.send_signal(signal.SIGTERM)
                assert mirror.wait(HUNG_S) == 128 + signal.SIGTERM
            finally:
                mirror.kill()
