"""The event loop of a node's gateway: accepts batches from producers, writes them to the streams' logs, informs readers.

`Gateway.run` is one thread that sleeps until a socket is ready. Other threads may use `Gateway.streams` meanwhile.
"""

from __future__ import annotations

import selectors
import time
from collections import deque

from actors.gateway.producer_door import DoorBounds, ProducerConnection, ProducerSocket
from actors.gateway.reader_connection import ReaderConnection
from actors.gateway.streams import Streams
from actors.log.segment_log import LOG_BYTES, SEGMENT_BYTES
from actors.messages.gateway_messages import AwaitGrowth, Denied, Grew, decode
from actors.messages.turn_messages import NotUnderstood
from actors.runtime.eventfd import WakeUp
from actors.runtime.run_dirs import RunDirs
from actors.runtime.unix_channel import Listener

READERS_MAX = 4096
# Number of packets that are read from one reader before other readers have their turn.
PACKETS = 64
FAILURES_KEPT = 20


class Gateway:
    """A node's gateway: its sockets, its connections and its streams."""

    def __init__(
        self,
        dirs: RunDirs,
        *,
        bytes_max: int = LOG_BYTES,
        segment_bytes: int = SEGMENT_BYTES,
        bounds: DoorBounds | None = None,
    ) -> None:
        # The listener locks its path, so the node has only one gateway, and no other gateway uses the files of streams and door.
        self._listener = Listener(dirs.gateway_socket)
        self.streams = Streams(dirs, time.monotonic, bytes_max=bytes_max, segment_bytes=segment_bytes)
        self.door = ProducerSocket(dirs.door_socket, self.streams, bounds or DoorBounds())
        self._wake = WakeUp()
        self._stopping = False
        self._late: deque[ReaderConnection] = deque()
        # The last unexpected exceptions in connections of producers.
        self.failures: deque[str] = deque(maxlen=FAILURES_KEPT)
        self._readers: set[ReaderConnection] = set()
        self._producers: set[ProducerConnection] = set()
        self._selector = selectors.DefaultSelector()
        for source in (self._listener, self.door, self._wake):
            self._selector.register(source, selectors.EVENT_READ, source)

    def run(self) -> None:
        """Serve all sockets until `stop` is called, then close them. The logs stay."""
        try:
            while not self._stopping:
                for key, events in self._selector.select():
                    match key.data:
                        case ReaderConnection() as reader:
                            self._serve(reader, events)
                        case ProducerConnection() as producer:
                            self._receive(producer)
                        case Listener():
                            self._accept_reader()
                        case ProducerSocket():
                            self._accept_producer()
                        case _:
                            self._wake_up()
        finally:
            self._close()

    def stop(self) -> None:
        """End `run`. May be called from any thread."""
        self._stopping = True
        self._wake.set()

    def _blocked(self, reader: ReaderConnection) -> None:
        """Make the loop send the queued packets of a reader when the reader's socket has room. Any thread may call this method."""
        self._late.append(reader)
        self._wake.set()

    def _wake_up(self) -> None:
        self._wake.clear()
        while self._late:
            reader = self._late.popleft()
            if reader in self._readers:
                self._selector.modify(reader, selectors.EVENT_READ | selectors.EVENT_WRITE, reader)

    def _accept_reader(self) -> None:
        channel = self._listener.accept()
        if channel is None:
            return
        if len(self._readers) >= READERS_MAX:
            channel.close()
            return
        reader = ReaderConnection(channel, self._blocked)
        self._readers.add(reader)
        self._selector.register(reader, selectors.EVENT_READ, reader)

    def _accept_producer(self) -> None:
        connection = self.door.accept()
        if connection is not None:
            self._producers.add(connection)
            self._selector.register(connection, selectors.EVENT_READ, connection)

    def _serve(self, reader: ReaderConnection, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            with self.streams.lock:
                if reader.flush():
                    self._selector.modify(reader, selectors.EVENT_READ, reader)
        if events & selectors.EVENT_READ and not self._hear(reader):
            self.streams.left(reader)
            self._readers.discard(reader)
            self._selector.unregister(reader)
            reader.channel.close()

    def _hear(self, reader: ReaderConnection) -> bool:
        """Handle the packets that a reader has sent; return False if its connection has to be closed."""
        try:
            for _ in range(PACKETS):
                packet = reader.channel.receive()
                if packet is None:
                    return False
                match decode(packet):
                    case Grew(name, number):
                        self.streams.growth.hear(name, number)
                    case AwaitGrowth() as message:
                        self.streams.growth.wait(message, reader)
                    case message:
                        self.streams.hear(message, reader)
        except BlockingIOError:
            return True
        except NotUnderstood as problem:
            with self.streams.lock:
                reader.send(Denied("", "", str(problem)))
            return False
        return True

    def _receive(self, producer: ProducerConnection) -> None:
        try:
            alive = producer.go_on()
        except Exception as problem:
            # Only the connection of this producer ends; all other producers are still served.
            self.failures.append(repr(problem))
            alive = False
        if not alive:
            self._producers.discard(producer)
            self._selector.unregister(producer)
            producer.close()
            return
        events = selectors.EVENT_WRITE if producer.answering else selectors.EVENT_READ
        if self._selector.get_key(producer).events != events:
            self._selector.modify(producer, events, producer)

    def _close(self) -> None:
        for reader in self._readers:
            reader.channel.close()
        for producer in self._producers:
            producer.close()
        self._selector.close()
        self.door.close()
        self._listener.close()
        self.streams.close()
