"""Spark session of a process that runs feeds: its settings, its folder, and the end of its JVM.

Settings are written to files that only their owner may read, because all users of a machine can read a command line. Spark's
log is in the session's folder too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pyspark import SparkContext
from pyspark.sql import SparkSession

from configs.documents.spark_streams import SECRET, StreamsFile

# Seconds to wait for a query to stop, so that a query with an endless batch delays the end of the others only this long.
QUERY_STOP_MS = 3000
# Time limit from the end of the session to the end of the JVM, which normally takes half a second.
JVM_STOP_S = 2.0
# Number of micro-batch reports that Spark keeps until they are polled.
REPORTS = 16
LOG = "spark.log"
LOGGING = """\
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {log}
appender.file.filePattern = {log}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd'T'HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 3
"""
# Settings that shorten a micro-batch of a few thousand rows from 250 ms to 110 ms, measured on one machine.
# By default, Hadoop starts a process to set a file's mode or check a link, and writes a checksum file for each file.
# By default, Java starts each process through a helper process.
# Over TCP instead of a Unix socket, Java and Python wait 40 ms for each other.
QUICK: Mapping[str, str] = {
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.driver.defaultJavaOptions": "-Djdk.lang.Process.launchMechanism=VFORK -Xss4m",
    "spark.python.unix.domain.socket.enabled": "true",
    # With large Arrow batches, a micro-batch needs few messages to the gateway.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
}
# Environment variable with the name of the pod in which Spark's driver runs on Kubernetes.
POD_NAME = "POD_NAME"
# Environment variables that would make PySpark use another installation of Spark.
NOT_OURS = ("SPARK_HOME", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")


@dataclass(frozen=True, slots=True)
class SparkFolder:
    """Folder of a session's files. The path is absolute, because the JVM has another working folder."""

    root: Path

    @property
    def conf(self) -> Path:
        return self.root / "conf"

    @property
    def log(self) -> Path:
        return self.root / LOG

    @property
    def scratch(self) -> Path:
        return self.root / "scratch"


def start_session(file: StreamsFile, folder: SparkFolder, java_home: Path) -> SparkSession:
    """Start the session of this process, which must have none yet; the JVM inherits the process's environment."""
    shutil.rmtree(folder.scratch, ignore_errors=True)
    folder.conf.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_private(folder.conf / "spark-defaults.conf", properties(settings(file, folder)))
    write_private(folder.conf / "log4j2.properties", LOGGING.format(log=folder.log))
    for name in NOT_OURS:
        os.environ.pop(name, None)
    os.environ["JAVA_HOME"] = str(java_home)
    os.environ["SPARK_CONF_DIR"] = str(folder.conf)
    # Python workers must run with this process's interpreter and packages.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if is_local(file):
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    return SparkSession.builder.getOrCreate()


def settings(file: StreamsFile, folder: SparkFolder) -> dict[str, str]:
    """Return Spark's settings: the defaults of this module, replaced by the settings in the file of streams."""
    ours = {
        "spark.app.name": "weir-ingest",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(folder.scratch),
        "spark.sql.warehouse.dir": str(folder.scratch / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.scheduler.mode": "FAIR",
        "spark.sql.streaming.stopTimeout": str(QUERY_STOP_MS),
        "spark.sql.streaming.numRecentProgressUpdates": str(REPORTS),
        "spark.redaction.regex": f"(?i){SECRET.pattern}",
        "spark.sql.redaction.options.regex": f"(?i){SECRET.pattern}|url",
    }
    if is_local(file):
        ours |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": "1",
            **QUICK,
        }
    if pod := os.environ.get(POD_NAME, ""):
        # With the driver's pod name, executors on Kubernetes belong to this pod, and are deleted with it.
        ours["spark.kubernetes.driver.pod.name"] = pod
    if file.packages():
        ours["spark.jars.packages"] = ",".join(file.packages())
    return ours | dict(file.session.conf) | {"spark.master": file.session.master}


def is_local(file: StreamsFile) -> bool:
    return file.session.master.startswith("local")


def properties(given: Mapping[str, str]) -> str:
    """Return settings in the format of Java's properties files, in which a backslash must be escaped."""
    return "".join(f"{key} {escaped(value)}\n" for key, value in given.items())


def escaped(value: str) -> str:
    return value.replace("\\", "\\\\")


def write_private(path: Path, text: str) -> None:
    """Create a file with permissions for its owner only, then write it, so that no other user can ever read it."""
    with suppress(FileNotFoundError):
        path.unlink()
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as out:
        out.write(text)


def jvm() -> subprocess.Popen[bytes] | None:
    """Return the JVM process of the session, or None."""
    gateway = cast(Any, SparkContext)._gateway
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    return process


def stop_session(session: SparkSession) -> None:
    """Stop the session and its JVM, which Spark itself would leave running until this process ends."""
    process, gateway = jvm(), cast(Any, SparkContext)._gateway
    with suppress(Exception):  # if the JVM has died, Spark raises various errors
        session.stop()
    with suppress(Exception):
        gateway.shutdown()
    if process is not None:
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Close the JVM's input, which makes it exit; kill it if that takes longer than JVM_STOP_S."""
    assert process.stdin is not None
    with suppress(OSError):
        process.stdin.close()
    try:
        process.wait(JVM_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
