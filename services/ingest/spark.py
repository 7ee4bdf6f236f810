"""Feeds of a job in one Spark session. Each feed is a streaming query that is started, stopped and watched independently.

Guarantees:
1. Each row of a source is published once, even after failures: queries resume from their checkpoints, and the gateway recognises
   a repeated batch by its producer and number.
2. Feeds do not wait for each other. `services.ingest.feed_supervisor` decides which queries are started and stopped. Each start and
   each stop has its own thread, so a source that answers slowly delays only its own feed.
3. A query that fails is started again after a pause, which doubles from 0.5 s to 30 s until a batch is completed.
4. After `stop`, no query, session or JVM runs.

Each session needs a separate process (`services.ingest.process`), because a process can have only one JVM.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from queue import Empty, SimpleQueue
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import InheritableThread
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark_weir import to_weir
from pyspark_weir.driver import quoted
from pyspark_weir_feeder.source import DefaultSource as FeederSource

from configs.documents.spark_streams import FeedDefinition, SourceSettings
from configs.errors import Away
from engine.sql import parse_create_stream
from services.ingest.feed_supervisor import (
    BatchDone,
    DeclaredFeeds,
    Event,
    FeedFailed,
    FeedStopped,
    Start,
    Started,
    Stop,
    Supervised,
    Supervisor,
    Tick,
)
from services.ingest.job import LOG, FeedSpec, IngestJob
from services.ingest.paths import path_of
from services.ingest.progress import FeedCounts, FeedProgress, State, brief
from services.ingest.session import SCRATCH, jvm, start_session, stop_session

LOOK_S = 0.5
STOPPED_AT_A_TIME = 16
STARTED_AT_A_TIME = 4
# Maximum seconds for which a start waits while STARTED_AT_A_TIME other starts are in progress. After that time the start begins anyway.
TURN_S = 5.0
VIEW = "source"
# Status message of Spark after a trigger that found nothing to read.
NOTHING_THERE = "Waiting for data to arrive"
POOL = "spark.scheduler.pool"

Inbox = SimpleQueue[IngestJob | Event[FeedSpec] | None]
"""Queue of three kinds of messages: a job, which replaces the previous job; the outcome of a start or stop; None for the end."""


def in_turn(ends: Sequence[Callable[[DataFrame, int], None]]) -> Callable[[DataFrame, int], None]:
    """Return a foreachBatch function that calls the functions in `ends` one after another. A repeated call publishes nothing twice."""

    def write(rows: DataFrame, batch: int) -> None:
        for end in ends:
            end(rows, batch)

    return write


class SparkIngest:
    """Spark session that runs the feeds of the last job in the inbox."""

    def __init__(self, job: IngestJob, inbox: Inbox) -> None:
        self._folder = job.folder
        self._inbox = inbox
        self._supervisor = Supervisor[FeedSpec]()
        self._queries: dict[str, FeedQuery] = {}
        self._secrets: tuple[str, ...] = ()
        self._turns = threading.BoundedSemaphore(STARTED_AT_A_TIME)
        self._session = start_session(job.file, self._folder, job.java_home)

    def run(self, told: Callable[[Sequence[FeedProgress]], None]) -> None:
        """Run the feeds and report their progress until the inbox contains None. If the JVM ends first, raise Away."""
        while True:
            for news in self._news():
                if news is None:
                    return
                self._hear(news)
            self._look_while_jvm_lives()
            told(self.progress(time.monotonic()))

    def progress(self, now: float) -> list[FeedProgress]:
        """Return the progress of each declared feed."""
        feeds = self._supervisor.feeds.items()
        return [self._queries[name].progress(feed, now) for name, feed in feeds if feed.declared is not None]

    def stop(self) -> None:
        with ThreadPoolExecutor(STOPPED_AT_A_TIME) as pool:
            list(pool.map(FeedQuery.stop, list(self._queries.values())))
        stop_session(self._session)
        shutil.rmtree(self._folder / SCRATCH, ignore_errors=True)

    def _news(self) -> list[IngestJob | Event[FeedSpec] | None]:
        """Wait at most LOOK_S for a message, and return all messages that are in the inbox then."""
        news: list[IngestJob | Event[FeedSpec] | None] = []
        with suppress(Empty):
            news.append(self._inbox.get(timeout=LOOK_S))
            while True:
                news.append(self._inbox.get_nowait())
        return news

    def _hear(self, news: IngestJob | Event[FeedSpec]) -> None:
        if isinstance(news, IngestJob):
            self._secrets = tuple(dict.fromkeys((*news.secrets(), *self._secrets)))
            self._handle(DeclaredFeeds(news.specs()))
            return
        if isinstance(news, FeedFailed) and news.feed in self._queries:
            self._queries[news.feed].failed_at = time.time()
        self._handle(news)

    def _look(self) -> None:
        """Send the supervisor an event for each running query that has completed a micro-batch or has failed."""
        for name, feed in list(self._supervisor.feeds.items()):
            if feed.run != "running":
                continue
            query = self._queries[name]
            if query.has_done_a_batch():
                self._handle(BatchDone(name))
            if (why := query.why_ended()) is not None:
                self._hear(FeedFailed(name, brief(why, self._secrets)))
        self._handle(Tick())

    def _look_while_jvm_lives(self) -> None:
        process = jvm()
        try:
            if process is not None and process.poll() is None:
                self._look()
                return
        except Exception:
            # If the JVM has died, a call may raise any exception. So the process of the JVM is checked, not the exception.
            if process is not None and process.poll() is None:
                raise
        raise Away(f"Spark's JVM has ended; see {LOG}", value=process and process.returncode)

    def _handle(self, event: Event[FeedSpec]) -> None:
        """Pass an event to the supervisor, and run each command that it returns on a separate thread."""
        for command in self._supervisor.handle(event, time.monotonic()):
            query = self._queries.setdefault(command.feed, FeedQuery(command.feed, self._session))
            match command:
                case Start(spec=spec):
                    self._beside(self._start, query, spec)
                case Stop():
                    self._beside(self._end, query)
        for name in self._queries.keys() - self._supervisor.feeds.keys():
            del self._queries[name]

    def _beside(self, action: Callable[..., None], *arguments: object) -> None:
        # Spark's InheritableThread also ends its counterpart, a thread in the JVM. The counterpart of a plain thread would remain.
        thread = InheritableThread(action, args=arguments, name="feed", daemon=True)
        thread.start()

    def _start(self, query: FeedQuery, spec: FeedSpec) -> None:
        has_turn = self._turns.acquire(timeout=TURN_S)
        try:
            query.start(spec)
        except Exception as problem:
            why = brief(str(problem), self._secrets)
            self._inbox.put(FeedFailed(query.name, why + seen_from(spec.definition.source, why)))
        else:
            self._inbox.put(Started(query.name))
        finally:
            if has_turn:
                self._turns.release()

    def _end(self, query: FeedQuery) -> None:
        while not query.stop():
            time.sleep(LOOK_S)
        self._inbox.put(FeedStopped(query.name))


class FeedQuery:
    """Streaming query of one feed. The object remains the same when the query is restarted."""

    def __init__(self, name: str, session: SparkSession) -> None:
        self.name = name
        self.failed_at: float | None = None
        self._session = session
        self._query: StreamingQuery | None = None
        self._counted = FeedCounts(FeedProgress(name))
        self._trigger_s = 0.0
        self._caught_up_at: float | None = None
        self._event_times: dict[str, float] = {}
        """Latest published event time of each stream, in seconds since 1970, by the stream's name."""
        self._batch_at: float | None = None

    def start(self, spec: FeedSpec) -> None:
        """Start the query. If the query cannot be started, Spark's exception says why."""
        source = spec.definition.source
        # Each feed has its own scheduler pool, so that the tasks of a busy feed do not delay the tasks of other feeds.
        self._session.sparkContext.setLocalProperty(POOL, self.name)
        # A new thread has no active session, but Spark needs the active session to find Python sinks.
        jvm_session = cast(Any, self._session)._jsparkSession
        cast(Any, self._session)._jvm.SparkSession.setActiveSession(jvm_session)
        rows = self._rows(spec)
        check_split(rows, spec.definition)
        self._event_times = {}
        self._trigger_s = source.trigger_ms / 1e3
        self._query = (
            self._sink(spec, rows.writeStream)
            .queryName(self.name)
            .outputMode(source.output_mode)
            .option("checkpointLocation", spec.checkpoint)
            .trigger(processingTime=f"{source.trigger_ms} milliseconds")
            .start()
        )

    def stop(self) -> bool:
        """Try to stop the query; return True if the query has ended."""
        query = self._query
        if query is None:
            return True
        # The call fails if the current micro-batch takes too long, or if the JVM has died.
        with suppress(Exception):
            query.stop()
            return not query.isActive
        return False

    def has_done_a_batch(self) -> bool:
        """Count the new reports about the query, and return True if a micro-batch was completed since the last call."""
        # The reports are read from the JVM, because the corresponding objects of PySpark have the offsets only as text.
        reports = [json.loads(progress.json()) for progress in cast(Any, self._query)._jsq.recentProgress()]
        if not self._counted.hear(reports):
            return False
        self._batch_at = time.time()
        return True

    def why_ended(self) -> str | None:
        """Return the reason why the query has ended; None while the query runs."""
        query = self._query
        if query is None or query.isActive:
            return None
        problem = query.exception()
        return "the query was stopped" if problem is None else str(problem)

    def progress(self, feed: Supervised[FeedSpec], now: float) -> FeedProgress:
        counted = self._counted
        run = None if self._query is None or feed.run != "running" else str(self._query.runId)
        state: State = "starting"
        if feed.failed:
            state = "failed"
        elif run is not None and run == counted.run:
            state = "running"
        waits = feed.failed and feed.run == "none"
        return replace(
            counted.progress,
            state=state,
            rows_per_s=counted.rate(now),
            restarts=feed.restarts,
            last_error=feed.last_error,
            caught_up_at=self._caught_up(),
            last_error_at=None if feed.last_error is None else self.failed_at,
            next_try_s=max(0.0, feed.due - now) if waits else None,
            batch_at=self._batch_at,
            event_time=max(self._event_times.values(), default=None),
            run=run,
        )

    def _caught_up(self) -> float | None:
        """Return the latest known time for which all rows that the source had then are published; None if no time is known.

        The time is in seconds since 1970. If a trigger finds nothing to read, the time becomes the present minus one trigger interval.
        """
        if self._query is not None:
            status = self._query.status
            waits = status["message"] == NOTHING_THERE and not status["isDataAvailable"]
            if waits and not status["isTriggerActive"]:
                self._caught_up_at = time.time() - self._trigger_s
        return self._caught_up_at

    def _rows(self, spec: FeedSpec) -> DataFrame:
        # Each feed has its own session, because views belong to a session, and the view of every source has the same name.
        session, source = self._session.newSession(), spec.definition.source
        if source.format == FeederSource.name():
            # The feeder is registered in each session, because otherwise all sessions would share one map of environment variables.
            # Two queries that start at the same time would corrupt a shared map ("Illegal size 5 of collection, expected 6").
            session.dataSource.register(FeederSource)
        reader = session.readStream.format(source.format).options(**source.options)
        if source.schema_ is not None:
            reader = reader.schema(source.schema_)
        rows = reader.load()
        if source.sql is None:
            return rows
        rows.createOrReplaceTempView(VIEW)
        return session.sql(source.sql)

    def _sink(self, spec: FeedSpec, writer: DataStreamWriter) -> DataStreamWriter:
        feed, source = spec.definition, spec.definition.source
        (first, *_) = feed.streams
        if source.path == "driver":
            return writer.foreachBatch(in_turn([self._end(spec, *door) for door in doors(spec).items()]))
        options = {
            "stream": first,
            "endpoint": spec.endpoints[first],
            "apiKey": spec.api_key,
            "schemaPolicy": source.schema_policy,
            "timeoutSeconds": str(spec.patience_s),
        }
        trust = {"caFile": spec.ca_file, "serverName": spec.server_name}
        options |= {name: value for name, value in trust.items() if value is not None}
        if source.timestamp_column is not None:
            options["timestampColumn"] = source.timestamp_column
        return writer.format("weir").options(**options)

    def _end(self, spec: FeedSpec, endpoint: str, streams: Sequence[str]) -> Callable[[DataFrame, int], None]:
        feed, source = spec.definition, spec.definition.source
        conditions = {name: condition for name, condition in feed.conditions.items() if name in streams}
        times = event_time_columns(spec)
        return to_weir(
            stream=None if feed.is_split else streams[0],
            split=conditions if feed.is_split else None,
            columns={name: column for name, column in feed.columns.items() if name in streams},
            endpoint=endpoint,
            api_key=spec.api_key,
            timestamp_column=source.timestamp_column,
            schema_policy=source.schema_policy,
            timeout_seconds=spec.patience_s,
            ca_file=spec.ca_file,
            server_name=spec.server_name,
            on_published=lambda stream, rows: self._note_event_time(stream, rows, times.get(stream)),
        )

    def _note_event_time(self, stream: str, rows: pa.Table, column: str | None) -> None:
        latest = None if column is None else latest_in(rows, column)
        if latest is not None:
            self._event_times[stream] = max(latest, self._event_times.get(stream, latest))


