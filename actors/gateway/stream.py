"""A declared stream of a node: its log, its readers, and the record that survives a restart of the gateway.

The guarantees are listed in `actors.gateway.streams`. Methods are called with the lock of `Streams` held.
"""

from __future__ import annotations

import json
import math
import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from actors.gateway.producer_dedup import LastBatches
from actors.gateway.reader_connection import ReaderConnection
from actors.log.segment_log import KEEP_NONE, Frame, LogFull, Reader, SegmentWriter, frames_left, no_memory
from actors.log.train_format import BatchId, batch_head, batch_id, batch_parts
from actors.messages.gateway_messages import (
    FROM_NOW,
    Denied,
    Heard,
    LogIsFull,
    News,
    Released,
    Subscribe,
    Subscribed,
)
from configs.errors import InvalidInput
from engine.data.train import Train, train_from_arrow
from engine.sql import parse_create_stream

RECORD = "stream.json"
RECORD_VERSION = 3
# Seconds between two LogIsFull messages to a reader. After each message, views show for 5 s that the reader's input waits.
FULL_AGAIN_S = 1.0
READERS_MAX = 4096


@dataclass(slots=True)
class ReaderPosition:
    """Connection of a reader, and the position up to which it has released the stream."""

    released: int
    lossless: bool
    peer: ReaderConnection | None = None
    rows: int | None = None  # Number of the stream's rows before the position `released`; None if unknown


@dataclass(slots=True)
class Expected:
    """Position at which a declared reader begins. The position is kept until the reader has released frames after it."""

    next: int
    lossless: bool
    rows: int | None = None
    """Number of rows of the stream before the position; None if it is not known."""
    taken: bool = False
    """True while the reader is subscribed. A delayed Unsubscribe from before the declaration can end that subscription."""


