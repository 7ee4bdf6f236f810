"""Sources from which Spark reads streams: the options that each format knows, and the options that each format requires.

Spark ignores unknown options, so a misspelt option would go unnoticed until data is missing. Names of options are compared
without regard to case, as in Spark. The options of a format that is not listed here are passed on unchecked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from configs.errors import Contradiction, nearest

KAFKA = "kafka"
KAFKA_ARTIFACT = "spark-sql-kafka-0-10_2.13"
# Kafka connector that Spark downloads, unless the image already contains the connector (helm/spark-jars).
KAFKA_CONNECTOR = f"org.apache.spark:{KAFKA_ARTIFACT}:4.3.0"
# Prefix of options that Spark passes to Kafka's own client.
KAFKA_PREFIX = "kafka."
# Hint for each option that Spark refuses, because Spark sets the option itself.
KAFKA_REFUSED: Mapping[str, str] = {
    "kafka.auto.offset.reset": "use startingOffsets to choose where reading begins",
    "kafka.enable.auto.commit": "leave the option out: the checkpoint stores how far the stream has been read",
    "kafka.interceptor.classes": "leave the option out",
    "kafka.key.deserializer": "leave the option out, and decode the bytes of `key` in sql",
    "kafka.value.deserializer": "leave the option out, and decode the bytes of `value` in sql",
    "endingoffsets": "leave the option out: a stream has no end",
    "endingoffsetsbytimestamp": "leave the option out: a stream has no end",
    "endingtimestamp": "leave the option out: a stream has no end",
}
KAFKA_SQL = (
    "SELECT m.* FROM (SELECT from_json(CAST(value AS STRING), 'ts TIMESTAMP, x DOUBLE') AS m FROM source)"
)


@cache
def has_kafka_jar() -> bool:
    """Return True if Spark's own folder of jars has the Kafka connector. The ingest image has such a folder."""
    spark = find_spec("pyspark")
    if spark is None or spark.origin is None:
        return False
    return any((Path(spark.origin).parent / "jars").glob(f"{KAFKA_ARTIFACT}-*.jar"))


@dataclass(frozen=True, slots=True)
class KnownFormat:
    """Spark format with options that are checked."""

    options: tuple[str, ...]
    needs: tuple[tuple[str, ...], ...] = ()
    """Groups of alternative options; exactly one option of each group must be given."""
    schema: bool = False
    """True if `schema` must be given; otherwise the source defines its columns."""


def listed(names: str) -> tuple[str, ...]:
    """Return the names of options that a text lists."""
    return tuple(names.split())


# Options of every format that watches a directory for new files.
_FILES = listed("""
    path maxFilesPerTrigger maxBytesPerTrigger latestFirst fileNameOnly maxFileAge maxCachedFiles discardCachedInputRatio
    cleanSource sourceArchiveDir pathGlobFilter recursiveFileLookup modifiedBefore modifiedAfter ignoreCorruptFiles
    ignoreMissingFiles basePath
""")
_TEXT = listed("""
    mode columnNameOfCorruptRecord dateFormat timestampFormat timestampNTZFormat enableDateTimeParsingFallback multiLine
    lineSep locale encoding charset timeZone compression
""")
_CSV = listed("""
    sep delimiter quote escape comment header inferSchema ignoreLeadingWhiteSpace ignoreTrailingWhiteSpace nullValue
    nanValue positiveInf negativeInf maxColumns maxCharsPerColumn charToEscapeQuoteEscaping enforceSchema emptyValue
    unescapedQuoteHandling columnPruning preferDate
""")
_JSON = listed("""
    primitivesAsString prefersDecimal allowComments allowUnquotedFieldNames allowSingleQuotes allowNumericLeadingZeros
    allowBackslashEscapingAnyCharacter allowUnquotedControlChars allowNonNumericNumbers dropFieldIfAllNull
    ignoreNullFields
""")
_KAFKA = listed("""
    kafka.bootstrap.servers subscribe subscribePattern assign startingOffsets startingOffsetsByTimestamp
    startingOffsetsByTimestampStrategy startingTimestamp failOnDataLoss kafkaConsumer.pollTimeoutMs
    fetchOffset.numRetries fetchOffset.retryIntervalMs maxOffsetsPerTrigger minOffsetsPerTrigger maxTriggerDelay
    minPartitions maxRecordsPerPartition groupIdPrefix includeHeaders
""")

SOURCES: Mapping[str, KnownFormat] = {
    "rate": KnownFormat(("rowsPerSecond", "rampUpTime", "numPartitions")),
    "rate-micro-batch": KnownFormat(
        ("rowsPerBatch", "numPartitions", "startTimestamp", "advanceMillisPerBatch"), (("rowsPerBatch",),)
    ),
    "socket": KnownFormat(("host", "port", "includeTimestamp"), (("host",), ("port",))),
    "parquet": KnownFormat(
        (*_FILES, "mergeSchema", "datetimeRebaseMode", "int96RebaseMode"), (("path",),), schema=True
    ),
    "orc": KnownFormat((*_FILES, "mergeSchema"), (("path",),), schema=True),
    "text": KnownFormat((*_FILES, "wholetext", "lineSep", "encoding"), (("path",),)),
    "csv": KnownFormat((*_FILES, *_TEXT, *_CSV), (("path",),), schema=True),
    "json": KnownFormat((*_FILES, *_TEXT, *_JSON), (("path",),), schema=True),
    KAFKA: KnownFormat(_KAFKA, (("kafka.bootstrap.servers",), ("subscribe", "subscribePattern", "assign"))),
}
# Formats with options that are not checked; they are listed so that misspelt names of formats are found.
OTHERS = ("weir_feeder",)


def problems_of_source(name: str, options: Mapping[str, str]) -> Iterator[Contradiction]:
    """Yield the problems of a source's format and options."""
    source = SOURCES.get(name)
    if source is None:
        hint = nearest(name, [*SOURCES, *OTHERS])
        if name not in OTHERS and hint.startswith("did you mean") and " or " not in hint:
            yield Contradiction("there is no source format of this name", "format", name, hint)
        return
    yield from misnamed(name, source, options)
    yield from missing(source, {option.lower(): option for option in options})


def misnamed(name: str, source: KnownFormat, options: Mapping[str, str]) -> Iterator[Contradiction]:
    declared = {option.lower() for option in source.options}
    for option, value in options.items():
        if name == KAFKA and option.lower() in KAFKA_REFUSED:
            title = "this option cannot be used for a stream"
            yield Contradiction(title, f"options.{option}", value, KAFKA_REFUSED[option.lower()])
        elif option.lower() not in declared and not (
            name == KAFKA and option.lower().startswith(KAFKA_PREFIX)
        ):
            hint = nearest(option, source.options)
            yield Contradiction(
                f"the source format {name} has no option of this name", "options", option, hint
            )


def missing(source: KnownFormat, given: Mapping[str, str]) -> Iterator[Contradiction]:
    for choices in source.needs:
        present = [given[choice.lower()] for choice in choices if choice.lower() in given]
        if not present:
            hint = "add " + " or ".join(f"`{choice}: …`" for choice in choices) + " to the options"
            yield Contradiction("a required value is missing", f"options.{choices[0]}", hint=hint)
        elif len(present) > 1:
            yield Contradiction(
                "only one of these options can be given", "options", present, f"keep only {present[0]}"
            )
