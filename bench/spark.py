"""What it costs to bring Spark's micro-batches to a gateway: over Spark's own noop sink, and rows a second.

A Spark of one task at a time (`local[1]`) makes rows of six columns; a gateway in a process of its own takes them. A
micro-batch takes what Spark reports (`triggerExecution`), its checkpoint on disk included; of each sink the median, and of
several rounds the best: others can only slow it down.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection
from statistics import median
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark_weir import to_weir

from actors.dirs import RunDirs, shared_memory
from actors.ingress import Gateway
from actors.segments import Reader
from bench.logs import answer_until_end, in_process
from bench.measure import Figure
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

Sink = Callable[[DataStreamWriter], DataStreamWriter]


def figures() -> list[Figure]:
    with door() as (endpoint, key), session() as spark:
        sinks: dict[str, Sink] = {
            "noop": lambda writer: writer.format("noop"),
            "driver": lambda writer: writer.foreachBatch(to_weir(endpoint=endpoint, stream="s", api_key=key)),
            "executors": lambda writer: writer.format("weir").options(
                endpoint=endpoint, stream="s", apiKey=key
            ),
        }
        few, many = ({name: float("inf") for name in sinks} for _ in range(2))
        for _ in range(ROUNDS):
            for name, sink in sinks.items():
                few[name] = min(few[name], batch_ms(spark, sink, FEW))
                many[name] = min(many[name], batch_ms(spark, sink, MANY))
    over = {name: few[name] - few["noop"] for name in sinks}
    rows_per_s = {name: 1e3 * MANY / many[name] for name in sinks}
    return [
        Figure("Spark: a micro-batch of 10,000 rows into nothing", few["noop"], "ms"),
        Figure("Spark, driver's path: over that", over["driver"], "ms", limit=40.0),
        Figure("Spark, executors' path: over that", over["executors"], "ms", limit=120.0),
        Figure("Spark: rows of 100,000 a batch into nothing", rows_per_s["noop"], "rows/s"),
        Figure("Spark, driver's path: rows", rows_per_s["driver"], "rows/s", least=500_000.0),
        Figure("Spark, executors' path: rows", rows_per_s["executors"], "rows/s", least=300_000.0),
    ]


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


@contextmanager
def door() -> Iterator[tuple[str, str]]:
    """Where it is, and the key."""
    dirs, key = RunDirs(shared_memory(), f"bench-{os.getpid()}", "n"), new_key()
    held = dirs.hold()
    try:
        with in_process(partial(serve, key), dirs):
            yield dirs.endpoint.read_text(encoding="utf-8"), key
            assert Reader(dirs.stream("s")).next > 2 * ROUNDS * MEASURED, "rows have not come"
    finally:
        dirs.remove()
        os.close(held)


def serve(key: str, dirs: RunDirs, parent: Connection) -> None:
    gateway = Gateway(dirs, bytes_max=LOG_BYTES)
    gateway.streams.declare(STREAM)
    opened = FlightSettings().with_key(key).open(gateway.streams, dirs)
    thread = threading.Thread(target=gateway.run)
    thread.start()
    parent.send("ready")
    answer_until_end(parent, 0.0)
    opened.close()
    gateway.stop()
    thread.join()
