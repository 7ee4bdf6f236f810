"""Frame numbers and row counts at which dropped streams continue if they are declared again.

These numbers and counts are kept in a file that survives a restart of the gateway, unless shared memory ran out while the file was written.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

# Maximum number of entries for dropped streams. If there are more, the entries of the earliest dropped streams are deleted.
DROPPED_MAX = 4096


class DroppedStreams:
    """The next frame number and the row count of each dropped stream, by its name in lower case."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._counts: dict[str, tuple[int, int]] = {}
        with suppress(FileNotFoundError):
            record = json.loads(path.read_text(encoding="utf-8"))
            self._counts = {name: (number, rows) for name, (number, rows) in record.items()}

    def counts(self, name: str) -> tuple[int, int]:
        """Return the frame number and the row count at which the stream begins; 0 and 0 if it was never dropped."""
        return self._counts.get(name, (0, 0))

    def note(self, name: str, number: int, rows: int) -> None:
        self._counts.pop(name, None)
        self._counts[name] = (number, rows)
        while len(self._counts) > DROPPED_MAX:
            del self._counts[next(iter(self._counts))]
        with suppress(OSError):
            draft = self._path.with_suffix(".draft")
            draft.write_text(json.dumps(self._counts), encoding="utf-8")
            os.replace(draft, self._path)
