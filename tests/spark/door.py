"""Test double of a node, with logs and a Flight server that can be busy, lose responses, stop and start again."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import flight

from actors.gateway.streams import Streams
from actors.log.commit_format import commit_parts
from actors.log.segment_log import KEEP_NONE, Reader, SegmentWriter
from actors.log.train_format import batch_of
from actors.log.unit_log import QUERIES, QUERIES_VERSION
from actors.runtime.run_dirs import RunDirs
from engine.class_.steps import Answer, Commit
from engine.data.schema import FLOAT64, INT64
from engine.data.train import Train, Values, values_to_arrow
from services.ingest import answers
from services.ingest.flight import FlightServer, FlightSettings, later

KEY = "weir_" + "k" * 43
STREAM = "CREATE STREAM {} (id BIGINT, x DOUBLE)"
# Bytes of a segment of the log, and of the whole log. The log is small, so it soon drops its oldest rows.
SEGMENT_BYTES, LOG_BYTES = 16 << 10, 64 << 10
# Number of rows that the server sends before it breaks the connection.
BROKEN_AFTER = 10


class Node:
    """Test node with streams. If its Flight server restarts, the logs stay, but the parts of unfinished batches are lost."""

    def __init__(self, folder: Path) -> None:
        self.dirs = RunDirs(folder, "t", "n")
        self._held = self.dirs.hold()
        self.streams = Streams(self.dirs, time.monotonic)
        self.key = KEY
        self.calls: list[str] = []
        self.at_call: Callable[[str], None] = lambda name: None
        """Function that is called with the name of each call before the server handles it."""
        self.busy = 0
        """Number of next calls that are answered with a request to retry later."""
        self.lost: Counter[str] = Counter()
        """Number of calls, by name, that take effect but lose their answer."""
        self.port = 0
        self.start()

    @property
    def endpoint(self) -> str:
        return f"grpc://127.0.0.1:{self.port}"

    def start(self) -> None:
        self._server = FaultyServer(self)
        self.port = self._server.port

    def stop(self) -> None:
        self._server.shutdown()
        self._server.dead.close()

    def close(self) -> None:
        self.stop()
        self.streams.close()
        os.close(self._held)

    def column(self, stream: str, name: str) -> list[Any]:
        """Return the column's values of all rows in the stream's log."""
        with self.streams.lock:
            found = self.streams.find(stream)
        place = found.arrow.get_field_index(name)
        log = Reader(found.folder)
        trains = [batch_of(payload) for _, payload in log.frames(log.first)]
        return [value for train in trains for value in values_to_arrow(train.columns[place]).to_pylist()]

    def ids(self, stream: str) -> list[int]:
        return self.column(stream, "id")


class Answers:
    """Log of a unit with answers of the query `hot`. The answers have two columns and were computed from half of the input."""

    def __init__(self, node: Node, unit: str, forgets: bool = False) -> None:
        folder = node.dirs.class_log(unit)
        self._log = (
            SegmentWriter(folder, bytes_max=LOG_BYTES, segment_bytes=SEGMENT_BYTES, keep_from=KEEP_NONE)
            if forgets
            else SegmentWriter(folder)
        )
        described = {
            "version": QUERIES_VERSION,
            "queries": {"hot": [[["id", INT64.kind], ["x", FLOAT64.kind]], "5ead07c1", 0]},
        }
        (folder / QUERIES).write_text(json.dumps(described), encoding="utf-8")
        self._next = 0

    def add(self, ids: Sequence[int]) -> None:
        numbers = np.array(ids, np.int64)
        columns = (Values(INT64, numbers), Values(FLOAT64, numbers / 2))
        train = Train(columns, np.zeros(len(ids)), kept=0.5)
        answer = Answer("hot", self._next, train)
        self._next += len(ids)
        self._log.append(*commit_parts(Commit((), (answer,), {"hot": self._next})))


class FaultyServer(FlightServer):
    def __init__(self, node: Node) -> None:
        self._node = node
        settings = FlightSettings().with_key(node.key)
        super().__init__(settings, node.port, node.streams, node.dirs)

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        self._called("put")
        super().do_put(context, descriptor, reader, writer)
        self._answered("put")

    def do_action(self, context: Any, action: Any) -> list[bytes]:
        self._called(action.type)
        answer = super().do_action(context, action)
        self._answered(action.type)
        return answer

    def do_get(self, context: Any, ticket: Any) -> Any:
        self._called("get")
        if not self._node.lost["get"]:
            return super().do_get(context, ticket)
        asked = json.loads(ticket.ticket)
        given = (self._node.dirs, asked["unit"], asked["query"])
        rows = answers.rows(*given, asked["from"], min(asked["from"] + BROKEN_AFTER, asked["to"]))
        return flight.GeneratorStream(answers.schema_of(*given), self._breaking(rows))

    def _called(self, name: str) -> None:
        self._node.calls.append(name)
        self._node.at_call(name)
        if self._node.busy:
            self._node.busy -= 1
            raise later("the stream's log is full", 0.01)

    def _answered(self, name: str) -> None:
        if self._node.lost[name]:
            self._node.lost[name] -= 1
            raise flight.FlightUnavailableError("the connection broke")

    def _breaking(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in rows:
            yield batch
            self._answered("get")


@contextmanager
def opened(folder: Path, *streams: str) -> Iterator[Node]:
    """Start a node that has these streams; close it at the end."""
    node = Node(folder)
    try:
        for name in streams:
            node.streams.declare(STREAM.format(name))
        yield node
    finally:
        node.close()
