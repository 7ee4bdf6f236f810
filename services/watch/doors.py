"""Where nodes are reached over the network: read on this machine, asked of those elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Callable

from actors.runtime.run_dirs import RunDirs, shared_memory
from services.results.places import endpoint_in
from services.watch.source import SourceAway, WatchSource

# A gateway that begins anew may have another port; who is silent keeps nobody waiting again before that.
KEPT_S = 5.0


class Doors:
    """For several threads."""

    def __init__(self, source: WatchSource, clock: Callable[[], float]) -> None:
        self._source, self._clock = source, clock
        self._lock = threading.Lock()
        self._known: dict[str, tuple[float, str | None]] = {}

    def endpoint(self, node: str) -> str | None:
        """None if it has none, or is not there now."""
        here = RunDirs(shared_memory(), self._source.name, node)
        return endpoint_in(here) if here.folder.is_dir() else self._elsewhere(node)

    def _elsewhere(self, node: str) -> str | None:
        with self._lock:
            until, place = self._known.get(node, (float("-inf"), None))
            if self._clock() >= until:
                place = self._asked(node)
                self._known[node] = (self._clock() + KEPT_S, place)
            return place

    def _asked(self, node: str) -> str | None:
        try:
            return self._source.endpoint(node)
        except SourceAway:
            return None
