"""The Spark session of an ingest: its settings, its folder, and the end of its JVM.

Settings go into files of a folder only the owner may read, not onto the command line of the JVM, which everybody on the
machine can. What Spark logs goes into that folder too.
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

# One that is stuck in a batch would hold up the end of all.
QUERY_STOP_MS = 3000
# From the end of the session to the end of the JVM: it takes half a second.
JVM_STOP_S = 2.0
# Reports of micro-batches that are kept until somebody looks.
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
# On one machine a micro-batch of a few thousand rows takes 110 ms with these and 250 ms without. Hadoop starts a process for
# every mode of a file that it sets and every link that it looks at, and has two files where we need one; Java starts another
# process to start one; and without the socket Java and Python wait 40 ms for each other.
QUICK: Mapping[str, str] = {
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.driver.defaultJavaOptions": "-Djdk.lang.Process.launchMechanism=VFORK -Xss4m",
    "spark.python.unix.domain.socket.enabled": "true",
    # A micro-batch in as few messages as the gateway takes.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
}
# Of other installations of Spark, which would be used instead of ours.
NOT_OURS = ("SPARK_HOME", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")


@dataclass(frozen=True, slots=True)
class SparkFolder:
    """Where a session keeps its files; absolute, because the JVM has a working folder of its own."""

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
    """In this process, which has no other; its environment is the JVM's."""
    shutil.rmtree(folder.scratch, ignore_errors=True)
    folder.conf.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_private(folder.conf / "spark-defaults.conf", properties(settings(file, folder)))
    write_private(folder.conf / "log4j2.properties", LOGGING.format(log=folder.log))
    for name in NOT_OURS:
        os.environ.pop(name, None)
    os.environ["JAVA_HOME"] = str(java_home)
    os.environ["SPARK_CONF_DIR"] = str(folder.conf)
    # Workers of Python must have what this process has.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if is_local(file):
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    return SparkSession.builder.getOrCreate()


def settings(file: StreamsFile, folder: SparkFolder) -> dict[str, str]:
    """Spark's, with those of the file above ours."""
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
    if file.packages():
        ours["spark.jars.packages"] = ",".join(file.packages())
    return ours | dict(file.session.conf) | {"spark.master": file.session.master}


def is_local(file: StreamsFile) -> bool:
    return file.session.master.startswith("local")


def properties(given: Mapping[str, str]) -> str:
    """As Java reads them, to whom a backslash is the beginning of something."""
    return "".join(f"{key} {escaped(value)}\n" for key, value in given.items())


def escaped(value: str) -> str:
    return value.replace("\\", "\\\\")


def write_private(path: Path, text: str) -> None:
    """For the owner alone from the first byte on."""
    with suppress(FileNotFoundError):
        path.unlink()
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as out:
        out.write(text)


def jvm() -> subprocess.Popen[bytes] | None:
    """The process of the session, if there is one."""
    gateway = cast(Any, SparkContext)._gateway
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    return process


def stop_session(session: SparkSession) -> None:
    """The session and its JVM, which Spark would leave until this process ends."""
    process, gateway = jvm(), cast(Any, SparkContext)._gateway
    with suppress(Exception):  # the JVM may have died, and Spark has many ways of saying so
        session.stop()
    with suppress(Exception):
        gateway.shutdown()
    if process is not None:
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """It ends by itself when nobody can write to it any more."""
    assert process.stdin is not None
    with suppress(OSError):
        process.stdin.close()
    try:
        process.wait(JVM_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
