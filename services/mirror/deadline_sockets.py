"""Looks that end by the clock: whoever takes too long has his connection cut under him.

A time limit on each read is none on a look: a server that sends a byte now and then meets every one of them, and a database
that has been stopped answers nothing for ever. A thread that waits for a socket hears of nothing else, so another one looks
at the clock and shuts the socket down, which ends the wait at once.

    with patience.look() as look:       of this thread
        look.waits_for(socket)          what is cut fails as if the other side had hung up; then it `is_over`

1. No look waits for a socket for longer than `look_s` and `CHECK_S`, and none once `close` has returned.
2. While nobody looks it costs a glance at the clock every `CHECK_S`.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count

CHECK_S = 0.5


@dataclass
class OpenLook:
    """One that is under way."""

    until: float
    sockets: Sequence[socket.socket] = ()
    """All that it may be waiting for."""
    is_cut: bool = False

    @property
    def is_over(self) -> bool:
        """It has had its time, or nobody is to wait any longer."""
        return self.is_cut or time.monotonic() >= self.until

    def waits_for(self, *sockets: socket.socket) -> None:
        self.sockets = sockets
        if self.is_over:
            self.cut()

    def cut(self) -> None:
        self.is_cut = True
        for connection in self.sockets:
            with suppress(OSError):  # it is closed already
                # Not as a TLS socket's own method has it, which takes the session from under who reads.
                socket.socket.shutdown(connection, socket.SHUT_RDWR)


class DeadlineSockets:
    """Of one store of objects; may be used by several threads."""

    def __init__(self, look_s: float) -> None:
        self.look_s = look_s
        self._lock = threading.Lock()
        self._looks: dict[int, OpenLook] = {}
        self._numbers = count()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    @contextmanager
    def look(self) -> Iterator[OpenLook]:
        look, number = OpenLook(time.monotonic() + self.look_s), next(self._numbers)
        with self._lock:
            look.is_cut = self._closed.is_set()
            self._looks[number] = look
            if self._thread is None and not self._closed.is_set():
                self._thread = threading.Thread(target=self._watch, name="patience", daemon=True)
                self._thread.start()
        try:
            yield look
        finally:
            with self._lock:
                del self._looks[number]

    def close(self) -> None:
        """Who is still looking is cut off, and so is who begins to; idempotent."""
        self._closed.set()
        with self._lock:
            for look in self._looks.values():
                look.cut()

    def _watch(self) -> None:
        while not self._closed.wait(min(CHECK_S, self.look_s)):
            now = time.monotonic()
            with self._lock:
                for look in self._looks.values():
                    if now >= look.until:
                        look.cut()
