"""Where Spark reads a stream from: the options each source knows, and what it cannot do without.

Spark ignores an option it does not know, so a misspelt one goes unnoticed until data is missing. Names are compared
without regard to case, as Spark does. A source that is not here is passed on as it stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from configs.errors import Contradiction, nearest

KAFKA = "kafka"
KAFKA_ARTIFACT = "spark-sql-kafka-0-10_2.13"
KAFKA_CONNECTOR = f"org.apache.spark:{KAFKA_ARTIFACT}:4.3.0"
# Handed on to Kafka's own client.
KAFKA_PREFIX = "kafka."
# Spark sets these itself and refuses them; what to say instead.
KAFKA_REFUSED: Mapping[str, str] = {
    "kafka.auto.offset.reset": "say where to begin with startingOffsets",
    "kafka.enable.auto.commit": "leave it out: how far a stream has been read is kept in its checkpoint",
    "kafka.interceptor.classes": "leave it out",
    "kafka.key.deserializer": "leave it out and decode the bytes of `key` in sql",
    "kafka.value.deserializer": "leave it out and decode the bytes of `value` in sql",
    "endingoffsets": "leave it out: a stream has no end",
    "endingoffsetsbytimestamp": "leave it out: a stream has no end",
    "endingtimestamp": "leave it out: a stream has no end",
}
KAFKA_SQL = (
    "SELECT m.* FROM (SELECT from_json(CAST(value AS STRING), 'ts TIMESTAMP, x DOUBLE') AS m FROM source)"
)


@dataclass(frozen=True, slots=True)
class KnownFormat:
    """A format of Spark's that is known here."""

    options: tuple[str, ...]
    needs: tuple[tuple[str, ...], ...] = ()
    """Of each of these, exactly one must be given."""
    schema: bool = False
    """Whether the columns must be said; otherwise the source brings its own."""


# Of a directory that is watched for new files, whatever is in them.
_FILES = (
    "path",
    "maxFilesPerTrigger",
    "maxBytesPerTrigger",
    "latestFirst",
    "fileNameOnly",
    "maxFileAge",
    "maxCachedFiles",
    "discardCachedInputRatio",
    "cleanSource",
    "sourceArchiveDir",
    "pathGlobFilter",
    "recursiveFileLookup",
    "modifiedBefore",
    "modifiedAfter",
    "ignoreCorruptFiles",
    "ignoreMissingFiles",
    "basePath",
)
_TEXT = (
    "mode",
    "columnNameOfCorruptRecord",
    "dateFormat",
    "timestampFormat",
    "timestampNTZFormat",
    "enableDateTimeParsingFallback",
    "multiLine",
    "lineSep",
    "locale",
    "encoding",
    "charset",
    "timeZone",
    "compression",
)

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
    "csv": KnownFormat(
        (
            *_FILES,
            *_TEXT,
            "sep",
            "delimiter",
            "quote",
            "escape",
            "comment",
            "header",
            "inferSchema",
            "ignoreLeadingWhiteSpace",
            "ignoreTrailingWhiteSpace",
            "nullValue",
            "nanValue",
            "positiveInf",
            "negativeInf",
            "maxColumns",
            "maxCharsPerColumn",
            "charToEscapeQuoteEscaping",
            "enforceSchema",
            "emptyValue",
            "unescapedQuoteHandling",
            "columnPruning",
            "preferDate",
        ),
        (("path",),),
        schema=True,
    ),
    "json": KnownFormat(
        (
            *_FILES,
            *_TEXT,
            "primitivesAsString",
            "prefersDecimal",
            "allowComments",
            "allowUnquotedFieldNames",
            "allowSingleQuotes",
            "allowNumericLeadingZeros",
            "allowBackslashEscapingAnyCharacter",
            "allowUnquotedControlChars",
            "allowNonNumericNumbers",
            "dropFieldIfAllNull",
            "ignoreNullFields",
        ),
        (("path",),),
        schema=True,
    ),
    KAFKA: KnownFormat(
        (
            "kafka.bootstrap.servers",
            "subscribe",
            "subscribePattern",
            "assign",
            "startingOffsets",
            "startingOffsetsByTimestamp",
            "startingOffsetsByTimestampStrategy",
            "startingTimestamp",
            "failOnDataLoss",
            "kafkaConsumer.pollTimeoutMs",
            "fetchOffset.numRetries",
            "fetchOffset.retryIntervalMs",
            "maxOffsetsPerTrigger",
            "minOffsetsPerTrigger",
            "maxTriggerDelay",
            "minPartitions",
            "maxRecordsPerPartition",
            "groupIdPrefix",
            "includeHeaders",
        ),
        (("kafka.bootstrap.servers",), ("subscribe", "subscribePattern", "assign")),
    ),
}
# Their options are their own affair; the name only keeps a misspelling from going through.
OTHERS = ("weir_feeder",)


def problems_of_source(name: str, options: Mapping[str, str]) -> Iterator[Contradiction]:
    """What is wrong with a source's format and options, one after the other."""
    source = SOURCES.get(name)
    if source is None:
        hint = nearest(name, [*SOURCES, *OTHERS])
        if name not in OTHERS and hint.startswith("did you mean") and " or " not in hint:
            yield Contradiction("no such format", "format", name, hint)
        return
    yield from misnamed(name, source, options)
    yield from missing(source, {option.lower(): option for option in options})


def misnamed(name: str, source: KnownFormat, options: Mapping[str, str]) -> Iterator[Contradiction]:
    declared = {option.lower() for option in source.options}
    for option, value in options.items():
        if name == KAFKA and option.lower() in KAFKA_REFUSED:
            yield Contradiction("not for a stream", f"options.{option}", value, KAFKA_REFUSED[option.lower()])
        elif option.lower() not in declared and not (
            name == KAFKA and option.lower().startswith(KAFKA_PREFIX)
        ):
            hint = nearest(option, source.options)
            yield Contradiction(f"{name} has no such option", "options", option, hint)


def missing(source: KnownFormat, given: Mapping[str, str]) -> Iterator[Contradiction]:
    for choices in source.needs:
        present = [given[choice.lower()] for choice in choices if choice.lower() in given]
        if not present:
            hint = "add " + " or ".join(f"`{choice}: …`" for choice in choices) + " to the options"
            yield Contradiction("required, but missing", f"options.{choices[0]}", hint=hint)
        elif len(present) > 1:
            yield Contradiction("only one of these can be given", "options", present, f"keep {present[0]}")
