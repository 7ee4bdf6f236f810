"""Lengths of the logs of classes, and the readers that wait until a log grows.

Hosts announce it after their slices; for a unit that runs on another node, the copy of its log does. A number is only compared
for being another one: the log of a class that was removed and declared again begins with 0.
"""

from __future__ import annotations

import threading

from actors.gateway.reader_connection import ReaderConnection
from actors.messages.gateway_messages import NO_GROWTH, AwaitGrowth, Grew


class ClassGrowth:
    """Keeps for each unit the length of its log that was announced last. `grown` and its lock are those of the streams."""

    def __init__(self, grown: threading.Condition) -> None:
        self._grown = grown
        self._next: dict[str, int] = {}
        self._waiting: dict[str, set[ReaderConnection]] = {}

    def is_announced(self, unit: str) -> bool:
        return unit in self._next

    def hear(self, unit: str, number: int) -> None:
        """Wake what waits in this process, and send the announcement to the readers that await one."""
        with self._grown:
            if number == self._next.get(unit):
                return
            self._next[unit] = number
            for peer in self._waiting.pop(unit, ()):
                peer.send(Grew(unit, number))
            self._grown.notify_all()

    def wait(self, message: AwaitGrowth, peer: ReaderConnection) -> None:
        """Send one announcement: at once if the reader does not know the last one, else the next."""
        with self._grown:
            number = self._next.get(message.name, NO_GROWTH)
            if number != message.next:
                peer.send(Grew(message.name, number))
            else:
                self._waiting.setdefault(message.name, set()).add(peer)

    def left(self, peer: ReaderConnection) -> None:
        with self._grown:
            for unit, peers in list(self._waiting.items()):
                peers.discard(peer)
                if not peers:
                    del self._waiting[unit]
