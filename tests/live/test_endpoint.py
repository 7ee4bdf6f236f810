"""A system with an endpoint on the network: rows are published and answers are read with the system's key."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from actors.runtime.run_dirs import RunDirs, shared_memory
from actors.system import start
from configs.classes.live_class import LiveClass, LiveSettings
from services.ingest.flight import FlightSettings
from tests.live.runs import host, node_of
from tests.support.waiting import eventually

pytestmark = pytest.mark.live

GOLD = LiveClass(
    name="gold",
    priority=1,
    delay_target_ms=300,
    streams=("CREATE STREAM readings (ts int64, sensor int32, WATERMARK FOR ts AS ts)",),
    queries={"some": "SELECT ts, sensor FROM readings WHERE sensor > 0"},
)


def act(client: flight.FlightClient, call: flight.FlightCallOptions, action: str, **fields: Any) -> Any:
    (result,) = client.do_action(flight.Action(action, json.dumps({"v": 1, **fields}).encode()), call)
    return json.loads(result.body.to_pybytes())


def test_rows_are_published_and_answers_read_with_the_key_of_the_system() -> None:
    with start(LiveSettings(), [], pinned=False, endpoint=FlightSettings()) as system:
        host(system, [GOLD])
        node = node_of(system)
        dirs, address = RunDirs(shared_memory(), system.name, node), system.endpoint(node)
        assert address == dirs.endpoint.read_text()
        assert dirs.ingest_key.stat().st_mode & 0o777 == 0o600
        client = flight.connect(address)
        call = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {system.ingest_key}".encode())])
        batch = pa.RecordBatch.from_pydict({"ts": [1, 2, 3], "sensor": [0, 1, 2]})
        part = {"stream": "readings", "producer": "p", "batch": 0}
        command = {"v": 1, **part, "partition": 0, "attempt": "a"}
        descriptor = flight.FlightDescriptor.for_command(json.dumps(command).encode())
        writer, answers = client.do_put(descriptor, batch.schema, call)
        with writer:
            writer.write_batch(batch)
            writer.done_writing()
            answers.read()
        assert act(client, call, "commit", **part, parts=[[0, "a"]])["published"] == 3
        asked = {"class": "gold", "query": "some"}

        def rows() -> list[dict[str, Any]]:
            (unit,) = act(client, call, "results", **asked)["units"]
            wanted = {"v": 1, "unit": unit["unit"], "query": "some", "from": 0, "to": unit["next"]}
            found: list[dict[str, Any]] = (
                client.do_get(flight.Ticket(json.dumps(wanted).encode()), call).read_all().to_pylist()
            )
            return found

        found = eventually(rows, "answers")
        assert found == [
            {"_seq": 0, "_kept": 1.0, "ts": 2, "sensor": 1},
            {"_seq": 1, "_kept": 1.0, "ts": 3, "sensor": 2},
        ]
