"""Staging: parts of batches that wait in memory for their commit.

Numbered properties:
1. All parts together, including parts that are being received, take at most `bytes_max`. If there is no room for a part, the
   producer must send the part again later. A batch that is larger than `bytes_max` is refused for ever.
2. A part is kept until its batch is dropped, a part of the same batch, partition and attempt replaces it, or no call has
   accessed the batch for `untouched_s`.

If the process ends, its staged parts are lost, and producers send them again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from actors.gateway.stream import Stream
from configs.errors import InvalidInput, WeirError
from engine.data.train import Train
from services.ingest.deadletters import DeadRows

STAGED_BYTES = 512 << 20
UNTOUCHED_S = 3600.0
# Number of bytes that are counted for each part in addition to the size of its rows.
PART_BYTES = 2048

# Name of a part: the number of its partition, and the id of the attempt to send the part.
PartName = tuple[int, str]


class StagingFull(WeirError):
    """Refusal of a part of a producer's batch, because the memory for unfinished batches is full. The producer must send the part again."""


class NotStaged(WeirError):
    """Refusal of a commit because a part that it names is not staged."""


@dataclass(frozen=True, slots=True)
class BatchKey:
    """Identity of a batch: its stream, producer and number. A dropped stream and a new stream with the same name differ."""

    stream: Stream
    producer: str
    number: int


@dataclass(frozen=True, slots=True)
class StagedPart:
    """Rows of one part of a batch: rows that will be published, and rows that cannot be published."""

    trains: tuple[Train, ...] = ()
    dead: tuple[DeadRows, ...] = ()


@dataclass(slots=True)
class StagedBatch:
    """Staged parts of one batch, with the time of the last access to the batch."""

    touched: float
    parts: dict[PartName, tuple[StagedPart, int]] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        return sum(size for _, size in self.parts.values())


@dataclass(slots=True)
class Held:
    """Reservation of memory for a part that is being received."""

    batch: BatchKey
    bytes: int = 0


class Staging:
    """Staged parts of all batches of a gateway; thread-safe."""

    def __init__(
        self,
        bytes_max: int = STAGED_BYTES,
        untouched_s: float = UNTOUCHED_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._bytes_max, self._untouched_s, self._clock = bytes_max, untouched_s, clock
        self._lock = threading.Lock()
        self._bytes = 0
        # Batches in the order of their last access: the batch that was not accessed for the longest time comes first.
        self._batches: dict[BatchKey, StagedBatch] = {}

    @contextmanager
    def receiving(self, batch: BatchKey) -> Iterator[Held]:
        """Reserve memory for a part. The reservation ends with the `with` block, unless `put` has staged the part."""
        held = Held(batch)
        try:
            self.hold(held, PART_BYTES)
            yield held
        finally:
            with self._lock:
                self._bytes -= held.bytes

    def hold(self, held: Held, size: int) -> None:
        """Enlarge a reservation by `size` bytes; raise StagingFull or InvalidInput if there is no memory for these bytes."""
        with self._lock:
            self._forget_untouched()
            there = self._batches.get(held.batch)
            whole = held.bytes + size + (0 if there is None else there.bytes)
            if whole > self._bytes_max:
                what = f"the batch has at least {whole:,} bytes; the maximum is {self._bytes_max:,} bytes"
                hint = "let the source read less at a time, for example with maxOffsetsPerTrigger"
                raise InvalidInput(what, hint=hint)
            if self._bytes + size > self._bytes_max:
                raise StagingFull(
                    f"the gateway has no room for the part now: {self._bytes:,} bytes of batches wait for their commits"
                )
            self._bytes += size
            held.bytes += size

    def put(self, held: Held, name: PartName, part: StagedPart) -> None:
        """Stage a part. The part replaces an earlier part of the batch with the same partition and attempt."""
        with self._lock:
            batch = self._touched(held.batch)
            _, before = batch.parts.pop(name, (None, 0))
            batch.parts[name] = part, held.bytes
            self._bytes -= before
            held.bytes = 0

    def parts(self, batch: BatchKey, names: Iterable[PartName]) -> list[StagedPart]:
        """Return the named parts in the order of their partitions; raise NotStaged if a part is missing."""
        with self._lock:
            there = self._touched(batch).parts if batch in self._batches else {}
            try:
                return [there[name][0] for name in sorted(set(names))]
            except KeyError as missing:
                what = "the commit names a part that the gateway no longer holds: write the batch again"
                raise NotStaged(what, "parts", list(missing.args[0])) from None

    def drop(self, batch: BatchKey) -> None:
        with self._lock:
            self._drop(batch)

    def drop_until(self, last: BatchKey) -> None:
        """Drop the batch `last`, and all earlier batches of the same producer for the same stream."""
        with self._lock:
            for batch in list(self._batches):
                is_same_producer = batch.stream is last.stream and batch.producer == last.producer
                if is_same_producer and batch.number <= last.number:
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
