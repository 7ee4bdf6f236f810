"""The connector in a real Spark publishes each row once despite failures. Error messages of the connector name the cause."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.captured import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter
from pyspark_weir import OptionError, to_weir

from tests.spark.door import Answers, Node, opened
from tests.support.dead_letters import letters
from tests.support.waiting import eventually

pytestmark = pytest.mark.spark

SCHEMA = "id BIGINT, x DOUBLE"
Sink = Callable[[DataStreamWriter], DataStreamWriter]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with opened(tmp_path / "node", "s", "even", "odd") as found:
        yield found


class Files:
    """Folder from which a streaming query reads one file per micro-batch."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.folder, self.checkpoint = folder / "files", folder / "checkpoint"
        self.folder.mkdir()
        self._spark = spark
        self._count = 0

    def add(self, ids: range) -> None:
        lines = [json.dumps({"id": number, "x": number / 2}) for number in ids]
        draft = self.folder / ".draft"
        draft.write_text("\n".join(lines), encoding="utf-8")
        # Spark reads the oldest file first.
        os.utime(draft, (self._count, self._count))
        draft.rename(self.folder / f"{self._count:04}.json")
        self._count += 1

    def rows(self) -> DataFrame:
        reader = self._spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return reader.json(str(self.folder))

    def begin(self, sink: Sink, rows: DataFrame | None = None) -> StreamingQuery:
        writer = (rows or self.rows()).writeStream.option("checkpointLocation", str(self.checkpoint))
        return sink(writer).trigger(availableNow=True).start()

    def run(self, sink: Sink, rows: DataFrame | None = None) -> None:
        """Run the query until it has read all files."""
        self.begin(sink, rows).awaitTermination()

    def fail(self, sink: Sink, rows: DataFrame | None = None) -> str:
        with pytest.raises(StreamingQueryException) as raised:
            self.run(sink, rows)
        return str(raised.value)


@pytest.fixture
def files(spark: SparkSession, tmp_path: Path) -> Files:
    return Files(spark, tmp_path)


def executors(node: Node, **given: Any) -> Sink:
    options = {"endpoint": node.endpoint, "apiKey": node.key, "stream": "s", **given}
    return lambda writer: writer.format("weir").options(**options)


def driver(node: Node, **given: Any) -> Sink:
    options = {"api_key": node.key, **({} if "split" in given else {"stream": "s"}), **given}
    return lambda writer: writer.foreachBatch(to_weir(endpoint=node.endpoint, **options))


PATHS = {
    "executors": lambda node, timeout_s: executors(node, timeoutSeconds=timeout_s),
    "driver": lambda node, timeout_s: driver(node, timeout_seconds=timeout_s),
}
paths = pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)


# -- rows that arrive exactly once although something fails --------------------------------------------------------


@paths
def test_every_row_arrives_once_over_restarts(node: Node, files: Files, path: Callable[..., Sink]) -> None:
    for begin in range(0, 90, 30):
        files.add(range(begin, begin + 20))
        files.add(range(begin + 20, begin + 30))
        files.run(path(node, 20), files.rows().repartition(3))
    assert sorted(node.ids("s")) == list(range(90))
    assert node.column("s", "x") == [number / 2 for number in node.ids("s")]


@paths
def test_batch_with_a_lost_acknowledgement_is_not_published_again(
    node: Node, files: Files, path: Callable[..., Sink]
) -> None:
    files.add(range(20))
    files.add(range(20, 30))
    node.lost.update({"commit": 1, "put": 0} if path is PATHS["executors"] else {"put": 1})
    assert "the connection broke" in files.fail(path(node, 0))
    assert sorted(node.ids("s")) == list(range(20))
    files.add(range(30, 40))
    files.run(path(node, 20))
    assert sorted(node.ids("s")) == list(range(40))


