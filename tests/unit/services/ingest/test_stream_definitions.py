"""Feeds that a file streams.yaml declares: errors for mistakes, checks before Spark starts, progress, and the choice of Java."""

import copy
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import services.cli.commands.ingest
from actors.runtime.backoff import BACKOFF_MOST_S, Backoff
from actors.runtime.run_dirs import Cluster, RunDirs
from configs.base import Settings
from configs.documents.spark_sources import KAFKA_ARTIFACT, KAFKA_CONNECTOR, KAFKA_SQL
from configs.documents.spark_streams import (
    FedStream,
    FeedDefinition,
    SessionSettings,
    SourceSettings,
    StreamDefinition,
    StreamsFile,
    load_streams,
)
from configs.errors import InvalidInput
from configs.yaml_loading import parse_model, parse_yaml
from services.cli.commands.ingest import door_of
from services.cli.commands.up import from_here
from services.ingest.declared_streams import check_gateway, compare, declared
from services.ingest.java import Java, UnfitJava, examined, find_java
from services.ingest.job import JOB_JSON, GatewayAddress, IngestJob
from services.ingest.keys import new_key
from services.ingest.progress import FeedCounts, FeedProgress, behind, brief
from services.ingest.session import settings
from tests.spark.gateways import RealGateway, opened
from tests.support.checkout import ROOT
from tests.support.terminal import Terminal

VALID = """
session:
  master: local[2]
  conf: {spark.driver.memory: 512m, spark.hadoop.fs.s3a.secret.key: verysecret}
streams:
  ticks:
    sql: "CREATE STREAM ticks (ts timestamp, value int64, WATERMARK FOR ts AS ts)"
    source: {format: rate, options: {rowsPerSecond: 10}, sql: "SELECT timestamp AS ts, value FROM source"}
  readings:
    columns: {ts: timestamp, sensor: int32, temp: float64}
    time: ts
    watermark: 5 seconds
    source:
      format: csv
      options: {path: in/readings, header: true}
      schema: ts TIMESTAMP, sensor INT, temp DOUBLE
      path: executor
  orders:
    columns: {id: int64}
    source:
      format: kafka
      options: {kafka.bootstrap.servers: "host:9092", subscribe: orders, kafka.sasl.jaas.config: "user password=x"}
      sql: SELECT CAST(value AS STRING) AS v FROM source
  lines:
    columns: {value: string}
    source: {format: socket, options: {host: localhost, port: 9999}}
  faults:
    columns: {ts: timestamp}
    source: {format: weir_feeder, options: {anything: goes}}
  hot:
    columns: {sensor: int32, temp: float64}
  cold:
    columns: {sensor: int32}
feeds:
  both:
    source: {format: weir_feeder, options: {path: in/both, password: secret of a feed}}
    streams:
      hot: {where: temp > 30}
      cold: {where: temp < 10, columns: [sensor]}
"""
GONE = "gone from the file"
TICKS, READINGS, ORDERS = "streams.ticks.source", "streams.readings.source", "streams.orders.source"


def changed(path: str, value: object) -> dict[str, Any]:
    """Return a valid file in which one value is replaced or removed. The keys that lead to the value are joined by `/` in `path`."""
    data: dict[str, Any] = copy.deepcopy(yaml.safe_load(VALID))
    *above, key = path.split("/")
    node = data
    for part in above:
        node = node[part]
    if value is GONE:
        del node[key]
    else:
        node[key] = value
    return data


def problem(data: object, tmp_path: Path) -> str:
    file = tmp_path / "streams.yaml"
    file.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    with pytest.raises(InvalidInput) as caught:
        declared(load_streams(file), file)
    return str(caught.value).removeprefix(f"{file}: ")


