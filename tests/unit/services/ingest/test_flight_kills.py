"""A gateway that is killed at random moments, also in the middle of a commit, publishes every row once.

Each gateway is a separate process over the same logs on disk. Producers repeat every call that got no answer.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from actors.gateway.gateway_loop import Gateway
from actors.log.segment_log import Reader
from actors.log.train_format import batch_of
from actors.runtime.run_dirs import RunDirs
from bench.subscriber import Subscriber
from configs.errors import WeirError
from services.ingest.flight import FlightSettings
from services.ingest.keys import new_key
from tests.support.dead_letters import letters

pytestmark = pytest.mark.slow

SQL = "CREATE STREAM s (ts timestamp, v int64, WATERMARK FOR ts AS ts)"
KEY = new_key()
KILLS = 15
BATCHES = 200
PARTS = 3
ROWS_MAX = 2000
AWAY = (flight.FlightUnavailableError, flight.FlightTimedOutError, flight.FlightCancelledError, OSError)
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["actors.gateway.gateway_loop", "services.ingest.flight"])


def gateway_process(dirs: RunDirs, key: str, parent: Connection) -> None:
    gateway = Gateway(dirs, bytes_max=2 << 20, segment_bytes=64 << 10)
    gateway.streams.declare(SQL)
    gateway.streams.keep_for("reader", ["s"], lossless=True)
    FlightSettings(dead_bytes=1 << 20).with_key(key).open(gateway.streams, dirs)
    parent.send("up")
    gateway.run()


def run_and_kill(dirs: RunDirs, chance: random.Random, up: threading.Event, ended: threading.Event) -> None:
    """Start a gateway, and kill it at a random moment, KILLS times. Then run a last gateway until `ended` is set."""
    for kill in range(KILLS + 1):
        ours, theirs = PROCESSES.Pipe()
        process = PROCESSES.Process(target=gateway_process, args=(dirs, KEY, theirs))
        process.start()
        theirs.close()
        assert ours.recv() == "up"
        up.set()
        if kill < KILLS:
            process.join(chance.uniform(0, 0.15 if kill % 3 else 0.03))
        else:
            ended.wait()
        assert process.pid is not None
        assert process.exitcode is None, "the gateway has ended by itself"
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        ours.close()


class Producer:
    """Producer of batches with several parts, which repeats each batch until the gateway has acknowledged the batch."""

    def __init__(self, dirs: RunDirs, name: str, first: int, seed: int) -> None:
        self._dirs, self._name, self._chance = dirs, name, random.Random(f"{seed}/{name}")
        self.sent: list[int] = []
        self.dead = 0
        self._value = first
        self._call = flight.FlightCallOptions(
            headers=[(b"authorization", f"Bearer {KEY}".encode())], timeout=20
        )

    def run(self) -> None:
        for number in range(BATCHES):
            parts = [self._rows() for _ in range(self._chance.randrange(PARTS + 1))]
            publish = partial(self._publish, number, parts)
            self._until_done(publish)
            if self._chance.random() < 0.3:
                assert self._until_done(publish)["again"]

    def _rows(self) -> pa.RecordBatch:
        size = self._chance.randrange(ROWS_MAX)
        values = range(self._value, self._value + size)
        self._value += size
        dead = {value for value in values if value % 997 == 0}
        self.sent += [value for value in values if value not in dead]
        self.dead += len(dead)
        times = pa.array([None if value in dead else value for value in values], pa.timestamp("us", "UTC"))
        return pa.RecordBatch.from_arrays([times, pa.array(values, pa.int64())], names=["ts", "v"])

    def _until_done(self, publish: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        while True:
            try:
                return publish()
            except AWAY:
                self._release_all()
            except flight.FlightServerError as problem:
                if b"not_staged" not in problem.extra_info:
                    raise

    def _publish(self, number: int, parts: list[pa.RecordBatch]) -> dict[str, Any]:
        client = flight.connect(self._dirs.endpoint.read_text())
        try:
            if len(parts) == 1:
                return self._put(client, number, 0, parts[0], commit=True)
            for place, part in enumerate(parts):
                self._put(client, number, place, part, commit=False)
            commit = {**self._batch(number), "parts": [[place, "a"] for place in range(len(parts))]}
            (result,) = client.do_action(flight.Action("commit", json.dumps(commit).encode()), self._call)
            found: dict[str, Any] = json.loads(result.body.to_pybytes())
            return found
        finally:
            client.close()

    def _put(
        self, client: flight.FlightClient, number: int, place: int, part: pa.RecordBatch, commit: bool
    ) -> dict[str, Any]:
        command = {**self._batch(number), "partition": place, "attempt": "a", "commit": commit}
        descriptor = flight.FlightDescriptor.for_command(json.dumps(command).encode())
        writer, answers = client.do_put(descriptor, part.schema, self._call)
        with writer:
            writer.write_batch(part)
            writer.done_writing()
            body = answers.read()
        if body is None:
            raise ConnectionResetError("no answer")
        found: dict[str, Any] = json.loads(body.to_pybytes())
        return found

    def _batch(self, number: int) -> dict[str, Any]:
        return {"v": 1, "stream": "s", "producer": self._name, "batch": number}

    def _release_all(self) -> None:
        """Release all rows for the lossless reader, because the gateway refuses batches while its log is full."""
        with suppress(OSError, WeirError):
            following = Reader(self._dirs.stream("s")).next
            reader = Subscriber(self._dirs, "reader", "s", following, lossless=True)
            reader.release(following)
            reader.close()


def values(dirs: RunDirs, ended: threading.Event) -> Iterator[int]:
    """Yield the values that a reader of the log sees from the start to the end of the test."""
    log, following, last = Reader(dirs.stream("s")), 0, False
    while not last:
        last = ended.is_set()
        for number, payload in log.frames(following):
            assert number == following
            following += 1
            yield from batch_of(payload).columns[1].data.tolist()
        ended.wait(0.001)


def test_repeatedly_killed_gateway_publishes_every_row_once(dirs: RunDirs) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    producers = [Producer(dirs, name, first, seed) for name, first in (("p", 0), ("q", 10**9))]
    up, ended = threading.Event(), threading.Event()
    with ThreadPoolExecutor(4) as threads:
        killing = threads.submit(run_and_kill, dirs, random.Random(seed), up, ended)
        up.wait()
        reading = threads.submit(lambda: list(values(dirs, ended)))
        sending = [threads.submit(producer.run) for producer in producers]
        try:
            for future in sending:
                future.result()
        finally:
            ended.set()
        killing.result()
        found = reading.result()
    assert [value for value in found if value < 10**9] == producers[0].sent
    assert [value for value in found if value >= 10**9] == producers[1].sent
    assert sum(letter.rows for letter in letters(dirs.stream("s"))) == sum(
        producer.dead for producer in producers
    )
