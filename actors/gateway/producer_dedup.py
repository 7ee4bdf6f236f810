"""Numbers of the last batches that a stream has received, by producer, so that a repeated batch is not published twice.

Each producer numbers its batches upwards, so a batch with a number up to the last one is a repetition. The PRODUCERS_MAX
producers that published last are remembered. A producer that has been forgotten could publish a batch a second time.
"""

from __future__ import annotations

from collections.abc import Iterable

from actors.log.train_format import BatchId

PRODUCERS_MAX = 10_000


class LastBatches:
    """Number of the last batch of each producer; the producer that has been silent longest is first."""

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
        """Return the producers and the numbers of their last batches, in the form that the constructor accepts."""
        return [(mark.hex(), number) for mark, number in self._last.items()]