# Cases: a key of the file, its wrong value, and the message that is expected after "streams.yaml: ".
MISTAKES = [
    (
        "streams",
        GONE,
        "streams: a required value is missing\n  hint: add `streams:` with one name or more, each with its own keys under it",
    ),
    ("strems", {}, "strems: unknown key (got 'strems')\n  hint: did you mean streams?"),
    (
        "streams/ticks/source/formt",
        "rate",
        f"{TICKS}.formt: unknown key (got 'formt')\n  hint: did you mean format?",
    ),
    (
        "streams/ticks/source/format",
        "kafak",
        f"{TICKS}.format: there is no source format of this name (got 'kafak')\n  hint: did you mean kafka?",
    ),
    (
        "streams/ticks/source/options/rowPerSecond",
        5,
        f"{TICKS}.options: the source format rate has no option of this name (got 'rowPerSecond')\n  hint: did you mean rowsPerSecond?",
    ),
    (
        "streams/orders/source/options/startingOffset",
        "earliest",
        f"{ORDERS}.options: the source format kafka has no option of this name (got 'startingOffset')\n  hint: did you mean startingOffsets?",
    ),
    (
        "streams/orders/source/options/kafka.bootstrap.servers",
        GONE,
        f"{ORDERS}.options.kafka.bootstrap.servers: a required value is missing\n"
        "  hint: add `kafka.bootstrap.servers: …` to the options",
    ),
    (
        "streams/orders/source/options/subscribe",
        GONE,
        f"{ORDERS}.options.subscribe: a required value is missing\n"
        "  hint: add `subscribe: …` or `subscribePattern: …` or `assign: …` to the options",
    ),
    (
        "streams/orders/source/options/assign",
        "[]",
        f"{ORDERS}.options: only one of these options can be given (got ['subscribe', 'assign'])\n"
        "  hint: keep only subscribe",
    ),
    (
        "streams/orders/source/options/kafka.auto.offset.reset",
        "earliest",
        f"{ORDERS}.options.kafka.auto.offset.reset: this option cannot be used for a stream (got 'earliest')\n"
        "  hint: use startingOffsets to choose where reading begins",
    ),
    (
        "streams/orders/source/sql",
        GONE,
        f"{ORDERS}.sql: Kafka messages are bytes, so the stream needs a query in `sql` to decode them\n  hint: add a query, for example `sql: {KAFKA_SQL}`",
    ),
    (
        "streams/orders/source/schema",
        "value BINARY",
        f"{ORDERS}.schema: the source format kafka has fixed columns, so a schema cannot be given (got 'value BINARY')\n"
        "  hint: leave out `schema`, and compute the columns in sql",
    ),
    (
        "streams/readings/source/schema",
        GONE,
        f"{READINGS}.schema: csv files need a schema, because Spark does not know their columns in advance\n"
        "  hint: add `schema: ts TIMESTAMP, sensor INT, …`",
    ),
    (
        "streams/readings/source/options/path",
        GONE,
        f"{READINGS}.options.path: a required value is missing\n  hint: add `path: …` to the options",
    ),
    (
        "streams/readings/source/options/path",
        None,
        f"{READINGS}.options.path: the key has no value\n  hint: give text, in quotes if it looks like a number",
    ),
    (
        "streams/readings/source/output_mode",
        "update",
        f"{READINGS}.output_mode: `path: executor` supports only the output mode append (got 'update')\n  hint: use `path: driver`",
    ),
    (
        "streams/readings/source/path",
        "drivers",
        f"{READINGS}.path: the value is not one of the allowed choices (got 'drivers')\n  hint: did you mean driver?",
    ),
    (
        "streams/readings/source/trigger_ms",
        0,
        f"{READINGS}.trigger_ms: the value must be at least 1 (got 0)\n"
        "  hint: give a whole number from 1 to 8.64e+07; 100 if left out",
    ),
    (
        "streams/readings/columns",
        GONE,
        "streams.readings.columns: the stream has no columns\n"
        "  hint: add `columns: {ts: timestamp, x: float64}`, or `sql:`",
    ),
    (
        "streams/readings/sql",
        "CREATE STREAM readings (ts timestamp)",
        "streams.readings.columns: columns cannot be given together with sql\n  hint: keep either sql or columns",
    ),
    (
        "streams/readings/time",
        GONE,
        "streams.readings.watermark: `watermark` needs a time column, but the stream has no `time` (got '5 seconds')\n"
        "  hint: add `time:` with the name of the column",
    ),
    (
        "streams/readings/time",
        "tss",
        "streams.readings.time: the stream has no column of this name (got 'tss')\n  hint: did you mean ts?",
    ),
    (
        "streams/readings/columns/sensor",
        "intt32",
        "streams.readings.columns: there is no such type (got 'intt32')\n  hint: did you mean int32?",
    ),
    (
        "streams/ticks/sql",
        "CREATE STREAM ticks (ts timestampp)",
        "line 1, column 25: streams.ticks.sql: there is no such type (got 'timestampp')\n"
        "  hint: did you mean timestamp?",
    ),
    (
        "streams/ticks/sql",
        "CREATE STREAM tick (ts timestamp)",
        "streams.ticks.sql: the name in CREATE STREAM differs from the name of the declared stream (got 'tick')\n"
        "  hint: use the same name in the key and in CREATE STREAM",
    ),
    (
        "session/conf",
        {"fs.s3a.secret.key": "hunter2"},
        "session.conf: the name of a Spark setting must begin with `spark.` and contain no blanks (got 'fs.s3a.secret.key')\n  hint: write a name such as spark.sql.shuffle.partitions",
    ),
    (
        "session/conf",
        {"spark.jars.packages": "a:b:c"},
        "session.conf: this Spark setting cannot be given in conf, because Weir has its own field for it (got 'spark.jars.packages')\n"
        "  hint: set session.packages instead",
    ),
    (
        "session/packages",
        ["a:b"],
        "session.packages[0]: the package is not given by Maven coordinates (got 'a:b')\n"
        f"  hint: write group:name:version, for example {KAFKA_CONNECTOR}",
    ),
    (
        "streams/ticks/source/checkpoint",
        "here",
        None,
    ),
    (
        "feeds/both/streams/hto",
        {},
        "feeds.both.streams: the file declares no stream of this name (got 'hto')\n  hint: did you mean hot?",
    ),
    (
        "feeds/both/streams/ticks",
        {},
        "feeds.both.streams: a stream with its own source cannot also come from a feed (got 'ticks')\n"
        "  hint: remove the stream's source, or remove the stream from the feed",
    ),
    (
        "feeds/other",
        {"source": {"format": "rate"}, "streams": {"hot": {}}},
        "feeds.other.streams: a stream can come from only one feed, and feed both already supplies this stream (got 'hot')\n  hint: remove the stream from one of the two feeds",
    ),
    (
        "feeds/both/streams/cold",
        GONE,
        "streams.cold.source: the stream has no source, and no feed supplies it\n  hint: add `source:`, or name the stream in a feed",
    ),
    (
        "feeds/ticks",
        {"source": {"format": "rate"}, "streams": {"hot": {}}},
        "feeds: a feed cannot have the name of a stream that has its own source (got 'ticks')\n"
        "  hint: give the feed another name",
    ),
    (
        "feeds/both/source/path",
        "executor",
        "feeds.both.source.path: with `path: executor`, a feed can supply only one stream, with complete rows (got 'executor')\n"
        "  hint: use `path: driver`",
    ),
    (
        "feeds/both/source/formt",
        "rate",
        "feeds.both.source.formt: unknown key (got 'formt')\n  hint: did you mean format?",
    ),
]


