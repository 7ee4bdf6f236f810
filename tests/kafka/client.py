"""Java client of Kafka in a JVM next to the tests, which creates topics, and writes and deletes messages."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from services.ingest.java import find_java

ADMIN_S = 30
# Settings of an idempotent producer. It may send a message repeatedly for ten minutes, but the topic stores the message once.
PRODUCER: Mapping[str, str] = {
    # Without this setting, the producer forgets topics while the broker is away, and then `send` blocks.
    "metadata.recovery.strategy": "none",
    "max.block.ms": "20000",
    "delivery.timeout.ms": "600000",
    "acks": "all",
    "enable.idempotence": "true",
    # A new partition accepts any batch as its first. If two batches were under way and the first had to be repeated, Kafka would store the
    # second batch, and then refuse the first batch again and again until the delivery timeout.
    "max.in.flight.requests.per.connection": "1",
    "key.serializer": "org.apache.kafka.common.serialization.ByteArraySerializer",
    "value.serializer": "org.apache.kafka.common.serialization.ByteArraySerializer",
}


class Client:
    """Administrative client and producer of one broker. The topic stores each message once, even if the producer repeats the message."""

    def __init__(self, gateway: JavaGateway, address: str) -> None:
        self._gateway, self._jvm = gateway, gateway.jvm
        self._records = self._jvm.org.apache.kafka.clients.producer
        self._sent: list[Any] = []
        servers = {"bootstrap.servers": address}
        self._admin = self._jvm.org.apache.kafka.clients.admin.Admin.create(self._map(servers))
        self._producer = self._records.KafkaProducer(self._map({**PRODUCER, **servers}))

    def create(self, topic: str, partitions: int = 1) -> None:
        optional, topics = self._jvm.java.util.Optional, self._jvm.java.util.ArrayList()
        new = self._jvm.org.apache.kafka.clients.admin.NewTopic
        topics.add(new(topic, optional.of(partitions), optional.empty()))
        self._wait(self._admin.createTopics(topics).all())

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        headers: Mapping[str, bytes] | None = None,
        partition: int | None = None,
    ) -> None:
        """Write a message. If the broker is not running, the producer sends the message later."""
        record = self._records.ProducerRecord(topic, partition, key, value)
        for name, text in (headers or {}).items():
            record.headers().add(name, text)
        self._sent.append(self._producer.send(record))

    def flush(self) -> None:
        """Wait until the broker has received all messages."""
        self._producer.flush()
        for sent in self._sent:
            self._wait(sent)
        self._sent.clear()

    def delete_before(self, topic: str, offset: int, partition: int = 0) -> None:
        """Delete the messages of a partition before an offset, as retention does."""
        records = self._jvm.java.util.HashMap()
        place = self._jvm.org.apache.kafka.common.TopicPartition(topic, partition)
        records.put(place, self._before(offset))
        self._wait(self._admin.deleteRecords(records).all())

    def close(self) -> None:
        zero = self._jvm.java.time.Duration.ZERO
        self._producer.close(zero)
        self._admin.close(zero)

    def _before(self, offset: int) -> Any:
        # The static method `beforeOffset` is called by Java reflection, because Py4J confuses it with a method of the same name.
        lang = self._jvm.java.lang
        types, values = self._array(lang.Class, lang.Long.TYPE), self._array(lang.Object, offset)
        name = "org.apache.kafka.clients.admin.RecordsToDelete"
        return lang.Class.forName(name).getMethod("beforeOffset", types).invoke(None, values)

    def _array(self, kind: Any, item: object) -> Any:
        made = self._gateway.new_array(kind, 1)
        made[0] = item
        return made

    def _map(self, given: Mapping[str, str]) -> Any:
        made = self._jvm.java.util.HashMap()
        for name, value in given.items():
            made.put(name, value)
        return made

    def _wait(self, future: Any) -> None:
        future.get(ADMIN_S, self._jvm.java.util.concurrent.TimeUnit.SECONDS)


@contextmanager
def connected(jars: Sequence[Path], address: str) -> Iterator[Client]:
    (py4j,) = (Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar")
    port, token, process = launch_gateway(
        jarpath=str(py4j),
        classpath=os.pathsep.join(map(str, jars)),
        javaopts=["-Xmx128m", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"],
        java_path=str(find_java(None, os.environ).home / "bin" / "java"),
        die_on_exit=True,
        enable_auth=True,
        return_proc=True,
    )
    parameters = GatewayParameters(port=port, auth_token=token, auto_convert=True)
    gateway = JavaGateway(gateway_parameters=parameters)
    client = Client(gateway, address)
    try:
        yield client
    finally:
        client.close()
        gateway.shutdown()
        process.kill()
        process.wait()
