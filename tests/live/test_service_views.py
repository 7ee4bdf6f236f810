"""The running system as the service shows it: its figures equal the figures of the hosts, also while the coordinator is away."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
import ray

from actors.gateway.producer import Producer
from actors.messages.gateway_messages import Accepted
from actors.runtime.names import COORDINATOR
from actors.system import System
from configs.classes.live_class import LiveClass
from configs.documents.declarations import documents_of
from services.api.app import make_app
from services.api.service import service_of
from services.catalog.catalog import Catalog
from services.common.weir_home import Home
from services.watch.source import RunningSystem, SourceAway
from services.watch.watch import Watch
from tests.live.runs import host, kill, node_of, remove
from tests.support.waiting import eventually

pytestmark = pytest.mark.live

STREAM = "CREATE STREAM Readings (ts int64, sensor int32, WATERMARK FOR ts AS ts)"
DOCUMENTS = """
{kind: Stream, name: Readings, columns: {ts: int64, sensor: int32}, time: ts}
---
{kind: Tenant, name: gold, priority_class: gold}
---
{kind: Tenant, name: silver, priority_class: silver}
"""
# Range of response times in seconds that is plausible on any machine: from a nanosecond to a day.
HOPELESS = "[{latency_ms: 0.000001, utility: 1}, {latency_ms: 0.000002, utility: 0}]"
EASY = "[{latency_ms: 86400000, utility: 1}]"
WORTH = """
{{kind: Query, tenant: gold, name: urgent, sql: SELECT sensor FROM Readings WHERE sensor > 0, utility: {urgent}, weight: {weight}}}
---
{{kind: Query, tenant: gold, name: plain, sql: SELECT ts FROM Readings WHERE sensor > 0}}
---
{{kind: Tenant, name: gold, priority_class: gold, overrides: {{utility: {easy}}}}}
"""
ROWS = 1000


def declared(name: str, priority: float) -> LiveClass:
    query = "SELECT ts, sensor FROM Readings WHERE sensor > 0"
    return LiveClass(
        name=name, priority=priority, delay_target_ms=500, streams=(STREAM,), queries={"some": query}
    )


CLASSES = [declared("gold", 6.0), declared("silver", 3.0)]


class Running:
    """HTTP routes of the service, with a live system behind them."""

    def __init__(self, system: System, watch: Watch, folder: Path) -> None:
        self.system, self.watch = system, watch
        self._catalog = Catalog(Home(folder / "home"))
        self._catalog.apply(documents_of(DOCUMENTS), "test")
        self._key, _ = self._catalog.keys.create("admin", ["admin"], "test")
        service = service_of(self._catalog)
        service.watch = watch
        self._transport = httpx.ASGITransport(make_app(service))

    def close(self) -> None:
        self._catalog.close()

    def declare(self, documents: str) -> Sequence[LiveClass]:
        """Apply documents; return the classes that run once the documents are applied."""
        self._catalog.apply(documents_of(documents), "test")
        return self._catalog.desired().classes

    def get(self, path: str) -> Any:
        """Return the response, or None if the system gives no response now."""

        async def asked() -> httpx.Response:
            async with httpx.AsyncClient(transport=self._transport, base_url="http://weir") as client:
                return await client.get(path, headers={"Authorization": f"Bearer {self._key}"})

        answer = asyncio.run(asked())
        assert answer.status_code in (200, 503), answer.text
        return answer.json() if answer.status_code == 200 else None

    def publish(self, begin: int) -> None:
        batch = pa.RecordBatch.from_pydict(
            {"ts": range(begin, begin + ROWS), "sensor": pa.array([0, 1] * (ROWS // 2), pa.int32())}
        )
        with Producer(self.system.door(node_of(self.system))) as producer:
            assert isinstance(producer.publish("readings", batch), Accepted)

    def delivered(self, rows: int) -> Any:
        """Return the ledger once this number of rows is delivered to each class."""

        def poll() -> Any:
            found = self.get("/v1/ledger")
            items = found["items"] if found else []
            is_there = [item["delivered"] for item in items] == [rows, rows]
            return found if is_there else None

        return eventually(poll, f"{rows} rows delivered to both classes")


@pytest.fixture
def running(system: System, tmp_path: Path) -> Iterator[Running]:
    with ExitStack() as stack:
        host(system, CLASSES)
        stack.callback(remove, system, CLASSES)
        watch = stack.enter_context(Watch(RunningSystem(system)))
        yield stack.enter_context(closing(Running(system, watch, tmp_path)))


def test_views_show_the_running_system_also_after_the_coordinator_was_killed(running: Running) -> None:
    assert running.get("/v1/tenants/gold/status")["running"] is True
    running.publish(0)
    ledger = running.delivered(ROWS)
    assert ledger["closes"]
    assert [(item["tenant"], item["stream"], item["offered"]) for item in ledger["items"]] == [
        ("gold", "Readings", ROWS),
        ("silver", "Readings", ROWS),
    ]
    status = running.get("/v1/tenants/gold/status")
    assert (status["results"], status["share"]["original"]) == (ROWS // 2, pytest.approx(2 / 3))
    explained = running.get("/v1/tenants/gold/explain?last=3")
    assert {item["about"] for item in explained["items"]} == {"load", "shares"}
    assert all(
        math.isfinite(item["figures"]["headroom"]) for item in explained["items"] if item["about"] == "load"
    )
    operators = running.get("/v1/tenants/gold/operators")["items"]
    assert operators[0]["tuples"] == ROWS
    assert running.get("/v1/lending")["moves"]
    shown = running.get("/v1/system")
    assert ([node["name"] for node in shown["nodes"]], shown["problems"]) == ([node_of(running.system)], [])
    (place,) = running.watch.places("gold")
    assert place.dirs is not None
    assert place.dirs.class_log("gold").is_dir()
    eventually(lambda: len(running.get("/v1/history")["at"]) >= 2, "two samples")
    eventually(lambda: all(item["asleep"] for item in running.get("/v1/classes")["items"]), "sleep")

    before = running.get("/v1/classes")["items"]
    kill(COORDINATOR)
    during = running.get("/v1/classes")["items"]
    assert [item["results"] for item in during] == [item["results"] for item in before]
    # The new coordinator gets the figures of sleeping classes from their hosts.
    after = running.delivered(ROWS)
    assert after["closes"]
    running.publish(ROWS)
    assert running.delivered(2 * ROWS)["closes"]
    eventually(lambda: running.watch.problem == "", "the end of the problem")


def test_utility_graph_of_a_query_may_change_while_answers_arrive(system: System, tmp_path: Path) -> None:
    with ExitStack() as stack:
        watch = stack.enter_context(Watch(RunningSystem(system)))
        running = stack.enter_context(closing(Running(system, watch, tmp_path)))
        classes = running.declare(WORTH.format(urgent=HOPELESS, easy=EASY, weight=4))
        host(system, classes)
        stack.callback(remove, system, classes)

        def quality_after(answers: int) -> Any:
            """Return the quality by query, once each query has this number of answers."""

            def poll() -> Any:
                items = running.get("/v1/tenants/gold/quality")["items"]
                return items if [item["answers"] for item in items] == [answers] * 2 else None

            return {item["query"]: item for item in eventually(poll, f"{answers} answers of each query")}

        running.publish(0)
        found = quality_after(ROWS // 2)
        assert found["urgent"]["utility"] == {"mean": 0, "missed": ROWS // 2}
        assert found["plain"]["utility"] == {"mean": 1, "missed": 0}
        assert (found["urgent"]["deadline_ms"], found["plain"]["deadline_ms"]) == pytest.approx(
            (1e-6, 86_400_000)
        )
        assert 0 < found["plain"]["staleness"] <= 1
        assert (found["urgent"]["weight"], found["plain"]["weight"]) == (4, 1)
        # The slowdown is above 1, because a train waits until its class gets a slice.
        assert min(quality["slowdown"] for quality in found.values()) > 1
        utility = running.get("/v1/tenants/gold/status")["utility"]
        assert (utility["mean"], utility["of_queries"], utility["missed"]) == (0.5, 0.5, ROWS // 2)

        system.apply(running.declare(WORTH.format(urgent=EASY, easy=EASY, weight=0.5)))
        published = 1

        def is_applied() -> bool:
            """Publish rows; return True once the host uses the new QoS graph for answers."""
            nonlocal published
            running.publish(published * ROWS)
            published += 1
            found = quality_after(published * ROWS // 2)
            assert found["plain"]["utility"] == {"mean": 1, "missed": 0}
            return bool(found["urgent"]["utility"]["missed"] < found["urgent"]["answers"])

        eventually(is_applied, "answers that are worth something")
        assert quality_after(published * ROWS // 2)["urgent"]["weight"] == 0.5


def test_explanations_are_available_again_after_a_host_was_killed(running: Running) -> None:
    source = RunningSystem(running.system)
    found = running.system.status().system.units["gold"]
    handle = running.system.host(found.host)
    ray.kill(handle, no_restart=False)
    with suppress(SourceAway):  # The call succeeds only if Ray has already restarted the host.
        source.decisions("gold", 1)
    assert eventually(lambda: running.get("/v1/tenants/gold/explain"), "its explanations")["running"]
