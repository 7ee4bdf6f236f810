"""A running system and its service: rows pushed over HTTP become answers, read in every supported way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from pyarrow import flight

from actors.runtime.run_dirs import RunDirs, shared_memory
from actors.system import System, call, start
from bench.local_places import LocalPlaces
from configs.classes.live_class import LiveClass, LiveSettings
from configs.documents.declarations import Ref, documents_of
from services.api.routes.results import ARROW, results_of
from services.ingest.flight import FlightSettings
from services.results.places import endpoint_in
from services.results.rows import RowDelivery
from tests.support.served import Served, served
from tests.support.waiting import eventually

pytestmark = pytest.mark.live

STREAM = "CREATE STREAM readings (ts timestamp, sensor int32, temp decimal(6, 2), WATERMARK FOR ts AS ts)"
SQL = "SELECT ts, sensor, temp FROM readings WHERE sensor > 0"
OTHER = "SELECT sensor FROM readings"
DOCUMENTS = f"""
{{kind: Stream, name: readings, sql: "{STREAM}"}}
---
{{kind: Tenant, name: gold, priority_class: gold, limits: {{result_bytes: 4194304}}}}
---
{{kind: Query, tenant: gold, name: some, sql: "{SQL}"}}
"""
HUNG_S = 60.0
RESULTS = "/v1/tenants/gold/queries/some/results"


def declared(sql: str) -> LiveClass:
    return LiveClass.model_validate(
        {
            "name": "gold",
            "priority": 6,
            "delay_target_ms": 300,
            "streams": [STREAM],
            "queries": {"some": sql},
            "limits": {"result_bytes": 4 << 20},
        }
    )


class RunningService:
    """Running system with its service, and clients that push rows and read answers."""

    def __init__(self, system: System, found: Served) -> None:
        self.system, self.served = system, found
        (self.node,) = system.status().system.nodes
        self.dirs = RunDirs(shared_memory(), system.name, self.node)
        found.catalog.apply(documents_of(DOCUMENTS), "test")
        found.service.snapshot.refresh()
        found.service.results = results_of(found.service, LocalPlaces(self.dirs), lambda: "")
        found.service.rows = RowDelivery(lambda _: endpoint_in(self.dirs), lambda: system.ingest_key)
        self.http = httpx.Client(base_url=found.url, timeout=HUNG_S)
        self.reader = {"Authorization": f"Bearer {found.key('tenant:gold')}"}
        self.feeder = {"Authorization": f"Bearer {found.key('ingest:readings')}"}

    def run(self, sql: str) -> None:
        """Apply the query, and wait until its class reads the stream."""
        call(self.system.gateway(self.node).declare, STREAM)
        self.system.apply([declared(sql)])
        self.system.wait_ready()
        eventually(
            lambda: "gold" in self.system.readers(self.node).get("readings", ()), "a reader of the stream"
        )

    def push(self, first: int, following: int, key: str) -> dict[str, Any]:
        rows = [
            {"ts": 1_000_000 * number, "sensor": number, "temp": f"{number}.25"}
            for number in range(first, following)
        ]
        headers = self.feeder | {"Idempotency-Key": key}
        answer = self.http.post("/v1/streams/readings/rows", json=rows, headers=headers)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def get(self, path: str = RESULTS, accept: str = "*/*", **parameters: Any) -> httpx.Response:
        answer = self.http.get(path, params=parameters, headers=self.reader | {"Accept": accept})
        assert answer.status_code == 200, answer.text
        return answer


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    with (
        start(LiveSettings(), [], pinned=False, endpoint=FlightSettings()) as system,
        served(tmp_path_factory.mktemp("home")) as found,
    ):
        yield RunningService(system, found)


def rows(first: int, following: int) -> list[dict[str, Any]]:
    """Return the expected answers with these sequence numbers; the answer with number n is about sensor n + 1."""
    return [
        {
            "_seq": number,
            "_kept": 1.0,
            "ts": f"1970-01-01T00:00:{number + 1:02d}.000000Z",
            "sensor": number + 1,
            "temp": f"{number + 1}.25",
        }
        for number in range(first, following)
    ]


def events_of(lines: Iterator[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    kind = ""
    for line in lines:
        if line.startswith("event: "):
            kind = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield kind, json.loads(line.removeprefix("data: "))


def test_answers_to_pushed_rows_are_the_same_over_every_interface(running: RunningService) -> None:
    assert running.get().json() == {"columns": [], "rows": [], "next": None}
    running.run(SQL)
    stream = running.http.stream("GET", f"{RESULTS}/stream", headers=running.reader)
    with stream as answer:
        events = events_of(answer.iter_lines())
        pushed = {"accepted": 11, "rejected": 0, "reasons": {}}
        assert running.push(0, 11, "first") == pushed | {"repeated": False}
        page = running.get(wait_s=60).json()
        assert page["rows"] == rows(0, 10)
        assert next(events) == ("rows", {"rows": rows(0, 10)})
        assert running.push(0, 11, "first") == pushed | {"repeated": True}
        running.push(11, 21, "second")
        assert running.get(after=page["next"], wait_s=60).json()["rows"] == rows(10, 20)
        assert next(events) == ("rows", {"rows": rows(10, 20)})
        arrow = pa.ipc.open_stream(running.get(accept=ARROW, after="4").content).read_all()
        assert arrow["_seq"].to_pylist() == list(range(5, 20))
        by_flight(running, 20)
        replace_and_delete(running, events, page["next"])


def by_flight(running: RunningService, following: int) -> None:
    (place,) = running.get(f"{RESULTS}/flight").json()["units"]
    assert (place["unit"], place["first"], place["next"]) == ("gold", 0, following)
    ticket = {"v": 1, "unit": place["unit"], "query": place["query"], "from": 0, "to": following}
    with flight.connect(place["endpoint"]) as client:
        # The Flight server of this test accepts only the system's key. Under `weir up`, a Flight server also accepts the catalog's keys.
        headers = [(b"authorization", f"Bearer {running.system.ingest_key}".encode())]
        call_options = flight.FlightCallOptions(headers=headers)
        table = client.do_get(flight.Ticket(json.dumps(ticket).encode()), call_options).read_all()
    assert table["_seq"].to_pylist() == list(range(following))


def replace_and_delete(
    running: RunningService, events: Iterator[tuple[str, dict[str, Any]]], cursor: str
) -> None:
    """Replace the query's SQL, then delete the query; check what a reader receives."""
    running.run(OTHER)
    assert next(events) == ("gap", {"unit": "gold", "anew": True})
    running.push(21, 23, "third")
    new_rows = {"rows": [{"_seq": 0, "_kept": 1.0, "sensor": 21}, {"_seq": 1, "_kept": 1.0, "sensor": 22}]}
    assert next(events) == ("rows", new_rows)
    page = running.get(after=cursor).json()
    assert (page["rows"], page["columns"]) == (new_rows["rows"], [{"name": "sensor", "type": "int32"}])
    running.served.catalog.delete(Ref("Query", "some", "gold"), "test")
    running.served.service.snapshot.refresh()
    assert next(events) == ("end", {})
    log: Path = running.dirs.class_log("gold")
    assert log.is_dir()
    running.system.remove_class("gold")
    eventually(lambda: not log.exists(), "the end of the class's log")