@paths
def test_query_that_fails_before_the_commit_repeats_the_batch(
    node: Node, files: Files, path: Callable[..., Sink]
) -> None:
    files.add(range(30))

    def busy_at_commit(name: str) -> None:
        node.busy = int(name == "commit" or path is PATHS["driver"])

    node.at_call = busy_at_commit
    assert "the stream's log is full" in files.fail(path(node, 0), files.rows().repartition(3))
    assert node.ids("s") == []
    node.busy, node.at_call = 0, lambda name: None
    files.run(path(node, 20), files.rows().repartition(3))
    assert sorted(node.ids("s")) == list(range(30))


def test_worker_killed_while_writing_loses_and_duplicates_no_row(node: Node, files: Files) -> None:
    files.add(range(20))
    files.run(executors(node))

    def kill_the_second_writer(name: str) -> None:
        if node.calls.count("put") == 3:
            for worker in workers():
                os.kill(worker, signal.SIGKILL)

    files.add(range(20, 50))
    node.at_call = kill_the_second_writer
    files.fail(executors(node), files.rows().repartition(3))
    assert sorted(node.ids("s")) == list(range(20))
    node.at_call = lambda name: None
    files.run(executors(node), files.rows().repartition(3))
    assert sorted(node.ids("s")) == list(range(50))


def workers() -> list[int]:
    """Return the ids of Spark's Python workers, which are child processes of Spark's Python daemons."""
    jvms = [child for child in children(os.getpid()) if "java" in command(child)]
    daemons = [child for jvm in jvms for child in children(jvm) if "pyspark.daemon" in command(child)]
    return [worker for daemon in daemons for worker in children(daemon)]


def children(parent: int) -> list[int]:
    found = []
    for process in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            if int((process / "stat").read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(process.name))
    return found


