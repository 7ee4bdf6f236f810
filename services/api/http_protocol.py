"""HTTP/1.1 as uvicorn reads it, with an end to how long a request's head may be, and how long it may take to come."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from services.api.problems import KINDS, MEDIA_TYPE, told_as

HEAD_BYTES_MAX = 64 << 10
HEAD_S = 30.0
# What a caller goes on to send is read for so long: closed at once, it would not see the answer.
LINGER_S = 1.0


class BoundedProtocol(HttpToolsProtocol):
    """One connection."""

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
                    "detail": f"at most {HEAD_BYTES_MAX:,} bytes",
                    "hint": "send less in the path and in headers",
                }
                self._refuse("head-too-large", problem)
                self.loop.call_later(LINGER_S, self.transport.close)

    def send_400_response(self, msg: str) -> None:
        self._refuse("malformed", {"detail": msg.rstrip("."), "hint": "send HTTP/1.1"})
        self.transport.close()

    def _refuse(self, slug: str, told: dict[str, str]) -> None:
        """What is no request gets no further than here."""
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
