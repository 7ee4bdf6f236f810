"""Feeds that read from a real Kafka, and the messages in its topics. The feeds are the examples of docs/ingest.md, and feeds of numbered rows."""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import yaml

from configs.documents.spark_streams import StreamsFile
from configs.yaml_loading import parse_model, parse_yaml
from services.ingest.java import find_java
from services.ingest.job import GatewayAddress, IngestJob
from services.ingest.process import IngestProcess
from services.ingest.progress import FeedProgress
from tests.kafka.jars import Jars
from tests.spark.gateways import RealGateway
from tests.support import waiting
from tests.support.checkout import ROOT
from tests.support.dead_letters import DeadLetter, letters

PAGE = ROOT / "docs/ingest.md"
BROKER_OF_PAGE = "broker:9092"
BEGIN_US = 1_700_000_000_000_000
IDS_SQL = (
    "SELECT m.* FROM (SELECT from_json(CAST(value AS STRING), 'ts TIMESTAMP, id BIGINT') AS m FROM source)"
)

Definition = dict[str, Any]
Found = TypeVar("Found")


# -- declarations of streams and their feeds -----------------------------------------------------------------------


def example(kind: str) -> Any:
    """Return the content of the YAML example in docs/ingest.md that is marked with `kind`."""
    (text,) = re.findall(rf"```yaml {kind}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return parse_yaml(text)


def examples(address: str) -> dict[str, Definition]:
    """Return the streams of the Kafka example in docs/ingest.md, with the address of the test's broker."""
    streams: dict[str, Definition] = yaml.safe_load(
        yaml.safe_dump(example("kafka")["streams"]).replace(BROKER_OF_PAGE, address)
    )
    return streams


def ids_of(
    topic: str, address: str, options: Mapping[str, Any] = {}, *, path: str = "driver", sql: str = IDS_SQL
) -> Definition:
    """Return the declaration of a stream of numbered rows, which the feed reads as JSON from a topic."""
    given = {"kafka.bootstrap.servers": address, "subscribe": topic, "startingOffsets": "earliest", **options}
    source = {"format": "kafka", "options": given, "sql": sql, "path": path}
    return {"columns": {"ts": "timestamp", "id": "int64"}, "time": "ts", "source": source}


def file_of(streams: Mapping[str, Definition], jars: Jars) -> dict[str, Any]:
    """Return the content of a file of streams, with settings of Spark for local jars of the Kafka connector."""
    conf = {"spark.jars": ",".join(map(str, jars.connector)), "spark.driver.memory": "512m"}
    return {"session": {"conf": conf}, "streams": dict(streams)}


def job(streams: Mapping[str, Definition], jars: Jars, gateway: RealGateway, folder: Path) -> IngestJob:
    """Declare the streams at the gateway. Return the settings of an ingest process that fills these streams."""
    file = parse_model(StreamsFile, file_of(streams, jars))
    for name, definition in file.streams.items():
        gateway.declare(definition.declaration(name))
    address = GatewayAddress(gateway.endpoint, gateway.key)
    return IngestJob(file, address, folder, find_java(None, os.environ).home)


def changed(before: IngestJob, streams: Mapping[str, Definition], jars: Jars) -> IngestJob:
    """Return a copy of an ingest process's settings, with other definitions of the streams."""
    return replace(before, file=parse_model(StreamsFile, file_of(streams, jars)))


# -- messages that are written to topics ---------------------------------------------------------------------------


def id_message(number: int) -> bytes:
    return json.dumps({"ts": iso(number), "id": number}).encode()


def iso(number: int) -> str:
    """Return the event time of row `number`. The rows are one microsecond apart."""
    return f"2023-11-14T22:13:20.{number:06}Z"


def avro_trade(number: int, price: float) -> bytes:
    """Return a message of the Avro example in docs/ingest.md, in Avro's binary format."""
    return zigzag(BEGIN_US + number) + zigzag(number) + struct.pack("<d", price)


def zigzag(number: int) -> bytes:
    left, encoded = (number << 1) ^ (number >> 63), bytearray()
    while left > 0x7F:
        encoded.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*encoded, left])


# -- waiting for feeds -----------------------------------------------------------------------------------------------

# Longest wait in seconds. It is long because Kafka's clients give up only after a minute, and Spark starts slowly next to a broker.
WITHIN_S = 240.0


def eventually(look: Callable[[], Found], what: str) -> Found:
    return waiting.eventually(look, what, within_s=WITHIN_S)


# -- rows that have arrived at the gateway -------------------------------------------------------------------------


def progress_of(ingest: IngestProcess, name: str) -> FeedProgress:
    return {feed.feed: feed for feed in ingest.progress()}[name]


def ids(gateway: RealGateway, name: str) -> list[int]:
    return sorted(row["id"] for row in gateway.rows(name))


def has_all(gateway: RealGateway, name: str, count: int) -> Callable[[], bool]:
    """Return a function that returns True once at least `count` rows have arrived."""
    return lambda: len(gateway.rows(name)) >= count


def dead(gateway: RealGateway, name: str) -> list[DeadLetter]:
    return list(letters(gateway.folder_of(name)))


def values(found: Iterable[DeadLetter], column: str) -> list[Any]:
    return [value for letter in found for value in letter.kept.column(column).to_pylist()]
