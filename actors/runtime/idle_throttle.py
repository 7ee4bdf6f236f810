"""Reduction of the processor time that an idle Ray actor takes.

Ray checks for signals in the main thread of each actor 100 times per second and has no setting for it. In an idle actor these
checks cause most of the processor time. Python runs signal handlers within such a check. So this module sets an alarm with a
handler that sleeps while the actor is idle. That reduces the checks to five per second. Ray calls are started by the main thread, so
a call may have to wait for the end of the sleep, up to `REST_S`. Work that arrives another way must call `end`, which wakes it.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable

REST_S = 0.2
# Seconds that the main thread is awake between two sleeps. In this time it starts the calls that have arrived.
BETWEEN_S = 0.005
# Seconds between checks while the actor is not idle. The actor starts to sleep after QUIET_LOOKS checks in a row found it idle.
LOOK_S = 1.0
QUIET_LOOKS = 5


def unchanged(look: Callable[[], object]) -> Callable[[], bool]:
    """Return a function that returns True if `look` returns the same value as at the previous call."""
    before: object = None

    def is_idle() -> bool:
        nonlocal before
        now = look()
        was, before = before, now
        return now == was

    return is_idle


class Rest:
    """Timer that lets the main thread sleep while the actor is idle, so that Ray's checks cost less.

    The main thread must create the timer. The timer's signal handler calls `is_idle`.
    """

    def __init__(self, is_idle: Callable[[], bool]) -> None:
        self._is_idle = is_idle
        self._news = threading.Event()
        self._looks = 0  # Number of checks in a row that found the actor idle
        signal.signal(signal.SIGALRM, lambda *_: self._look())
        signal.setitimer(signal.ITIMER_REAL, LOOK_S)

    def end(self) -> None:
        """Wake the main thread because the actor has work. May be called from any thread."""
        self._looks = 0
        self._news.set()

    def _look(self) -> None:
        self._news.clear()
        self._looks = self._looks + 1 if self._is_idle() else 0
        if self._looks > QUIET_LOOKS:
            self._news.wait(REST_S)
            signal.setitimer(signal.ITIMER_REAL, BETWEEN_S)
        else:
            signal.setitimer(signal.ITIMER_REAL, LOOK_S)
