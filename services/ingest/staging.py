"""Parts of batches that wait for their commit, in memory.

Numbered properties:
1. All parts together, and what is being received, take no more than `bytes_max`; who brings more is told to come again.
   A batch that does not fit even alone is refused for good.
2. A part is there under its batch, partition and attempt until it is replaced, its batch is dropped, or nobody has
   touched the batch for `untouched_s`.

What is lost with the process is brought again by the producer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from actors.gateway.stream import Stream
from configs.errors import WeirError
from engine.data.train import Train
from services.ingest.deadletters import DeadRows

STAGED_BYTES = 512 << 20
UNTOUCHED_S = 3600.0
# What a part takes beside its rows.
PART_BYTES = 2048

PartName = tuple[int, str]  # partition and attempt


class StagingFull(WeirError):
    """There will be room later."""


class BatchTooLarge(WeirError):
    """There will never be room."""


class NotStaged(WeirError):
    """A part that is to be published is not there."""


@dataclass(frozen=True, slots=True)
class BatchKey:
    """A batch, of a stream as it was declared when the batch was brought."""

    stream: Stream
    producer: str
    number: int


@dataclass(frozen=True, slots=True)
class StagedPart:
    """Rows that will be published, and rows that cannot be."""

    trains: tuple[Train, ...] = ()
    dead: tuple[DeadRows, ...] = ()

    @property
    def rows(self) -> int:
        return sum(map(len, self.trains))

    @property
    def dead_rows(self) -> int:
        return sum(rows.rows for rows in self.dead)


@dataclass(slots=True)
class StagedBatch:
    """What is there of a batch."""

    touched: float
    parts: dict[PartName, tuple[StagedPart, int]] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        return sum(size for _, size in self.parts.values())


@dataclass(slots=True)
class Held:
    """Bytes of a part that is being received."""

    batch: BatchKey
    bytes: int = 0


class Staging:
    """For any thread."""

    def __init__(
        self,
        bytes_max: int = STAGED_BYTES,
        untouched_s: float = UNTOUCHED_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._bytes_max, self._untouched_s, self._clock = bytes_max, untouched_s, clock
        self._lock = threading.Lock()
        self._bytes = 0
        # The one that was touched least recently first.
        self._batches: dict[BatchKey, StagedBatch] = {}

    @contextmanager
    def receiving(self, batch: BatchKey) -> Iterator[Held]:
        """What is held for a part until the end of the block, unless `put` has kept it."""
        held = Held(batch)
        try:
            self.hold(held, PART_BYTES)
            yield held
        finally:
            with self._lock:
                self._bytes -= held.bytes

    def hold(self, held: Held, size: int) -> None:
        """So many bytes more; StagingFull or BatchTooLarge if there is no room for them."""
        with self._lock:
            self._forget_untouched()
            there = self._batches.get(held.batch)
            whole = held.bytes + size + (0 if there is None else there.bytes)
            if whole > self._bytes_max:
                what = f"a batch of {whole:,} bytes or more, where {self._bytes_max:,} are the most"
                raise BatchTooLarge(
                    what, hint="let the source bring less at a time, as with maxOffsetsPerTrigger"
                )
            if self._bytes + size > self._bytes_max:
                raise StagingFull(f"{self._bytes:,} bytes of batches wait for their commits")
            self._bytes += size
            held.bytes += size

    def put(self, held: Held, name: PartName, part: StagedPart) -> None:
        """The same part of another time makes way."""
        with self._lock:
            batch = self._touched(held.batch)
            _, before = batch.parts.pop(name, (None, 0))
            batch.parts[name] = part, held.bytes
            self._bytes -= before
            held.bytes = 0

    def parts(self, batch: BatchKey, names: Iterable[PartName]) -> list[StagedPart]:
        """In order of their partitions."""
        with self._lock:
            there = self._touched(batch).parts if batch in self._batches else {}
            in_order = sorted(set(names))
            for name in in_order:
                if name not in there:
                    raise NotStaged("not staged: write the batch again", "parts", list(name))
            return [there[name][0] for name in in_order]

    def drop(self, batch: BatchKey) -> None:
        with self._lock:
            self._drop(batch)

    def drop_until(self, last: BatchKey) -> None:
        """This batch, and those of the producer before it."""
        with self._lock:
            for batch in [
                batch
                for batch in self._batches
                if batch.stream is last.stream
                and batch.producer == last.producer
                and batch.number <= last.number
            ]:
                self._drop(batch)

    def status(self) -> dict[str, Any]:
        with self._lock:
            self._forget_untouched()
            return {"bytes": self._bytes, "bytes_max": self._bytes_max, "batches": len(self._batches)}

    def _touched(self, key: BatchKey) -> StagedBatch:
        batch = self._batches.pop(key, None) or StagedBatch(0.0)
        batch.touched = self._clock()
        self._batches[key] = batch
        return batch

    def _forget_untouched(self) -> None:
        now = self._clock()
        while self._batches:
            oldest, batch = next(iter(self._batches.items()))
            if now - batch.touched < self._untouched_s:
                break
            self._drop(oldest)

    def _drop(self, key: BatchKey) -> None:
        batch = self._batches.pop(key, None)
        if batch is not None:
            self._bytes -= batch.bytes
