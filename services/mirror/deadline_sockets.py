"""Time limits for fetches: if a fetch takes too long, its sockets are shut down.

A time limit per read does not limit a whole fetch: a server that sends one byte from time to time never exceeds the limit per read,
and a stopped database never answers. A thread that waits for a socket can do nothing else. So another thread watches the clock and
shuts the socket down, which ends the wait at once.

    with patience.look() as look:       begin the time limit of a fetch, in the fetching thread
        look.waits_for(socket)          register a socket; after its shutdown, reads fail and `look.is_over` is True

1. No fetch waits for a socket for longer than `look_s` plus `CHECK_S`, and no fetch waits after `close` has returned.
2. Without fetches, the only cost is a check of the clock every `CHECK_S`.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

CHECK_S = 0.5


@dataclass(eq=False)
class OpenLook:
    """Fetch in progress, with its time limit and its sockets."""

    until: float
    sockets: Sequence[socket.socket] = ()
    """Sockets for which the fetch may wait. The sockets are shut down at the time limit of the fetch."""
    is_cut: bool = False

    @property
    def is_over(self) -> bool:
        """True if the time limit of the fetch has passed, or if its sockets were shut down."""
        return self.is_cut or time.monotonic() >= self.until

    def waits_for(self, *sockets: socket.socket) -> None:
        self.sockets = sockets
        if self.is_over:
            self.cut()

    def cut(self) -> None:
        self.is_cut = True
        for connection in self.sockets:
            # An OSError means that the socket is closed already.
            with suppress(OSError):
                # The method `shutdown` of a TLS socket would also drop the TLS session, from which another thread is still reading.
                socket.socket.shutdown(connection, socket.SHUT_RDWR)


class DeadlineSockets:
    """Time limits of all fetches from one store; thread-safe."""

    def __init__(self, look_s: float) -> None:
        self.look_s = look_s
        self._lock = threading.Lock()
        self._looks: set[OpenLook] = set()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    @contextmanager
    def look(self) -> Iterator[OpenLook]:
        look = OpenLook(time.monotonic() + self.look_s)
        with self._lock:
            look.is_cut = self._closed.is_set()
            self._looks.add(look)
            if self._thread is None and not self._closed.is_set():
                self._thread = threading.Thread(target=self._watch, name="patience", daemon=True)
                self._thread.start()
        try:
            yield look
        finally:
            with self._lock:
                self._looks.remove(look)

    def close(self) -> None:
        """Shut down the sockets of all fetches in progress, and of each fetch that begins later. A second call has no effect."""
        self._closed.set()
        with self._lock:
            for look in self._looks:
                look.cut()

    def _watch(self) -> None:
        while not self._closed.wait(min(CHECK_S, self.look_s)):
            now = time.monotonic()
            with self._lock:
                for look in self._looks:
                    if now >= look.until:
                        look.cut()