@pytest.mark.parametrize(("place", "value", "message"), MISTAKES, ids=lambda value: str(value)[:40])
def test_mistake_in_the_streams_file_is_reported_with_field_value_and_remedy(
    place: str, value: object, message: str | None, tmp_path: Path
) -> None:
    data = changed(place, value)
    if message is None:
        data["streams"]["lines"]["source"]["checkpoint"] = value
        message = (
            "streams.lines.source.checkpoint: streams.ticks.source uses the same checkpoint folder (got 'here')\n"
            "  hint: give each source its own checkpoint folder, or leave the folder out"
        )
    found = problem(data, tmp_path)
    assert found == message


def parsed(data: object = None) -> StreamsFile:
    return parse_model(StreamsFile, yaml.safe_load(VALID) if data is None else data)


def test_stream_declared_by_columns_equals_the_stream_declared_in_sql() -> None:
    streams = declared(parsed())
    readings = streams["readings"]
    assert readings.schema.names == ("ts", "sensor", "temp")
    assert (readings.time, readings.lateness_us) == (0, 5_000_000)
    assert streams["ticks"].schema.names == ("ts", "value")
    assert streams["lines"].time is None


def test_options_are_passed_to_spark_as_text() -> None:
    streams = parsed().all_feeds()
    assert streams["ticks"].source.options == {"rowsPerSecond": "10"}
    assert streams["readings"].source.options == {"path": "in/readings", "header": "true"}
    assert streams["lines"].source.options["port"] == "9999"


