"""Streams that Spark brings: what each is made of, where it is read from, and the session that reads it. One YAML file.

A feed is one source and the streams that it brings, each with the rows and columns that it takes. A stream with a source of its
own is the only one of a feed of its name.

`load_streams` refuses anything impossible before a JVM is started, naming file, field, value and remedy. docs/ingest.md
describes every key. What the SQL in it means is not known here; `services.ingest.declared_streams` looks at that.
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
    problems_of_source,
)
from configs.errors import Contradiction, UnknownName, nearest
from configs.yaml_loading import read_model

# What nobody is to read in a plan, a log or an error.
SECRET = re.compile(
    r"secret|password|passphrase|token|access[.]?key|api[.]?key|credential|jaas", re.IGNORECASE
)
# Settings of Spark's that have a key of their own here, because Weir must know them.
OWN_KEYS: Mapping[str, str] = {
    "spark.master": "session.master",
    "spark.jars.packages": "session.packages",
}
# Shorter than this is no secret but a word that stands everywhere in a text.
SECRET_LENGTH_MIN = 4


def as_text(value: object) -> object:
    """Numbers and truth values as Spark takes them."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, (int, float)) else value


OptionText = Annotated[str, BeforeValidator(as_text), Field(max_length=100_000)]
OptionName = Annotated[str, Field(max_length=200)]


class SourceSettings(Settings):
    """What Spark reads, and how its rows go on to Weir."""

    format: Annotated[str, Field(max_length=200)]
    options: Mapping[OptionName, OptionText] = {}
    schema_: Annotated[str | None, Field(alias="schema", max_length=100_000)] = None
    """Columns of what is read, as Spark writes them: `ts TIMESTAMP, sensor INT`."""

    sql: Sql | None = None
    """Spark SQL over the view `source`; the rows as they are without it."""

    trigger_ms: Annotated[int, Field(ge=1, le=86_400_000)] = 100
    """Time from one micro-batch to the next."""

    path: Literal["driver", "executor"] = "driver"
    """Who sends: the driver is quicker on one machine, executors do not bring all rows to one place."""

    output_mode: Literal["append", "update"] = "append"
    schema_policy: Literal["reject", "addNullable", "ignore"] = "reject"
    """What becomes of a column that the stream does not have, or that is missing."""

    timestamp_column: str | None = None
    """Column of the rows that is the event time, if it is called otherwise in the stream."""

    checkpoint: str | None = None
    """Folder that remembers how far the source has been read; one beside the log without it."""

    @model_validator(mode="after")
    def can_be_read(self) -> Self:
        for problem in problems_of_source(self.format, self.options):
            raise problem
        source = SOURCES.get(self.format)
        if source is not None and source.schema and self.schema_ is None:
            raise Contradiction(
                f"{self.format} files do not say their columns before they are there",
                "schema",
                hint="add `schema: ts TIMESTAMP, sensor INT, …`",
            )
        if self.format in ("rate", "rate-micro-batch", "socket", KAFKA) and self.schema_ is not None:
            raise Contradiction(
                f"{self.format} brings columns of its own",
                "schema",
                self.schema_,
                "leave it out, and make the columns in sql",
            )
        if self.format == KAFKA and self.sql is None:
            raise Contradiction(
                "a message is bytes", "sql", hint=f"decode them, for example `sql: {KAFKA_SQL}`"
            )
        if self.path == "executor" and self.output_mode == "update":
            raise Contradiction(
                "executors can only append", "output_mode", self.output_mode, "use `path: driver`"
            )
        return self


