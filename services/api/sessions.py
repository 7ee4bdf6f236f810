"""Sessions of consoles: who has signed in with a key is known by a cookie, which is not the key.

A session is as good as its key, and ends with it; it is kept in memory, so that it also ends with the service.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

COOKIE = "weir_session"
HEADER = b"x-weir-console"
"""What a page sends along with changes; a form of another site cannot."""

SESSIONS_MAX = 10_000
# Nobody ends the sessions of others by signing in again and again.
SESSIONS_OF_KEY_MAX = 100
LASTS_S = 12 * 3600.0


class Sessions:
    """May be called by several threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._of: OrderedDict[str, tuple[str, float]] = OrderedDict()

    def begin(self, key_id: str) -> str:
        """The cookie's value; the oldest session ends if there are too many."""
        token = secrets.token_urlsafe(32)
        with self._lock:
            same = [token for token, (whose, _) in self._of.items() if whose == key_id]
            if len(same) >= SESSIONS_OF_KEY_MAX:
                del self._of[same[0]]
            self._of[token] = (key_id, self._clock() + LASTS_S)
            while len(self._of) > SESSIONS_MAX:
                self._of.popitem(last=False)
        return token

    def key_id(self, token: str) -> str | None:
        """Of whoever shows it."""
        session = self._of.get(token)
        if session is None:
            return None
        key_id, until = session
        if self._clock() < until:
            return key_id
        self.end(token)
        return None

    def end(self, token: str) -> None:
        """Idempotent."""
        with self._lock:
            self._of.pop(token, None)