def test_connector_for_kafka_is_added_unless_another_is_named() -> None:
    assert parsed().packages() == (KAFKA_CONNECTOR,)
    other = KAFKA_CONNECTOR.replace("4.3.0", "4.3.1")
    assert parsed(changed("session/packages", [other])).packages() == (other,)
    here = {"spark.jars": "/opt/jars/spark-sql-kafka-0-10_2.13-4.3.0.jar"}
    assert parsed(changed("session/conf", here)).packages() == ()
    assert parsed(changed("streams/orders", yaml.safe_load(VALID)["streams"]["lines"])).packages() == ()


def test_names_of_options_are_case_insensitive() -> None:
    data = changed("streams/orders/source/options/STARTINGOFFSETS", "earliest")
    assert parsed(data).all_feeds()["orders"].source.options["STARTINGOFFSETS"] == "earliest"


def test_session_settings_of_the_file_are_passed_to_spark(tmp_path: Path) -> None:
    conf = settings(parsed(), tmp_path)
    assert conf["spark.master"] == "local[2]"
    assert conf["spark.driver.memory"] == "512m"
    assert conf["spark.jars.packages"] == KAFKA_CONNECTOR


def test_ingest_job_read_back_from_json_is_unchanged(tmp_path: Path) -> None:
    job = IngestJob(parsed(), GatewayAddress("grpc://127.0.0.1:1", "weir_x"), tmp_path, tmp_path)
    assert JOB_JSON.validate_json(job.as_json()) == job


FED = ("ticks", "readings", "orders", "lines", "faults", "both")


@pytest.mark.parametrize(
    ("place", "value", "changed_feeds"),
    [
        ("streams/ticks/source/trigger_ms", 7, ["ticks"]),
        ("streams/readings/watermark", "6 seconds", ["readings"]),
        ("feeds/both/streams/cold/where", "temp < 5", ["both"]),
        ("session/conf", {"spark.driver.memory": "1g"}, []),
    ],
)
def test_changing_one_feed_leaves_other_feeds_unchanged(
    tmp_path: Path, place: str, value: object, changed_feeds: list[str]
) -> None:
    door = GatewayAddress("grpc://127.0.0.1:1", "weir_x")
    before = IngestJob(parsed(), door, tmp_path, tmp_path).specs()
    after = IngestJob(parsed(changed(place, value)), door, tmp_path, tmp_path).specs()
    assert list(before) == list(after) == list(FED)
    assert [name for name in FED if before[name] != after[name]] == changed_feeds


def test_stream_moved_to_another_node_changes_only_its_feed(tmp_path: Path) -> None:
    here, there = (
        IngestJob(
            parsed(), GatewayAddress("grpc://one:1", "weir_x", endpoints=endpoints), tmp_path, tmp_path
        ).specs()
        for endpoints in ({}, {"cold": "grpc://two:1"})
    )
    assert [name for name in FED if here[name] != there[name]] == ["both"]


def test_feeds_are_grouped_by_the_connector_that_spark_must_download_for_them() -> None:
    parts = parsed().by_connector()
    assert {name: list(part.all_feeds()) for name, part in parts.items()} == {
        "": [name for name in FED if name != "orders"],
        "kafka": ["orders"],
    }
    assert {name: part.packages() for name, part in parts.items()} == {"": (), "kafka": (KAFKA_CONNECTOR,)}
    assert [part.session for part in parts.values()] == [parsed().session] * 2
    jar = {"spark.jars": f"/opt/{KAFKA_ARTIFACT}-4.3.0.jar"}
    assert list(parsed(changed("session/conf", jar)).by_connector()) == [""]
    assert list(parsed(changed("session/packages", [KAFKA_CONNECTOR])).by_connector()) == [""]


def test_feeds_of_several_streams_and_of_single_streams_are_listed_together() -> None:
    feeds = parsed().all_feeds()
    assert list(feeds) == ["ticks", "readings", "orders", "lines", "faults", "both"]
    assert [name for name, feed in feeds.items() if feed.is_split] == ["both"]
    assert feeds["both"].conditions == {"hot": "temp > 30", "cold": "temp < 10"}
    assert feeds["both"].columns == {"cold": ("sensor",)}
    assert list(feeds["ticks"].streams) == ["ticks"]


