"""Reader of dead-letter logs, for tests that check which rows a gateway has set apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from services.ingest.deadletters import FOLDER, found


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Frame of a dead-letter log: dead rows of one batch with the same reason."""

    reason: str
    column: str
    producer: str
    batch: int
    rows: int
    """Number of dead rows; `kept` may have fewer."""
    kept: pa.Table


def letters(folder: Path) -> Iterator[DeadLetter]:
    """Yield the dead letters in a stream's folder, oldest first."""
    for head, rows in found(folder / FOLDER):
        fields = {name: head[name] for name in ("reason", "column", "producer", "batch", "rows")}
        yield DeadLetter(**fields, kept=pa.ipc.open_stream(pa.py_buffer(rows)).read_all())
