"""The streams of a node: their declarations, their readers, and how long their frames are kept.

Numbered properties:
1. An accepted batch is in the stream's log, matches the stream's columns, and was validated in full.
2. No frame is forgotten before every lossless reader has released it: a full log refuses batches instead, with the time after
   which to retry. Frames are kept for other readers only while there is room.
3. At most one News is outstanding for each reader; the reader requests the next one with Heard.
4. Frame numbers of a stream's name are never reused. A stream that is declared again after it was dropped continues the frame
   numbers and the row count. So an old reference cannot mean a new frame.
5. After a restart over the same folder, all streams, readers and frames are there again. The latest releases of readers may be
   lost, so that frames are kept longer than needed, but never shorter.
6. A batch with an id is published once and completely, even if it is sent repeatedly or the process is killed. This holds while
   its producer is among the last that have published (`actors.gateway.producer_dedup`).
7. The rows of a batch are in the log in the order of event time, across all frames of the batch (`engine.data.batch_order`).
8. A reader that is declared with a stream (`Stream.expect`) receives every row accepted after the declaration, even if it
   subscribes late. Until it subscribes, frames are kept for it as for a subscribed reader, within the size of the log.

Methods are called from several threads. Each holds `Streams.lock`, except while rows are copied into a log; that requires
`Stream.writing`, which is always taken before `Streams.lock`.
"""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from actors.gateway.batch_validation import check_columns, checked_batch
from actors.gateway.class_growth import ClassGrowth
from actors.gateway.dropped_streams import DroppedStreams
from actors.gateway.reader_connection import ReaderConnection
from actors.gateway.stream import RECORD, RECORD_VERSION, ReaderPosition, Stream
from actors.log.segment_log import LOG_BYTES, SEGMENT_BYTES, SEGMENTS_LEAST, Frame, LogFull, Part
from actors.log.train_format import BatchId, batch_head
from actors.messages.gateway_messages import (
    Accepted,
    CaughtUp,
    Denied,
    Heard,
    Message,
    Reads,
    RefusedBatch,
    Released,
    Subscribe,
    Unsubscribe,
)
from actors.runtime.run_dirs import RunDirs, checked
from configs.errors import InvalidInput, UnknownName, nearest
from engine.data.batch_order import in_time_order
from engine.data.train import Train
from engine.sql import parse_create_stream

DROPPED = "dropped.json"
# Seconds after which a producer retries a refused batch. Readers release frames every few seconds, with their snapshots.
RETRY_AFTER_S = 0.2
STREAMS_MAX = 4096