@pytest.mark.parametrize(
    "option",
    [
        "ssl.keystore.key",
        "ssl.key.password",
        "sasl.jaas.config",
        "sasl.oauthbearer.client.credentials.client.secret",
    ],
)
def test_secret_options_of_kafka_are_secrets(option: str) -> None:
    options = {"kafka.bootstrap.servers": "host:9092", "subscribe": "orders", f"kafka.{option}": "hunter2"}
    assert "hunter2" in parsed(changed("streams/orders/source/options", options)).secrets()


def test_secrets_are_removed_from_errors() -> None:
    secrets = parsed().secrets()
    assert set(secrets) == {"verysecret", "user password=x", "secret of a feed"}
    assert brief("\n failed with verysecret at x\n more", secrets) == "failed with … at x"


def test_traceback_is_shortened_to_its_exception() -> None:
    error = """[FOREACH] Reason: An exception was raised: Traceback (most recent call last):
  File "driver.py", line 71, in publish
    raise GatewayAway(where: int)
    ^^^^^
pyspark_weir.errors.GatewayAway: not taken within 3 s; see that it runs
 SQLSTATE: 39000
"""
    assert brief(error, []) == "GatewayAway: not taken within 3 s; see that it runs"
    assert len(brief("x" * 10_000, [])) == 500


def test_error_in_java_below_a_traceback_shows_its_cause() -> None:
    text = """[FOREACH_BATCH] Return Message: Traceback (most recent call last):
  File "protocol.py", line 327, in get_return_value
    raise Py4JJavaError(
py4j.protocol.Py4JJavaError: An error occurred while calling o99.getResult.
: org.apache.spark.SparkException: Exception thrown in awaitResult
\tat org.apache.spark.util.SparkThreadUtils$.awaitResult(SparkThreadUtils.scala:53)
\t... 5 more
Caused by: org.apache.spark.sql.kafka010.KafkaIllegalStateException: Some data may have been lost;
set the source option failOnDataLoss to false.
\tat org.apache.spark.sql.kafka010.consumer.KafkaDataConsumer.get(KafkaDataConsumer.scala:343)
\t... 1 more
Caused by: org.apache.kafka.clients.consumer.OffsetOutOfRangeException: Fetch position is out of range
\t... 3 more
 SQLSTATE: 39000
"""
    cause = "Some data may have been lost; set the source option failOnDataLoss to false"
    assert brief(text, []) == f"KafkaIllegalStateException: {cause}"


def test_error_in_java_is_shown_without_its_package() -> None:
    text = "org.apache.kafka.common.errors.SaslAuthenticationException: Authentication failed: x.y.Z: no"
    assert brief(text, []) == "SaslAuthenticationException: Authentication failed: x.y.Z: no"


def test_error_of_spark_is_shortened_to_its_sentence() -> None:
    error = "[PATH_NOT_FOUND] Path does not exist: in/x. SQLSTATE: 42K03; line 1 pos 2"
    assert brief(error, []) == "Path does not exist: in/x"
    assert (
        brief("[unresolved dependency: a#b;1: not found]", []) == "[unresolved dependency: a#b;1: not found]"
    )


PAGE = (ROOT / "docs/ingest.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "model", [StreamDefinition, SourceSettings, SessionSettings, FedStream, FeedDefinition]
)
def test_docs_describe_every_key_of_the_streams_file(model: type[Settings]) -> None:
    keys = [field.alias or name for name, field in model.model_fields.items()]
    assert [key for key in keys if f"| `{key}` |" not in PAGE] == []


def test_example_of_a_streams_file_in_the_docs_is_valid() -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    streams = parse_model(StreamsFile, parse_yaml(example))
    assert declared(streams).keys() == {"ticks", "readings", "orders", "hot", "alerts"}


