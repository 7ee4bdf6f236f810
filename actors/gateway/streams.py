"""The streams of a node: what is declared, who reads it, and how long its frames are kept.

Numbered properties:
1. A batch that is accepted is in the stream's log, matches the stream's columns, and was checked to the last byte.
2. No frame is forgotten before every lossless reader has released it: a full log refuses input instead, and says when
   to come again. Other readers only delay forgetting as long as there is room.
3. A reader has at most one News outstanding; it gets the next one when it asks for it.
4. A number is given once to the frames of a name: a stream that is declared again after it was dropped continues the
   numbers and the count of rows, so that nothing that refers to a frame means another one.
5. Opened again over the same folder, streams, readers and frames are those that were there. What a reader released
   last may be forgotten, so frames may be kept longer, never shorter.
6. A batch with an id is published once, whole, however often it is brought and whenever the process is killed, as
   long as its producer is among the last that have published (`actors.gateway.producer_dedup`).
7. The rows of a batch are in the log in the order of event time, across all its frames (`engine.data.batch_order`).
8. A reader that is declared with a stream (`Stream.expect`) is offered every row that is accepted from then on, however late it
   subscribes. Until it does, frames are kept for it as for a reader, within the bound of the log.

Calls come from several threads; `Streams.lock` is held for each, but not while rows are copied into a log: who does
that holds `Stream.writing`, and takes it first.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from actors.gateway.batch_validation import check_columns, checked_batch
from actors.gateway.producer_dedup import LastBatches
from actors.gateway.reader_connection import Peer
from actors.log.segment_log import (
    KEEP_NONE,
    LOG_BYTES,
    SEGMENT_BYTES,
    SEGMENTS_LEAST,
    Frame,
    LogFull,
    Part,
    Reader,
    Writer,
    frames_left,
)
from actors.log.train_format import BatchId, batch_head, batch_id, batch_parts
from actors.messages.gateway_messages import (
    FROM_NOW,
    Accepted,
    CaughtUp,
    Denied,
    Heard,
    LogIsFull,
    Message,
    News,
    Reads,
    Refused,
    Released,
    Subscribe,
    Subscribed,
    Unsubscribe,
)
from actors.runtime.run_dirs import RunDirs, checked
from configs.errors import InvalidInput, UnknownName, nearest
from engine.data.batch_order import in_time_order
from engine.data.train import Train, train_from_arrow
from engine.sql import parse_create_stream

RECORD = "stream.json"
RECORD_VERSION = 3
DROPPED = "dropped.json"
# How many names of dropped streams are remembered, the last ones.
DROPPED_MAX = 4096
# Readers of a stream release its frames every few seconds, with their snapshots.
RETRY_AFTER_S = 0.2
# From one report to the readers that keep a log full to the next: a class is shown as held back for 5 s after one.
FULL_AGAIN_S = 1.0
READERS_MAX = 4096
STREAMS_MAX = 4096


@dataclass(slots=True)
class Reading:
    """One reader of one stream."""

    released: int
    lossless: bool
    peer: Peer | None = None
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
        self.readers: dict[str, Reading] = {}
        # Readers that the coordinator has declared; None for those that have released what came after.
        self.expected: dict[str, Expected | None] = {}
        self.armed: set[str] = set()  # who waits for News
        self.origin: str | None = None  # the node whose stream this is a copy of
        self.log = Writer(folder, bytes_max=bytes_max, segment_bytes=segment_bytes)
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
        """Of a batch of the stream's columns; when it arrived is said by the frame it comes into."""
        return train_from_arrow(batch, self.schema.schema, 0.0)

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
            found = before.get(name)
            if name not in before:
                found = Expected(self.log.next, lossless, self._rows_before(self.log.next))
            elif found is not None:
                found = replace(found, lossless=lossless)
            self.expected[name] = found
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

    def subscribe(self, asked: Subscribe, peer: Peer) -> None:
        known = self.readers.get(asked.reader)
        # It may be subscribed by a message of its life before the declaration: that one is not where it begins.
        expected = self.expected.get(asked.reader) if asked.next == FROM_NOW else None
        if known is None and len(self.readers) >= READERS_MAX:
            raise InvalidInput(f"a stream has {READERS_MAX:,} readers at most", "stream", self.name)
        now = self.log.next if known is None else known.released
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
        # Who comes back may read on from anywhere; what it may need again it has not released by that.
        released = begin if known is None or expected is not None else known.released
        rows = known.rows if known is not None else self._rows_before(begin)
        if expected is not None:
            rows = expected.rows
        self.readers[asked.reader] = Reading(released, asked.lossless, peer, rows)
        self.has_come(asked.reader)
        self.armed.discard(asked.reader)
        self.retain()
        self.save()
        if asked.next == FROM_NOW:
            peer.send(Subscribed(asked.reader, asked.stream, asked.ask, begin, rows))
        else:
            peer.send(Subscribed(asked.reader, asked.stream, asked.ask, self.log.next))

    def heard(self, asked: Heard, peer: Peer) -> None:
        """One News now or as soon as there is more."""
        if self._reading(asked.reader, peer) is None:
            return
        self.armed.add(asked.reader)
        if asked.next < self.log.next:
            self._tell_one(asked.reader)

    def release(self, asked: Released, peer: Peer) -> None:
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

    def left(self, peer: Peer) -> None:
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
                name: one and [one.next, one.lossless, one.rows, one.taken]
                for name, one in self.expected.items()
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
                    "released": one.released,
                    "lossless": one.lossless,
                    "connected": one.peer is not None,
                }
                for name, one in self.readers.items()
            },
            "expected": [name for name, one in self.expected.items() if one is not None and not one.taken],
        }

    def retain(self) -> None:
        """Forget what every reader has released, and none that is expected needs; lossless ones bound what may be forgotten."""
        needed = [(reader.released, reader.lossless) for reader in self.readers.values()]
        needed += [(one.next, one.lossless) for one in self._awaited()]
        self.log.keep_from = min((number for number, lossless in needed if lossless), default=KEEP_NONE)
        self._forget(min((number for number, _ in needed), default=self.log.next))

    def _awaited(self) -> list[Expected]:
        return [one for one in self.expected.values() if one is not None and not one.taken]

    def recover(self, record: Mapping[str, Any]) -> None:
        """What the record tells, and what frames tell that are later than it."""
        self.origin, self.rows = record["origin"], record["rows"]
        self.producers = LastBatches(record["producers"])
        for name, one in record["readers"].items():
            self.readers[name] = Reading(one["released"], one["lossless"], rows=one["rows"])
        # A gateway of an earlier version has written none.
        for name, given in record.get("expected", {}).items():
            self.expected[name] = given and Expected(*given)
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

    def _reading(self, reader: str, peer: Peer) -> Reading | None:
        """The reader, if this is its connection; it is told if it is not subscribed."""
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


