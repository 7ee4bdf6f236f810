"""Spark session of a process that runs feeds: its settings, its folder, and the end of its JVM.

Settings are written to files that only their owner may read, because all users of a machine can read a command line. The folder of
the session also has Spark's log.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from pyspark import SparkContext
from pyspark.sql import SparkSession

from configs.documents.spark_streams import SECRET, StreamsFile
from services.ingest.job import LOG

# Milliseconds that Spark waits for a query to stop. Without this limit, a query with an endless batch would delay the end of the session.
QUERY_STOP_MS = 3000
# Maximum seconds from the end of the session to the end of the JVM. The JVM normally ends within half a second.
JVM_STOP_S = 2.0
# Number of reports about micro-batches that Spark keeps. Reports that were not polled before are lost.
REPORTS = 16
SCRATCH = "scratch"
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
    # With large Arrow batches, few messages to the gateway are needed for a micro-batch.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
}
# Environment variable with the name of the pod in which Spark's driver runs on Kubernetes.
POD_NAME = "POD_NAME"
# Environment variables that would make PySpark use another installation of Spark.
NOT_OURS = ("SPARK_HOME", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")


def start_session(file: StreamsFile, folder: Path, java_home: Path) -> SparkSession:
    """Start the only session of this process, with its files in `folder`. The JVM inherits the environment of the process.

    The path of the folder must be absolute, because the JVM has another working folder.
    """
    shutil.rmtree(folder / SCRATCH, ignore_errors=True)
    conf = folder / "conf"
    conf.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_private(conf / "spark-defaults.conf", properties(settings(file, folder)))
    write_private(conf / "log4j2.properties", LOGGING.format(log=folder / LOG))
    for name in NOT_OURS:
        os.environ.pop(name, None)
    os.environ["JAVA_HOME"] = str(java_home)
    os.environ["SPARK_CONF_DIR"] = str(conf)
    # Spark's Python workers must run with the interpreter and packages of this process.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if is_local(file):
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    return SparkSession.builder.getOrCreate()


def settings(file: StreamsFile, folder: Path) -> dict[str, str]:
    """Return the settings of Spark: those in the file of streams, and the defaults of this module for all others."""
    ours = {
        "spark.app.name": "weir-ingest",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(folder / SCRATCH),
        "spark.sql.warehouse.dir": str(folder / SCRATCH / "warehouse"),
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
        # If Spark knows the pod of its driver, its executors on Kubernetes belong to this pod and are deleted together with the pod.
        ours["spark.kubernetes.driver.pod.name"] = pod
    if file.packages():
        ours["spark.jars.packages"] = ",".join(file.packages())
    return ours | dict(file.session.conf) | {"spark.master": file.session.master}


def is_local(file: StreamsFile) -> bool:
    return file.session.master.startswith("local")


def properties(given: Mapping[str, str]) -> str:
    """Return settings in the format of Java's properties files, in which a backslash must be escaped."""
    return "".join(f"{key} {value}\n".replace("\\", "\\\\") for key, value in given.items())


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read. The permissions are set before the text is written, so no other user can read the text."""
    with suppress(FileNotFoundError):
        path.unlink()
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as out:
        out.write(text)


def jvm() -> subprocess.Popen[bytes] | None:
    """Return the process of the session's JVM; None if the session has no JVM."""
    gateway = cast(Any, SparkContext)._gateway
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    return process


def stop_session(session: SparkSession) -> None:
    """Stop the session and its JVM, which Spark itself would leave running until this process ends."""
    process, gateway = jvm(), cast(Any, SparkContext)._gateway
    # Spark raises various errors if the JVM has died.
    with suppress(Exception):
        session.stop()
    with suppress(Exception):
        gateway.shutdown()
    if process is None:
        return
    # The JVM exits when its standard input is closed.
    assert process.stdin is not None
    with suppress(OSError):
        process.stdin.close()
    try:
        process.wait(JVM_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
