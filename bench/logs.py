"""Cost of logs and the gateway: frames in shared memory, commits, and batches that go from one process to another process."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from actors.gateway.gateway_loop import Gateway
from actors.gateway.producer import Producer
from actors.log.commit_format import commit_parts, steps_of
from actors.log.segment_log import KEEP_NONE, Reader, SegmentWriter
from actors.log.train_format import batch_of, batch_parts
from actors.messages.gateway_messages import Accepted
from actors.runtime.run_dirs import RunDirs, shared_memory
from bench.measure import Figure, seconds_each
from bench.subscriber import Subscriber
from engine.class_.steps import Answer, Commit, Opened, Took
from engine.data.schema import BOOLEAN, FLOAT64, INT32, INT64, STRING, TIMESTAMP
from engine.data.train import Train, Values, train_from_arrow
from engine.sql import parse_create_stream
from services.race.race import SPAWN

STREAM = "CREATE STREAM s (a BIGINT, b BIGINT, c DOUBLE, d DOUBLE, e BIGINT, f DOUBLE)"
SCHEMA = parse_create_stream(STREAM).schema
BATCH = 10_000
BATCHES = 1000
RESULT_ROWS = (1, 2, 4, 8, 16, 32, 64, 100, 300, 500, 1000)
LOG_BYTES = 128 << 20
IDLE_S = 2.0
# Number of frames that the reader allows the log to delete at once. A class does the same after each snapshot of its state.
RELEASED_EVERY = 64


def figures() -> list[Figure]:
    with log() as (writer, reader):
        rows_per_s = BATCH / batch_s(writer, reader)
        append_s, read_s = frame_s(writer, reader)
        commit, copied = commit_s(writer)
    door = door_costs()
    return [
        Figure("log: append and read of 10,000 rows of 6 columns", rows_per_s / 1e6, "M rows/s", least=20.0),
        Figure("log: append of a frame of 64 bytes", 1e6 * append_s, "µs", limit=15.0),
        Figure("log: read of a frame", 1e6 * read_s, "µs", limit=10.0),
        Figure("log: commit with 11 results, beyond copying", 1e6 * (commit - copied), "µs", limit=80.0),
        Figure("door: from process to process, batches of 10,000 rows", door.rows_per_s / 1e6, "M rows/s"),
        Figure("door: time per batch", 1e6 * BATCH / door.rows_per_s, "µs"),
        Figure("door: the gateway's processor time per row", 1e6 * door.gateway_s, "µs", limit=0.1),
        Figure("door: all three processes' processor time per row", 1e6 * door.all_s, "µs"),
        Figure("gateway: processor time per second when idle", 1e6 * door.idle, "µs", limit=500.0),
    ]


@contextmanager
def log() -> Iterator[tuple[SegmentWriter, Reader]]:
    with TemporaryDirectory(dir=shared_memory()) as folder:
        writer = SegmentWriter(Path(folder), bytes_max=LOG_BYTES, keep_from=KEEP_NONE)
        yield writer, Reader(Path(folder))
        writer.close()


def batch_s(writer: SegmentWriter, reader: Reader) -> float:
    """Return the seconds for appending one batch and reading it; the reader sums every column."""
    train = train_from_arrow(batch(), SCHEMA, 0.0)

    def one() -> None:
        number = writer.append(*batch_parts(0.0, train))
        for _, payload in reader.frames(number):
            for column in batch_of(payload).columns:
                column.data.sum()

    return seconds_each(one, 500)


def frame_s(writer: SegmentWriter, reader: Reader) -> tuple[float, float]:
    payload = [bytes(64)]
    append_s = seconds_each(lambda: writer.append(payload, 64), 5000)
    begin = writer.next - 5000
    read_s = seconds_each(lambda: sum(1 for _ in reader.frames(begin)), 1) / 5000
    return append_s, read_s


def commit_s(writer: SegmentWriter) -> tuple[float, float]:
    """Return the seconds of a commit, and of copying the same bytes into the log."""
    mask = np.packbits(np.ones(BATCH, bool)).tobytes()
    answers = tuple(Answer(f"q{place}", place, result(rows)) for place, rows in enumerate(RESULT_ROWS))
    steps = (Opened("s", 7, BATCH, 0, 0, 1.0, mask), Took("s", BATCH))
    commit = Commit(steps, answers, {one.query: 10 for one in answers})
    whole = b"".join(bytes(part) for part in commit_parts(commit)[0])
    assert len(steps_of(memoryview(whole)).answered) == len(answers)
    return (
        seconds_each(lambda: writer.append(*commit_parts(commit)), 500),
        seconds_each(lambda: writer.append([whole], len(whole)), 500),
    )


def result(rows: int) -> Train:
    types = (TIMESTAMP, INT64, FLOAT64, STRING, INT32, BOOLEAN)[: 2 + rows % 3]
    columns = tuple(
        Values(type_, pa.array(["north"] * rows) if type_ is STRING else np.zeros(rows, type_.numpy))
        for type_ in types
    )
    return Train(columns, np.arange(rows, dtype=float))


def batch() -> pa.RecordBatch:
    columns = [np.arange(BATCH).astype(field.type.numpy) for field in SCHEMA.fields]
    return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=SCHEMA.arrow)


class DoorCosts:
    """Measurements of a gateway: rows per second, processor-seconds per row, and processor-seconds per second when idle."""

    def __init__(self, seconds: float, gateway_s: float, all_s: float, idle_s: float) -> None:
        rows = BATCH * BATCHES
        self.rows_per_s = rows / seconds
        self.gateway_s, self.all_s = gateway_s / rows, all_s / rows
        self.idle = idle_s / IDLE_S


def door_costs() -> DoorCosts:
    """Measure batches that this process sends through a gateway to a reader. Gateway and reader each have a separate process."""
    dirs = RunDirs(shared_memory(), f"bench-{os.getpid()}", "n")
    held = dirs.hold()
    try:
        with in_process(serve, dirs) as gateway:
            with in_process(read_all, dirs) as reader, Producer(dirs.door_socket) as producer:
                before = asked(gateway)
                seconds, producer_s = publish_all(producer, reader)
                busy_s, reader_s = asked(gateway) - before, asked(reader)
            before = asked(gateway)
            time.sleep(IDLE_S)
            idle_s = asked(gateway) - before
    finally:
        dirs.remove()
        os.close(held)
    return DoorCosts(seconds, busy_s, busy_s + reader_s + producer_s, idle_s)


def publish_all(producer: Producer, reader: Connection) -> tuple[float, float]:
    """Publish all batches; return the seconds until the reader has read all batches, and the processor-seconds of this process."""
    rows = batch()
    began, used = time.perf_counter(), time.process_time()
    for _ in range(BATCHES):
        while not isinstance(answer := producer.publish("s", rows), Accepted):
            assert answer.retry_after_s is not None, answer.reason
            time.sleep(answer.retry_after_s)
    producer_s = time.process_time() - used
    assert reader.recv() == BATCHES
    return time.perf_counter() - began, producer_s


@contextmanager
def in_process(work: Callable[[RunDirs, Connection], None], dirs: RunDirs) -> Iterator[Connection]:
    """Run `work` in another process, and yield the connection to the process once it is ready. Closing the connection ends the process."""
    ours, theirs = SPAWN.Pipe()
    process = SPAWN.Process(target=work, args=(dirs, theirs))
    process.start()
    theirs.close()
    try:
        assert ours.recv() == "ready"
        yield ours
    finally:
        ours.close()
        process.join()


def asked(process: Connection) -> float:
    """Return the processor-seconds that the process has used."""
    process.send("used")
    used: float = process.recv()
    return used


def serve(dirs: RunDirs, parent: Connection) -> None:
    gateway = Gateway(dirs)
    gateway.streams.declare(STREAM)
    thread = threading.Thread(target=gateway.run)
    thread.start()
    parent.send("ready")
    answer_until_end(parent, 0.0)
    gateway.stop()
    thread.join()


def read_all(dirs: RunDirs, parent: Connection) -> None:
    subscriber = Subscriber(dirs, "bench", "s", lossless=True)
    parent.send("ready")
    before = time.process_time()
    while subscriber.next < BATCHES:
        subscriber.wait()
        for number, payload in subscriber.frames():
            batch_of(payload)
            if number % RELEASED_EVERY == 0:
                subscriber.release(number)
    parent.send(subscriber.next)
    answer_until_end(parent, before)


def answer_until_end(parent: Connection, before: float) -> None:
    try:
        while True:
            parent.recv()
            parent.send(time.process_time() - before)
    except EOFError:
        return
