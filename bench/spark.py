"""Cost of sending Spark's micro-batches to a class: additional time compared with Spark's noop sink, rows per second, and delays.

Spark with one task at a time (`local[1]`) makes rows of six columns. A gateway in its own process accepts them, and a class in
another process reads them. One core runs the class's slices; everything else, including Spark, shares the other cores. The time
of a micro-batch is what Spark reports (`triggerExecution`), with its checkpoint on disk. For each sink, the median of a
round is measured, and the best of several rounds counts, because other programs can only slow a round down.

For delays, batches are sent as `foreachBatch` sends them, but without Spark, which would take most of the time. At first,
batches are sent one after the other, then at half of that rate and at random moments. The delay ends when the ingest thread
has put the batch into the class's queue. The delay begins when the gateway stamps the batch, or at the producer's call.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark_weir import client, to_weir
from pyspark_weir.options import write_options

from actors.dispatcher.turn_loop import TurnLoop
from actors.gateway.gateway_loop import Gateway
from actors.host.host import Host, prepare_process
from actors.host.inbox import ArrivedPiece
from actors.messages.unit_messages import Unit
from actors.runtime.cpu_pinning import Cores, cores_of_process, keep_process_off, lane_cores
from actors.runtime.run_dirs import RunDirs, shared_memory
from bench.logs import in_process
from bench.measure import Figure
from configs.classes.live_class import LiveClass, LiveSettings
from services.ingest.flight import FlightSettings
from services.ingest.java import find_java
from services.ingest.keys import new_key
from services.ingest.session import stop_session

STREAM = "CREATE STREAM s (a int64, b int64, c float64, d float64, e int64, f float64)"
COLUMNS = ("value AS a", "value % 97 AS b", "value / 2D AS c", "value * 3D AS d", "-value AS e", "0.5D AS f")
FEW, MANY = 10_000, 100_000
WARM, MEASURED = 8, 24
ROUNDS = 2
LOG_BYTES = 256 << 20
SETTINGS = {
    "spark.master": "local[1]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.streaming.numRecentProgressUpdates": str(WARM + MEASURED + 1),
    "spark.log.level": "OFF",
}
LOOK_S = 0.05
STUCK_S = 120.0
# BEFORE is the number of batches that are sent one right after the other.
# AT_HALF is the number of batches that are then sent at half of the measured rate.
BEFORE, AT_HALF = 300, 1000
CLASS = LiveClass(
    name="c",
    priority=1,
    delay_target_ms=1000,
    streams=(STREAM,),
    queries={"none": "SELECT a FROM s WHERE d < 0"},
    lossless=True,
)
SETTINGS_OF_HOST = LiveSettings(manager="none", retained_bytes=LOG_BYTES, idle_after_s=None)

Sink = Callable[[DataStreamWriter], DataStreamWriter]


@dataclass(frozen=True, slots=True)
class Node:
    """Running node: endpoint, a key for the endpoint, and the processes of gateway and class."""

    endpoint: str
    key: str
    gateway: Connection
    host: Connection

    def used(self) -> Used:
        return cast(Used, asked(self.gateway, "used"))

    def waits(self) -> npt.NDArray[np.float64]:
        """Return two numbers for each batch queued since the last call: seconds from arrival to queueing, and the time of the queueing."""
        return cast("npt.NDArray[np.float64]", asked(self.host, "waits"))

    def delivered(self) -> int:
        return cast(int, asked(self.host, "delivered"))


class Used(NamedTuple):
    """Processor-seconds and rows of the gateway until now."""

    seconds: float
    rows: int

    def a_row(self, before: Used) -> float:
        return (self.seconds - before.seconds) / (self.rows - before.rows)


def figures() -> list[Figure]:
    with node() as running:
        found = soon(running)
        with session() as spark:
            sinks: dict[str, Sink] = {
                "noop": lambda writer: writer.format("noop"),
                "driver": lambda writer: writer.foreachBatch(
                    to_weir(endpoint=running.endpoint, stream="s", api_key=running.key)
                ),
                "executors": lambda writer: writer.format("weir").options(
                    endpoint=running.endpoint, stream="s", apiKey=running.key
                ),
            }
            few, many, a_row = ({name: float("inf") for name in sinks} for _ in range(3))
            for _ in range(ROUNDS):
                for name, sink in sinks.items():
                    before = running.used()
                    few[name] = min(few[name], batch_ms(spark, sink, FEW))
                    if name != "noop":
                        a_row[name] = min(a_row[name], running.used().a_row(before))
                    many[name] = min(many[name], batch_ms(spark, sink, MANY))
    over = {name: few[name] - few["noop"] for name in sinks}
    rows_per_s = {name: 1e3 * MANY / many[name] for name in sinks}
    return [
        Figure("Spark: a micro-batch of 10,000 rows into the noop sink", few["noop"], "ms"),
        Figure("Spark, driver's path: additional time per micro-batch", over["driver"], "ms", limit=40.0),
        Figure(
            "Spark, executors' path: additional time per micro-batch", over["executors"], "ms", limit=120.0
        ),
        Figure("Spark: rows into the noop sink, 100,000 per batch", rows_per_s["noop"], "rows/s"),
        Figure("Spark, driver's path: rows into a class", rows_per_s["driver"], "rows/s", least=500_000.0),
        Figure(
            "Spark, executors' path: rows into a class", rows_per_s["executors"], "rows/s", least=300_000.0
        ),
        Figure("gateway: processor time per row, driver's path", 1e6 * a_row["driver"], "µs", limit=1.0),
        Figure("gateway: processor time per row, executors' path", 1e6 * a_row["executors"], "µs", limit=1.0),
        *found,
    ]


def soon(running: Node) -> list[Figure]:
    """Measure rate and delays of batches of 10,000 rows from one producer."""
    producer = Producer(running)
    producer.send(BEFORE)
    running.waits()
    began = time.perf_counter()
    producer.send(BEFORE)
    most = BEFORE * FEW / (time.perf_counter() - began)
    before = running.used()
    running.waits()
    called = producer.send(AT_HALF, pauses_s=2 * FEW / most)
    waits = running.waits()
    assert len(waits) == AT_HALF, "some batches did not reach the class"
    whole = np.array([there - at for there, at in zip(waits[:, 1], called, strict=True)])
    p50, p99 = 1e3 * np.percentile(waits[:, 0], (50, 99))
    return [
        Figure("door: rows of one producer into a class, 10,000 per batch", most, "rows/s"),
        Figure("at half that rate: from gateway to class, p50", p50, "ms"),
        Figure("at half that rate: from gateway to class, p99", p99, "ms", limit=5.0),
        Figure(
            "at half that rate: from the producer's call to class, p99", 1e3 * np.percentile(whole, 99), "ms"
        ),
        Figure(
            "at half that rate: gateway's processor time per row",
            1e6 * running.used().a_row(before),
            "µs",
            limit=1.0,
        ),
    ]


class Producer:
    """Producer that sends batches as `foreachBatch` does."""

    def __init__(self, running: Node) -> None:
        given = {"endpoint": running.endpoint, "apiKey": running.key, "stream": "s"}
        self._options = write_options(given, "write")
        self._gateway = client.GatewayClient(self._options.connection)
        self._running = running
        self._sent = 0
        numbers = np.arange(FEW)
        columns = [numbers, numbers % 97, numbers / 2, numbers * 3.0, -numbers, np.full(FEW, 0.5)]
        self._rows = pa.table(dict(zip("abcdef", columns, strict=True)))

    def send(self, batches: int, pauses_s: float = 0.0) -> list[float]:
        """Send batches, and wait until the class has all batches; return the time at which each batch was sent.

        The pauses between batches are random, with the mean `pauses_s`.
        """
        chance, due, called = random.Random(1), time.monotonic(), []
        for _ in range(batches):
            due += chance.expovariate(1 / pauses_s) if pauses_s else 0.0
            time.sleep(max(0.0, due - time.monotonic()))
            called.append(time.monotonic())
            self._gateway.publish(self._options, client.Batch("p", self._sent), self._rows)
            self._sent += 1
        wait_delivered(self._running)
        return called


def wait_delivered(running: Node) -> None:
    until = time.monotonic() + STUCK_S
    while running.delivered() < running.used().rows:
        if time.monotonic() > until:
            raise RuntimeError(f"the class has not taken all rows within {STUCK_S:g} s")
        time.sleep(LOOK_S)


def batch_ms(spark: SparkSession, sink: Sink, rows: int) -> float:
    """Return the median time of a micro-batch in milliseconds, without the first batches."""
    source = spark.readStream.format("rate-micro-batch").options(rowsPerBatch=rows, numPartitions=1)
    with TemporaryDirectory(prefix="weir-bench-") as checkpoint:
        writer = source.load().selectExpr(*COLUMNS).writeStream.option("checkpointLocation", checkpoint)
        query = sink(writer).start()
        try:
            until = time.monotonic() + STUCK_S
            while (last := query.lastProgress) is None or last.batchId < WARM + MEASURED:
                if query.exception() is not None or time.monotonic() > until:
                    raise RuntimeError(f"the query is stuck: {query.exception()}")
                time.sleep(LOOK_S)
            taken = [one.durationMs["triggerExecution"] for one in query.recentProgress if one.batchId > WARM]
        finally:
            query.stop()
    return median(taken)


@contextmanager
def session() -> Iterator[SparkSession]:
    os.environ["JAVA_HOME"] = str(find_java(None, os.environ).home)
    # Workers must run the same Python with the same packages as this process.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        stop_session(spark)


@contextmanager
def node() -> Iterator[Node]:
    """Start gateway, dispatcher and class. This process and its children run on the processors that are not lanes."""
    dirs, key = RunDirs(shared_memory(), f"bench-{os.getpid()}", "n"), new_key()
    held, before = dirs.hold(), cores_of_process()
    cores = keep_process_off(lane_cores(1, before))
    try:
        with ExitStack() as stack:
            gateway = stack.enter_context(in_process(partial(serve, key), dirs))
            stack.enter_context(in_process(partial(serve_turns, cores), dirs))
            host = stack.enter_context(in_process(partial(serve_class, cores), dirs))
            running = Node(dirs.endpoint.read_text(encoding="utf-8"), key, gateway, host)
            yield running
            wait_delivered(running)
    finally:
        keep_process_off(Cores(cores.lanes, tuple(before)))
        dirs.remove()
        os.close(held)


def serve(key: str, dirs: RunDirs, parent: Connection) -> None:
    gateway = Gateway(dirs, bytes_max=LOG_BYTES)
    stream = gateway.streams.declare(STREAM)
    opened = FlightSettings().with_key(key).open(gateway.streams, dirs)
    thread = threading.Thread(target=gateway.run)
    thread.start()
    parent.send("ready")
    answer(parent, {"used": lambda: Used(time.process_time(), stream.rows)})
    opened.close()
    gateway.stop()
    thread.join()


def serve_turns(cores: Cores, dirs: RunDirs, parent: Connection) -> None:
    turns = TurnLoop(dirs.dispatcher_socket, 0.01, cores=cores)
    turns.set_shares({CLASS.name: 1.0}, {CLASS.name: "h"})
    thread = threading.Thread(target=turns.run)
    thread.start()
    parent.send("ready")
    answer(parent, {})
    turns.stop()
    thread.join()


def serve_class(cores: Cores, dirs: RunDirs, parent: Connection) -> None:
    prepare_process()
    host = Host("h", dirs, SETTINGS_OF_HOST, lambda *_: None, lambda problem: os._exit(1), cores=cores)
    host.start([Unit(CLASS, 0, 1.0, 1.0)])
    queue = Queue()
    host.ask(lambda: setattr(host.units.by_name[CLASS.name].inbox, "arrived", queue))
    while CLASS.name not in (dirs.stream("s") / "stream.json").read_text(encoding="utf-8"):
        time.sleep(LOOK_S)
    parent.send("ready")

    def delivered() -> int:
        return host.status().units[CLASS.name].figures.delivered

    answer(parent, {"waits": queue.taken, "delivered": delivered})
    host.stop()


class Queue(deque[ArrivedPiece]):
    """Queue of a class. It records for each batch the time of queueing, and the seconds since the batch arrived at the gateway."""

    def __init__(self) -> None:
        super().__init__()
        self._notes: list[tuple[float, float]] = []

    def append(self, one: ArrivedPiece) -> None:
        super().append(one)
        now = time.monotonic()
        self._notes.append((now - float(one.piece.train.arrival[0]), now))

    def taken(self) -> npt.NDArray[np.float64]:
        """Return the times that were recorded since the last call of this method."""
        notes, self._notes = self._notes, []
        return np.array(notes)


def asked(process: Connection, what: str) -> Any:
    process.send(what)
    return process.recv()


def answer(parent: Connection, told: Mapping[str, Callable[[], Any]]) -> None:
    """Answer requests by name until the connection is closed."""
    try:
        while True:
            parent.send(told[parent.recv()]())
    except EOFError:
        return
