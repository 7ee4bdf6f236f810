"""What a stream has had of producers that number their batches: the last one of each.

Batches of a producer count upwards, so all up to its last one have been published or left out. Of so many producers
that have published last; who was silent for longer is forgotten, and could publish a batch of his a second time.
"""

from __future__ import annotations

from collections.abc import Iterable

from actors.log.train_format import BatchId

PRODUCERS_MAX = 10_000


class LastBatches:
    """By producer, the least recent first."""

    def __init__(self, recorded: Iterable[tuple[str, int]] = (), most: int = PRODUCERS_MAX) -> None:
        self._most = most
        self._last = {bytes.fromhex(mark): number for mark, number in recorded}

    def __len__(self) -> int:
        return len(self._last)

    def of(self, mark: bytes) -> int | None:
        return self._last.get(mark)

    def has(self, batch: BatchId) -> bool:
        return batch.number <= self._last.get(batch.mark, -1)

    def note(self, batch: BatchId) -> None:
        last = self._last.pop(batch.mark, batch.number)
        self._last[batch.mark] = max(last, batch.number)
        if len(self._last) > self._most:
            del self._last[next(iter(self._last))]

    def record(self) -> list[tuple[str, int]]:
        """What it can be made of again."""
        return [(mark.hex(), number) for mark, number in self._last.items()]
