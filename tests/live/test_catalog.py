"""`weir up` follows the catalog: tenants and keys are added and removed while it runs, and are kept over a restart."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count, islice
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from pyarrow import flight

from configs.documents.declarations import Ref, documents_of
from services.catalog.catalog import Catalog
from services.common.weir_home import Home
from tests.support.waiting import eventually

pytestmark = pytest.mark.live

HUNG_S = 60.0
LINES = 60
FIRST = """
{kind: Stream, name: readings, columns: {ts: int64, sensor: int32}, time: ts}
---
{kind: Tenant, name: acme, priority_class: gold}
---
{kind: Query, tenant: acme, name: some, sql: SELECT ts FROM readings WHERE sensor > 0}
"""
SECOND = """
{kind: Tenant, name: late, priority_class: bronze}
---
{kind: Query, tenant: late, name: all, sql: SELECT sensor FROM readings}
"""


class Up:
    """Process of `weir up`, with the statuses that it prints."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def until(self, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Return the first printed status for which `holds` is true; a status is printed every second."""
        assert self._process.stdout is not None
        status = None
        for line in islice(self._process.stdout, LINES):
            status = json.loads(line)
            if holds(status):
                return cast(dict[str, Any], status)
        raise AssertionError(f"no status fulfils the condition; last: {status}")

    def runs(self, *names: str) -> dict[str, Any]:
        return self.until(lambda status: [class_["name"] for class_ in status["classes"]] == list(names))


@contextmanager
def up(folder: Path, *arguments: str) -> Iterator[Up]:
    program = [sys.executable, "-c", "from services.cli.main import main; main()"]
    command = [*program, "up", "-o", "json", "--api-port", "0", *arguments]
    environ = {**os.environ, "WEIR_HOME": str(folder / "home")}
    with subprocess.Popen(command, env=environ, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Up(process)
            process.send_signal(signal.SIGTERM)
            assert process.stdout is not None
            process.stdout.read()
            assert process.wait(HUNG_S) == 128 + signal.SIGTERM
        finally:
            process.kill()


def refused(client: flight.FlightClient, call: flight.FlightCallOptions) -> bool:
    try:
        list(client.list_actions(call))
    except flight.FlightUnauthenticatedError:
        return True
    return False


def send(client: flight.FlightClient, call: flight.FlightCallOptions, number: int) -> None:
    command = {"v": 1, "stream": "readings", "producer": "p", "batch": number, "partition": 0, "attempt": "a"}
    descriptor = flight.FlightDescriptor.for_command(json.dumps(command | {"commit": True}).encode())
    batch = pa.RecordBatch.from_pydict({"ts": [1, 2], "sensor": pa.array([0, 1], pa.int32())})
    writer, answers = client.do_put(descriptor, batch.schema, call)
    with writer:
        writer.write_batch(batch)
        writer.done_writing()
        answers.read()


def test_tenants_and_keys_change_at_runtime_and_are_kept_over_a_restart(tmp_path: Path) -> None:
    (tmp_path / "first.yaml").write_text(FIRST, encoding="utf-8")
    with up(tmp_path, "-f", "first.yaml") as running, closing(Catalog(Home(tmp_path / "home"))) as catalog:
        client = flight.connect(running.runs("acme")["endpoint"])
        catalog.apply(documents_of(SECOND), "test")
        key, info = catalog.keys.create("feeder", ["ingest:readings"], "test")
        running.runs("acme", "late")
        call = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {key}".encode())])
        eventually(lambda: not refused(client, call), "the key")
        numbers = count()

        def answers(status: dict[str, Any]) -> bool:
            # A new class reads only rows that arrive after its start.
            send(client, call, next(numbers))
            return all(class_["results"] > 0 for class_ in status["classes"])

        running.until(answers)
        eventually(lambda: catalog.keys.all()[-1].used_at, "the use of the key")
        catalog.keys.revoke(info.id, "test")
        eventually(lambda: refused(client, call), "the end of the key")
        catalog.delete(Ref("Query", "all", "late"), "test")
        status = running.runs("acme")
        assert status["problems"] == []
        catalog.put(documents_of(SECOND)[1].declaration, "test")
    with up(tmp_path) as again:
        assert again.runs("acme", "late")["problems"] == []
