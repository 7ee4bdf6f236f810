"""Waking a thread that waits for sockets: an eventfd, which a poll reports like any other."""

from __future__ import annotations

import os
from contextlib import suppress


class WakeUp:
    """Any thread may `set`; the waiting one polls it and then clears it. Several sets before that are one."""

    def __init__(self) -> None:
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def fileno(self) -> int:
        return self._event

    def set(self) -> None:
        os.eventfd_write(self._event, 1)

    def clear(self) -> None:
        with suppress(BlockingIOError):
            os.eventfd_read(self._event)

    def __del__(self) -> None:
        # Not sooner: another thread may yet set it, and the number could be somebody else's by then.
        os.close(self._event)
