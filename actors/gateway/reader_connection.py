"""A reader's connection as the gateway sees it: what finds no room in the socket waits here, in order.

A socket takes some hundred small packets that are not read yet; a host of a thousand classes may have one News for
each. More than `WAITING_MAX` is only for who does not read at all: its connection ends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from actors.messages.gateway_messages import Message, encode
from actors.runtime.unix_channel import Channel

WAITING_MAX = 16_384


class ReaderConnection:
    """Not for several threads at once."""

    def __init__(self, channel: Channel, blocked: Callable[[ReaderConnection], None]) -> None:
        self.channel = channel
        self._blocked = blocked  # told when something begins to wait
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
        """Whether nothing waits any more."""
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
