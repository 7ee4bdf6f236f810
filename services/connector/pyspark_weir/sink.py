"""Spark writers: executors stage record batches at the gateway, and the driver commits the staged parts.

Spark creates one writer per micro-batch on the executors, and another writer in a separate process for the commit. So the executors
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
    """Message about the part of a batch that a task has staged at the gateway."""

    producer: str
    partition: int
    attempt: str | None
    """Id of the attempt that has staged the part; None if the task had no rows."""


class Writer:
    """Base class of both writers, which stages, commits and drops batches."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._gateway = GatewayClient(options.connection)

    def staged(self, batch: Batch, task: TaskContext, iterator: Iterator[pa.RecordBatch]) -> Staged:
        # Rows stay in memory until the gateway has received them, because all rows are sent again after a failed call.
        rows = [batch for batch in iterator if batch.num_rows]
        partition = task.partitionId()
        attempt = self._gateway.stage(self._options, batch, partition, rows) if rows else None
        return Staged(batch.producer, partition, attempt)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int = 0) -> None:
        written = [message for message in messages if isinstance(message, Staged)]
        # Spark runs no task for an empty batch. Then there are no messages, and nothing is published.
        if written:
            parts = [(part.partition, part.attempt) for part in written if part.attempt is not None]
            self._gateway.commit(self._options.stream, Batch(written[0].producer, batchId), parts)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int = 0) -> None:
        # Tasks that have failed return no message.
        for producer in {message.producer for message in messages if isinstance(message, Staged)}:
            self._gateway.abort(self._options.stream, Batch(producer, batchId))


class StreamWriter(Writer, DataSourceStreamArrowWriter):
    """Writer of `df.writeStream.format("weir")`."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        task = task_context()
        query, number = (task.getLocalProperty(name) for name in (QUERY_PROPERTY, BATCH_PROPERTY))
        assert query is not None, f"Spark has not set {QUERY_PROPERTY}"
        assert number is not None, f"Spark has not set {BATCH_PROPERTY}"
        return self.staged(Batch(query, int(number)), task, iterator)


class BatchWriter(Writer, DataSourceArrowWriter):
    """Writer of `df.write.format("weir").mode("append")`. It writes one batch, for the producer in the options or for a new producer."""

    def __init__(self, options: WriteOptions) -> None:
        super().__init__(options)
        # Spark creates the writer on the driver and copies it to all executors, so all executors use the same producer's name.
        self._batch = Batch(options.producer or f"write-{uuid.uuid4().hex}", 0)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        return self.staged(self._batch, task_context(), iterator)


def refuse_overwrite(overwrite: bool) -> None:
    if overwrite:
        raise OptionError(
            "rows of a Weir stream cannot be overwritten: write with mode('append') or outputMode('append'); "
            "for outputMode('update') use foreachBatch(pyspark_weir.to_weir(…))"
        )


def task_context() -> TaskContext:
    task = TaskContext.get()
    assert task is not None, "Spark calls write() in a task"
    return task