def seen_from(source: SourceSettings, why: str) -> str:
    """Return the folder at which the source's relative path starts, in the form " (relative to /data)", to be added to the error `why`.

    Return an empty text if the error contains no relative path.
    """
    path = path_of(source)
    is_relative = path and path in why and "://" not in path and not os.path.isabs(path)
    return f" (relative to {os.getcwd()})" if is_relative else ""


def doors(spec: FeedSpec) -> dict[str, list[str]]:
    """Return the names of the feed's streams, grouped by the endpoint of the gateway that receives the streams."""
    streams_by_endpoint: dict[str, list[str]] = {}
    for stream, endpoint in spec.endpoints.items():
        streams_by_endpoint.setdefault(endpoint, []).append(stream)
    return streams_by_endpoint


def event_time_columns(spec: FeedSpec) -> Mapping[str, str]:
    """Return the event-time column of each stream, by the stream's name. Streams without event time are left out."""
    named = spec.definition.source.timestamp_column
    columns = {}
    for name, sql in spec.declarations.items():
        stream = parse_create_stream(sql)
        if stream.time is not None:
            columns[name] = named or stream.schema.names[stream.time]
    return columns


def latest_in(rows: pa.Table, column: str) -> float | None:
    """Return the latest time in a column, in seconds since 1970; None if the column has no timestamps."""
    place = next((at for at, name in enumerate(rows.column_names) if name.lower() == column.lower()), None)
    if place is None or not pa.types.is_timestamp(rows.schema.field(place).type):
        return None
    latest = pc.max(rows.column(place)).cast(pa.timestamp("us", rows.schema.field(place).type.tz), safe=False)
    return latest.value / 1e6 if latest.is_valid else None


def check_split(rows: DataFrame, feed: FeedDefinition) -> None:
    """Raise AnalysisException if a condition or column of the split is wrong. Otherwise the feed would start, and each batch would fail."""
    if feed.is_split:
        for name, condition in feed.conditions.items():
            rows.where(condition).select(*map(quoted, feed.columns.get(name, rows.columns)))