class Streams:
    """All declared streams of a node, by name. Names do not depend on case."""

    def __init__(
        self,
        dirs: RunDirs,
        clock: Callable[[], float],
        *,
        bytes_max: int = LOG_BYTES,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        self.lock = threading.Lock()
        self.grown = threading.Condition(self.lock)  # Condition that is notified when a log has grown
        self._dirs = dirs
        self._clock = clock
        self._bytes_max, self._segment_bytes = bytes_max, segment_bytes
        self._streams: dict[str, Stream] = {}
        self.growth = ClassGrowth(self.grown)
        self._dropped = DroppedStreams(dirs.streams / DROPPED)
        for folder in sorted(dirs.streams.glob(f"*/{RECORD}")):
            self._open(folder.parent)

    def declare(
        self, sql: str, origin: str | None = None, readers: Mapping[str, bool] | None = None
    ) -> Stream:
        """Declare a stream by its CREATE STREAM statement; return the existing stream if its declaration is the same.

        If `readers` are given, the stream expects these readers, and a new stream keeps all its rows for them.
        """
        schema = parse_create_stream(sql)
        name = checked(schema.name)
        with self.lock:
            stream = self._streams.get(name.lower())
            if stream is not None:
                if stream.schema != schema or stream.origin != origin:
                    raise InvalidInput(
                        f"stream {name} is already declared with another definition",
                        "stream",
                        sql,
                        f"drop the stream first, or use its present definition: {stream.sql}",
                    )
                if readers is not None:
                    stream.expect(readers)
                return stream
            if len(self._streams) >= STREAMS_MAX:
                raise InvalidInput(
                    f"the node already has the maximum of {STREAMS_MAX:,} streams", "stream", name
                )
            stream = Stream(self._dirs.stream(name), sql, self._bytes_max, self._segment_bytes)
            stream.origin = origin
            try:
                if origin is None:
                    number, stream.rows = self._dropped.counts(name.lower())
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
        """Replace the readers that an existing stream expects."""
        with self.lock:
            self.find(name).expect(readers)

    def drop(self, name: str) -> None:
        """Drop a stream and inform its readers. The readers can still read the frames that they have mapped."""
        with self.lock:
            stream = self.find(name)
        with stream.writing, self.lock:
            if self._streams.get(name.lower()) is not stream:
                return
            del self._streams[name.lower()]
            if stream.origin is None and stream.log.next:
                self._dropped.note(name.lower(), stream.log.next, stream.rows)
            for reader, reading in stream.readers.items():
                if reading.peer is not None:
                    reading.peer.send(Denied(reader, stream.name, "the stream was dropped"))
            stream.log.close()
            shutil.rmtree(stream.folder)

    def find(self, name: str) -> Stream:
        try:
            return self._streams[name.lower()]
        except KeyError:
            names = [stream.name for stream in self._streams.values()]
            raise UnknownName(
                "the gateway has no stream of this name", "stream", name, nearest(name, names)
            ) from None

    def all(self) -> Iterable[Stream]:
        return tuple(self._streams.values())

    def append(
        self, name: str, message: Part, rows: int, part_of: BatchId | None = None
    ) -> Accepted | RefusedBatch:
        """Validate a serialized record batch and publish it to the stream."""
        try:
            with self.lock:
                stream = self.find(name)
            # The batch is validated without the lock, because validation of long strings takes long.
            batch = checked_batch(message, stream.schema, stream.arrow, rows)
        except InvalidInput as problem:
            return RefusedBatch(str(problem))
        return self.publish(stream, [stream.train(batch)], part_of)

    def publish(
        self,
        stream: Stream,
        trains: Sequence[Train],
        part_of: BatchId | None = None,
        before: Callable[[], None] = lambda: None,
    ) -> Accepted | RefusedBatch:
        """Write all trains of a batch to the stream's log, with the current time as arrival time, or write nothing. Skip a repeated batch.

        Other streams are not blocked. `before` is called after all checks, when only a full log can still refuse the batch.
        """
        with stream.writing:
            with self.lock:
                answer = self._answered(stream, part_of)
            if answer is not None:
                return answer
            frames = stream.frames_of(in_time_order(stream.schema, trains), part_of, self._clock())
            size = sum(size for _, size in frames)
            most = self._bytes_max // SEGMENTS_LEAST
            if size > most:
                return RefusedBatch(
                    f"the batch has {size:,} bytes; the maximum is {most:,}: send smaller batches"
                )
            before()
            return self._append(stream, frames, sum(map(len, trains)), part_of)

    def append_copy(self, name: str, number: int, parts: list[Part], size: int) -> None:
        """Append a frame of another node's stream under the frame's number on that node; ignore a frame that was copied before."""
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

    def hear(self, message: Message, peer: ReaderConnection) -> None:
        """Handle a message of a reader; answer with Denied if the message cannot be carried out."""
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
        """Send the readers of each stream the time at which the stream's feed last had nothing left to publish.

        `ages_s` has the seconds since that time, by stream.
        """
        now = self._clock()
        with self.lock:
            for name, age_s in ages_s.items():
                stream = self._streams.get(name.lower())
                for reader, reading in () if stream is None else stream.readers.items():
                    if reading.peer is not None:
                        reading.peer.send(CaughtUp(reader, name, now - max(0.0, age_s)))

    def _keep_only(self, said: Reads) -> None:
        """Unsubscribe a reader from all streams that its message does not list, except streams that expect the reader.

        A reader that a stream expects may have sent the message before it was informed of the stream.
        """
        read = {name.lower() for name in said.streams}
        with self.lock:
            for name, stream in self._streams.items():
                if name not in read and said.reader not in stream.expected:
                    stream.unsubscribe(said.reader)

    def left(self, peer: ReaderConnection) -> None:
        self.growth.left(peer)
        with self.lock:
            for stream in self._streams.values():
                stream.left(peer)

    def forget_reader(self, reader: str) -> None:
        """Stop keeping frames for a reader that will not return."""
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
                # If there is no memory for the record, a restarted gateway recovers the record from the frames.
                with suppress(LogFull):
                    stream.save()
                stream.log.close()
        with self.lock:
            self.grown.notify_all()

    def columns(self, name: str, given: pa.Schema) -> pa.Schema:
        """Return the columns in the stream's order; raise NotAccepted if `given` does not have the stream's columns."""
        with self.lock:
            stream = self.find(name)
        check_columns(stream.schema, given)
        return stream.arrow

    def begin_copy(self, name: str, reader: str) -> str:
        """Keep all existing frames for another node, which will copy the frames; return the stream's declaration."""
        with self.lock:
            stream = self.find(name)
            if reader not in stream.readers:
                stream.readers[reader] = ReaderPosition(stream.log.first, lossless=True)
                stream.has_come(reader)
                stream.retain()
                stream.save()
            return stream.sql

    def follow_from(self, name: str, reader: str, number: int) -> None:
        """Release the frames with lower numbers than `number` for another node, which has copied these frames."""
        with self.lock:
            stream = self.find(name)
            if reader in stream.readers:
                stream.readers[reader].released = min(number, stream.log.next)
                stream.has_come(reader)
                stream.has_released(reader, number)
                stream.retain()

    def keep_for(self, reader: str, names: Iterable[str], lossless: bool) -> None:
        """Keep the frames of these streams for a reader until `release_for` releases the frames; keep no frames of other streams for this reader."""
        kept = {name.lower() for name in names}
        with self.lock:
            for name, stream in self._streams.items():
                if name not in kept:
                    stream.unsubscribe(reader)
                    continue
                reading = stream.readers.get(reader)
                if reading is None or reading.lossless != lossless:
                    reading = stream.readers.setdefault(reader, ReaderPosition(stream.log.first, lossless))
                    reading.lossless = lossless
                    stream.retain()
                    stream.save()

    def release_for(self, reader: str, released: Mapping[str, int]) -> None:
        """Release frames for a reader on another node; `released` has the number of the first frame that the reader needs, by stream."""
        with self.lock:
            for name, stream in self._streams.items():
                reading = stream.readers.get(reader)
                if reading is not None and released.get(name, 0) > reading.released:
                    reading.released = min(released[name], stream.log.next)
                    stream.retain()

    def released_by(self, reader: str) -> dict[str, int]:
        """Return the number of the first frame that a reader still needs, by stream. The caller holds the lock."""
        return {
            name: stream.readers[reader].released
            for name, stream in self._streams.items()
            if reader in stream.readers
        }

    def unfollowed(self, name: str, reader: str) -> None:
        with self.lock:
            self.find(name).unsubscribe(reader)

    def frames(self) -> int:
        """Return the sum of the next frame numbers of all streams, which changes with every new frame."""
        return sum(stream.log.next for stream in self.all())

    def wait_grown(self, reached: Callable[[], bool], timeout_s: float) -> None:
        with self.grown:
            self.grown.wait_for(reached, timeout_s)

    def _answered(self, stream: Stream, part_of: BatchId | None) -> Accepted | RefusedBatch | None:
        """Return the answer to a batch that is refused or was published before; None for a batch that has to be written to the log."""
        if self._streams.get(stream.name.lower()) is not stream:
            return RefusedBatch(f"stream {stream.name} was dropped")
        if stream.origin is not None:
            return RefusedBatch(f"stream {stream.name} comes from node {stream.origin}: send it there")
        if part_of is not None and stream.producers.has(part_of):
            return Accepted(stream.log.next, again=True)
        return None

    def _append(
        self, stream: Stream, frames: Sequence[Frame], rows: int, part_of: BatchId | None
    ) -> Accepted | RefusedBatch:
        try:
            with self.lock:
                number = stream.log.begin(frames)
                # A batch without frames is noted in the record, because its id cannot be recovered from a frame.
                if part_of is not None and not frames:
                    stream.producers.note(part_of)
                    stream.save()
            stream.log.write(frames)
        except LogFull as full:
            stream.refused_batches += 1
            with self.lock:
                stream.report_full(self._clock())
            return RefusedBatch(f"stream {stream.name}: {full}", RETRY_AFTER_S)
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
            raise InvalidInput(
                f"this version of Weir cannot read the stream: the stream's record has version {record['version']}, not {RECORD_VERSION}",
                file=str(folder / RECORD),
            )
        stream = Stream(folder, record["sql"], self._bytes_max, self._segment_bytes)
        stream.recover(record)
        self._streams[stream.name.lower()] = stream
