"""Feeds publish each message of a real Kafka broker once, even if the broker is killed. Other tests use logins and lost messages."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
import yaml

from services.ingest.process import LOCK, IngestProcess
from tests.kafka import feeds
from tests.kafka.broker import PASSWORD, USER, Broker
from tests.kafka.client import Client
from tests.kafka.feeds import eventually
from tests.kafka.jars import Jars
from tests.spark.gateways import RealGateway
from tests.support.checkout import ROOT

pytestmark = pytest.mark.kafka

BEGIN = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


def send_ids(client: Client, topic: str, ids: range, partitions: int = 1) -> None:
    for number in ids:
        client.send(topic, feeds.id_message(number), partition=number % partitions)


def time_of(number: int) -> datetime:
    return BEGIN + timedelta(microseconds=number)


# -- messages of different formats, and the rows made from them ----------------------------------------------------


def test_examples_in_docs_ingest_read_json_avro_and_csv_from_kafka(
    kafka_jars: Jars, broker: Broker, client: Client, gateway: RealGateway, tmp_path: Path
) -> None:
    client.create("orders", partitions=2)
    client.create("trades")
    client.create("readings")
    for number in range(10):
        order = f'{{"ts": "{feeds.iso(number)}", "id": {number}, "amount": {number / 2}}}'
        headers = {"other": b"x", "trace": b"t%d" % number} if number % 2 else {}
        client.send("orders", order.encode(), b"c%d" % number, headers, partition=number % 2)
        client.send("trades", feeds.avro_trade(number, number / 4))
        client.send("readings", f"{feeds.iso(number)};{number};{number / 8}".encode())
    client.flush()
    streams = feeds.examples(broker.address)
    with IngestProcess(feeds.job(streams, kafka_jars, gateway, tmp_path)) as ingest:
        for name in streams:
            eventually(feeds.has_all(gateway, name, 10), f"all of {name}")
        offsets = eventually(lambda: feeds.progress_of(ingest, "orders").offsets, "the offsets")
        assert offsets == [{"orders": {"0": 5, "1": 5}}]
        assert feeds.progress_of(ingest, "orders").lag == 0
        assert [feed.last_error for feed in ingest.progress()] == [None] * 3
    rows = {name: sorted(gateway.rows(name), key=lambda row: row["id"]) for name in streams}
    assert rows["orders"] == [
        {
            "ts": time_of(number),
            "id": number,
            "amount": number / 2,
            "customer": f"c{number}",
            "trace": f"t{number}" if number % 2 else None,
            "part": number % 2,
            "place": number // 2,
        }
        for number in range(10)
    ]
    assert rows["trades"] == [{"ts": time_of(one), "id": one, "price": one / 4} for one in range(10)]
    assert rows["readings"] == [{"ts": time_of(one), "id": one, "temp": one / 8} for one in range(10)]


def test_poisoned_messages_become_dead_letters_with_their_reason_and_place(
    kafka_jars: Jars, broker: Broker, client: Client, gateway: RealGateway, tmp_path: Path
) -> None:
    for name in ("poisoned_json", "poisoned_avro"):
        client.create(name)
    message = f'{{"ts": "{feeds.iso(1)}", "id": 1, "amount": 1.5}}'.encode()
    for value in (message, b"{no json", None, b"\xff\xfe", message.replace(b"1.5", b'"x"')):
        client.send("poisoned_json", value)
    for value in (b"\x00", feeds.avro_trade(7, 7.0), b""):
        client.send("poisoned_avro", value)
    client.flush()
    page = feeds.examples(broker.address)
    page["orders"]["source"]["options"]["subscribe"] = "poisoned_json"
    page["trades"]["source"]["options"]["subscribe"] = "poisoned_avro"
    streams = {name: page[name] for name in ("orders", "trades")}
    with IngestProcess(feeds.job(streams, kafka_jars, gateway, tmp_path)) as ingest:
        eventually(feeds.has_all(gateway, "orders", 2), "the good orders")
        eventually(feeds.has_all(gateway, "trades", 1), "the good trade")
        assert [feed.restarts for feed in ingest.progress()] == [0, 0]
    orders, trades = feeds.dead(gateway, "orders"), feeds.dead(gateway, "trades")
    assert {(one.reason, one.column) for one in (*orders, *trades)} == {("no event time", "ts")}
    assert feeds.values(orders, "place") == [1, 2, 3]
    assert [one.rows for one in trades] == [2]
    # If a value in a valid JSON document does not fit the type of its column, the column gets NULL.
    assert [row["amount"] for row in gateway.rows("orders")] == [1.5, None]
    assert [row["id"] for row in gateway.rows("trades")] == [7]


def test_feed_that_failed_at_a_message_reads_it_again_after_its_sql_is_corrected(
    kafka_jars: Jars, broker: Broker, client: Client, gateway: RealGateway, tmp_path: Path
) -> None:
    client.create("pills")
    for value in (b"0", b"pill", b"2"):
        client.send("pills", value)
    client.flush()
    sql = "SELECT timestamp AS ts, CAST(CAST(value AS STRING) AS BIGINT) AS id FROM source"
    broken = feeds.job(
        {"pills": feeds.ids_of("pills", broker.address, sql=sql)}, kafka_jars, gateway, tmp_path
    )
    mended = feeds.ids_of(
        "pills", broker.address, sql=sql.replace("CAST(CAST", "TRY_CAST(CAST") + " WHERE offset <> 1"
    )
    with IngestProcess(broken) as ingest:
        eventually(lambda: feeds.progress_of(ingest, "pills").restarts >= 1, "a restart")
        why = feeds.progress_of(ingest, "pills").last_error or ""
        assert "pill" in why
        assert "cannot be cast" in why or "malformed" in why, why
        ingest.change(feeds.changed(broken, {"pills": mended}, kafka_jars))
        eventually(feeds.has_all(gateway, "pills", 2), "the other messages")
    assert feeds.ids(gateway, "pills") == [0, 2]


# -- feeds that fail, and brokers that are killed or lose messages -------------------------------------------------


def test_no_message_is_lost_or_repeated_when_the_broker_is_killed_and_restarted(
    kafka_jars: Jars, broker: Broker, client: Client, gateway: RealGateway, tmp_path: Path
) -> None:
    client.create("killed", partitions=2)
    few = {"maxOffsetsPerTrigger": 100}
    quick = {"kafka.default.api.timeout.ms": 4000, "kafka.request.timeout.ms": 3000}
    streams = {
        "patient": feeds.ids_of("killed", broker.address, few),
        "spread": feeds.ids_of("killed", broker.address, few, path="executor"),
        "hasty": feeds.ids_of("killed", broker.address, few | quick),
        "ticks": {
            "columns": {"id": "int64"},
            "source": {"format": "rate", "sql": "SELECT value AS id FROM source"},
        },
    }
    kafka_feeds = ("patient", "spread", "hasty")
    send_ids(client, "killed", range(400), partitions=2)
    client.flush()
    with IngestProcess(feeds.job(streams, kafka_jars, gateway, tmp_path)) as ingest:
        for name in kafka_feeds:
            eventually(feeds.has_all(gateway, name, 100), f"the first of {name}")
        broker.kill()
        try:
            send_ids(client, "killed", range(400, 800), partitions=2)
            eventually(lambda: feeds.progress_of(ingest, "hasty").state == "failed", "the failure")
            why = feeds.progress_of(ingest, "hasty").last_error or ""
            ticks = len(gateway.rows("ticks"))
            eventually(lambda: len(gateway.rows("ticks")) > ticks + 1, "ticks while the broker is away")
        finally:
            broker.start()
        client.flush()
        for name in kafka_feeds:
            eventually(feeds.has_all(gateway, name, 800), f"all of {name}")
        send_ids(client, "killed", range(800, 810), partitions=2)
        for name in kafka_feeds:
            eventually(feeds.has_all(gateway, name, 810), f"the rest of {name}")
        assert feeds.progress_of(ingest, "ticks").restarts == 0
        assert "imed out" in why or "imeout" in why, why
    for name in kafka_feeds:
        assert feeds.ids(gateway, name) == list(range(810))


def test_spark_that_is_killed_within_batches_publishes_each_message_once(
    kafka_jars: Jars, broker: Broker, client: Client, gateway: RealGateway, tmp_path: Path
) -> None:
    client.create("restarts", partitions=3)
    send_ids(client, "restarts", range(900), partitions=3)
    client.flush()
    options = {"maxOffsetsPerTrigger": 60}
    streams = {
        "by_driver": feeds.ids_of("restarts", broker.address, options),
        "by_executor": feeds.ids_of("restarts", broker.address, options, path="executor"),
    }
    with IngestProcess(feeds.job(streams, kafka_jars, gateway, tmp_path)) as ingest:
        for name, count in (("by_driver", 60), ("by_executor", 120)):
            eventually(feeds.has_all(gateway, name, count), f"the first of {name}")
            os.kill(ingest.pid, signal.SIGKILL)
            eventually(lambda: feeds.progress_of(ingest, "by_driver").state == "running", "a restart")
        for name in streams:
            eventually(feeds.has_all(gateway, name, 900), f"all of {name}")
        assert feeds.progress_of(ingest, "by_driver").restarts >= 2
    for name in streams:
        assert feeds.ids(gateway, name) == list(range(900))


@contextmanager
def weir_ingest(file: Path, gateway: RealGateway, folder: Path) -> Iterator[None]:
    """Run the command `weir ingest` as a user does, and kill its process at the end."""
    arguments = ["ingest", "--file", str(file), "--output", "json", "--folder", str(folder)]
    arguments += ["--endpoint", gateway.endpoint]
    secrets = {"WEIR_API_KEY": gateway.key, "WEIR_HOME": str(folder / "home"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", "from services.cli.main import main; main()", *arguments]
    with subprocess.Popen(command, cwd=ROOT, env=os.environ | secrets, stdout=subprocess.DEVNULL) as process:
        try:
            yield
            assert process.poll() is None, "the command has ended by itself"
        finally:
            process.kill()
    # Spark's process stops when it sees the end of its pipe. Only then can the next process use the folder.
    eventually(partial(is_free, folder / LOCK), "the end of Spark's process")


def is_free(path: Path) -> bool:
    """Return True if no process holds the lock of the ingest folder."""
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def test_killed_weir_ingest_continues_at_the_kafka_offsets_of_its_checkpoint(
    kafka_jars: Jars, broker: Broker, client: Client, gateway: RealGateway, tmp_path: Path
) -> None:
    client.create("resumed", partitions=2)
    send_ids(client, "resumed", range(100), partitions=2)
    client.flush()
    # Without the checkpoint, the restarted feed would skip the messages that were written while it was stopped.
    streams = {
        "resumed": feeds.ids_of(
            "resumed", broker.address, {"startingOffsets": '{"resumed": {"0": 0, "1": 0}}'}
        )
    }
    file = tmp_path / "streams.yaml"
    feeds.job(streams, kafka_jars, gateway, tmp_path)
    file.write_text(yaml.safe_dump(feeds.file_of(streams, kafka_jars)), encoding="utf-8")
    with weir_ingest(file, gateway, tmp_path / "feeds"):
        eventually(feeds.has_all(gateway, "resumed", 100), "the first messages")
    streams["resumed"]["source"]["options"]["startingOffsets"] = "latest"
    file.write_text(yaml.safe_dump(feeds.file_of(streams, kafka_jars)), encoding="utf-8")
    send_ids(client, "resumed", range(100, 150), partitions=2)
    client.flush()
    with weir_ingest(file, gateway, tmp_path / "feeds"):
        eventually(feeds.has_all(gateway, "resumed", 150), "the messages of the pause")
        send_ids(client, "resumed", range(150, 160), partitions=2)
        eventually(feeds.has_all(gateway, "resumed", 160), "the messages afterwards")
    assert feeds.ids(gateway, "resumed") == list(range(160))


def test_topic_that_is_missing_fails_its_feed_until_it_exists(
    kafka_jars: Jars, broker: Broker, client: Client, gateway: RealGateway, tmp_path: Path
) -> None:
    with IngestProcess(
        feeds.job({"late": feeds.ids_of("late", broker.address)}, kafka_jars, gateway, tmp_path)
    ) as ingest:
        eventually(lambda: feeds.progress_of(ingest, "late").state == "failed", "the failure")
        why = feeds.progress_of(ingest, "late").last_error
        assert why == "UnknownTopicOrPartitionException: This server does not host this topic-partition"
        client.create("late")
        send_ids(client, "late", range(5))
        eventually(feeds.has_all(gateway, "late", 5), "the messages of the new topic")
    assert feeds.ids(gateway, "late") == list(range(5))


def test_feed_fails_when_unread_messages_were_deleted_unless_data_loss_is_allowed(
    kafka_jars: Jars, broker: Broker, client: Client, gateway: RealGateway, tmp_path: Path
) -> None:
    client.create("trimmed")
    send_ids(client, "trimmed", range(10))
    client.flush()
    strict = {"trimmed": feeds.ids_of("trimmed", broker.address)}
    job = feeds.job(strict, kafka_jars, gateway, tmp_path)
    with IngestProcess(job) as ingest:
        eventually(feeds.has_all(gateway, "trimmed", 10), "the first messages")
        eventually(lambda: feeds.progress_of(ingest, "trimmed").offsets, "the end of the batch")
    send_ids(client, "trimmed", range(10, 20))
    client.flush()
    client.delete_before("trimmed", 15)
    with IngestProcess(job) as ingest:
        why = eventually(lambda: feeds.progress_of(ingest, "trimmed").last_error, "the failure")
        assert "set the source option failOnDataLoss to false" in str(why), why
        assert feeds.ids(gateway, "trimmed") == list(range(10))
        lossy = {"trimmed": feeds.ids_of("trimmed", broker.address, {"failOnDataLoss": False})}
        ingest.change(feeds.changed(job, lossy, kafka_jars))
        eventually(feeds.has_all(gateway, "trimmed", 15), "the messages that are left")
    assert feeds.ids(gateway, "trimmed") == [*range(10), *range(15, 20)]


# -- encrypted connections and passwords of the broker -------------------------------------------------------------


def test_broker_with_tls_and_a_password_is_read_and_the_password_shown_nowhere(
    kafka_jars: Jars, broker: Broker, client: Client, gateway: RealGateway, tmp_path: Path
) -> None:
    client.create("secured")
    send_ids(client, "secured", range(5))
    client.flush()
    options = {
        **feeds.example("security")["options"],
        "kafka.bootstrap.servers": broker.secure_address,
        "subscribe": "secured",
        "kafka.ssl.truststore.location": str(broker.certificate),
    }
    jaas = options["kafka.sasl.jaas.config"].replace('"weir"', f'"{USER}"')
    passwords = {"admitted": PASSWORD, "refused": PASSWORD[::-1]}
    streams = {
        name: feeds.ids_of(
            "secured",
            broker.secure_address,
            {**options, "kafka.sasl.jaas.config": jaas.replace("…", password)},
        )
        for name, password in passwords.items()
    }
    with IngestProcess(feeds.job(streams, kafka_jars, gateway, tmp_path)) as ingest:
        eventually(feeds.has_all(gateway, "admitted", 5), "the messages")
        why = eventually(partial(error_of, ingest, "refused"), "the failure")
        assert why == "SaslAuthenticationException: Authentication failed: Invalid username or password"
    assert feeds.ids(gateway, "admitted") == list(range(5))
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.name == "spark.log" for path in written)
    for secret in passwords.values():
        assert [path for path in written if secret.encode() in path.read_bytes()] == []


def error_of(ingest: IngestProcess, feed: str) -> str:
    return feeds.progress_of(ingest, feed).last_error or ""
