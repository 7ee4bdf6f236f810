"""Spark brings streams: one streaming query a feed, watched, and started again from its checkpoint when it fails.

Guarantees:
1. What a source delivers is published once, whatever fails meanwhile: queries go on from their checkpoints, and a batch
   that comes again is known by its producer and number at the gateway.
2. A query that fails is started again after 0.5 s to 30 s, twice as long each time, until a batch is done.
3. After `stop` there is no query, session or JVM.

It is for a process of its own (`services.ingest.process`): a process has one JVM, which takes what memory it likes.
"""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, cast

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark_weir import to_weir
from pyspark_weir.driver import quoted
from pyspark_weir.errors import OptionError

from configs.problems import InvalidInput, WeirError
from configs.streams import FeedDefinition
from services.ingest.job import Door, Job
from services.ingest.progress import Backoff, Counted, FeedProgress, State, brief
from services.ingest.session import LOG, SparkFolder, jvm, start_session, stop_session

LOOK_S = 0.5
STOPPED_AT_A_TIME = 16
VIEW = "source"


def in_turn(ends: Sequence[Callable[[DataFrame, int], None]]) -> Callable[[DataFrame, int], None]:
    """Each takes its part of a micro-batch; which of them have is known at the gateways if it comes again."""

    def write(rows: DataFrame, batch: int) -> None:
        for one in ends:
            one(rows, batch)

    return write


class SparkGone(WeirError):
    """The JVM has ended under us; everything is to be started anew."""


class SparkIngest:
    """The session and the queries of a file."""

    def __init__(self, job: Job) -> None:
        self._folder = SparkFolder(job.folder)
        self._secrets = job.secrets()
        self._file = job.file
        self._session = start_session(job.file, self._folder, job.java_home)
        self._feeds = [
            FeedIngest(name, one, self._session, self._folder, job.door, self._secrets)
            for name, one in job.file.all_feeds().items()
        ]

    def start(self) -> None:
        """The queries; what can never run is the caller's mistake."""
        for one in self._feeds:
            try:
                one.begin()
            except (AnalysisException, OptionError) as problem:
                where = self._file.source_field(one.name)
                hint = f"Spark's own words are in {self._folder.log}"
                raise InvalidInput(brief(str(problem), self._secrets), where, hint=hint) from None

    def look(self, now: float) -> list[FeedProgress]:
        """See to every query; SparkGone when there is no JVM any more."""
        process = jvm()
        try:
            if process is not None and process.poll() is None:
                return [one.look(now) for one in self._feeds]
        except Exception:
            # A call that fails because the JVM has died under it says many things, none of them that.
            if process is not None and process.poll() is None:
                raise
        raise SparkGone(f"Spark's JVM has ended; {LOG} may say why", value=process and process.returncode)

    def run(self, stopping: threading.Event, told: Any) -> None:
        """The loop: look at every query, tell of it, until it is to stop."""
        while not stopping.is_set():
            told(self.look(time.monotonic()))
            stopping.wait(LOOK_S)

    def stop(self) -> None:
        with ThreadPoolExecutor(STOPPED_AT_A_TIME) as pool:
            list(pool.map(FeedIngest.stop, self._feeds))
        stop_session(self._session)
        shutil.rmtree(self._folder.scratch, ignore_errors=True)