# -- the stream that is declared at the gateway ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("there", "message"),
    [
        (
            {"ts": pa.timestamp("us", "UTC")},
            "the stream at the gateway has no column of this name (got 'value')",
        ),
        (
            {"ts": pa.timestamp("us", "UTC"), "value": pa.float64()},
            "column value has another type at the gateway (got 'int64')",
        ),
        (
            {"ts": pa.timestamp("us", "UTC"), "value": pa.int64(), "more": pa.int64()},
            "the stream at the gateway has an additional column (got 'more')",
        ),
    ],
)
def test_stream_with_other_columns_at_the_gateway_is_refused(
    there: Mapping[str, pa.DataType], message: str
) -> None:
    schema = pa.schema(list(there.items()), metadata={b"weir.time_column": b"ts"})
    with pytest.raises(InvalidInput, match="ticks") as caught:
        compare("ticks", declared(parsed())["ticks"], schema)
    assert message in str(caught.value)


def test_stream_with_another_event_time_column_at_the_gateway_is_refused() -> None:
    ticks = declared(parsed())["ticks"]
    with pytest.raises(InvalidInput, match="the stream at the gateway has another event time"):
        compare("ticks", ticks, ticks.schema.arrow)
    compare("ticks", ticks, ticks.schema.arrow.with_metadata({b"weir.time_column": b"ts"}))


@pytest.fixture
def gateway() -> Iterator[RealGateway]:
    with opened() as found:
        yield found


def test_streams_are_checked_at_the_gateway_before_spark_starts(gateway: RealGateway) -> None:
    door, streams = GatewayAddress(gateway.endpoint, gateway.key), declared(parsed())
    ticks = {"ticks": streams["ticks"]}
    with pytest.raises(InvalidInput, match=r"streams\.ticks: the gateway does not have this stream: .*ticks"):
        check_gateway(ticks, door)
    gateway.declare(VALID.split('"')[1])
    check_gateway(ticks, door)
    with pytest.raises(InvalidInput, match="--api-key: the gateway refuses the key"):
        check_gateway(ticks, GatewayAddress(gateway.endpoint, new_key()))
    gateway.declare("CREATE STREAM lines (value string, more int64)")
    with pytest.raises(InvalidInput, match="has an additional column"):
        check_gateway({"lines": streams["lines"]}, door)


def test_gateway_listening_on_all_addresses_is_reached_on_localhost() -> None:
    assert from_here("grpc://pod-7:4000", "0.0.0.0") == "grpc://127.0.0.1:4000"
    assert from_here("grpc://10.0.0.7:4000", "10.0.0.7") == "grpc://10.0.0.7:4000"


# -- progress of feeds -------------------------------------------------------------------------------------------


def report(
    batch: int, rows: int, time: str, run: str = "r", latest: Any = None, end: Any = None
) -> dict[str, Any]:
    """Return the progress report of a micro-batch, in Spark's format."""
    return {
        "runId": run,
        "batchId": batch,
        "timestamp": time,
        "numInputRows": rows,
        "durationMs": {"addBatch": 5, "triggerExecution": 9},
        "sources": [{"endOffset": end, "latestOffset": latest}],
    }


def test_progress_reports_of_spark_are_counted_once_even_after_a_query_restart() -> None:
    counted = FeedCounts(FeedProgress("f"))
    first, second = report(0, 10, "t0"), report(1, 5, "t1", latest=9, end=7)
    assert counted.hear([first])
    assert counted.hear([first, second])
    assert not counted.hear([first, second])
    progress = counted.progress
    assert (progress.rows, progress.batch, progress.batch_ms, progress.lag) == (15, 1, 9.0, 2.0)
    assert counted.hear([report(1, 5, "t2", run="s")])
    assert counted.progress.rows == 20


def test_trigger_without_data_does_not_count_as_a_batch() -> None:
    counted = FeedCounts(FeedProgress("f"))
    idle = report(3, 0, "t") | {"durationMs": {"latestOffset": 1, "triggerExecution": 2}}
    assert not counted.hear([idle])
    assert counted.progress.batch is None


def test_progress_report_without_data_gives_the_run_id_of_its_query() -> None:
    counted = FeedCounts(FeedProgress("f"))
    idle = report(3, 0, "t", run="of today") | {"durationMs": {"latestOffset": 1, "triggerExecution": 2}}
    counted.hear([idle])
    assert counted.run == "of today"


def test_rate_of_a_feed_covers_the_last_seconds() -> None:
    counted, rates = FeedCounts(FeedProgress("f")), []
    for second in range(30):
        counted.hear([report(second, 100 if second < 15 else 0, f"t{second:02}")])
        rates.append(counted.rate(float(second)))
    assert rates[14] == 100.0
    assert rates[29] == 0.0


