"""Base class of threads that poll something until they are stopped.

Threads that serve sockets, supervise a child process or share one event with others do not use this class, because such threads
are stopped differently (`services.api.server`, `services.ingest.process`, `services.mirror`).
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Self


class BackgroundThread(ABC):
    """Thread that runs `_run` between `start` and `stop`. A subclass implements `_run`, which must return once `_stopping` is set."""

    def __init__(self, name: str) -> None:
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread after the poll in progress. Idempotent."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @abstractmethod
    def _run(self) -> None: ...
