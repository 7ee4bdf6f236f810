"""What a gateway opens, if it is told to, for producers and readers beyond its machine; who makes it is not known here."""

from __future__ import annotations

from typing import Any, Protocol, Self

from actors.gateway.streams import Streams
from actors.runtime.run_dirs import RunDirs


class Endpoint(Protocol):
    """Serves from its making until `close`."""

    def status(self) -> dict[str, Any]:
        """`endpoint`, where it is reached; `dead`, by stream and reason how many rows could not be taken; and more."""

    def close(self) -> None: ...


class EndpointSettings(Protocol):
    """Survives pickling, and holds nothing that must stay secret."""

    def with_new_key(self) -> tuple[Self, str]:
        """The same, and a key of which it knows enough: who shows it may write and read everything."""

    def open(self, streams: Streams, dirs: RunDirs) -> Endpoint: ...