class Stream:
    """A declared stream and its log."""

    def __init__(self, folder: Path, sql: str, bytes_max: int, segment_bytes: int) -> None:
        self.sql = sql
        self.schema = parse_create_stream(sql)
        self.arrow = self.schema.schema.arrow
        self.folder = folder
        self.readers: dict[str, ReaderPosition] = {}
        # Start positions of the readers that the coordinator expects. None means that the reader has already released later frames.
        self.expected: dict[str, Expected | None] = {}
        self.armed: set[str] = set()  # Readers that wait for a `News` message about new frames
        self.origin: str | None = None  # Node from which the stream is copied; None if the stream is no copy
        self.log = SegmentWriter(folder, bytes_max=bytes_max, segment_bytes=segment_bytes)
        self.log.keep_from = KEEP_NONE
        # The record is saved before frames are deleted, because some content of the record can be recovered only from the frames.
        self.log.forgetting = self.save
        self.writing = threading.Lock()
        self.producers = LastBatches()
        self.reported_full_at = -math.inf
        self.rows = 0  # Number of rows of all batches, including deleted batches
        self.accepted_rows = self.accepted_batches = self.refused_batches = 0

    @property
    def name(self) -> str:
        return self.schema.name

    def train(self, batch: pa.RecordBatch) -> Train:
        """Return the train of a batch. Its arrival time is stored in the frame and not in the train."""
        return train_from_arrow(batch, self.schema.schema, 0.0)

    def frames_of(self, trains: Sequence[Train], part_of: BatchId | None, now: float) -> list[Frame]:
        """Return the frames of a batch. Each frame contains the number of rows of all earlier frames of the stream."""
        before = self.rows
        frames: list[Frame] = []
        for train in trains:
            frames.append(batch_parts(now, train, before, part_of))
            before += len(train)
        return frames

    def published(self, frames: Sequence[Frame], number: int) -> None:
        """Make written frames visible to readers, and inform the readers that wait."""
        self.log.publish(frames, number)
        if not self.readers and not self._awaited():
            self._forget(self.log.next)
        for reader in tuple(self.armed):
            self._tell(reader)

    def expect(self, readers: Mapping[str, bool]) -> None:
        """Keep frames from now on for the given readers until they subscribe. The value True stands for a lossless reader.

        A reader that was expected before keeps its position. No frames are kept for a reader that is no longer named.
        """
        before, self.expected = self.expected, {}
        for name, lossless in readers.items():
            expected = before.get(name)
            if name not in before:
                expected = Expected(self.log.next, lossless, self._rows_before(self.log.next))
            elif expected is not None:
                expected = replace(expected, lossless=lossless)
            self.expected[name] = expected
        if self.expected != before:
            self.retain()
            with suppress(LogFull):  # Only a restarted gateway reads a stream's record.
                self.save()

    def has_come(self, reader: str) -> None:
        """Record that an expected reader has subscribed. From then on, frames are kept because of the reader's subscription."""
        expected = self.expected.get(reader)
        if expected is not None:
            expected.taken = True

    def has_released(self, reader: str, below: int) -> None:
        """Delete the start position of an expected reader once the reader has released frames after this position."""
        expected = self.expected.get(reader)
        if expected is not None and below > expected.next:
            self.expected[reader] = None

    def subscribe(self, asked: Subscribe, peer: ReaderConnection) -> None:
        before = self.readers.get(asked.reader)
        # A subscription from before the declaration may still exist, but its position does not count.
        expected = self.expected.get(asked.reader) if asked.next == FROM_NOW else None
        if before is None and len(self.readers) >= READERS_MAX:
            raise InvalidInput(
                f"the stream already has the maximum of {READERS_MAX:,} readers", "stream", self.name
            )
        now = self.log.next if before is None else before.released
        if expected is not None:
            now = expected.next
        begin = now if asked.next == FROM_NOW else asked.next
        if begin < 0 or (begin > self.log.next and self.origin is None):
            raise InvalidInput(
                "a reader cannot begin at a position after the end of the stream",
                "next",
                asked.next,
                f"begin at position {self.log.next} or before it",
            )
        # A returning reader may continue at any frame. Its released position does not move, because the reader may need the frames again.
        released = begin if before is None or expected is not None else before.released
        rows = before.rows if before is not None else self._rows_before(begin)
        if expected is not None:
            rows = expected.rows
        self.readers[asked.reader] = ReaderPosition(released, asked.lossless, peer, rows)
        self.has_come(asked.reader)
        self.armed.discard(asked.reader)
        self.retain()
        self.save()
        if asked.next == FROM_NOW:
            peer.send(Subscribed(asked.reader, asked.stream, asked.ask, begin, rows))
        else:
            peer.send(Subscribed(asked.reader, asked.stream, asked.ask, self.log.next))

    def heard(self, asked: Heard, peer: ReaderConnection) -> None:
        """Inform the reader once of new frames: now if there are unread frames, otherwise when the next frame is written."""
        if self._reading(asked.reader, peer) is None:
            return
        self.armed.add(asked.reader)
        if asked.next < self.log.next:
            self._tell(asked.reader)

    def release(self, asked: Released, peer: ReaderConnection) -> None:
        reading = self._reading(asked.reader, peer)
        if reading is not None and asked.below > reading.released:
            reading.released, reading.rows = min(asked.below, self.log.next), None
            # If a subscribed reader was declared again, its expected start position is no longer needed after this release.
            self.has_released(asked.reader, asked.below)
            self.retain()

    def unsubscribe(self, reader: str) -> None:
        if self.readers.pop(reader, None) is not None:
            self.armed.discard(reader)
            expected = self.expected.get(reader)
            if expected is not None:
                expected.taken = False
            self.retain()
            with suppress(LogFull):  # If saving fails, the next save removes the reader from the record.
                self.save()

    def report_full(self, now: float) -> None:
        """Send LogIsFull to the connected lossless readers that are furthest behind, because these readers keep producers waiting."""
        if now - self.reported_full_at < FULL_AGAIN_S:
            return
        self.reported_full_at = now
        for name, reading in self.readers.items():
            if reading.lossless and reading.peer is not None and reading.released <= self.log.keep_from:
                reading.peer.send(LogIsFull(name, self.name))

    def left(self, peer: ReaderConnection) -> None:
        """Disconnect the readers of a connection that has ended. Frames that the readers have not released are kept."""
        for name, reading in self.readers.items():
            if reading.peer is peer:
                reading.peer = None
                self.armed.discard(name)

    def save(self) -> None:
        """Write the stream's record. If there is no memory for the record, keep the old record and raise LogFull."""
        readers = {
            name: {"released": reading.released, "lossless": reading.lossless, "rows": reading.rows}
            for name, reading in self.readers.items()
        }
        record = {
            "version": RECORD_VERSION,
            "sql": self.sql,
            "origin": self.origin,
            "readers": readers,
            "expected": {
                name: position and [position.next, position.lossless, position.rows, position.taken]
                for name, position in self.expected.items()
            },
            "rows": self.rows,
            "next": self.log.next,
            "producers": self.producers.record(),
        }
        draft = self.folder / f"{RECORD}.draft"
        try:
            draft.write_text(json.dumps(record), encoding="utf-8")
            os.replace(draft, self.folder / RECORD)
        except OSError as problem:
            raise no_memory("the stream's record", self.folder, problem) from None

    def status(self) -> dict[str, Any]:
        return {
            "stream": self.name,
            "origin": self.origin,
            "first": self.log.first,
            "next": self.log.next,
            "bytes": self.log.bytes,
            "bytes_max": self.log.bytes_max,
            "accepted_rows": self.accepted_rows,
            "accepted_batches": self.accepted_batches,
            "refused_batches": self.refused_batches,
            "producers": len(self.producers),
            "readers": {
                name: {
                    "released": reader.released,
                    "lossless": reader.lossless,
                    "connected": reader.peer is not None,
                }
                for name, reader in self.readers.items()
            },
            "expected": [
                name
                for name, position in self.expected.items()
                if position is not None and not position.taken
            ],
        }

    def retain(self) -> None:
        """Allow the log to delete frames that no reader needs. A full log may also delete frames that no lossless reader needs."""
        needed = [(reader.released, reader.lossless) for reader in self.readers.values()]
        needed += [(position.next, position.lossless) for position in self._awaited()]
        self.log.keep_from = min((number for number, lossless in needed if lossless), default=KEEP_NONE)
        self._forget(min((number for number, _ in needed), default=self.log.next))

    def _awaited(self) -> list[Expected]:
        return [
            position for position in self.expected.values() if position is not None and not position.taken
        ]

    def recover(self, record: Mapping[str, Any]) -> None:
        """Restore the state from the record and from frames that are newer than the record."""
        self.origin, self.rows = record["origin"], record["rows"]
        self.producers = LastBatches(record["producers"])
        for name, reader in record["readers"].items():
            self.readers[name] = ReaderPosition(reader["released"], reader["lossless"], rows=reader["rows"])
        # A stream's record from an earlier version of Weir has no expected readers.
        for name, position in record.get("expected", {}).items():
            self.expected[name] = position and Expected(*position)
        log = Reader(self.folder)
        for _, payload in frames_left(log, record["next"]):
            rows, _, before = batch_head(payload)
            self.rows = before + rows
            part_of = batch_id(payload)
            if part_of is not None:
                self.producers.note(part_of)
        self.retain()

    def _forget(self, below: int) -> None:
        with suppress(LogFull):  # If there is no memory for the record, no frames are deleted yet.
            self.log.forget(below)

    def _rows_before(self, number: int) -> int | None:
        """Return the number of the stream's rows before frame `number`.

        Return None if this number of rows is unknown: `number` is not the next frame, or the stream is an empty copy.
        """
        is_known = number == self.log.next and (self.origin is None or number > 0)
        return self.rows if is_known else None

    def _reading(self, reader: str, peer: ReaderConnection) -> ReaderPosition | None:
        """Return the reader's position if the reader subscribed on this connection; otherwise send Denied and return None."""
        reading = self.readers.get(reader)
        if reading is None or reading.peer is not peer:
            peer.send(Denied(reader, self.name, "not subscribed on this connection"))
            return None
        return reading

    def _tell(self, reader: str) -> None:
        self.armed.discard(reader)
        peer = self.readers[reader].peer
        if peer is not None:
            peer.send(News(reader, self.name, self.log.next))