class FeedIngest:
    """One feed's query, run after run."""

    def __init__(
        self,
        name: str,
        definition: FeedDefinition,
        session: SparkSession,
        folder: SparkFolder,
        door: Door,
        secrets: Sequence[str],
    ) -> None:
        self.name = name
        self._definition, self._source = definition, definition.source
        self._session = session
        self._checkpoint = self._source.checkpoint or str(folder.checkpoint(name))
        self._door = door
        self._secrets = secrets
        self._query: StreamingQuery | None = None
        self._counted = Counted()
        self._backoff = Backoff()
        self._due = 0.0
        self._restarts = 0
        self._last_error: str | None = None

    def begin(self) -> None:
        rows = self._rows()
        check_split(rows, self._definition)
        writer = self._sink(rows.writeStream)
        self._query = (
            writer.queryName(self.name)
            .outputMode(self._source.output_mode)
            .option("checkpointLocation", self._checkpoint)
            .trigger(processingTime=f"{self._source.trigger_ms} milliseconds")
            .start()
        )

    def look(self, now: float) -> FeedProgress:
        if self._query is not None:
            self._hear(self._query)
            if not self._query.isActive:
                problem = self._query.exception()
                self._failed(now, "the query was stopped" if problem is None else str(problem))
        elif now >= self._due:
            self._restarts += 1
            try:
                self.begin()
            except Exception as problem:
                self._failed(now, str(problem))
        return self._progress(now)

    def stop(self) -> None:
        if self._query is not None:
            with suppress(
                Exception
            ):  # it is in a batch for too long, or the JVM has died: its end is the JVM's
                self._query.stop()

    def _failed(self, now: float, why: str) -> None:
        self._query = None
        self._last_error = brief(why, self._secrets)
        self._due = now + self._backoff.failed()

    def _hear(self, query: StreamingQuery) -> None:
        # PySpark would make text of the offsets.
        reports = [json.loads(one.json()) for one in cast(Any, query)._jsq.recentProgress()]
        if self._counted.hear(reports):
            self._backoff.succeeded()

    def _progress(self, now: float) -> FeedProgress:
        state: State = "waiting" if self._query is None else "starting"
        if self._query is not None and self._counted.batch is not None:
            state = "running"
        counted = self._counted
        return FeedProgress(
            self.name,
            state,
            counted.rows,
            counted.rate(now),
            counted.batch,
            counted.batch_ms,
            counted.lag,
            counted.offsets,
            self._restarts,
            self._last_error,
        )

    # -- what the query is made of -----------------------------------------------------------------------------

    def _rows(self) -> DataFrame:
        # Views of its own: every feed calls its source the same.
        session = self._session.newSession()
        reader = session.readStream.format(self._source.format).options(**self._source.options)
        if self._source.schema_ is not None:
            reader = reader.schema(self._source.schema_)
        rows = reader.load()
        if self._source.sql is None:
            return rows
        rows.createOrReplaceTempView(VIEW)
        return session.sql(self._source.sql)

    def _sink(self, writer: DataStreamWriter) -> DataStreamWriter:
        feed = self._definition
        (first, *_) = feed.streams
        if self._source.path == "driver":
            ends = [self._end(endpoint, streams) for endpoint, streams in self._doors().items()]
            return writer.foreachBatch(ends[0] if len(ends) == 1 else in_turn(ends))
        options = {
            "stream": first,
            "endpoint": self._door.of(first),
            "apiKey": self._door.api_key,
            "schemaPolicy": self._source.schema_policy,
            "timeoutSeconds": str(self._door.patience_s),
        }
        if self._source.timestamp_column is not None:
            options["timestampColumn"] = self._source.timestamp_column
        return writer.format("weir").options(**options)

    def _doors(self) -> dict[str, list[str]]:
        """The feed's streams by the endpoint of the node at which they come in."""
        found: dict[str, list[str]] = {}
        for stream in self._definition.streams:
            found.setdefault(self._door.of(stream), []).append(stream)
        return found

    def _end(self, endpoint: str, streams: Sequence[str]) -> Callable[[DataFrame, int], None]:
        feed = self._definition
        conditions = {name: one for name, one in feed.conditions.items() if name in streams}
        return to_weir(
            stream=None if feed.is_split else streams[0],
            split=conditions if feed.is_split else None,
            columns={name: one for name, one in feed.columns.items() if name in streams},
            endpoint=endpoint,
            api_key=self._door.api_key,
            timestamp_column=self._source.timestamp_column,
            schema_policy=self._source.schema_policy,
            timeout_seconds=self._door.patience_s,
        )


def check_split(rows: DataFrame, feed: FeedDefinition) -> None:
    """AnalysisException for what Spark would else find in every batch."""
    if feed.is_split:
        for name, condition in feed.conditions.items():
            rows.where(condition).select(*map(quoted, feed.columns.get(name, rows.columns)))
