"""Spark writers: executors stage record batches at the gateway, and the driver commits them.

Spark creates one writer per micro-batch on the executors, and another in a separate process for the commit. Executors therefore
return messages with everything that the commit needs. A micro-batch is identified by its query and its number. A restarted
query keeps its id and numbers, so a micro-batch that is written again is published once.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from pyspark_weir.client import Batch, GatewayClient
from pyspark_weir.errors import OptionError
from pyspark_weir.options import WriteOptions

QUERY_PROPERTY = "sql.streaming.queryId"
BATCH_PROPERTY = "streaming.sql.batchId"


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    """Part of a batch that a task has staged at the gateway; a task without rows stages nothing and has no attempt id."""

    producer: str
    partition: int
    attempt: str | None


class StreamWriter(DataSourceStreamArrowWriter):
    """Writer of `df.writeStream.format("weir")`."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        task = task_context()
        query, number = (task.getLocalProperty(name) for name in (QUERY_PROPERTY, BATCH_PROPERTY))
        assert query is not None, f"Spark has not set {QUERY_PROPERTY}"
        assert number is not None, f"Spark has not set {BATCH_PROPERTY}"
        return staged(self._options, Batch(query, int(number)), task.partitionId(), iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        publish(self._options, messages, batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        drop(self._options, messages, batchId)


class BatchWriter(DataSourceArrowWriter):
    """Writer of `df.write.format("weir").mode("append")`: writes one batch, of the producer in the options or of a new producer."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        # The producer's name is chosen here, on the driver: Spark copies this writer to all executors, so all use the same name.
        self._batch = Batch(options.producer or f"write-{uuid.uuid4().hex}", 0)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        return staged(self._options, self._batch, task_context().partitionId(), iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        publish(self._options, messages, self._batch.number)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        drop(self._options, messages, self._batch.number)


def refuse_overwrite(overwrite: bool) -> None:
    if overwrite:
        raise OptionError(
            "rows of a Weir stream cannot be overwritten: write with mode('append') or outputMode('append'); "
            "for outputMode('update') use foreachBatch(pyspark_weir.to_weir(…))"
        )


# -- functions that both writers use -------------------------------------------------------------------------------


def task_context() -> TaskContext:
    task = TaskContext.get()
    assert task is not None, "Spark calls write() in a task"
    return task


def staged(options: WriteOptions, batch: Batch, partition: int, iterator: Iterator[pa.RecordBatch]) -> Staged:
    # Rows are kept in memory until the gateway has them, so that they can be sent again.
    rows = [batch for batch in iterator if batch.num_rows]
    attempt = GatewayClient(options.connection).stage(options, batch, partition, rows) if rows else None
    return Staged(batch.producer, partition, attempt)


def publish(options: WriteOptions, messages: Sequence[WriterCommitMessage | None], number: int) -> None:
    written = [message for message in messages if isinstance(message, Staged)]
    # Without messages there is nothing to publish: Spark has run no task, because the batch is empty.
    if written:
        parts = [(part.partition, part.attempt) for part in written if part.attempt is not None]
        batch = Batch(written[0].producer, number)
        GatewayClient(options.connection).commit(options.stream, batch, parts)


def drop(options: WriteOptions, messages: Sequence[WriterCommitMessage | None], number: int) -> None:
    # Tasks that failed return no message.
    producers = {message.producer for message in messages if isinstance(message, Staged)}
    for producer in producers:
        GatewayClient(options.connection).abort(options.stream, Batch(producer, number))