class Streams:
    """All streams of a node."""

    def __init__(
        self,
        dirs: RunDirs,
        clock: Callable[[], float],
        *,
        bytes_max: int = LOG_BYTES,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        self.lock = threading.Lock()
        self.grown = threading.Condition(self.lock)  # some log has more
        self._dirs = dirs
        self._clock = clock
        self._bytes_max, self._segment_bytes = bytes_max, segment_bytes
        self._streams: dict[str, Stream] = {}
        self.class_next: dict[str, int] = {}
        # By name of a stream that was dropped, the next number and the rows that it would have had.
        self._dropped: dict[str, tuple[int, int]] = {}
        with suppress(FileNotFoundError):
            dropped = json.loads((dirs.streams / DROPPED).read_text(encoding="utf-8"))
            self._dropped = {name: (number, rows) for name, (number, rows) in dropped.items()}
        for folder in sorted(dirs.streams.glob(f"*/{RECORD}")):
            self._open(folder.parent)

    def declare(
        self, sql: str, origin: str | None = None, readers: Mapping[str, bool] | None = None
    ) -> Stream:
        """Return the stream of a CREATE STREAM; declaring it again is no mistake if it is the same.

        If `readers` are given, the stream expects these, from before its first row if it is new.
        """
        schema = parse_create_stream(sql)
        name = checked(schema.name)
        with self.lock:
            known = self._streams.get(name.lower())
            if known is not None:
                if known.schema != schema or known.origin != origin:
                    raise InvalidInput(
                        f"stream {name} is declared otherwise", "stream", sql, f"it is: {known.sql}"
                    )
                if readers is not None:
                    known.expect(readers)
                return known
            if len(self._streams) >= STREAMS_MAX:
                raise InvalidInput(f"a node has {STREAMS_MAX:,} streams at most", "stream", name)
            stream = Stream(self._dirs.stream(name), sql, self._bytes_max, self._segment_bytes)
            stream.origin = origin
            try:
                if origin is None:
                    number, stream.rows = self._dropped.get(name.lower(), (0, 0))
                    stream.log.skip_to(number)
                stream.save()
            except LogFull:
                stream.log.close()
                raise
            if readers is not None:
                stream.expect(readers)
            self._streams[name.lower()] = stream
            return stream

    def expect(self, name: str, readers: Mapping[str, bool]) -> None:
        """Let a stream that is there expect these readers, and no others."""
        with self.lock:
            self.find(name).expect(readers)

    def drop(self, name: str) -> None:
        """Its readers are told; what they have mapped stays readable for them."""
        with self.lock:
            stream = self.find(name)
        with stream.writing, self.lock:
            if self._streams.get(name.lower()) is not stream:
                return
            del self._streams[name.lower()]
            if stream.origin is None and stream.log.next:
                self._note_dropped(name.lower(), stream.log.next, stream.rows)
            for reader, reading in stream.readers.items():
                if reading.peer is not None:
                    reading.peer.send(Denied(reader, stream.name, "the stream was dropped"))
            stream.log.close()
            shutil.rmtree(stream.folder)

    def _note_dropped(self, name: str, number: int, rows: int) -> None:
        self._dropped.pop(name, None)
        self._dropped[name] = (number, rows)
        while len(self._dropped) > DROPPED_MAX:
            del self._dropped[next(iter(self._dropped))]
        path = self._dirs.streams / DROPPED
        with suppress(OSError):  # where memory has run out, a gateway that begins again does not know of it
            draft = path.with_suffix(".draft")
            draft.write_text(json.dumps(self._dropped), encoding="utf-8")
            os.replace(draft, path)

    def find(self, name: str) -> Stream:
        try:
            return self._streams[name.lower()]
        except KeyError:
            names = [stream.name for stream in self._streams.values()]
            raise UnknownName("no such stream", "stream", name, nearest(name, names)) from None

    def all(self) -> Iterable[Stream]:
        return tuple(self._streams.values())

    def append(
        self, name: str, message: Part, rows: int, part_of: BatchId | None = None
    ) -> Accepted | Refused:
        """The message of a record batch into the stream's log, stamped with the time."""
        return self.append_all(name, [(message, rows)], part_of)

    def append_all(
        self, name: str, messages: Sequence[tuple[Part, int]], part_of: BatchId | None = None
    ) -> Accepted | Refused:
        """Of several record batches all or none; a message, and how many rows it has."""
        try:
            with self.lock:
                stream = self.find(name)
            # Without the lock: it takes as long as there are texts to check.
            batches = [checked_batch(one, stream.schema, stream.arrow, rows) for one, rows in messages]
        except InvalidInput as problem:
            return Refused(str(problem))
        return self.publish(stream, [stream.train(batch) for batch in batches], part_of)

    def publish(
        self,
        stream: Stream,
        trains: Sequence[Train],
        part_of: BatchId | None = None,
        before: Callable[[], None] = lambda: None,
    ) -> Accepted | Refused:
        """All trains into the stream's log or none, stamped with the time. What has come before is not published again.

        Other streams go on meanwhile. `before` is done first if nothing but the log can refuse them any more.
        """
        with stream.writing:
            with self.lock:
                answer = self._answered(stream, part_of)
            if answer is not None:
                return answer
            frames = self._frames(stream, in_time_order(stream.schema, trains), part_of)
            size = sum(size for _, size in frames)
            most = self._bytes_max // SEGMENTS_LEAST
            if size > most:
                return Refused(f"{size:,} bytes where {most:,} are the most: send smaller batches")
            before()
            return self._append(stream, frames, sum(map(len, trains)), part_of)

    def append_copy(self, name: str, number: int, parts: list[Part], size: int) -> None:
        """A frame of another node's stream, under the same number; one that is there already stays."""
        frames = [(parts, size)]
        with self.lock:
            stream = self.find(name)
        with stream.writing, self.lock:
            if number >= stream.log.next:
                rows, _, before = batch_head(memoryview(parts[0]))
                stream.log.skip_to(number)
                stream.log.begin(frames)
                stream.log.write(frames)
                stream.rows = before + rows
                stream.published(frames, number)
                self.grown.notify_all()

    def hear(self, message: Message, peer: Peer) -> None:
        """What a reader says; what cannot be is answered with Denied."""
        if isinstance(message, Reads):
            self._keep_only(message)
            return
        if not isinstance(message, Subscribe | Heard | Released | Unsubscribe):
            return
        with self.lock:
            try:
                stream = self.find(message.stream)
                match message:
                    case Subscribe():
                        stream.subscribe(message, peer)
                    case Heard():
                        stream.heard(message, peer)
                    case Released():
                        stream.release(message, peer)
                        self.grown.notify_all()
                    case Unsubscribe(reader, _):
                        stream.unsubscribe(reader)
            except (InvalidInput, LogFull) as problem:
                peer.send(Denied(message.reader, message.stream, str(problem)))

    def caught_up(self, ages_s: Mapping[str, float]) -> None:
        """Send to the readers of each stream how many seconds ago its feed had nothing left to publish."""
        now = self._clock()
        with self.lock:
            for name, age_s in ages_s.items():
                stream = self._streams.get(name.lower())
                for reader, reading in () if stream is None else stream.readers.items():
                    if reading.peer is not None:
                        reading.peer.send(CaughtUp(reader, name, now - max(0.0, age_s)))

    def _keep_only(self, said: Reads) -> None:
        """Keep nothing for the reader of streams that it does not read, unless it is declared to read them.

        It may say so before it has heard of its last declaration.
        """
        read = {name.lower() for name in said.streams}
        with self.lock:
            for name, stream in self._streams.items():
                if name not in read and said.reader not in stream.expected:
                    stream.unsubscribe(said.reader)

    def hear_grown(self, name: str, number: int) -> None:
        with self.lock:
            self.class_next[name] = max(number, self.class_next.get(name, 0))
            self.grown.notify_all()

    def left(self, peer: Peer) -> None:
        with self.lock:
            for stream in self._streams.values():
                stream.left(peer)

    def forget_reader(self, reader: str) -> None:
        """A reader that will not come back."""
        with self.lock:
            for stream in self._streams.values():
                stream.expected.pop(reader, None)
                stream.unsubscribe(reader)
                stream.retain()

    def status(self) -> list[dict[str, Any]]:
        with self.lock:
            return [stream.status() for stream in self._streams.values()]

    def close(self) -> None:
        for stream in self.all():
            with stream.writing, self.lock:
                self._streams.pop(stream.name.lower(), None)
                with suppress(LogFull):  # frames tell what the record does not
                    stream.save()
                stream.log.close()
        with self.lock:
            self.grown.notify_all()

    def columns(self, name: str, given: pa.Schema) -> pa.Schema:
        """The stream's columns in its order, if those given are the same in any order; NotAccepted if not."""
        with self.lock:
            stream = self.find(name)
        check_columns(stream.schema, given)
        return stream.arrow

    def begin_copy(self, name: str, reader: str) -> str:
        """Another node will have all there is; the stream's declaration."""
        with self.lock:
            stream = self.find(name)
            if reader not in stream.readers:
                stream.readers[reader] = Reading(stream.log.first, lossless=True)
                stream.has_come(reader)
                stream.retain()
                stream.save()
            return stream.sql

    def follow_from(self, name: str, reader: str, number: int) -> None:
        """The other node has what is below."""
        with self.lock:
            stream = self.find(name)
            if reader in stream.readers:
                stream.readers[reader].released = min(number, stream.log.next)
                stream.has_come(reader)
                stream.has_released(reader, number)
                stream.retain()

    def keep_for(self, reader: str, names: Iterable[str], lossless: bool) -> None:
        """Of these streams and no others, keep for the reader what there is until it is released for it."""
        wanted = {name.lower() for name in names}
        with self.lock:
            for name, stream in self._streams.items():
                if name not in wanted:
                    stream.unsubscribe(reader)
                elif reader not in stream.readers:
                    stream.readers[reader] = Reading(stream.log.first, lossless)
                    stream.retain()
                    stream.save()
                elif stream.readers[reader].lossless != lossless:
                    stream.readers[reader].lossless = lossless
                    stream.retain()
                    stream.save()

    def release_for(self, reader: str, released: Mapping[str, int]) -> None:
        """By stream, the first frame that a reader on another node still needs."""
        with self.lock:
            for name, stream in self._streams.items():
                reading = stream.readers.get(reader)
                if reading is not None and released.get(name, 0) > reading.released:
                    reading.released = min(released[name], stream.log.next)
                    stream.retain()

    def released_by(self, reader: str) -> dict[str, int]:
        """The same as it is here; the lock is held by who asks."""
        return {
            name: stream.readers[reader].released
            for name, stream in self._streams.items()
            if reader in stream.readers
        }

    def unfollowed(self, name: str, reader: str) -> None:
        with self.lock:
            self.find(name).unsubscribe(reader)

    def frames(self) -> int:
        """How many have come so far, of all streams that there are."""
        return sum(stream.log.next for stream in self.all())

    def wait_grown(self, reached: Callable[[], bool], timeout_s: float) -> None:
        with self.grown:
            self.grown.wait_for(reached, timeout_s)

    def _answered(self, stream: Stream, part_of: BatchId | None) -> Accepted | Refused | None:
        """What is said to a batch that does not come into the log."""
        if self._streams.get(stream.name.lower()) is not stream:
            return Refused(f"stream {stream.name} was dropped")
        if stream.origin is not None:
            return Refused(f"stream {stream.name} comes from node {stream.origin}: send it there")
        if part_of is not None and stream.producers.has(part_of):
            return Accepted(stream.log.next, again=True)
        return None

    def _frames(self, stream: Stream, trains: Sequence[Train], part_of: BatchId | None) -> list[Frame]:
        now, before = self._clock(), stream.rows
        frames: list[Frame] = []
        for train in trains:
            frames.append(batch_parts(now, train, before, part_of))
            before += len(train)
        return frames

    def _append(
        self, stream: Stream, frames: Sequence[Frame], rows: int, part_of: BatchId | None
    ) -> Accepted | Refused:
        try:
            with self.lock:
                number = stream.log.begin(frames)
                if part_of is not None and not frames:  # no frame tells of the batch
                    stream.producers.note(part_of)
                    stream.save()
            stream.log.write(frames)
        except LogFull as full:
            stream.refused_batches += 1
            with self.lock:
                stream.report_full(self._clock())
            return Refused(f"stream {stream.name}: {full}", RETRY_AFTER_S)
        with self.lock:
            if part_of is not None:
                stream.producers.note(part_of)
            stream.rows += rows
            stream.accepted_rows += rows
            stream.accepted_batches += 1
            if frames:
                stream.published(frames, number)
                self.grown.notify_all()
        return Accepted(number)

    def _open(self, folder: Path) -> None:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        if record["version"] != RECORD_VERSION:
            raise InvalidInput("a stream's record of another version", file=str(folder / RECORD))
        stream = Stream(folder, record["sql"], self._bytes_max, self._segment_bytes)
        stream.recover(record)
        self._streams[stream.name.lower()] = stream
