"""Lengths of the logs of classes, and the readers that wait until a log grows.

A host announces the length of a unit's log after a slice. If the unit runs on another node, the thread that copies the log
announces the length. A waiting reader is informed when the length differs from the length that the reader knows, even if it is
lower: after a class was removed and declared again, its log starts at 0.
"""

from __future__ import annotations

import threading

from actors.gateway.reader_connection import ReaderConnection
from actors.messages.gateway_messages import NO_GROWTH, AwaitGrowth, Grew


class ClassGrowth:
    """The last announced length of each unit's log. The condition `grown` is shared with the streams of the gateway."""

    def __init__(self, grown: threading.Condition) -> None:
        self._grown = grown
        self._next: dict[str, int] = {}
        self._waiting: dict[str, set[ReaderConnection]] = {}

    def is_announced(self, unit: str) -> bool:
        return unit in self._next

    def hear(self, unit: str, number: int) -> None:
        """Record the length of a unit's log, notify waiting threads, and send the length to the readers that wait for the log."""
        with self._grown:
            if number == self._next.get(unit):
                return
            self._next[unit] = number
            for peer in self._waiting.pop(unit, ()):
                peer.send(Grew(unit, number))
            self._grown.notify_all()

    def wait(self, message: AwaitGrowth, peer: ReaderConnection) -> None:
        """Send the reader the length of the log as soon as this length differs from the length that the reader knows."""
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
