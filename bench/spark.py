"""What it costs to bring Spark's micro-batches to a class: over Spark's own noop sink, rows a second, and how soon they are there.

A Spark of one task at a time (`local[1]`) makes rows of six columns; a gateway in a process of its own takes them, and a
class in another reads them. The class has a core for its slices; all else, Spark too, has what is left. A micro-batch takes
what Spark reports (`triggerExecution`), its checkpoint on disk included; of each sink the median, and of several rounds the
best: others can only slow it down.

For the time from gateway to class, batches come as `foreachBatch` sends them, but without a Spark that takes most of the
time: first one after the other, then half as many a second at random moments. It is from the stamp that the gateway gives
a batch until the ingest thread has it in the class's queue; and from the producer's call on.
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
from configs.classes.live_class import LiveClass, LiveSettings
from services.ingest.flight import FlightSettings
from services.ingest.java import find_java
from services.ingest.keys import new_key
from services.ingest.session import stop_session
from services.race.measure import Figure

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
# Batches that come one after the other, and those at half of that rate.
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
    """Where it is, the key, and the processes of gateway and class."""

    endpoint: str
    key: str
    gateway: Connection
    host: Connection

    def used(self) -> Used:
        return cast(Used, asked(self.gateway, "used"))

    def waits(self) -> npt.NDArray[np.float64]:
        """Of all batches since this was asked last: how long after its arrival each was in the queue, and when."""
        return cast("npt.NDArray[np.float64]", asked(self.host, "waits"))

    def delivered(self) -> int:
        return cast(int, asked(self.host, "delivered"))


class Used(NamedTuple):
    """By the gateway until now."""

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
        Figure("Spark: a micro-batch of 10,000 rows into nothing", few["noop"], "ms"),
        Figure("Spark, driver's path: over that", over["driver"], "ms", limit=40.0),
        Figure("Spark, executors' path: over that", over["executors"], "ms", limit=120.0),
        Figure("Spark: rows of 100,000 a batch into nothing", rows_per_s["noop"], "rows/s"),
        Figure("Spark, driver's path: rows into a class", rows_per_s["driver"], "rows/s", least=500_000.0),
        Figure(
            "Spark, executors' path: rows into a class", rows_per_s["executors"], "rows/s", least=300_000.0
        ),
        Figure("gateway: processor time a row, driver's path", 1e6 * a_row["driver"], "µs", limit=1.0),
        Figure("gateway: the same, executors' path", 1e6 * a_row["executors"], "µs", limit=1.0),
        *found,
    ]


# -- from gateway to class -----------------------------------------------------------------------------------------


def soon(running: Node) -> list[Figure]:
    """Batches of 10,000 rows by one producer."""
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
    assert len(waits) == AT_HALF, "batches have not come"
    whole = np.array([there - at for there, at in zip(waits[:, 1], called, strict=True)])
    p50, p99 = 1e3 * np.percentile(waits[:, 0], (50, 99))
    return [
        Figure("door: rows of 10,000 a batch by one producer into a class", most, "rows/s"),
        Figure("at half of it: from gateway to class, p50", p50, "ms"),
        Figure("at half of it: from gateway to class, p99", p99, "ms", limit=5.0),
        Figure("at half of it: from the producer's call to class, p99", 1e3 * np.percentile(whole, 99), "ms"),
        Figure(
            "at half of it: gateway's processor time a row",
            1e6 * running.used().a_row(before),
            "µs",
            limit=1.0,
        ),
    ]


class Producer:
    """Sends as `foreachBatch` does."""

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
        """With pauses of so long in the mean; when each was begun. All of them are in the class then."""
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
            raise RuntimeError("the class does not get on")
        time.sleep(LOOK_S)


# -- Spark ---------------------------------------------------------------------------------------------------------


def batch_ms(spark: SparkSession, sink: Sink, rows: int) -> float:
    """Of a micro-batch, the median of those after the first."""
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
    # Workers must have what this process has.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        stop_session(spark)


# -- the processes of a node -------------------------------------------------------------------------------------------


@contextmanager
def node() -> Iterator[Node]:
    """This process and those that it starts have the cores that are no lanes."""
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
    """Of a class; it notes when what has been let in was there, and how long after its arrival at the gateway."""

    def __init__(self) -> None:
        super().__init__()
        self._notes: list[tuple[float, float]] = []

    def append(self, one: ArrivedPiece) -> None:
        super().append(one)
        now = time.monotonic()
        self._notes.append((now - float(one.piece.train.arrival[0]), now))

    def taken(self) -> npt.NDArray[np.float64]:
        """The notes since this was called last."""
        notes, self._notes = self._notes, []
        return np.array(notes)


def asked(process: Connection, what: str) -> Any:
    process.send(what)
    return process.recv()


def answer(parent: Connection, told: Mapping[str, Callable[[], Any]]) -> None:
    """What is asked for by name, until nobody asks any more."""
    try:
        while True:
            parent.send(told[parent.recv()]())
    except EOFError:
        return
