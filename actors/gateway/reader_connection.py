"""The gateway's end of a reader's connection, with a queue of packets for which the socket has no room.

A socket holds some hundred small unread packets, but a host of a thousand classes may receive a News packet for each class.
A connection with more than `WAITING_MAX` queued packets is closed, since its reader does not read at all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from actors.messages.gateway_messages import Message, encode
from actors.runtime.unix_channel import Channel

WAITING_MAX = 16_384


class ReaderConnection:
    """Connection of a reader. Callers must not use it from several threads at a time."""

    def __init__(self, channel: Channel, blocked: Callable[[ReaderConnection], None]) -> None:
        self.channel = channel
        self._blocked = blocked  # Function to call when the first packet has to wait for room in the socket
        self._waiting: deque[bytes] = deque()

    def fileno(self) -> int:
        return self.channel.fileno()

    def send(self, message: Message) -> None:
        self._waiting.append(encode(message))
        if len(self._waiting) == 1 and not self.flush():
            self._blocked(self)
        elif len(self._waiting) > WAITING_MAX:
            self.channel.end()

    def flush(self) -> bool:
        """Send queued packets while the socket has room; return True if the queue is empty afterwards."""
        try:
            while self._waiting:
                self.channel.send(self._waiting[0])
                self._waiting.popleft()
        except BlockingIOError:
            return False
        except OSError:
            self.channel.end()
            self._waiting.clear()
        return True
