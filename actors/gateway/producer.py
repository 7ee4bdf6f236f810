"""Client with which producers publish batches over the gateway's Unix socket: `Producer(path).publish(stream, batch)`.

A producer must know whether a batch is in the stream's log, so that it can repeat the call. After an OSError, a batch with an id
may be published again; it is then in the log once.

    the call returns or raises    the batch
    Accepted                      is in the stream's log and survives the end of the gateway's process
    RefusedBatch                  is not in the log
    OSError                       may be in the log: the gateway ended before it answered
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Self

import pyarrow as pa

from actors.log.segment_log import Part
from actors.log.train_format import BatchId
from actors.messages.gateway_messages import (
    ANSWER_SIZE,
    DESCRIBE,
    PUBLISH,
    Accepted,
    Answer,
    Described,
    RefusedBatch,
    answer_body,
    answer_of,
    head_bytes,
)


class Producer:
    """One connection to a gateway, to be used by one thread."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.connect(str(path))
        except BaseException:
            self._socket.close()
            raise
        # For each stream: the schema that the caller used last, and its columns in the order of the stream.
        self._columns: dict[str, tuple[pa.Schema, pa.Schema]] = {}

    def publish(
        self, stream: str, batch: pa.RecordBatch, part_of: BatchId | None = None
    ) -> Accepted | RefusedBatch:
        """Publish a batch with its columns in any order."""
        columns = self.columns(stream, batch.schema)
        if isinstance(columns, RefusedBatch):
            return columns
        if batch.schema.names != columns.names:
            batch = batch.select(columns.names)
        return self.publish_message(stream, batch.num_rows, batch.serialize(), part_of)

    def columns(self, stream: str, given: pa.Schema) -> pa.Schema | RefusedBatch:
        """Return the columns in the order of the stream, or a refusal if `given` does not have the stream's columns."""
        described = self._columns.get(stream)
        if described is None or not given.equals(described[0]):
            answer = self._call(DESCRIBE, stream, 0, given.serialize())
            if isinstance(answer, RefusedBatch):
                return answer
            assert isinstance(answer, Described)
            described = (given, pa.ipc.read_schema(pa.py_buffer(answer.schema)))
            self._columns[stream] = described
        return described[1]

    def publish_message(
        self, stream: str, rows: int, message: Part, part_of: BatchId | None = None
    ) -> Accepted | RefusedBatch:
        """Publish a serialized record batch, which has the stream's columns in the stream's order."""
        answer = self._call(PUBLISH, stream, rows, message, part_of)
        assert not isinstance(answer, Described)
        return answer

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, kind: int, stream: str, rows: int, body: Part, part_of: BatchId | None = None) -> Answer:
        head = head_bytes(kind, stream, rows, len(body), part_of)
        sent = self._socket.sendmsg([head, body])
        if sent < len(head):
            self._socket.sendall(head[sent:])
            sent = len(head)
        self._socket.sendall(memoryview(body)[sent - len(head) :])
        fixed = self._receive(ANSWER_SIZE)
        return answer_of(fixed, self._receive(answer_body(fixed)))

    def _receive(self, size: int) -> bytes:
        received = self._socket.recv(size, socket.MSG_WAITALL) if size else b""
        if len(received) < size:
            raise ConnectionResetError("the gateway closed the connection before it answered the producer")
        return received