class StreamDefinition(Settings):
    """A stream: its columns and event time, as SQL or one by one, and its source unless a feed brings it."""

    sql: Sql | None = None
    """CREATE STREAM …; or else:"""

    columns: Mapping[Name, Annotated[str, Field(max_length=100)]] = {}
    """Types by name."""

    time: Name | None = None
    """Column that is the event time."""

    watermark: Annotated[str | None, Field(max_length=100)] = None
    """How far rows may be out of order: `5 seconds`."""

    source: SourceSettings | None = None

    @model_validator(mode="after")
    def is_declared_once(self) -> Self:
        beside = [key for key in ("columns", "time", "watermark") if getattr(self, key)]
        if self.sql is not None and beside:
            raise Contradiction("the SQL says that already", beside[0], hint=f"keep sql or {beside[0]}")
        if self.sql is None and not self.columns:
            raise Contradiction(
                "the stream has no columns",
                "columns",
                hint="add `columns: {ts: timestamp, x: float64}`, or sql",
            )
        if self.watermark is not None and self.time is None:
            raise Contradiction(
                "it is not said of which column", "watermark", self.watermark, "add `time:` with the column"
            )
        if self.time is not None and self.time.lower() not in map(str.lower, self.columns):
            raise Contradiction(
                "there is no such column", "time", self.time, nearest(self.time, self.columns)
            )
        return self

    def declaration(self, name: str) -> str:
        """The CREATE STREAM of it."""
        if self.sql is not None:
            return self.sql
        parts = [f"{column} {kind}" for column, kind in self.columns.items()]
        if self.time is not None:
            behind = "" if self.watermark is None else f" - INTERVAL '{self.watermark}'"
            parts.append(f"WATERMARK FOR {self.time} AS {self.time}{behind}")
        return f"CREATE STREAM {name} ({', '.join(parts)})"


class FedStream(Settings):
    """What a stream takes of the rows of its feed."""

    where: Sql | None = None
    """Condition in Spark SQL; all rows without it."""

    columns: tuple[Annotated[str, Field(max_length=200)], ...] = Field(default=(), max_length=10_000)
    """All columns without it."""


class FeedDefinition(Settings):
    """One source for some streams; a row may go to several of them or to none."""

    source: SourceSettings
    streams: Mapping[Name, FedStream] = Field(min_length=1, max_length=1000)

    @model_validator(mode="after")
    def can_be_split(self) -> Self:
        if self.source.path == "executor" and self.is_split:
            raise Contradiction(
                "executors send whole rows to one stream", "source.path", "executor", "use `path: driver`"
            )
        return self

    @property
    def is_split(self) -> bool:
        return len(self.streams) > 1 or any(
            stream.where or stream.columns for stream in self.streams.values()
        )

    @property
    def conditions(self) -> dict[str, str]:
        """Of the rows that each stream takes."""
        return {name: stream.where or "true" for name, stream in self.streams.items()}

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        """Of the streams that do not take all."""
        return {name: stream.columns for name, stream in self.streams.items() if stream.columns}


class SessionSettings(Settings):
    """The Spark session that reads all streams."""

    master: str = "local[1]"
    """Of Spark; one thread of this machine by default."""

    conf: Mapping[Annotated[str, Field(max_length=200)], OptionText] = {}
    packages: tuple[str, ...] = Field(default=(), max_length=100)
    """Maven coordinates of further connectors; Kafka's comes by itself."""

    java_home: Path | None = None
    """Of the Java to use; without it one is looked for."""

    @model_validator(mode="after")
    def is_for_spark(self) -> Self:
        # The key and not the value: it may be a secret.
        for key, value in self.conf.items():
            if key in OWN_KEYS:
                raise Contradiction("has a key of its own", "conf", key, f"say it under {OWN_KEYS[key]}")
            if not re.fullmatch(r"spark\.\S+", key):
                raise Contradiction("not a setting of Spark's", "conf", key, "they begin with spark.")
            if "\n" in value:
                raise Contradiction("has more than one line", "conf", key, "write it on one line")
        for place, package in enumerate(self.packages):
            if not re.fullmatch(r"[^:,\s]+:[^:,\s]+:[^:,\s]+", package):
                raise Contradiction(
                    "not the coordinates of a package",
                    f"packages[{place}]",
                    package,
                    f"write group:name:version, for example {KAFKA_CONNECTOR}",
                )
        return self


