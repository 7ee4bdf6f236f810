"""Network addresses of the nodes' gateways. Addresses of nodes on this machine are read from files; other nodes are asked by a call."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from actors.runtime.run_dirs import RunDirs, shared_memory
from services.results.places import endpoint_in
from services.watch.source import SourceAway, WatchSource

# Seconds after which the address of a gateway is requested again, even from a node that did not answer.
# A restarted gateway may have another port.
KEPT_S = 5.0


class Doors:
    """Cache of the addresses of gateways; may be used by several threads."""

    def __init__(self, source: WatchSource, clock: Callable[[], float]) -> None:
        self._source, self._clock = source, clock
        self._lock = threading.Lock()
        self._known: dict[str, tuple[float, str | None]] = {}

    def endpoint(self, node: str) -> str | None:
        """Return the address of the gateway of `node`, or None if the node has no gateway or does not answer."""
        here = RunDirs(shared_memory(), self._source.name, node)
        return endpoint_in(here) if here.folder.is_dir() else self._elsewhere(node)

    def _elsewhere(self, node: str) -> str | None:
        with self._lock:
            until, place = self._known.get(node, (float("-inf"), None))
            if self._clock() >= until:
                place = None
                with suppress(SourceAway):
                    place = self._source.endpoint(node)
                self._known[node] = (self._clock() + KEPT_S, place)
            return place
