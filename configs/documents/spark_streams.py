"""Streams that Spark supplies: their columns, their sources, and the Spark session that reads them, in one YAML file.

A feed is a source and the streams that it supplies; each stream takes some rows and columns of the source. A stream with a
source of its own is supplied by a feed of the same name, which has no other streams.

`load_streams` refuses invalid settings before a JVM starts; the error has file, field, value and remedy. docs/ingest.md
describes every key. SQL is checked by `services.ingest.declared_streams`, not by this module.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from configs.base import Name, Settings
from configs.classes.live_class import Sql
from configs.documents.spark_sources import (
    KAFKA,
    KAFKA_ARTIFACT,
    KAFKA_CONNECTOR,
    KAFKA_SQL,
    SOURCES,
    has_kafka_jar,
    problems_of_source,
)
from configs.errors import Contradiction, UnknownName, nearest
from configs.yaml_loading import read_model

# Names of options with values that must not appear in a plan, a log or an error.
SECRET = re.compile(
    r"secret|password|passphrase|token|access[.]?key|api[.]?key|credential|jaas|keystore[.]key", re.IGNORECASE
)
# Spark settings that Weir sets itself, by the key in the file of streams from which Weir takes the value.
OWN_KEYS: Mapping[str, str] = {
    "spark.master": "session.master",
    "spark.jars.packages": "session.packages",
}
# Minimum length of a secret that is hidden in texts: a shorter value may be a common word, and hiding it would garble the texts.
SECRET_LENGTH_MIN = 4


def as_text(value: object) -> object:
    """Return numbers and booleans as texts, in Spark's form."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, (int, float)) else value


OptionText = Annotated[str, BeforeValidator(as_text), Field(max_length=100_000)]
OptionName = Annotated[str, Field(max_length=200)]


class SourceSettings(Settings):
    """Source that Spark reads, and the way in which its rows are sent to Weir."""

    format: Annotated[str, Field(max_length=200)]
    options: Mapping[OptionName, OptionText] = {}
    schema_: Annotated[str | None, Field(alias="schema", max_length=100_000)] = None
    """Columns of the source in Spark's form, such as `ts TIMESTAMP, sensor INT`."""

    sql: Sql | None = None
    """Spark SQL query over the view `source`. Without a query, rows are taken unchanged."""

    trigger_ms: Annotated[int, Field(ge=1, le=86_400_000)] = 100
    """Milliseconds from one micro-batch to the next."""

    path: Literal["driver", "executor"] = "driver"
    """Spark process that sends rows: the driver is faster on one machine; executors send in parallel from several machines."""

    output_mode: Literal["append", "update"] = "append"
    schema_policy: Literal["reject", "addNullable", "ignore"] = "reject"
    """Action if a column of the rows is not in the stream, or a column of the stream is not in the rows."""

    timestamp_column: str | None = None
    """Column of the rows that has the event time, if the column has another name in the stream."""

    checkpoint: str | None = None
    """Folder in which Spark stores how far the source has been read. Default: a folder next to the stream's log."""

    @model_validator(mode="after")
    def can_be_read(self) -> Self:
        for problem in problems_of_source(self.format, self.options):
            raise problem
        source = SOURCES.get(self.format)
        if source is not None and source.schema and self.schema_ is None:
            title = f"{self.format} files need a schema, because Spark does not know their columns in advance"
            hint = "add `schema: ts TIMESTAMP, sensor INT, …`"
            raise Contradiction(title, "schema", hint=hint)
        if self.format in ("rate", "rate-micro-batch", "socket", KAFKA) and self.schema_ is not None:
            hint = "leave out `schema`, and compute the columns in sql"
            raise Contradiction(
                f"the source format {self.format} has fixed columns, so a schema cannot be given",
                "schema",
                self.schema_,
                hint,
            )
        if self.format == KAFKA and self.sql is None:
            title = "Kafka messages are bytes, so the stream needs a query in `sql` to decode them"
            hint = f"add a query, for example `sql: {KAFKA_SQL}`"
            raise Contradiction(title, "sql", hint=hint)
        if self.path == "executor" and self.output_mode == "update":
            title = "`path: executor` supports only the output mode append"
            hint = "use `path: driver`"
            raise Contradiction(title, "output_mode", self.output_mode, hint)
        return self


