"""HTTP/1.1 protocol of uvicorn with limits on the size of a request's head (request line and headers) and on the time until the head is complete."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from services.api.problems import KINDS, MEDIA_TYPE, told_as

HEAD_BYTES_MAX = 64 << 10
HEAD_S = 30.0
# Seconds for which a refused connection stays open, so that the caller gets the response before the connection closes.
LINGER_S = 1.0


class BoundedProtocol(HttpToolsProtocol):
    """HTTP/1.1 connection of one caller, with limits on the size of a request's head and on the time until the head has arrived."""

    _head_bytes = 0
    _in_head = True
    _is_refused = False
    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_came()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        super().data_received(data)
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES_MAX:
                self._is_refused = True
                problem = {
                    "detail": f"path and headers have more than {HEAD_BYTES_MAX:,} bytes",
                    "hint": "send a shorter path or fewer headers",
                }
                self._refuse("head-too-large", problem)
                self.loop.call_later(LINGER_S, self.transport.close)

    def send_400_response(self, msg: str) -> None:
        self._refuse("malformed", {"detail": msg.rstrip("."), "hint": "send HTTP/1.1"})
        self.transport.close()

    def _refuse(self, slug: str, told: dict[str, str]) -> None:
        """Send a problem as the response to input that is not a valid request; the application is not called."""
        kind = KINDS[slug]
        body = bytes(told_as(kind, told).body)
        head = f"HTTP/1.1 {kind.status} {HTTPStatus(kind.status).phrase}\r\nContent-Type: {MEDIA_TYPE}\r\n"
        head += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        self.transport.write(head.encode() + body)

    def on_message_begin(self) -> None:
        self._in_head, self._head_bytes = True, 0
        self._wait_for_head()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._head_came()
        super().on_headers_complete()

    def _wait_for_head(self) -> None:
        if self._patience is None:
            self._patience = self.loop.call_later(HEAD_S, self.transport.close)

    def _head_came(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
