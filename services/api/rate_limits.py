"""What one caller may ask of the service, so that it is there for the others too.

Limits     requests of a key, wrong keys of an address, readers that a key keeps waiting
bounded    a body that is no larger than its route takes, whether its length is told or not
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

# Keys and addresses that are remembered; who is forgotten begins anew.
REMEMBERED = 100_000
TOO_LARGE = 413
# Of the console: a key, which whoever brings it need not have.
FORM_BYTES = 16 << 10


class Buckets:
    """A bucket of tokens each, filled at a rate up to a size."""

    def __init__(self, rate_per_s: float, size: float, clock: Callable[[], float]) -> None:
        self._rate_per_s, self._size, self._clock = rate_per_s, size, clock
        self._of: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, name: str) -> float:
        """0 if there was a token; otherwise the seconds until there is one."""
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
    """Of one service; may be called by several threads."""

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
            rate = f"{self.settings.requests_per_s:g} requests a second"
            raise TooManyRequests(
                f"the key has made more than {rate}", hint="come again later", headers=retry_after(wait_s)
            )

    def check_failure(self, address: str) -> None:
        """To be asked for wrong keys alone: others at the same address are not shut out by them."""
        wait_s = self._failures.take(address)
        if wait_s:
            raise TooManyRequests(
                "too many wrong keys from this address",
                hint="come again later, with a key that is live",
                headers=retry_after(wait_s),
            )

    @contextmanager
    def waiting(self, key_id: str) -> Iterator[None]:
        """While a reader is kept waiting for what is to come."""
        most = self.settings.streams_per_key
        with self._lock:
            if self._streams[key_id] >= most:
                raise TooManyRequests(
                    f"the key has {most:,} readers waiting already",
                    hint="close some of them, or read with another key",
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


# -- bodies ----------------------------------------------------------------------------------------------------


def bytes_max(settings: ServiceSettings, path: str) -> int:
    """What the route takes."""
    if path in ("/v1/apply", "/v1/plan"):
        return settings.documents_bytes
    if path.startswith("/v1/streams/") and path.endswith("/rows"):
        return settings.rows_bytes
    if path.startswith("/console/"):
        return FORM_BYTES
    return settings.body_bytes


def bounded(scope: Scope, receive: Receive, most: int) -> Receive:
    """The same body, which is refused as soon as it is too large; at once if its length says so."""
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
    """As the framework lets it through; the rest of the body is not waited for."""
    return HTTPException(TOO_LARGE, f"at most {most:,} bytes; send less at a time", {"Connection": "close"})
