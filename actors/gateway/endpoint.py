"""Interface of the network endpoint that a gateway can open for producers and readers on other machines.

The implementation is in `services.ingest.flight`; `actors` does not import it.
"""

from __future__ import annotations

from typing import Any, Protocol, Self

from actors.gateway.streams import Streams
from actors.runtime.run_dirs import RunDirs


class Endpoint(Protocol):
    """Server that runs from its creation until `close`."""

    def status(self) -> dict[str, Any]:
        """Return a status with at least `endpoint` (the address) and `dead` (number of rejected rows, by stream and reason)."""

    def close(self) -> None: ...


class EndpointSettings(Protocol):
    """Settings from which an endpoint is opened. They can be pickled and contain no secrets."""

    def with_new_key(self) -> tuple[Self, str]:
        """Make a new key for writing and reading all streams. Return settings that accept the key, and the key."""

    def open(self, streams: Streams, dirs: RunDirs) -> Endpoint: ...