def command(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


@paths
def test_query_continues_when_the_gateway_is_back(
    node: Node, files: Files, path: Callable[..., Sink]
) -> None:
    files.add(range(20))
    files.run(path(node, 60))
    node.stop()
    files.add(range(20, 40))
    query = files.begin(path(node, 60))
    eventually(lambda: query.status["isTriggerActive"])
    node.start()
    query.awaitTermination()
    assert sorted(node.ids("s")) == list(range(40))


@paths
def test_query_waits_for_a_full_gateway_and_loses_no_row(
    node: Node, files: Files, path: Callable[..., Sink]
) -> None:
    for begin in range(0, 30, 10):
        files.add(range(begin, begin + 10))
    node.busy = 5
    files.run(path(node, 20))
    assert sorted(node.ids("s")) == list(range(30))


def test_publishing_an_empty_batch_is_no_error(node: Node, files: Files) -> None:
    files.add(range(10))
    for sink in (executors(node), driver(node)):
        files.checkpoint = files.checkpoint.with_name(files.checkpoint.name + "+")
        files.run(sink, files.rows().where("id < 0"))
    assert node.ids("s") == []


def test_rows_sent_by_the_driver_and_by_executors_have_different_producers(node: Node, files: Files) -> None:
    files.add(range(10))
    files.run(executors(node))
    files.checkpoint = files.checkpoint.with_name("another")
    files.run(driver(node))
    assert sorted(node.ids("s")) == sorted([*range(10), *range(10)])


# -- one query for several streams ---------------------------------------------------------------------------------


def test_query_publishes_each_row_once_to_several_streams(node: Node, files: Files) -> None:
    split = {"even": "id % 2 = 0", "odd": "id % 2 = 1", "s": "id IS NULL OR id >= 25"}
    files.add(range(20))
    files.add(range(20, 30))
    # The connector gets no response for the second stream, so the query fails before it writes the third stream.
    node.at_call = lambda name: node.lost.update({"put": int(len(node.calls) == 2)})
    files.fail(driver(node, split=split, timeout_seconds=0))
    assert (len(node.ids("even")), len(node.ids("odd")), node.ids("s")) == (10, 10, [])
    node.at_call = lambda name: None
    files.run(driver(node, split=split))
    assert sorted(node.ids("even")) == list(range(0, 30, 2))
    assert sorted(node.ids("odd")) == list(range(1, 30, 2))
    assert sorted(node.ids("s")) == list(range(25, 30))


def test_each_stream_of_a_split_query_gets_only_the_columns_named_for_it(node: Node, files: Files) -> None:
    node.streams.declare('CREATE STREAM narrow ("odd name" DOUBLE)')
    files.add(range(6))
    rows = files.rows().withColumnRenamed("x", "odd name")
    files.run(
        driver(
            node,
            split={"narrow": "id > 3", "s": "false"},
            columns={"narrow": ["odd name"], "s": ["id"]},
            schema_policy="addNullable",
        ),
        rows,
    )
    assert node.column("narrow", "odd name") == [2.0, 2.5]
    assert node.ids("s") == []


def test_unknown_column_is_reported_before_any_row_is_sent(node: Node, files: Files) -> None:
    files.add(range(6))
    text = files.fail(driver(node, columns={"s": ["id", "xx"]}))
    assert "columns['s']: no column 'xx'; did you mean x?" in text
    assert node.calls == []


# -- sizes of batches ----------------------------------------------------------------------------------------------


def test_a_batch_written_twice_with_the_same_producer_name_is_stored_once(
    node: Node, spark: SparkSession
) -> None:
    rows = spark.range(0, 30, 1, 3).selectExpr("id", "id / 2D AS x")
    options = {"endpoint": node.endpoint, "stream": "s", "apiKey": node.key}
    for _ in range(2):
        rows.write.format("weir").options(**options, producer="load-1").mode("append").save()
    assert sorted(node.ids("s")) == list(range(30))
    rows.write.format("weir").options(**options).mode("append").save()
    assert len(node.ids("s")) == 60


def test_mode_overwrite_is_refused(node: Node, spark: SparkSession) -> None:
    options = {"endpoint": node.endpoint, "stream": "s", "apiKey": node.key}
    with pytest.raises(PySparkException, match="mode"):
        spark.range(3).write.format("weir").options(**options).mode("overwrite").save()
    assert node.calls == []


def test_table_can_be_published_by_calling_to_weir_directly(node: Node, spark: SparkSession) -> None:
    rows = spark.range(3).selectExpr("id", "0D AS x")
    with pytest.raises(OptionError, match="producer is missing"):
        to_weir(endpoint=node.endpoint, stream="s", api_key=node.key)(rows, 0)
    by_hand = to_weir(endpoint=node.endpoint, stream="s", api_key=node.key, producer="by-hand")
    by_hand(rows, 7)
    by_hand(rows, 7)
    assert node.ids("s") == [0, 1, 2]


# -- messages of errors --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"apiKey": "weir_" + "x" * 43}, "this key is not valid for this gateway: check the option apiKey"),
        ({"stream": "even_"}, "no stream of this name (got 'even_')"),
        ({"straem": "s"}, "no option straem (got 's'); did you mean stream?"),
        (
            {"schemaPolicy": "drop"},
            "option schemaPolicy: the value is not valid (got 'drop'); write one of reject",
        ),
    ],
)
def test_error_names_the_wrong_option_and_hides_the_key(
    node: Node, files: Files, wrong: dict[str, str], words: str
) -> None:
    files.add(range(3))
    text = files.fail(executors(node, **wrong))
    assert words in text
    assert node.key not in text
    assert "x" * 43 not in text
    assert node.ids("s") == []


@paths
def test_changed_schema_is_reported_unless_the_policy_ignores_new_columns(
    node: Node, files: Files, path: Callable[..., Sink]
) -> None:
    files.add(range(3))
    drifted = files.rows().selectExpr("*", "1 AS y")
    assert "y" in (text := files.fail(path(node, 20), drifted))
    assert "schemaPolicy" in text or "ignore" in text
    ignoring = (
        executors(node, schemaPolicy="ignore")
        if path is PATHS["executors"]
        else driver(node, schema_policy="ignore")
    )
    files.run(ignoring, drifted)
    assert node.ids("s") == [0, 1, 2]


