"""A declared stream of a node: its log, its readers, and the record that survives a restart.

`actors.gateway.streams` states what holds for it, and holds the lock under which it is called.
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
from actors.log.segment_log import KEEP_NONE, Frame, LogFull, Reader, SegmentWriter, frames_left
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
# From one report to the readers that keep a log full to the next: a class is shown as held back for 5 s after one.
FULL_AGAIN_S = 1.0
READERS_MAX = 4096


@dataclass(slots=True)
class ReaderPosition:
    """Position up to which a reader has released a stream, and its connection."""

    released: int
    lossless: bool
    peer: ReaderConnection | None = None
    rows: int | None = None  # of the stream before what was released; None if that is not known


@dataclass(slots=True)
class Expected:
    """Position at which a declared reader begins, until it has released what comes after."""

    next: int
    lossless: bool
    rows: int | None = None
    """Rows of the stream before the position; None if that is not known."""
    taken: bool = False
    """True while the reader is subscribed from the position. It may end that by a message of its life before the declaration."""


class Stream:
    """A declared stream and its log."""

    def __init__(self, folder: Path, sql: str, bytes_max: int, segment_bytes: int) -> None:
        self.sql = sql
        self.schema = parse_create_stream(sql)
        self.arrow = self.schema.schema.arrow
        self.folder = folder
        self.readers: dict[str, ReaderPosition] = {}
        # Readers that the coordinator has declared; None for those that have released what came after.
        self.expected: dict[str, Expected | None] = {}
        self.armed: set[str] = set()  # readers that wait for News
        self.origin: str | None = None  # of a copy: the node that has the stream itself
        self.log = SegmentWriter(folder, bytes_max=bytes_max, segment_bytes=segment_bytes)
        self.log.keep_from = KEEP_NONE
        # What is in frames alone is in the record before they are forgotten.
        self.log.forgetting = self.save
        self.writing = threading.Lock()
        self.producers = LastBatches()
        self.reported_full_at = -math.inf
        self.rows = 0  # of all batches, also of those that are forgotten
        self.accepted_rows = self.accepted_batches = self.refused_batches = 0

    @property
    def name(self) -> str:
        return self.schema.name

    def train(self, batch: pa.RecordBatch) -> Train:
        """Return the train of a batch; the frame that it comes into has its time of arrival."""
        return train_from_arrow(batch, self.schema.schema, 0.0)

    def frames_of(self, trains: Sequence[Train], part_of: BatchId | None, now: float) -> list[Frame]:
        """Return the frames of a batch; each has the number of rows that the stream had before it."""
        before = self.rows
        frames: list[Frame] = []
        for train in trains:
            frames.append(batch_parts(now, train, before, part_of))
            before += len(train)
        return frames

    def published(self, frames: Sequence[Frame], number: int) -> None:
        """They are written: let them be seen."""
        self.log.publish(frames, number)
        if not self.readers and not self._awaited():
            self._forget(self.log.next)
        if self.armed:
            self._tell()

    def expect(self, readers: Mapping[str, bool]) -> None:
        """Keep what comes from now on for these readers until they subscribe; True stands for lossless ones.

        A reader that was expected before keeps its position. For one that is no longer named nothing is kept.
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
            with suppress(LogFull):  # only a gateway that restarts would need it
                self.save()

    def has_come(self, reader: str) -> None:
        """Keep no more for an expected reader than its subscription asks for."""
        expected = self.expected.get(reader)
        if expected is not None:
            expected.taken = True

    def has_released(self, reader: str, below: int) -> None:
        """Forget the position of an expected reader that needs nothing of what came right after it."""
        expected = self.expected.get(reader)
        if expected is not None and below > expected.next:
            self.expected[reader] = None

    def subscribe(self, asked: Subscribe, peer: ReaderConnection) -> None:
        before = self.readers.get(asked.reader)
        # It may be subscribed by a message of its life before the declaration: that one is not where it begins.
        expected = self.expected.get(asked.reader) if asked.next == FROM_NOW else None
        if before is None and len(self.readers) >= READERS_MAX:
            raise InvalidInput(f"a stream has {READERS_MAX:,} readers at most", "stream", self.name)
        now = self.log.next if before is None else before.released
        if expected is not None:
            now = expected.next
        begin = now if asked.next == FROM_NOW else asked.next
        if begin < 0 or (begin > self.log.next and self.origin is None):
            raise InvalidInput(
                "no reader begins beyond the end of the stream",
                "next",
                asked.next,
                f"it is at {self.log.next}",
            )
        # A reader that comes back may read on from any frame; this releases nothing that it may need again.
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
        """One News now or as soon as there is more."""
        if self._reading(asked.reader, peer) is None:
            return
        self.armed.add(asked.reader)
        if asked.next < self.log.next:
            self._tell_one(asked.reader)

    def release(self, asked: Released, peer: ReaderConnection) -> None:
        reading = self._reading(asked.reader, peer)
        if reading is not None and asked.below > reading.released:
            reading.released, reading.rows = min(asked.below, self.log.next), None
            # A host that missed the moment without the declaration has kept its subscription, and needs no other one.
            self.has_released(asked.reader, asked.below)
            self.retain()

    def unsubscribe(self, reader: str) -> None:
        if self.readers.pop(reader, None) is not None:
            self.armed.discard(reader)
            expected = self.expected.get(reader)
            if expected is not None:
                expected.taken = False
            self.retain()
            with suppress(LogFull):  # the next time that it is saved, the reader is not in it
                self.save()

    def report_full(self, now: float) -> None:
        """Report to the lossless readers that are furthest behind that producers are refused because of them."""
        if now - self.reported_full_at < FULL_AGAIN_S:
            return
        self.reported_full_at = now
        for name, reading in self.readers.items():
            if reading.lossless and reading.peer is not None and reading.released <= self.log.keep_from:
                reading.peer.send(LogIsFull(name, self.name))

    def left(self, peer: ReaderConnection) -> None:
        """The connection has ended; what its readers have not released is kept for them."""
        for name, reading in self.readers.items():
            if reading.peer is peer:
                reading.peer = None
                self.armed.discard(name)

    def save(self) -> None:
        """LogFull if there is no memory for it; the record is then what it was."""
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
            raise LogFull("memory for the record has run out", str(self.folder), hint=str(problem)) from None

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
        """Forget what every reader has released, and none that is expected needs; lossless ones bound what may be forgotten."""
        needed = [(reader.released, reader.lossless) for reader in self.readers.values()]
        needed += [(position.next, position.lossless) for position in self._awaited()]
        self.log.keep_from = min((number for number, lossless in needed if lossless), default=KEEP_NONE)
        self._forget(min((number for number, _ in needed), default=self.log.next))

    def _awaited(self) -> list[Expected]:
        return [
            position for position in self.expected.values() if position is not None and not position.taken
        ]

    def recover(self, record: Mapping[str, Any]) -> None:
        """Restore the state from the record and from the frames that are newer than it."""
        self.origin, self.rows = record["origin"], record["rows"]
        self.producers = LastBatches(record["producers"])
        for name, reader in record["readers"].items():
            self.readers[name] = ReaderPosition(reader["released"], reader["lossless"], rows=reader["rows"])
        # A gateway of an earlier version has written none.
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
        with suppress(LogFull):  # no memory for the record: nothing is forgotten yet
            self.log.forget(below)

    def _rows_before(self, number: int) -> int | None:
        """A copy does not know before its first frame."""
        is_known = number == self.log.next and (self.origin is None or number > 0)
        return self.rows if is_known else None

    def _reading(self, reader: str, peer: ReaderConnection) -> ReaderPosition | None:
        """Return the reader if this is its connection; otherwise answer that it is not subscribed."""
        reading = self.readers.get(reader)
        if reading is None or reading.peer is not peer:
            peer.send(Denied(reader, self.name, "not subscribed on this connection"))
            return None
        return reading

    def _tell(self) -> None:
        for reader in tuple(self.armed):
            self._tell_one(reader)

    def _tell_one(self, reader: str) -> None:
        self.armed.discard(reader)
        peer = self.readers[reader].peer
        if peer is not None:
            peer.send(News(reader, self.name, self.log.next))
