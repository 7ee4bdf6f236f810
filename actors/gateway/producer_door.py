"""The door for producers: a stream socket on which batches come in, one connection a producer.

A connection is a row of phases (head, name, body, answer), each of which goes on whenever the socket lets it; nothing
waits. A body is received into memory of the connection and only then, when it is whole and sound, copied into the log:
a producer that stops midway holds up nobody. What the door cannot use is received and thrown away, so that the
producer reads why instead of an error of its socket.

Bounds: the bytes of a body, those of all bodies that are being received, the connections.
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
    NAME_MAX,
    Answer,
    Described,
    ProducerHead,
    RefusedBatch,
    answer_bytes,
    head_of,
    name_size,
)
from actors.messages.turn_messages import NotUnderstood
from actors.runtime.unix_channel import uid_of_peer
from configs.errors import InvalidInput

MESSAGE_BYTES = 64 << 20
RECEIVING_BYTES = 256 << 20
CONNECTIONS = 256
# A body that is refused is received nonetheless, unless it is out of all proportion.
DISCARDED_BYTES = 1 << 30
# A connection keeps so much between two bodies; a batch of 10,000 rows of 6 columns has half a MiB.
KEPT_BYTES = 1 << 20
DESCRIBE_BYTES = 1 << 20
# A producer that sends without pause is left for the others after so many receipts.
RECEIPTS = 8
BACKLOG = 64


@dataclass(frozen=True, slots=True)
class DoorBounds:
    """What the door takes at most."""

    message_bytes: int = MESSAGE_BYTES
    receiving_bytes: int = RECEIVING_BYTES
    connections: int = CONNECTIONS


class ProducerSocket:
    """Accepts producers, and knows what all of them are sending."""

    def __init__(self, path: Path, streams: Streams, bounds: DoorBounds) -> None:
        self.streams, self.bounds = streams, bounds
        self.receiving = 0  # bytes of bodies
        self.connections = 0
        path.unlink(missing_ok=True)  # nobody listens there: who holds gateway.sock is the gateway
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(str(path))
        self._socket.listen(BACKLOG)
        self._socket.setblocking(False)

    def fileno(self) -> int:
        return self._socket.fileno()

    def accept(self) -> ProducerConnection | None:
        """The next producer; None if there is none, or none may come in."""
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
    """One producer."""

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
        """Whether an answer waits for the producer to read; nothing is received meanwhile."""
        return bool(self._answer)

    def go_on(self) -> bool:
        """As far as the socket lets it; False once the connection has ended."""
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
        """Why the body is not wanted, known before it comes."""
        bounds = self._door.bounds
        most = DESCRIBE_BYTES if head.kind == DESCRIBE else bounds.message_bytes
        if head.body > DISCARDED_BYTES:
            raise NotUnderstood(f"{head.body:,} bytes are more than any batch has")
        if head.body > most:
            return RefusedBatch(f"{head.body:,} bytes where {most:,} are the most: send smaller batches")
        if self._door.receiving + head.body > bounds.receiving_bytes:
            return RefusedBatch("other producers are sending as much as fits", RETRY_AFTER_S)
        if head.kind != DESCRIBE and head.stream not in self._described:
            return RefusedBatch(f"the columns sent to stream {head.stream} are to be described first")
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
            return RefusedBatch(f"not an Arrow schema: {problem}")
        self._described.add(head.stream)
        return Described(expected.serialize().to_pybytes())

    def _send(self) -> bool:
        """Whether the whole answer has gone out."""
        self._answer = self._answer[self._socket.send(self._answer, socket.MSG_NOSIGNAL) :]
        return not self._answer

    def _release(self) -> None:
        self._door.receiving -= self._receiving
        self._receiving = 0
        self._body = memoryview(b"")
        if len(self._kept) > KEPT_BYTES:
            self._kept = bytearray()


SCRATCH = memoryview(bytearray(1 << 18))
