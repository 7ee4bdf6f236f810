"""Rows of one published batch are processed in the order of event time, so lateness is judged by the watermark before the batch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from actors.gateway.streams import Streams
from actors.log.segment_log import Reader
from actors.log.train_format import BatchId, batch_of, mark_of
from actors.messages.gateway_messages import Accepted
from actors.runtime.run_dirs import RunDirs
from engine.data.train import Train, train_from_arrow
from engine.operators.source import SourceOperator

LATENESS = 5
SQL = f"CREATE STREAM r (at int64, id int32, WATERMARK FOR at AS at - INTERVAL '{LATENESS} milliseconds')"
Times = Sequence[int | None]
times = st.lists(st.none() | st.integers(0, 40), max_size=12)
# A published batch has several parts, as a micro-batch of Spark has several partitions.
batches = st.lists(st.lists(times, min_size=1, max_size=4), min_size=1, max_size=6)


def published(given_batches: Sequence[Sequence[Times]], folder: Path) -> list[Train]:
    """Publish each batch with all its parts, and return the trains of the stream's log."""
    dirs = RunDirs(folder, "s", "n")
    streams = Streams(dirs, lambda: 0.0)
    stream = streams.declare(SQL)
    log, trains, row = Reader(dirs.stream("r")), [], 0
    for number, parts in enumerate(given_batches):
        rows = []
        for part in parts:
            ids = range(row, row + len(part))
            row += len(part)
            batch = pa.RecordBatch.from_pydict({"at": part, "id": list(ids)}, schema=stream.arrow)
            rows.append(train_from_arrow(batch, stream.schema.schema, 0.0))
        begin = stream.log.next
        assert isinstance(streams.publish(stream, rows, BatchId(mark_of("p"), number)), Accepted)
        trains += [copied(payload) for _, payload in log.frames(begin)]
    streams.close()
    return trains


def copied(payload: memoryview) -> Train:
    return batch_of(memoryview(bytes(payload)))


def on_time(given_batches: Sequence[Sequence[Times]]) -> list[int]:
    """Return the numbers of the rows that are not late, in the order of event time.

    A row is late if its time is behind the watermark before its batch.
    """
    latest, row, found = None, 0, []
    for parts in given_batches:
        rows = []
        for at in (at for part in parts for at in part):
            if at is not None and (latest is None or at >= latest - LATENESS):
                rows.append((at, row))
            row += 1
        found += [number for _, number in sorted(rows)]
        latest = max([at for at, _ in rows] + ([] if latest is None else [latest]), default=None)
    return found


@given(batches, st.lists(st.integers(1, 9), min_size=1))
def test_row_is_late_only_if_it_was_behind_the_watermark_before_its_batch_arrived(
    given_batches: list[list[list[int | None]]], cuts: list[int]
) -> None:
    with TemporaryDirectory(dir="/dev/shm") as folder:
        trains = published(given_batches, Path(folder))
    source, taken, number = SourceOperator(0, LATENESS), [], 0
    for train in trains:
        begin = 0
        while begin < len(train):
            size = cuts[number % len(cuts)]
            number += 1
            out = source.process(train.slice(begin, begin + size))
            assert out is not None
            taken += out.columns[1].data.tolist()
            begin += size
    rows = sum(len(part) for parts in given_batches for part in parts)
    wanted = on_time(given_batches)
    assert (taken, source.late) == (wanted, rows - len(wanted))
