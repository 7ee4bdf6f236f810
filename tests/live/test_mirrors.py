"""Mirrors of `weir up`, and of a separate `weir mirror`: changes of remote objects become answers, and lookups are counted."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from configs.documents.declarations import MirrorDeclaration
from services.client import Client
from tests.live.test_catalog import HUNG_S, up
from tests.support.object_server import object_store
from tests.support.waiting import eventually

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


def test_changes_of_remote_objects_become_answers_and_lookups_are_counted(tmp_path: Path) -> None:
    (tmp_path / "documents.yaml").write_text(DOCUMENTS, encoding="utf-8")
    (tmp_path / "stock.sql").write_text(STOCK, encoding="utf-8")
    with sqlite3.connect(tmp_path / "stock.db") as database:
        database.execute("CREATE TABLE stock (item TEXT PRIMARY KEY, count INTEGER)")
        database.execute("INSERT INTO stock VALUES ('a', 5)")
    database.close()
    with (
        object_store(a={"price": 1}, b={"price": 2}) as store,
        up(tmp_path, "-f", "documents.yaml") as running,
    ):
        status = running.until(lambda status: "api" in status and bool(status["classes"]))
        key = Path(status["admin_key"]).read_text(encoding="utf-8").strip()
        sql = (
            f"CREATE MIRROR prices (item string, price float64) FROM HTTP '{store.url}{{key}}' "
            f"KEYS FROM URL '{store.url}' BANDWIDTH 20 PER SECOND LOOKUPS FROM acme/looked REPEAT EVERY 2 SECONDS"
        )
        environ = {**os.environ, "WEIR_ENDPOINT": status["api"], "WEIR_API_KEY": key}
        program = [sys.executable, "-c", "from services.cli.main import main; main()", "mirror", "stock.sql"]
        with (
            Client(status["api"], key) as weir,
            subprocess.Popen(
                [*program, "-o", "json"], env=environ, cwd=tmp_path, stdout=subprocess.PIPE, text=True
            ) as elsewhere,
        ):
            try:
                weir.put(MirrorDeclaration(kind="Mirror", name="prices", sql=sql))

                def answers() -> dict[str, float]:
                    return {row["item"]: row["price"] for row in weir.results("dear", "acme")}

                eventually(lambda: answers() == {"b": 2.0}, "the first answer")
                store.objects["a"] = {"price": 7}
                eventually(lambda: answers() == {"a": 7.0, "b": 2.0}, "the changed object")

                def learned(status: dict[str, Any]) -> bool:
                    weir.put_rows("orders", [{"ts": datetime.now(UTC).isoformat(), "item": "a"}])
                    return bool(status["mirrors"] and status["mirrors"][0]["uses"] > 0)

                (found,) = running.until(learned)["mirrors"]

                def valued() -> set[tuple[str, float]]:
                    return {(row["item"], row["price"]) for row in weir.results("valued", "acme")}

                eventually(lambda: valued() == {("a", 7.0)}, "the price at the time of the order")
                assert (found["objects"], found["held"], found["changes"], found["problems"]) == (2, 2, 3, {})
                assert (found["state"], found["perceived_measured"] is not None) == ("running", True)
                eventually(
                    lambda: {row["count"] for row in weir.results("left", "acme")} == {5},
                    "the database's row",
                )
                weir.delete("Mirror", "prices")
                assert running.until(lambda status: status["mirrors"] == [])["problems"] == []
                elsewhere.send_signal(signal.SIGTERM)
                assert elsewhere.wait(HUNG_S) == 128 + signal.SIGTERM
            finally:
                elsewhere.kill()
