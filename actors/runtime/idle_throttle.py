"""Rest for the main thread of an idle actor.

Ray looks for signals in the main thread of each actor a hundred times a second, for which it has no setting; while nothing
happens that is most of what an actor costs. Python runs a signal's handler in just that look. So an alarm's handler, which
takes its time while the actor is idle, makes a hundred looks a second five. A call of Ray's is begun by the main thread: it
waits until the rest is over, `REST_S` at most. Whoever has work for the actor by another way ends the rest with `end`.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable

REST_S = 0.2
# Between two rests: for the calls that have come meanwhile.
BETWEEN_S = 0.005
# While it is not idle, and until it has been for so many looks.
LOOK_S = 1.0
QUIET_LOOKS = 5


def unchanged(look: Callable[[], object]) -> Callable[[], bool]:
    """Idle is what looks as it did the last time."""
    before: object = None

    def is_idle() -> bool:
        nonlocal before
        now = look()
        was, before = before, now
        return now == was

    return is_idle


class Rest:
    """Made by the main thread, and in force from then on. `is_idle` is asked by it, in a signal's handler."""

    def __init__(
        self,
        is_idle: Callable[[], bool],
        *,
        rest_s: float = REST_S,
        look_s: float = LOOK_S,
        quiet_looks: int = QUIET_LOOKS,
    ) -> None:
        self._is_idle, self._rest_s, self._look_s, self._quiet_looks = is_idle, rest_s, look_s, quiet_looks
        self._news = threading.Event()
        self._looks = 0  # in a row that found it idle
        signal.signal(signal.SIGALRM, lambda *_: self._look())
        signal.setitimer(signal.ITIMER_REAL, look_s)

    def end(self) -> None:
        """Called by any thread; the actor has something to do."""
        self._looks = 0
        self._news.set()

    def _look(self) -> None:
        self._news.clear()
        self._looks = self._looks + 1 if self._is_idle() else 0
        if self._looks > self._quiet_looks:
            self._news.wait(self._rest_s)
            signal.setitimer(signal.ITIMER_REAL, BETWEEN_S)
        else:
            signal.setitimer(signal.ITIMER_REAL, self._look_s)