def test_row_without_event_time_becomes_a_dead_letter(node: Node, files: Files) -> None:
    node.streams.declare("CREATE STREAM timed (at TIMESTAMP, id BIGINT, WATERMARK FOR at AS at)")
    files.add(range(4))
    rows = files.rows().selectExpr(
        "IF(id = 2, NULL, TIMESTAMP '2026-01-01 00:00:00' + MAKE_INTERVAL(0, 0, 0, 0, 0, 0, id)) AS seen",
        "id",
    )
    files.run(executors(node, stream="timed", timestampColumn="seen"), rows)
    assert node.column("timed", "id") == [0, 1, 3]
    assert node.column("timed", "at") == [
        datetime(2026, 1, 1, second=number, tzinfo=UTC) for number in (0, 1, 3)
    ]
    (dead,) = letters(node.dirs.stream("timed"))
    assert (dead.batch, dead.rows, dead.kept.column("id").to_pylist()) == (0, 1, [2])


# -- reading answers into Spark ------------------------------------------------------------------------------------


def results(spark: SparkSession, node: Node, **given: Any) -> DataFrame:
    options = {"endpoint": node.endpoint, "query": "gold/hot", "apiKey": node.key, **given}
    return spark.read.format("weir").options(**options).load()


def following(spark: SparkSession, node: Node, **given: Any) -> DataFrame:
    options = {"endpoint": node.endpoint, "query": "gold/hot", "apiKey": node.key, **given}
    reader: DataStreamReader = spark.readStream.format("weir").options(**options)
    return reader.load()


class Collected:
    """Streaming query that collects the rows of each micro-batch in a list."""

    def __init__(self, rows: DataFrame, checkpoint: Path) -> None:
        self.batches: dict[int, list[tuple[int, int]]] = {}
        self._rows, self._checkpoint = rows, checkpoint

    def run(self) -> list[tuple[int, int]]:
        """Run the query until it has read all available rows. Return the rows of this run and of all earlier runs."""
        writer = self._rows.writeStream.foreachBatch(self._take)
        writer = writer.option("checkpointLocation", str(self._checkpoint)).trigger(availableNow=True)
        writer.start().awaitTermination()
        return sorted(row for batch in self.batches.values() for row in batch)

    def _take(self, rows: DataFrame, batch: int) -> None:
        self.batches[batch] = [(row["_seq"], row["id"]) for row in rows.collect()]


def test_batch_read_returns_the_rows_of_all_units(node: Node, spark: SparkSession) -> None:
    Answers(node, "gold#0").add(range(100, 130))
    Answers(node, "gold#1").add(range(200, 220))
    rows = results(spark, node)
    assert rows.dtypes == [("_seq", "bigint"), ("_kept", "double"), ("id", "bigint"), ("x", "double")]
    found = sorted((row["_seq"], row["_kept"], row["id"], row["x"]) for row in rows.collect())
    first = [(number, 0.5, 100 + number, 50 + number / 2) for number in range(30)]
    second = [(number, 0.5, 200 + number, 100 + number / 2) for number in range(20)]
    assert found == sorted([*first, *second])
    assert results(spark, node, startingOffsets="25").count() == 5
    assert results(spark, node).where("id >= 210").select("x").count() == 10


