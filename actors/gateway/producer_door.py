"""Unix stream socket on which the gateway receives batches; each producer has one connection.

A connection passes through the phases head, name, body and answer. No phase blocks: it continues whenever the socket is ready.
A body is received into memory of the connection, and copied into the log once it is complete and valid. So a producer that
stops midway does not delay others. A refused body is received and discarded, so that the producer gets the reason as an answer
instead of a socket error.

`DoorBounds` limits the bytes of one body, the bytes of all bodies that are being received, and the number of connections.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from actors.gateway.streams import RETRY_AFTER_S, Streams
from actors.messages.gateway_messages import (
    DESCRIBE,
    HEAD,
    Answer,
    Described,
    ProducerHead,
    RefusedBatch,
    answer_bytes,
    head_of,
    name_size,
)
from actors.messages.turn_messages import NAME_MAX, NotUnderstood
from actors.runtime.unix_channel import uid_of_peer
from configs.errors import InvalidInput

# Maximum size of a refused body that is received and discarded. If a body is larger, the connection is closed.
DISCARDED_BYTES = 1 << 30
# Maximum size of the buffer that a connection keeps between two bodies; 10,000 rows of 6 columns have half a MiB.
KEPT_BYTES = 1 << 20
DESCRIBE_BYTES = 1 << 20
# Number of receive calls for one producer before the other producers have their turn.
RECEIPTS = 8
BACKLOG = 64


@dataclass(frozen=True, slots=True)
class DoorBounds:
    """Maximum bytes of one message, maximum bytes of all messages being received, and maximum number of connections."""

    message_bytes: int = 64 << 20
    receiving_bytes: int = 256 << 20
    connections: int = 256


class ProducerSocket:
    """Listening socket for producers, with the totals of their connections and of the bytes being received."""

    def __init__(self, path: Path, streams: Streams, bounds: DoorBounds) -> None:
        self.streams, self.bounds = streams, bounds
        self.receiving = 0  # Bytes of all bodies that are being received
        self.connections = 0
        # An existing socket file belongs to an ended gateway: this process holds gateway.sock and is the only gateway.
        path.unlink(missing_ok=True)
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(str(path))
        self._socket.listen(BACKLOG)
        self._socket.setblocking(False)

    def fileno(self) -> int:
        return self._socket.fileno()

    def accept(self) -> ProducerConnection | None:
        """Return the next producer's connection; None if no producer waits, the producer belongs to another user, or the limit is reached."""
        try:
            accepted, _ = self._socket.accept()
        except (BlockingIOError, ConnectionError):
            return None
        if uid_of_peer(accepted) != os.getuid() or self.connections >= self.bounds.connections:
            accepted.close()
            return None
        self.connections += 1
        return ProducerConnection(accepted, self)

    def close(self) -> None:
        self._path.unlink(missing_ok=True)
        self._socket.close()


class ProducerConnection:
    """Connection of one producer, with the state of the message that is being received or answered."""

    def __init__(self, connected: socket.socket, door: ProducerSocket) -> None:
        connected.setblocking(False)
        self._socket = connected
        self._door = door
        self._described: set[str] = set()
        self._kept = bytearray()
        self._receiving = 0
        self._answer = memoryview(b"")
        self._into: memoryview | None = None
        self._missing = 0
        self._then: Callable[[], None] = self._expect_name
        self._head_buffer = memoryview(bytearray(HEAD.size + NAME_MAX))
        self._expect_head()

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def answering(self) -> bool:
        """Return True while an answer has not been sent completely. Until then, no message is received on the connection."""
        return bool(self._answer)

    def go_on(self) -> bool:
        """Send and receive until the socket would block; return False once the connection has ended."""
        try:
            if self._answer and not self._send():
                return True
            for _ in range(RECEIPTS):
                if not self._receive():
                    return False
                if self._answer and not self._send():
                    return True
        except BlockingIOError:
            return True
        except (OSError, NotUnderstood):
            return False
        return True

    def close(self) -> None:
        self._release()
        self._door.connections -= 1
        self._socket.close()

    def _receive(self) -> bool:
        into = self._into if self._into is not None else SCRATCH[: self._missing]
        size = self._socket.recv_into(into)
        if not size:
            return False
        self._missing -= size
        if self._into is not None:
            self._into = self._into[size:]
        if not self._missing:
            self._then()
        return True

    def _expect(self, into: memoryview | None, size: int, then: Callable[[], None]) -> None:
        self._into, self._missing, self._then = into, size, then
        if not size:
            then()

    def _expect_head(self) -> None:
        self._expect(self._head_buffer[: HEAD.size], HEAD.size, self._expect_name)

    def _expect_name(self) -> None:
        size = name_size(self._head_buffer)
        self._name_end = HEAD.size + size
        self._expect(self._head_buffer[HEAD.size : self._name_end], size, self._expect_body)

    def _expect_body(self) -> None:
        self._head = head_of(self._head_buffer[: self._name_end])
        self._refusal = self._refused(self._head)
        if self._refusal is not None:
            self._expect(None, self._head.body, self._answer_body)
            return
        self._receiving = self._head.body
        self._door.receiving += self._receiving
        if len(self._kept) < self._head.body:
            self._kept = bytearray(self._head.body)
        self._body = memoryview(self._kept)[: self._head.body]
        self._expect(self._body, self._head.body, self._answer_body)

    def _refused(self, head: ProducerHead) -> RefusedBatch | None:
        """Return a refusal if the head of a message already shows that the message must be refused; otherwise None."""
        bounds = self._door.bounds
        most = DESCRIBE_BYTES if head.kind == DESCRIBE else bounds.message_bytes
        if head.body > DISCARDED_BYTES:
            raise NotUnderstood(f"the message has {head.body:,} bytes; the maximum is {DISCARDED_BYTES:,}")
        if head.body > most:
            return RefusedBatch(
                f"the message has {head.body:,} bytes; the maximum is {most:,}: send smaller batches"
            )
        if self._door.receiving + head.body > bounds.receiving_bytes:
            return RefusedBatch("too many batches are being received; retry later", RETRY_AFTER_S)
        if head.kind != DESCRIBE and head.stream not in self._described:
            return RefusedBatch(
                f"the columns of stream {head.stream} were not described; send Describe first"
            )
        return None

    def _answer_body(self) -> None:
        answer = self._refusal or self._done()
        self._release()
        self._answer = memoryview(answer_bytes(answer))
        self._expect_head()

    def _done(self) -> Answer:
        head = self._head
        if head.kind != DESCRIBE:
            return self._door.streams.append(head.stream, self._body, head.rows, head.part_of)
        try:
            schema = pa.ipc.read_schema(pa.py_buffer(self._body))
            expected = self._door.streams.columns(head.stream, schema)
        except InvalidInput as problem:
            return RefusedBatch(str(problem))
        except (pa.ArrowException, OSError, ValueError) as problem:
            return RefusedBatch(f"the body of Describe is not an Arrow schema: {problem}")
        self._described.add(head.stream)
        return Described(expected.serialize().to_pybytes())

    def _send(self) -> bool:
        """Send as much of the answer as the socket accepts; return True if it has been sent completely."""
        self._answer = self._answer[self._socket.send(self._answer, socket.MSG_NOSIGNAL) :]
        return not self._answer

    def _release(self) -> None:
        self._door.receiving -= self._receiving
        self._receiving = 0
        self._body = memoryview(b"")
        if len(self._kept) > KEPT_BYTES:
            self._kept = bytearray()


SCRATCH = memoryview(bytearray(1 << 18))
