"""Gateway with a Flight server, to which Spark publishes rows. The tests read the published rows from the gateway's logs."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from actors.gateway.gateway_loop import Gateway
from actors.log.segment_log import Reader
from actors.log.train_format import batch_of
from actors.runtime.run_dirs import RunDirs
from bench.subscriber import Subscriber
from engine.data.schema import StreamSchema
from engine.data.train import train_to_arrow
from services.ingest.flight import FlightSettings
from services.ingest.keys import new_key


class RealGateway:
    """Gateway that can be stopped, and started again with the same address and the same logs."""

    def __init__(self, base: Path, certificate: tuple[Path, Path] | None = None) -> None:
        self.key = new_key()
        self._certificate = certificate or (None, None)
        self.endpoint = ""
        self._dirs = RunDirs(base, "s", "n1")
        self._held = self._dirs.hold()
        self._schemas: dict[str, StreamSchema] = {}
        self._readers: list[Subscriber] = []
        self.start()

    def start(self) -> None:
        self._gateway = Gateway(self._dirs)
        self._thread = threading.Thread(target=self._gateway.run)
        self._thread.start()
        port = int(self.endpoint.rpartition(":")[2] or 0)
        settings = FlightSettings("127.0.0.1", port, *self._certificate).with_key(self.key)
        self._door = settings.open(self._gateway.streams, self._dirs)
        self.endpoint = self._door.address
        for name in self._schemas:
            self._read(name)

    def stop(self) -> None:
        for reader in self._readers:
            reader.close()
        self._readers.clear()
        self._door.close()
        self._gateway.stop()
        self._thread.join()

    def close(self) -> None:
        self.stop()
        os.close(self._held)

    def declare(self, sql: str) -> None:
        """Declare a stream, and add a lossless reader that never advances, so that the stream's log keeps all rows."""
        stream = self._gateway.streams.declare(sql)
        self._schemas[stream.name] = stream.schema
        self._read(stream.name)

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Return all rows of the stream, in the order of their arrival."""
        frames = Reader(self._dirs.stream(name)).frames(0)
        batches = [train_to_arrow(batch_of(payload), self._schemas[name].schema) for _, payload in frames]
        return [row for batch in batches for row in batch.to_pylist()]

    def folder_of(self, name: str) -> Path:
        """Return the folder of a stream, with its log and its dead letters (rows that could not be read)."""
        return self._dirs.stream(name)

    def refused(self) -> int:
        """Return how many batches the gateway has refused because a stream had no room."""
        return sum(stream["refused_batches"] for stream in self._gateway.streams.status())

    def _read(self, name: str) -> None:
        self._readers.append(Subscriber(self._dirs, "reader", name, 0, lossless=True))


@contextmanager
def opened(certificate: tuple[Path, Path] | None = None) -> Iterator[RealGateway]:
    # The folder's path must be short, because the path of a Unix socket in the folder may have only about 100 characters.
    with TemporaryDirectory() as base:
        gateway = RealGateway(Path(base), certificate)
        try:
            yield gateway
        finally:
            gateway.close()
