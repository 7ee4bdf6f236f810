"""Client with which benchmarks and tests subscribe to one stream, read the stream's log, and wait for more frames.

When the gateway ends, `wait` raises a ConnectionError. Frames that are in the log can still be read, and a new Subscriber with
the same name continues at the restarted gateway.
"""

from __future__ import annotations

import select
from collections.abc import Iterator

from actors.log.segment_log import Reader
from actors.messages.gateway_messages import (
    FROM_NOW,
    Denied,
    Heard,
    Message,
    News,
    Released,
    Subscribe,
    Subscribed,
    Unsubscribe,
    decode,
    encode,
)
from actors.runtime.run_dirs import RunDirs
from actors.runtime.unix_channel import connect
from configs.errors import InvalidInput


class Subscriber:
    """Reader of one stream with its own connection, to be used by one thread."""

    def __init__(
        self, dirs: RunDirs, reader: str, stream: str, start: int = FROM_NOW, lossless: bool = False
    ) -> None:
        self.reader, self.stream = reader, stream
        self._channel = connect(dirs.gateway_socket)
        self._waiting = False
        self._say(Subscribe(reader, stream, start, lossless))
        answer = self._hear(None)
        assert isinstance(answer, Subscribed)
        self.next = answer.next if start == FROM_NOW else start
        self._log = Reader(dirs.stream(stream))

    def fileno(self) -> int:
        return self._channel.fileno()

    def frames(self) -> Iterator[tuple[int, memoryview]]:
        """Yield the frames (entries of the log) after the last one yielded. Raise FrameForgotten if the log has deleted a frame."""
        for number, payload in self._log.frames(self.next):
            self.next = number + 1
            yield number, payload

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the stream has more frames; return False after `timeout_s`."""
        if not self._waiting:
            self._say(Heard(self.reader, self.stream, self.next))
            self._waiting = True
        if self._hear(timeout_s) is None:
            return False
        self._waiting = False
        return True

    def release(self, below: int) -> None:
        self._say(Released(self.reader, self.stream, below))

    def unsubscribe(self) -> None:
        self._say(Unsubscribe(self.reader, self.stream))

    def close(self) -> None:
        self._channel.close()

    def _say(self, message: Message) -> None:
        self._channel.send(encode(message))

    def _hear(self, timeout_s: float | None) -> News | Subscribed | None:
        ready = select.poll()
        ready.register(self._channel, select.POLLIN)
        if not ready.poll(None if timeout_s is None else 1e3 * timeout_s):
            return None
        packet = self._channel.receive()
        if packet is None:
            raise ConnectionResetError("the gateway closed the connection of the subscriber")
        message = decode(packet)
        if isinstance(message, Denied):
            raise InvalidInput(message.reason, "stream", self.stream)
        assert isinstance(message, News | Subscribed)
        return message
