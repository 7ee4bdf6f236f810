"""`weir mirror` beside `weir up`: what changes at a store of objects comes out as answers, and lookups are learned."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
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
{kind: Stream, name: stock, columns: {item: string, count: int64, changed_at: timestamp, seen_at: timestamp}, time: seen_at}
---
{kind: Query, tenant: acme, name: left, sql: SELECT count FROM stock}
---
{kind: Tenant, name: acme, priority_class: gold}
---
{kind: Query, tenant: acme, name: dear, sql: "SELECT item, price FROM prices WHERE price > 1"}
---
{kind: Query, tenant: acme, name: looked, sql: SELECT item FROM orders}
---
kind: Query
tenant: acme
name: valued
sql: SELECT o.item, p.price FROM orders o JOIN prices [LAST BY item] p ON o.item = p.item
"""
STOCK = (
    "CREATE MIRROR stock (item string, count int64) FROM DATABASE 'sqlite:///stock.db' TABLE 'stock'"
    " BANDWIDTH 5 PER SECOND REPEAT EVERY 1 SECOND"
)


def test_changes_of_remote_objects_are_answers_and_lookups_are_learned(tmp_path: Path) -> None:
    (tmp_path / "documents.yaml").write_text(DOCUMENTS, encoding="utf-8")
    (tmp_path / "stock.sql").write_text(STOCK, encoding="utf-8")
    with sqlite3.connect(tmp_path / "stock.db") as database:
        database.execute("CREATE TABLE stock (item TEXT PRIMARY KEY, count INTEGER)")
        database.execute("INSERT INTO stock VALUES ('a', 5)")
    database.close()
    with (
        object_store(a={"price": 1}, b={"price": 2}) as store,
        up(tmp_path, "-f", "documents.yaml", "--mirror", "stock.sql") as running,
    ):
        told = running.runs("acme")
        told = running.until(lambda told: "api" in told and told["mirrors"][0]["held"] == 1)
        key = Path(told["admin_key"]).read_text(encoding="utf-8").strip()
        (tmp_path / "prices.sql").write_text(
            f"CREATE MIRROR prices (item string, price float64) FROM HTTP '{store.url}{{key}}' "
            f"KEYS FROM URL '{store.url}' BANDWIDTH 20 PER SECOND LOOKUPS FROM acme/looked REPEAT EVERY 2 SECONDS",
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
                valued = {(row["item"], row["price"]) for row in weir.results("valued", "acme")}
                assert valued == {("a", 7.0)}
                told = mirrored()
                assert (told["objects"], told["held"], told["changes"], told["problems"]) == (2, 2, 3, {})
                assert told["perceived_measured"] is not None
                eventually(
                    lambda: {row["count"] for row in weir.results("left", "acme")} == {5},
                    "the database's row",
                )
                mirror.send_signal(signal.SIGTERM)
                assert mirror.wait(HUNG_S) == 128 + signal.SIGTERM
            finally:
                mirror.kill()
