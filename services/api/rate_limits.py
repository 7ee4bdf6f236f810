"""Limits on the requests of a caller, so that one caller cannot block the service for other callers.

`RateLimits` limits requests per key, wrong keys per address, and waiting readers per key. `bounded` limits the size of a body.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from starlette.exceptions import HTTPException
from starlette.types import Message, Receive, Scope

from configs.service.service_settings import ServiceSettings
from services.api.problems import TooManyRequests, retry_after

# Maximum number of token buckets. Beyond this number, the least recently used bucket is dropped, and its caller later starts with a full bucket.
REMEMBERED = 100_000
TOO_LARGE = 413
# Maximum size of the console's sign-in form in bytes. The form contains only a key, and is sent by callers without a session.
FORM_BYTES = 16 << 10


class Buckets:
    """Token buckets by name: each request takes a token, and tokens are added at a constant rate up to a maximum."""

    def __init__(self, rate_per_s: float, size: float, clock: Callable[[], float]) -> None:
        self._rate_per_s, self._size, self._clock = rate_per_s, size, clock
        self._of: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, name: str) -> float:
        """Take a token and return 0; if no token is left, return the seconds until the next token."""
        now = self._clock()
        with self._lock:
            left, at = self._of.pop(name, (self._size, now))
            left = min(self._size, left + (now - at) * self._rate_per_s)
            took = left >= 1.0
            self._of[name] = (left - took, now)
            if len(self._of) > REMEMBERED:
                self._of.popitem(last=False)
        return 0.0 if took else (1.0 - left) / self._rate_per_s


class RateLimits:
    """Limits on requests, wrong keys and waiting readers of one service; thread-safe."""

    def __init__(self, settings: ServiceSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self.settings = settings
        self._requests = Buckets(settings.requests_per_s, settings.requests_burst, clock)
        per_s = settings.failures_per_minute / 60
        self._failures = Buckets(per_s, settings.failures_per_minute, clock)
        self._streams: Counter[str] = Counter()
        self._lock = threading.Lock()

    def check_request(self, key_id: str) -> None:
        wait_s = self._requests.take(key_id)
        if wait_s:
            rate = f"{self.settings.requests_per_s:g} per second"
            raise TooManyRequests(
                f"the key has sent more requests than its limit of {rate}",
                hint="try again later",
                headers=retry_after(wait_s),
            )

    def check_failure(self, address: str) -> None:
        """Count a request with a wrong key; raise TooManyRequests beyond the limit. Valid keys from the same address are not affected."""
        wait_s = self._failures.take(address)
        if wait_s:
            raise TooManyRequests(
                "this address has sent too many requests with wrong keys",
                hint="try again later with a valid key",
                headers=retry_after(wait_s),
            )

    @contextmanager
    def waiting(self, key_id: str) -> Iterator[None]:
        """Count the caller as a waiting reader while the block runs; raise TooManyRequests if the caller has too many waiting readers."""
        most = self.settings.streams_per_key
        with self._lock:
            if self._streams[key_id] >= most:
                raise TooManyRequests(
                    f"the key already has its maximum of {most:,} readers that wait for rows",
                    hint="close some readers, or read with another key",
                    headers=retry_after(1),
                )
            self._streams[key_id] += 1
        try:
            yield
        finally:
            with self._lock:
                self._streams[key_id] -= 1
                if not self._streams[key_id]:
                    del self._streams[key_id]


def bytes_max(settings: ServiceSettings, path: str) -> int:
    """Return the maximum size in bytes of a body for this path."""
    if path in ("/v1/apply", "/v1/plan"):
        return settings.documents_bytes
    if path.startswith("/v1/streams/") and path.endswith("/rows"):
        return settings.rows_bytes
    if path.startswith("/console/"):
        return FORM_BYTES
    return settings.body_bytes


def bounded(scope: Scope, receive: Receive, most: int) -> Receive:
    """Return a function that receives the body and refuses a body above the limit. A Content-Length above the limit is refused at once."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and int(value) > most:
            raise too_large(most)
    seen = 0

    async def receive_bounded() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > most:
            raise too_large(most)
        return message

    return receive_bounded


def too_large(most: int) -> HTTPException:
    """Return the HTTPException for a body above the limit. FastAPI ends the request with this exception, and reads no more of the body."""
    return HTTPException(
        TOO_LARGE, f"the body has more than {most:,} bytes; send less at a time", {"Connection": "close"}
    )