class StreamDefinition(Settings):
    """Stream: its columns and event time, as SQL or in separate fields, and its source unless a feed supplies it."""

    sql: Sql | None = None
    """CREATE STREAM statement, which replaces `columns`, `time` and `watermark`."""

    columns: Mapping[Name, Annotated[str, Field(max_length=100)]] = {}
    """Type of each column, by name of the column."""

    time: Name | None = None
    """Column with the event time."""

    watermark: Annotated[str | None, Field(max_length=100)] = None
    """Time by which rows may arrive out of order, such as `5 seconds`."""

    source: SourceSettings | None = None

    @model_validator(mode="after")
    def is_declared_once(self) -> Self:
        fields = [key for key in ("columns", "time", "watermark") if getattr(self, key)]
        if self.sql is not None and fields:
            hint = f"keep either sql or {fields[0]}"
            raise Contradiction(f"{fields[0]} cannot be given together with sql", fields[0], hint=hint)
        if self.sql is None and not self.columns:
            hint = "add `columns: {ts: timestamp, x: float64}`, or `sql:`"
            raise Contradiction("the stream has no columns", "columns", hint=hint)
        if self.watermark is not None and self.time is None:
            title = "`watermark` needs a time column, but the stream has no `time`"
            hint = "add `time:` with the name of the column"
            raise Contradiction(title, "watermark", self.watermark, hint)
        if self.time is not None and self.time.lower() not in map(str.lower, self.columns):
            raise Contradiction(
                "the stream has no column of this name", "time", self.time, nearest(self.time, self.columns)
            )
        return self

    def declaration(self, name: str) -> str:
        """Return the stream's CREATE STREAM statement."""
        if self.sql is not None:
            return self.sql
        parts = [f"{column} {kind}" for column, kind in self.columns.items()]
        if self.time is not None:
            behind = "" if self.watermark is None else f" - INTERVAL '{self.watermark}'"
            parts.append(f"WATERMARK FOR {self.time} AS {self.time}{behind}")
        return f"CREATE STREAM {name} ({', '.join(parts)})"


class FedStream(Settings):
    """Rows and columns that a stream takes from its feed."""

    where: Sql | None = None
    """Condition in Spark SQL for the rows to take. Default: all rows."""

    columns: tuple[Annotated[str, Field(max_length=200)], ...] = Field(default=(), max_length=10_000)
    """Columns to take. Default: all columns."""


class FeedDefinition(Settings):
    """Source that supplies several streams; a row may go to several of these streams, or to no stream."""

    source: SourceSettings
    streams: Mapping[Name, FedStream] = Field(min_length=1, max_length=1000)

    @model_validator(mode="after")
    def can_be_split(self) -> Self:
        if self.source.path == "executor" and self.is_split:
            title = "with `path: executor`, a feed can supply only one stream, with complete rows"
            hint = "use `path: driver`"
            raise Contradiction(title, "source.path", "executor", hint)
        return self

    @property
    def is_split(self) -> bool:
        return len(self.streams) > 1 or any(
            stream.where or stream.columns for stream in self.streams.values()
        )

    @property
    def conditions(self) -> dict[str, str]:
        """Condition for the rows that a stream takes, by name of the stream."""
        return {name: stream.where or "true" for name, stream in self.streams.items()}

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        """Columns that a stream takes, by name of the stream; streams that take all columns are left out."""
        return {name: stream.columns for name, stream in self.streams.items() if stream.columns}


class SessionSettings(Settings):
    """Spark session that reads all streams."""

    master: str = "local[1]"
    """Spark master URL, which determines where Spark runs; by default one thread of this machine."""

    conf: Mapping[Annotated[str, Field(max_length=200)], OptionText] = {}
    packages: tuple[str, ...] = Field(default=(), max_length=100)
    """Maven coordinates of further connectors. Kafka's connector is added automatically."""

    java_home: Path | None = None
    """Folder of the Java installation to use. If left out, Weir searches for a Java installation."""

    @model_validator(mode="after")
    def is_for_spark(self) -> Self:
        # Errors show the key of a setting but not the value, which may be a secret.
        for key, value in self.conf.items():
            if key in OWN_KEYS:
                raise Contradiction(
                    "this Spark setting cannot be given in conf, because Weir has its own field for it",
                    "conf",
                    key,
                    f"set {OWN_KEYS[key]} instead",
                )
            if not re.fullmatch(r"spark\.\S+", key):
                hint = "write a name such as spark.sql.shuffle.partitions"
                raise Contradiction(
                    "the name of a Spark setting must begin with `spark.` and contain no blanks",
                    "conf",
                    key,
                    hint,
                )
            if "\n" in value:
                hint = "write the value on one line"
                raise Contradiction("the value of a Spark setting has more than one line", "conf", key, hint)
        for place, package in enumerate(self.packages):
            if not re.fullmatch(r"[^:,\s]+:[^:,\s]+:[^:,\s]+", package):
                title = "the package is not given by Maven coordinates"
                hint = f"write group:name:version, for example {KAFKA_CONNECTOR}"
                raise Contradiction(title, f"packages[{place}]", package, hint)
        return self


