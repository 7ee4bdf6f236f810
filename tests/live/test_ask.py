"""One-time queries to a running system: answers of classes in one unit and in shards, while they run and while they sleep."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from actors.gateway.producer import Producer
from actors.messages.gateway_messages import Accepted
from actors.system import System
from configs.classes.live_class import LiveClass
from configs.documents.declarations import documents_of
from configs.errors import InvalidInput
from configs.service.service_settings import ServiceSettings
from services.client import Client
from services.watch.source import RunningSystem
from services.watch.watch import Watch
from tests.live.runs import host, node_of, remove
from tests.support.served import served
from tests.support.waiting import eventually

pytestmark = pytest.mark.live

STREAM = "CREATE STREAM readings (ts int64, sensor int32, temp float64, WATERMARK FOR ts AS ts)"
DOCUMENTS = """
{kind: Stream, name: readings, columns: {ts: int64, sensor: int32, temp: float64}, time: ts}
---
{kind: Tenant, name: gold, priority_class: gold}
---
{kind: Tenant, name: split, priority_class: gold}
"""
QUERY = "SELECT sensor, AVG(temp) AS mean FROM readings [RANGE 1 MINUTE SLIDE 10 SECONDS] GROUP BY sensor"
SENSORS = 4
ASKED = "SELECT sensor, AVG(temp) AS mean, COUNT(*) AS n FROM readings [RANGE 20 SECONDS] GROUP BY sensor"


def declared(name: str, **more: Any) -> LiveClass:
    return LiveClass(
        name=name,
        priority=1.0,
        delay_target_ms=500,
        streams=(STREAM,),
        queries={"means": QUERY},
        lossless=True,
        **more,
    )


CLASSES = [declared("gold"), declared("split", shards=2, key="sensor")]


def published(system: System, begin_s: int, end_s: int) -> None:
    """Publish one reading per second and sensor; its temperature is the second."""
    seconds = [second for second in range(begin_s, end_s) for _ in range(SENSORS)]
    batch = pa.RecordBatch.from_pydict(
        {
            "ts": [1000 * second for second in seconds],
            "sensor": pa.array([place % SENSORS for place in range(len(seconds))], pa.int32()),
            "temp": [float(second) for second in seconds],
        }
    )
    with Producer(system.door(node_of(system))) as producer:
        assert isinstance(producer.publish("readings", batch), Accepted)


@pytest.fixture
def client(system: System, tmp_path: Path) -> Iterator[Client]:
    with ExitStack() as stack:
        host(system, CLASSES)
        stack.callback(remove, system, CLASSES)
        running = stack.enter_context(served(tmp_path, ServiceSettings(port=0)))
        running.catalog.apply(documents_of(DOCUMENTS), "test")
        running.service.snapshot.refresh()
        running.service.watch = stack.enter_context(Watch(RunningSystem(system)))
        yield stack.enter_context(running.client())


def counted(client: Client, tenant: str, rows: int) -> dict[str, Any]:
    """Return the answer once the class has taken the rows of the last 20 seconds of event time."""

    def poll() -> dict[str, Any]:
        answer = client.ask(ASKED, tenant)
        return answer if sum(part["rows"] for part in answer["covers"]) == rows else {}

    return eventually(poll, f"an answer from {rows} rows")


def means(answer: dict[str, Any]) -> dict[int, tuple[float, int]]:
    return {row["sensor"]: (row["mean"], row["n"]) for row in answer["rows"]}


def test_running_and_sleeping_classes_answer_one_time_queries(system: System, client: Client) -> None:
    published(system, 0, 100)
    for tenant in ("gold", "split"):
        answer = counted(client, tenant, 20 * SENSORS)
        # Each sensor has the readings of the seconds from 80 to 99.
        assert means(answer) == dict.fromkeys(range(SENSORS), (89.5, 20))
        assert {part["kept"] for part in answer["covers"]} == {1.0}
    eventually(lambda: all(shown["asleep"] for shown in client.live.classes()), "both classes asleep")
    assert means(client.ask(ASKED, "gold")) == dict.fromkeys(range(SENSORS), (89.5, 20))
    published(system, 100, 105)
    answer = counted(client, "gold", 15 * SENSORS)
    assert means(answer)[0] == (97.0, 15)
    # The ledger is that of the last load cycle, so it may be older than the answer.
    line = eventually(lambda: offered(client, 105 * SENSORS), "the ledger of all rows")
    assert (line["closes"], line["delivered"]) == (True, 105 * SENSORS)


def offered(client: Client, rows: int) -> dict[str, Any]:
    """Return the account of class gold once this number of rows was offered to it."""
    (line,) = client.live.ledger("gold")["items"]
    return line if line["offered"] == rows else {}


def test_refusals_reach_the_caller(client: Client) -> None:
    with pytest.raises(InvalidInput, match="the running queries keep only 1 MINUTE of stream readings"):
        client.ask(ASKED.replace("20 SECONDS", "1 HOUR"), "gold")
    with pytest.raises(InvalidInput, match="groups tuples of different shards together"):
        client.ask("SELECT AVG(temp) AS mean FROM readings [RANGE 20 SECONDS]", "split")