class StreamsFile(Settings):
    """The streams of a file, the feeds that bring several of them, and their session."""

    session: SessionSettings = SessionSettings()
    streams: Mapping[Name, StreamDefinition] = Field(min_length=1, max_length=1000)
    feeds: Mapping[Name, FeedDefinition] = Field(default={}, max_length=1000)

    @model_validator(mode="after")
    def each_stream_is_brought_once(self) -> Self:
        brought: dict[str, str] = {}
        for name, feed in self.feeds.items():
            if name in self.streams and self.streams[name].source is not None:
                hint = "give the feed another name"
                raise Contradiction("a stream with a source of its own has that name", "feeds", name, hint)
            for stream in feed.streams:
                where = f"feeds.{name}.streams"
                if stream not in self.streams:
                    raise UnknownName("no such stream", where, stream, nearest(stream, self.streams))
                if self.streams[stream].source is not None:
                    hint = "leave out its source, or take it from the feed"
                    raise Contradiction("the stream has a source of its own", where, stream, hint)
                if stream in brought:
                    hint = "let one of the two have it"
                    raise Contradiction(f"feed {brought[stream]} brings it already", where, stream, hint)
                brought[stream] = name
        for stream, definition in self.streams.items():
            if definition.source is None and stream not in brought:
                raise Contradiction(
                    "nothing brings the stream",
                    f"streams.{stream}.source",
                    hint="add a source, or name the stream in a feed",
                )
        return self

    @model_validator(mode="after")
    def checkpoints_differ(self) -> Self:
        field_by_folder: dict[str, str] = {}
        for name, feed in self.all_feeds().items():
            folder = feed.source.checkpoint
            if folder is None:
                continue
            if folder in field_by_folder:
                raise Contradiction(
                    f"{field_by_folder[folder]} has the same checkpoint",
                    f"{self.source_field(name)}.checkpoint",
                    folder,
                    "give each source a folder of its own, or leave it out",
                )
            field_by_folder[folder] = self.source_field(name)
        return self

    def all_feeds(self) -> dict[str, FeedDefinition]:
        """Also of the streams that have a source of their own."""
        own = {
            name: FeedDefinition(source=stream.source, streams={name: FedStream()})
            for name, stream in self.streams.items()
            if stream.source is not None
        }
        return own | dict(self.feeds)

    def part(self, feeds: Collection[str]) -> StreamsFile:
        """Return a file with the same session, these feeds and their streams alone. There must be at least one."""
        fed = {name for feed in feeds for name in self.all_feeds()[feed].streams}
        return self.model_copy(
            update={
                "streams": {name: stream for name, stream in self.streams.items() if name in fed},
                "feeds": {name: feed for name, feed in self.feeds.items() if name in feeds},
            }
        )

    def by_connector(self) -> dict[str, StreamsFile]:
        """Return the parts that need a Spark process each, by the connector to fetch; "" is the part that needs none.

        Spark fetches connectors when it starts. Apart from the others, feeds that need one neither restart them by being
        declared, nor keep them from running while it cannot be fetched.
        """
        feeds: dict[str, list[str]] = {}
        fetched = KAFKA_CONNECTOR in self.packages() and KAFKA_CONNECTOR not in self.session.packages
        for name, feed in self.all_feeds().items():
            feeds.setdefault(KAFKA if fetched and feed.source.format == KAFKA else "", []).append(name)
        return {connector: self.part(names) for connector, names in feeds.items()}

    def source_field(self, feed: str) -> str:
        """Where in the file a feed's source stands."""
        return f"{'feeds' if feed in self.feeds else 'streams'}.{feed}.source"

    def packages(self) -> tuple[str, ...]:
        """To be fetched: of the session and of the formats that are read, unless their jars are here."""
        packages = self.session.packages
        here = (*packages, self.session.conf.get("spark.jars", ""))
        reads_kafka = any(feed.source.format == KAFKA for feed in self.all_feeds().values())
        if reads_kafka and not any(KAFKA_ARTIFACT in artifact for artifact in here):
            return (*packages, KAFKA_CONNECTOR)
        return packages

    def secrets(self) -> tuple[str, ...]:
        """Values that are to be seen nowhere, the longest first: one may stand within another."""
        option_sets = [self.session.conf, *(feed.source.options for feed in self.all_feeds().values())]
        versions = {
            value
            for settings in option_sets
            for key, value in settings.items()
            if SECRET.search(key) and len(value) >= SECRET_LENGTH_MIN
        }
        return tuple(sorted(versions, key=lambda value: (-len(value), value)))


def load_streams(path: Path) -> StreamsFile:
    """The streams of a YAML file; InvalidInput if anything in it cannot be."""
    return read_model(StreamsFile, path)
