"""Dead letters: rows that could not be published, stored with the reason in a log of their stream, `<stream folder>/dead/`.

A frame of the log begins with the format version and the length of the head. Then come the head (reason, column, counts and more)
as JSON, padding to a multiple of 64 bytes, and the rows as an Arrow stream.

Numbered properties:
1. The dead rows of a batch are stored once, even if the batch is sent several times. All frames of a batch are stored, or none.
2. The log takes at most `bytes_max`; the oldest frames are dropped first. If a batch has more dead rows than fit, some of them are
   stored, and all are counted.
3. The head of each frame has the counts of all dead rows up to its batch, by reason, so that a killed process loses no count.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Any

import pyarrow as pa

from actors.gateway.producer_dedup import LastBatches
from actors.gateway.stream import Stream
from actors.log.segment_log import KEEP_NONE, SEGMENTS_LEAST, Frame, Part, Reader, SegmentWriter, frames_left
from actors.log.train_format import BatchId, NotAFrame, aligned, append_in_a_row, mark_of

FOLDER = "dead"
DEAD_BYTES = 64 << 20
# Maximum number of rows stored per reason and batch.
ROWS_MAX = 10_000
VERSION = 1
# First bytes of every frame: the version of the format and the length of the head.
_HEAD = Struct("=BxxxI")


@dataclass(frozen=True, slots=True)
class DeadRows:
    """Rows of a record batch that could not be published for one reason, in the form in which the producer sent the rows."""

    reason: str
    column: str
    batch: pa.RecordBatch

    @property
    def rows(self) -> int:
        return int(self.batch.num_rows)


class DeadLog:
    """Dead-letter log of one stream. The caller of `keep` must hold the stream's `writing` lock."""

    def __init__(self, folder: Path, bytes_max: int) -> None:
        self._writer = SegmentWriter(folder, bytes_max=bytes_max, keep_from=KEEP_NONE)
        self._bytes_max = bytes_max
        self._last = LastBatches()
        self.counts: Mapping[str, int] = {}
        for head, _ in found(folder):
            self._last.note(BatchId(mark_of(head["producer"]), head["batch"]))
            self.counts = head["counts"]

    def keep(self, producer: str, number: int, dead: Sequence[DeadRows]) -> None:
        batch = BatchId(mark_of(producer), number)
        if self._last.has(batch):
            return
        counts = Counter(self.counts)
        for rows in dead:
            counts[f"{rows.reason}: {rows.column}"] += rows.rows
        record = {"producer": producer, "batch": number, "counts": counts}
        groups = grouped(dead)
        # Rows may take half of the bytes that one append may write, so that the other half remains for the heads of the frames.
        most = self._bytes_max // SEGMENTS_LEAST
        frames = [frame_of(table, record | head, most // 2 // len(groups)) for head, table in groups]
        if sum(size for _, size in frames) > most:
            frames = [frame_of(table, record | head, 0) for head, table in groups]
        self._writer.append_all(frames)
        self._last.note(batch)
        self.counts = counts

    def close(self) -> None:
        self._writer.close()


class DeadLetters:
    """Dead-letter logs of all streams of a node."""

    def __init__(self, bytes_max: int = DEAD_BYTES) -> None:
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._logs: dict[str, tuple[Stream, DeadLog]] = {}

    def keep(self, stream: Stream, producer: str, number: int, dead: Sequence[DeadRows]) -> None:
        """Store the dead rows of a batch of a producer in the log of the stream."""
        if dead:
            self._log(stream).keep(producer, number, dead)

    def counts(self, stream: Stream) -> Mapping[str, int]:
        """Return the number of dead rows of the stream up to now, by reason and column."""
        return self._log(stream).counts if (stream.folder / FOLDER).is_dir() else {}

    def close(self) -> None:
        with self._lock:
            for _, log in self._logs.values():
                log.close()
            self._logs.clear()

    def _log(self, stream: Stream) -> DeadLog:
        with self._lock:
            logged_stream, log = self._logs.get(stream.name.lower(), (None, None))
            if log is not None and logged_stream is not stream:
                # The dead-letter log belongs to a dropped stream that had the same name.
                log.close()
                log = None
            if log is None:
                log = DeadLog(stream.folder / FOLDER, self._bytes_max)
                self._logs[stream.name.lower()] = stream, log
            return log


def found(folder: Path) -> Iterator[tuple[dict[str, Any], memoryview]]:
    """Yield the head and the rows of each frame in a dead-letter log, oldest first."""
    log = Reader(folder)
    for _, payload in frames_left(log, log.first):
        version, size = _HEAD.unpack_from(payload)
        if version != VERSION:
            raise NotAFrame(
                "the file is not a dead letter of this version of Weir", value=version, file=str(folder)
            )
        end = _HEAD.size + size
        yield json.loads(bytes(payload[_HEAD.size : end])), payload[aligned(end) :]


def grouped(dead: Sequence[DeadRows]) -> list[tuple[dict[str, Any], pa.Table]]:
    """Return one table of dead rows for each combination of reason, column and schema, together with the reason and the column."""
    groups: dict[tuple[str, str, pa.Schema], list[pa.RecordBatch]] = {}
    for rows in dead:
        groups.setdefault((rows.reason, rows.column, rows.batch.schema), []).append(rows.batch)
    return [
        ({"reason": reason, "column": column}, pa.Table.from_batches(batches))
        for (reason, column, _), batches in groups.items()
    ]


def frame_of(table: pa.Table, record: Mapping[str, Any], bytes_max: int) -> Frame:
    """Return a frame with as many rows of the table as fit into `bytes_max`."""
    fitting = bytes_max * table.num_rows // max(1, table.nbytes)
    kept = table.slice(0, min(ROWS_MAX, fitting)).combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, kept.schema) as writer:
        writer.write_table(kept)
    head = {**record, "rows": table.num_rows, "kept": kept.num_rows}
    text = json.dumps(head).encode()
    parts: list[Part] = []
    size = append_in_a_row(parts, _HEAD.pack(VERSION, len(text)) + text, [memoryview(sink.getvalue())])
    return parts, size
