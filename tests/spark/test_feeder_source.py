"""The feeder in a real Spark delivers every row once despite failures and restarts, and refuses wrong options."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.spark

ROWS = 5_000
FILE_US = 1_700_000_000_000_000
GAP_US = 1_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Write two files, which the feeder replays one after the other, and return the folder of the files."""
    number = np.arange(ROWS)
    times = pa.array(FILE_US + number * GAP_US).cast(pa.timestamp("us", "UTC"))
    table = pa.table({"id": number, "ts": times, "temp": number % 50 + 0.5})
    folder = tmp_path / "readings"
    folder.mkdir()
    pq.write_table(table.slice(0, 3_000), folder / "1.parquet")
    pq.write_table(table.slice(3_000), folder / "2.parquet")
    return folder


Batches = dict[int, list[list[dict[str, Any]]]]
"""Rows that each attempt of a micro-batch read, by number of the micro-batch."""


def collector(into: Batches, failing: frozenset[int] = frozenset()) -> Callable[[DataFrame, int], None]:
    """Return a function for Spark's foreachBatch that collects micro-batches. It fails once for each batch number in `failing`."""

    def collect(batch: DataFrame, number: int) -> None:
        attempts = into.setdefault(number, [])
        attempts.append(batch.toArrow().to_pylist())
        if number in failing and len(attempts) == 1:
            raise ValueError(f"micro-batch {number} fails")

    return collect


def feed(spark: SparkSession, path: Path, **options: str) -> DataFrame:
    return spark.readStream.format("weir_feeder").options(path=str(path), **options).load()


def run(query: StreamingQuery) -> None:
    try:
        query.processAllAvailable()
    finally:
        query.stop()


def expected(rows: int) -> list[tuple[int, int]]:
    """Return the ids and event times of the first rows that the feeder replays."""
    return [(number % ROWS, FILE_US + number * GAP_US) for number in range(rows)]


def read(batches: Batches) -> list[dict[str, Any]]:
    """Return the rows of all micro-batches that Spark has committed."""
    return list(itertools.chain(*(attempts[-1] for _, attempts in sorted(batches.items()))))


def read_keys(batches: Batches) -> list[tuple[int, int]]:
    return [(row["id"], pa.scalar(row["ts"]).cast(pa.timestamp("us")).value) for row in read(batches)]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"rate": "1000000"}, id="constant"),
        pytest.param({"rate": "1000000", "arrivals": "poisson", "eventTime": "clock"}, id="poisson"),
    ],
)
def test_every_row_arrives_once_over_failures_and_restarts(
    spark: SparkSession, path: Path, tmp_path: Path, options: dict[str, str]
) -> None:
    batches: Batches = {}
    failing = frozenset({0, 2, 3})

    def start() -> StreamingQuery:
        rows = feed(spark, path, loop="false", maxRowsPerTrigger="900", **options)
        writer = rows.writeStream.foreachBatch(collector(batches, failing))
        return writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()

    for _ in failing:
        with pytest.raises(StreamingQueryException):
            run(start())
    run(start())
    assert [row["id"] for row in read(batches)] == list(range(ROWS))
    assert all(attempts[0] == attempts[-1] for attempts in batches.values())
    assert {number for number, attempts in batches.items() if len(attempts) > 1} == failing
    if "eventTime" not in options:
        assert read_keys(batches) == expected(ROWS)


def test_a_restarted_query_reads_the_rows_that_became_due_while_it_was_stopped(
    spark: SparkSession, path: Path, tmp_path: Path
) -> None:
    batches: Batches = {}
    while len(read(batches)) < 3 * ROWS:
        rows = feed(spark, path, rate="20000", maxRowsPerTrigger="4000")
        writer = rows.writeStream.foreachBatch(collector(batches)).trigger(availableNow=True)
        writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
    keys = read_keys(batches)
    assert keys == expected(len(keys))


def test_rows_that_the_feeder_splits_among_streams_can_be_counted_per_stream(
    spark: SparkSession, path: Path, tmp_path: Path
) -> None:
    rows = feed(spark, path, rate="1000000", loop="false", split="hot: temp > 30; rest: temp > 10")
    assert rows.schema.simpleString() == "struct<id:bigint,ts:timestamp,temp:double,_stream:string>"
    counts = rows.withWatermark("ts", "1 second").groupBy("_stream").count()
    batches: Batches = {}
    writer = counts.writeStream.outputMode("complete").foreachBatch(collector(batches))
    run(writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start())
    last = {row["_stream"]: row["count"] for row in batches[max(batches)][-1]}
    assert last == {"hot": ROWS * 20 // 50, "rest": ROWS * 20 // 50}


def test_a_wrong_option_is_refused_by_name(spark: SparkSession, path: Path) -> None:
    with pytest.raises(AnalysisException, match="option ratte: there is no such option; did you mean rate"):
        feed(spark, path, ratte="5")


def test_changed_rate_takes_effect_after_the_planned_micro_batch(
    spark: SparkSession, path: Path, tmp_path: Path
) -> None:
    batches: Batches = {}

    def start(**options: str) -> StreamingQuery:
        rows = feed(spark, path, loop="false", maxRowsPerTrigger="900", eventTime="clock", **options)
        writer = rows.writeStream.foreachBatch(collector(batches, frozenset({2})))
        return writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()

    with pytest.raises(StreamingQueryException):
        run(start(rate="1000000"))
    run(start(rate="900000", arrivals="poisson", seed="3"))
    first, again = batches[2]
    assert first == again
    assert [row["id"] for row in read(batches)] == list(range(ROWS))
    assert max(batches) > 2
