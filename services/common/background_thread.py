"""A thread that polls something until it is stopped.

Threads that serve sockets, keep a child process or share one event with others (`services.api.server`, `services.ingest.process`,
`services.mirror`) are ended by other means, and have loops of their own.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class BackgroundThread(ABC):
    """`_run` is called in a thread of its own by `start`, and returns once `_stopping` is set."""

    def __init__(self, name: str) -> None:
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Idempotent. A look that is under way is waited for."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @abstractmethod
    def _run(self) -> None: ...