def test_streaming_read_continues_over_restarts_without_gaps_or_duplicates(
    node: Node, spark: SparkSession, tmp_path: Path
) -> None:
    units = [Answers(node, f"gold#{number}") for number in range(2)]
    for unit in units:
        unit.add(range(20))
    rows = following(spark, node, startingOffsets="earliest", maxRowsPerTrigger=15)
    collected = Collected(rows, tmp_path / "checkpoint")
    assert collected.run() == sorted([(number, number) for number in range(20)] * 2)
    assert max(map(len, collected.batches.values())) == 15
    node.lost["get"] = 2
    units[0].add(range(20, 50))
    units.append(Answers(node, "gold#2"))
    units[2].add(range(5))
    wanted = [(number, number) for unit in (50, 20, 5) for number in range(unit)]
    assert collected.run() == sorted(wanted)


def test_streaming_read_starts_after_the_latest_row_by_default(
    node: Node, spark: SparkSession, tmp_path: Path
) -> None:
    answers = Answers(node, "gold")
    answers.add(range(20))
    collected = Collected(following(spark, node), tmp_path / "checkpoint")
    assert collected.run() == []
    answers.add(range(20, 25))
    assert collected.run() == [(number, number) for number in range(20, 25)]


def test_forgotten_rows_are_an_error_unless_data_loss_is_allowed(
    node: Node, spark: SparkSession, tmp_path: Path
) -> None:
    answers = Answers(node, "gold", forgets=True)
    answers.add(range(10))
    collected = Collected(following(spark, node, startingOffsets="earliest"), tmp_path / "checkpoint")
    assert len(collected.run()) == 10
    for begin in range(10, 10_000, 370):
        answers.add(range(begin, begin + 370))
    with pytest.raises(
        StreamingQueryException, match=r"(?s)row 10 of hot is no longer kept.*failOnDataLoss=false"
    ):
        collected.run()
    losing = Collected(following(spark, node, failOnDataLoss="false"), tmp_path / "checkpoint")
    found = losing.run()
    assert found == [(number, number) for number in range(found[0][0], 10_000)]
    assert 10 < found[0][0] < 10_000
    with pytest.raises(PySparkException, match="no longer kept"):
        results(spark, node, startingOffsets="3").count()


def test_reading_fails_if_row_numbers_of_a_unit_restart_unless_data_loss_is_allowed(
    node: Node, spark: SparkSession, tmp_path: Path
) -> None:
    Answers(node, "gold").add(range(30))
    collected = Collected(following(spark, node, startingOffsets="earliest"), tmp_path / "checkpoint")
    assert len(collected.run()) == 30
    shutil.rmtree(node.dirs.class_log("gold"))
    Answers(node, "gold").add(range(100, 110))
    with pytest.raises(StreamingQueryException, match="rows up to 10, but rows up to 30 were read before"):
        collected.run()
    losing = Collected(following(spark, node, failOnDataLoss="false"), tmp_path / "checkpoint")
    assert losing.run() == [(number, 100 + number) for number in range(10)]


def test_reading_the_answers_of_an_unknown_query_is_reported_as_an_error(
    node: Node, spark: SparkSession
) -> None:
    Answers(node, "gold").add(range(3))
    with pytest.raises(PySparkException, match="hott"):
        results(spark, node, query="gold/hott")
    with pytest.raises(PySparkException, match="option query: the value is not valid"):
        results(spark, node, query="hot")


# -- keys, which no log and no message shows -----------------------------------------------------------------------


def test_plans_reports_and_checkpoints_hide_the_key(
    node: Node, files: Files, spark: SparkSession, tmp_path: Path
) -> None:
    Answers(node, "gold").add(range(3))
    plan = results(spark, node)._jdf.queryExecution().toString()
    files.add(range(3))
    writing = files.begin(executors(node))
    rows = following(spark, node, startingOffsets="earliest").writeStream.format("noop")
    reading = rows.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start()
    for query in (writing, reading):
        query.awaitTermination()
        assert query.lastProgress is not None
        plan += query.lastProgress.json + query._jsq.explainInternal(True)
    assert "weir" in plan
    assert node.key not in plan
    written = [file for file in files.checkpoint.rglob("*") if file.is_file()]
    assert all(node.key.encode() not in file.read_bytes() for file in written)