class StreamsFile(Settings):
    """Content of a file of streams: streams, feeds that supply several streams each, and the Spark session."""

    session: SessionSettings = SessionSettings()
    streams: Mapping[Name, StreamDefinition] = Field(min_length=1, max_length=1000)
    feeds: Mapping[Name, FeedDefinition] = Field(default={}, max_length=1000)

    @model_validator(mode="after")
    def each_stream_is_brought_once(self) -> Self:
        brought: dict[str, str] = {}
        for name, feed in self.feeds.items():
            if name in self.streams and self.streams[name].source is not None:
                hint = "give the feed another name"
                raise Contradiction(
                    "a feed cannot have the name of a stream that has its own source", "feeds", name, hint
                )
            for stream in feed.streams:
                where = f"feeds.{name}.streams"
                if stream not in self.streams:
                    raise UnknownName(
                        "the file declares no stream of this name",
                        where,
                        stream,
                        nearest(stream, self.streams),
                    )
                if self.streams[stream].source is not None:
                    hint = "remove the stream's source, or remove the stream from the feed"
                    raise Contradiction(
                        "a stream with its own source cannot also come from a feed", where, stream, hint
                    )
                if stream in brought:
                    hint = "remove the stream from one of the two feeds"
                    raise Contradiction(
                        f"a stream can come from only one feed, and feed {brought[stream]} already supplies this stream",
                        where,
                        stream,
                        hint,
                    )
                brought[stream] = name
        for stream, definition in self.streams.items():
            if definition.source is None and stream not in brought:
                title = "the stream has no source, and no feed supplies it"
                hint = "add `source:`, or name the stream in a feed"
                raise Contradiction(title, f"streams.{stream}.source", hint=hint)
        return self

    @model_validator(mode="after")
    def checkpoints_differ(self) -> Self:
        field_by_folder: dict[str, str] = {}
        for name, feed in self.all_feeds().items():
            folder = feed.source.checkpoint
            if folder is None:
                continue
            if folder in field_by_folder:
                title = f"{field_by_folder[folder]} uses the same checkpoint folder"
                hint = "give each source its own checkpoint folder, or leave the folder out"
                raise Contradiction(title, f"{self.source_field(name)}.checkpoint", folder, hint)
            field_by_folder[folder] = self.source_field(name)
        return self

    def all_feeds(self) -> dict[str, FeedDefinition]:
        """Return all feeds, including one for each stream that has a source of its own."""
        own = {
            name: FeedDefinition(source=stream.source, streams={name: FedStream()})
            for name, stream in self.streams.items()
            if stream.source is not None
        }
        return own | dict(self.feeds)

    def part(self, feeds: Collection[str]) -> StreamsFile:
        """Return a copy of the file with the same session, but only with `feeds` (at least one) and their streams."""
        fed = {name for feed in feeds for name in self.all_feeds()[feed].streams}
        return self.model_copy(
            update={
                "streams": {name: stream for name, stream in self.streams.items() if name in fed},
                "feeds": {name: feed for name, feed in self.feeds.items() if name in feeds},
            }
        )

    def by_connector(self) -> dict[str, StreamsFile]:
        """Divide the file into parts with a Spark process each; the key is the connector that the part needs, or "" for none.

        Spark fetches connectors when it starts. Feeds that need a connector run in a process of their own: declaring such a
        feed does not restart other feeds, and other feeds run even if the connector cannot be fetched.
        """
        feeds: dict[str, list[str]] = {}
        fetched = KAFKA_CONNECTOR in self.packages() and KAFKA_CONNECTOR not in self.session.packages
        for name, feed in self.all_feeds().items():
            feeds.setdefault(KAFKA if fetched and feed.source.format == KAFKA else "", []).append(name)
        return {connector: self.part(names) for connector, names in feeds.items()}

    def source_field(self, feed: str) -> str:
        """Return the path of a feed's source in the file."""
        return f"{'feeds' if feed in self.feeds else 'streams'}.{feed}.source"

    def packages(self) -> tuple[str, ...]:
        """Return the packages that Spark has to fetch: those of the session, and Kafka's connector if it is needed and not present."""
        packages = self.session.packages
        here = (*packages, self.session.conf.get("spark.jars", ""))
        reads_kafka = any(feed.source.format == KAFKA for feed in self.all_feeds().values())
        if reads_kafka and not has_kafka_jar() and not any(KAFKA_ARTIFACT in artifact for artifact in here):
            return (*packages, KAFKA_CONNECTOR)
        return packages

    def secrets(self) -> tuple[str, ...]:
        """Return the secret values to hide in all output. The longest value comes first, because a value may be part of another."""
        option_sets = [self.session.conf, *(feed.source.options for feed in self.all_feeds().values())]
        versions = {
            value
            for settings in option_sets
            for key, value in settings.items()
            if SECRET.search(key) and len(value) >= SECRET_LENGTH_MIN
        }
        return tuple(sorted(versions, key=lambda value: (-len(value), value)))


def load_streams(path: Path) -> StreamsFile:
    """Return the streams of a YAML file; raise InvalidInput if the file has an invalid setting."""
    return read_model(StreamsFile, path)
