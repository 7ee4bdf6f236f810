"""Console sessions: a cookie identifies a browser that has signed in with a key. The cookie is not the key.

A session ends when its key expires or is revoked. Sessions are kept in memory, so they also end when the service stops.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

COOKIE = "weir_session"
HEADER = b"x-weir-console"
"""Header that console pages send with every change; a form on another site cannot send it (CSRF protection)."""

SESSIONS_MAX = 10_000
# Limit of the sessions per key, so that repeated sign-ins with one key do not push out the sessions of other keys.
SESSIONS_OF_KEY_MAX = 100
LASTS_S = 12 * 3600.0


class Sessions:
    """Store of all console sessions; thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._of: OrderedDict[str, tuple[str, float]] = OrderedDict()

    def begin(self, key_id: str) -> str:
        """Start a session and return the value of its cookie; end the oldest session if there are too many."""
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
        """Return the ID of the key that started the session; None if the session does not exist or has expired."""
        session = self._of.get(token)
        if session is None:
            return None
        key_id, until = session
        if self._clock() < until:
            return key_id
        self.end(token)
        return None

    def end(self, token: str) -> None:
        """End the session; do nothing if the session has ended already."""
        with self._lock:
            self._of.pop(token, None)