Offsets = st.dictionaries(
    st.sampled_from(["a", "b"]), st.dictionaries(st.sampled_from("012"), st.integers(0, 99)), min_size=1
)


@given(Offsets, Offsets)
def test_lag_of_a_feed_is_the_sum_over_all_partitions(
    latest: dict[str, dict[str, int]], done: dict[str, dict[str, int]]
) -> None:
    pairs = [(topic, part) for topic, parts in latest.items() for part in parts]
    expected = [max(0, latest[topic][part] - done.get(topic, {}).get(part, 0)) for topic, part in pairs]
    assert behind(latest, done) == (sum(expected) if pairs else None)


@pytest.mark.parametrize("latest", [None, "text", True, [1]])
def test_source_without_known_end_has_no_lag(latest: object) -> None:
    assert behind(latest, 5) is None


@given(st.lists(st.booleans(), max_size=100))
def test_pauses_between_restarts_double_up_to_a_limit_until_a_success(fates: list[bool]) -> None:
    backoff, in_a_row = Backoff(), 0
    for succeeds in fates:
        if succeeds:
            backoff.succeeded()
            in_a_row = 0
        else:
            pauses = [0.5, 1, 2, 4, 8, 16]
            expected = pauses[in_a_row] if in_a_row < len(pauses) else BACKOFF_MOST_S
            assert backoff.failed() == expected
            in_a_row += 1


# -- the choice of Java ------------------------------------------------------------------------------------------


