"""Wake-up of a thread that polls sockets, by an eventfd that is polled together with them."""

from __future__ import annotations

import os
from contextlib import suppress


class WakeUp:
    """Event that wakes a polling thread. Any thread may call `set`; several calls before the next `clear` have the effect of one call."""

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
        # The descriptor is closed together with the object: after an earlier close, `set` could write to another file.
        os.close(self._event)
