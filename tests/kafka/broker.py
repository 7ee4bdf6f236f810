"""Real Kafka broker on this machine, in KRaft mode. One process in its own folder is broker and controller."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from services.ingest.java import find_java
from tests.support.served import certificate_in
from tests.support.waiting import eventually

CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
USER, PASSWORD = "weir", "swordfish-of-the-broker"
STARTED = b"Kafka Server started"
# Options of a small JVM. Only Java's fast compiler is used, because the broker of a test runs for a short time.
JAVA_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{plain},SECURE://127.0.0.1:{secure},CONTROLLER://127.0.0.1:{controller}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
listener.name.secure.ssl.keystore.type=PEM
listener.name.secure.ssl.keystore.location={folder}/keystore.pem
listener.name.secure.sasl.enabled.mechanisms=PLAIN
listener.name.secure.plain.sasl.jaas.config=\
org.apache.kafka.common.security.plain.PlainLoginModule required user_{user}="{password}";
log.dirs={folder}/data
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
# A broker that was killed is registered again after this time.
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
# Deleted messages leave their segments at once.
log.retention.check.interval.ms=1000
"""


class Broker:
    """Kafka broker that can be killed, and started again with the same addresses and messages."""

    def __init__(self, jars: Sequence[Path], folder: Path) -> None:
        self.folder = folder
        self._java = find_java(None, os.environ).home / "bin" / "java"
        self._jars = jars
        plain, secure, controller = free_ports(3)
        self.address = f"127.0.0.1:{plain}"
        self.secure_address = f"127.0.0.1:{secure}"
        """Address that needs TLS, and USER with PASSWORD by SASL."""
        self.certificate, key = certificate_in(folder)
        (folder / "keystore.pem").write_text(key.read_text() + self.certificate.read_text())
        ports = {"plain": plain, "secure": secure, "controller": controller}
        self._properties = folder / "server.properties"
        self._properties.write_text(PROPERTIES.format(folder=folder, user=USER, password=PASSWORD, **ports))
        self._run("kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c").wait()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the broker, and wait until the broker accepts requests."""
        process = self._process = self._run("kafka.Kafka")
        log = self._log

        def is_up() -> bool:
            assert process.poll() is None, f"the broker has ended; see {log}"
            return STARTED in log.read_bytes()

        eventually(is_up, "the start of the broker")

    def kill(self) -> None:
        """Kill the broker with SIGKILL, so that the connections of clients are refused."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    @property
    def _log(self) -> Path:
        return self.folder / "broker.log"

    def _run(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        classpath = os.pathsep.join(map(str, self._jars))
        # If the tests are killed, Linux kills the broker as well.
        command = ["setpriv", "--pdeathsig", "KILL", str(self._java), *JAVA_OPTIONS, "-cp", classpath]
        with self._log.open("wb") as log:
            return subprocess.Popen(
                [*command, program, *arguments, str(self._properties)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
            )


def free_ports(count: int) -> list[int]:
    """Return `count` different ports of the loopback address that are free now."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


@contextmanager
def started(jars: Sequence[Path], folder: Path) -> Iterator[Broker]:
    broker = Broker(jars, folder)
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()