def fake_java(home: Path, version: str, modules: bool = True, prints_version: bool = True) -> Path:
    """Create an executable `java` that prints the settings of the given version of Java. Return the folder for JAVA_HOME."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    refuse = "" if modules else 'if [ "$1" = --add-modules ]; then exit 1; fi\n'
    output = (
        f"    java.home = {home}\n    java.specification.version = {version}\n"
        if prints_version
        else "hello\n"
    )
    executable.write_text(f"#!/bin/sh\n{refuse}cat >&2 <<'END'\n{output}END\n", encoding="utf-8")
    executable.chmod(0o755)
    return home


def test_the_configured_java_is_used_but_refused_if_it_is_too_old(tmp_path: Path) -> None:
    new, old = fake_java(tmp_path / "new", "21"), fake_java(tmp_path / "old", "1.8")
    assert find_java(new, {}, tmp_path) == Java(new, 21)
    with pytest.raises(InvalidInput, match="it is Java 8") as caught:
        find_java(old, {"JAVA_HOME": str(new)}, tmp_path)
    assert "session.java_home" in str(caught.value)
    assert "openjdk-17-jre-headless" in str(caught.value)


def test_java_is_searched_in_order_and_unsuitable_versions_are_skipped(tmp_path: Path) -> None:
    old, found = fake_java(tmp_path / "old", "11"), fake_java(tmp_path / "path", "17")
    fake_java(tmp_path / "usual" / "java-21", "21")
    base = fake_java(tmp_path / "usual" / "java-18-base", "18", modules=False)
    environ = {"JAVA_HOME": str(old), "PATH": f"{found / 'bin'}:/nowhere"}
    assert find_java(None, environ, tmp_path / "usual") == Java(found, 17)
    assert find_java(None, {"JAVA_HOME": str(old)}, tmp_path / "usual").version == 21
    with pytest.raises(UnfitJava, match=r"^its module jdk\.incubator\.vector is missing$"):
        examined(base / "bin" / "java")


def test_missing_java_is_reported_with_what_was_found_and_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as caught:
        find_java(None, {}, tmp_path)
    assert str(caught.value) == (
        "Spark needs Java 17 or newer, and none was found\n"
        "  hint: install Java with `apt-get install openjdk-17-jre-headless`"
    )
    silent = fake_java(tmp_path / "silent", "17", prints_version=False)
    broken = tmp_path / "broken"
    (broken / "bin").mkdir(parents=True)
    (broken / "bin" / "java").write_text("not a program", encoding="utf-8")
    (broken / "bin" / "java").chmod(0o755)
    with pytest.raises(InvalidInput) as caught:
        find_java(None, {"JAVA_HOME": str(silent), "PATH": str(broken / "bin")}, tmp_path)
    assert f"{silent}/bin/java: it does not print its version" in str(caught.value)
    assert f"{broken}/bin/java: it does not run (OSError)" in str(caught.value)


@pytest.mark.skipif(shutil.which("java") is None, reason="no Java on this machine")
def test_java_of_this_machine_is_recognised() -> None:
    executable = Path(shutil.which("java") or "")
    found = examined(executable)
    assert isinstance(found, Java)
    assert (found.home / "bin" / "java").resolve() == executable.resolve()


# -- the command weir ingest -------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "streams.yaml"
    found.write_text(VALID, encoding="utf-8")
    return found


def test_ingest_check_prints_the_feeds_without_starting_them(
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    terminal: Terminal,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "java", "17")))
    terminal.set_columns(200)
    monkeypatch.setattr(services.cli.commands.ingest, "shared_memory", lambda: tmp_path)
    code, out, err = terminal("ingest", "-f", str(file), "--check")
    assert (code, err) == (0, "")
    lines = [line.split() for line in out.splitlines()]
    assert [
        "ticks",
        "ts",
        "timestamp,",
        "value",
        "int64",
        "ts",
        "ticks",
        "rate",
        "driver",
        "100",
        "append",
    ] in lines
    assert KAFKA_CONNECTOR in out
    assert "verysecret" not in out


def test_system_on_this_machine_is_found_with_its_key_unless_several_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(services.cli.commands.ingest, "shared_memory", lambda: tmp_path)
    assert door_of(None, None) is None
    held = []
    for number, system in enumerate(("a", "b"), 1):
        dirs = RunDirs(tmp_path, system, "n1")
        held.append(dirs.hold())
        dirs.note_cluster(Cluster("127.0.0.1:1", None))
        dirs.endpoint.write_text(f"grpc://127.0.0.1:{number}", encoding="utf-8")
        dirs.ingest_key.write_text(f"key of {system}\n", encoding="utf-8")
        if system == "a":
            assert door_of(None, None) == GatewayAddress("grpc://127.0.0.1:1", "key of a")
    assert door_of("grpc://127.0.0.1:2", None) == GatewayAddress("grpc://127.0.0.1:2", "key of b")
    assert door_of("grpc://127.0.0.1:2", "mine") == GatewayAddress("grpc://127.0.0.1:2", "mine")
    with pytest.raises(InvalidInput, match=r"several systems .*\n.*grpc://127.0.0.1:1, grpc://127.0.0.1:2"):
        door_of(None, None)
    # WEIR_HOME is set, so that only a system that was started from this home is found.
    monkeypatch.setenv("WEIR_HOME", str(tmp_path / "home"))
    for system, home in (("a", "elsewhere"), ("b", "home")):
        RunDirs(tmp_path, system, "n1").note_cluster(Cluster("127.0.0.1:1", None, str(tmp_path / home)))
    assert door_of(None, None) == GatewayAddress("grpc://127.0.0.1:2", "key of b")
    monkeypatch.setenv("WEIR_HOME", str(tmp_path / "empty"))
    assert door_of(None, None) is None
    assert door_of("grpc://127.0.0.1:1", None) == GatewayAddress("grpc://127.0.0.1:1", "key of a")
    for lock in held:
        os.close(lock)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "--endpoint: no system runs on this machine"),
        (
            ("--endpoint", "localhost:1"),
            "--endpoint: this is not the address of a gateway (got 'localhost:1')",
        ),
        (("--endpoint", "grpc://127.0.0.1:1"), "--api-key: a required value is missing"),
        (
            ("--endpoint", "grpc://127.0.0.1:1", "--api-key", "k"),
            "--endpoint: no gateway answers at this address",
        ),
    ],
    ids=str,
)
def test_ingest_reports_missing_settings_before_it_starts_spark(
    options: tuple[str, ...],
    message: str,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    terminal: Terminal,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "java", "17")))
    monkeypatch.setenv("WEIR_HOME", str(tmp_path / "home"))
    # The command searches a folder of the test. In the real shared memory, the command would find a real system of this machine.
    monkeypatch.setattr(services.cli.commands.ingest, "shared_memory", lambda: tmp_path)
    code, out, err = terminal("ingest", "-f", str(file), *options)
    assert (code, out) == (2, "")
    assert message in err
    assert not (tmp_path / "home").exists()
