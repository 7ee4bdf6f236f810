"""Feeds of a real Spark publish the rows of every kind of source once, even if processes are killed, and leave no process behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
import yaml

from configs.documents.spark_streams import StreamsFile
from configs.errors import InvalidInput
from configs.yaml_loading import parse_model
from services.ingest.java import find_java
from services.ingest.job import GatewayAddress, IngestJob
from services.ingest.process import IngestProcess, SparkFailed
from services.ingest.progress import FeedProgress
from tests.spark.gateways import RealGateway, opened
from tests.support.waiting import eventually

pytestmark = pytest.mark.spark

Definition = dict[str, Any]
COLUMNS = {"id": "int64", "temp": "float64"}
SCHEMA = "id BIGINT, temp DOUBLE"
HUNG_S = 60.0
# Names of the streams that get exactly ten rows.
WHOLE = ("pq", "comma", "js", "fed", "lines")


def stream(**source: Any) -> Definition:
    return {"columns": COLUMNS, "source": source}


TICKS = stream(format="rate", sql="SELECT value AS id, 0D AS temp FROM source")


def table(ids: range) -> pa.Table:
    return pa.table({"id": list(ids), "temp": [number / 2 for number in ids]})


def job(
    streams: Mapping[str, Definition],
    gateway: RealGateway,
    folder: Path,
    feeds: Mapping[str, Definition] | None = None,
    **door: Any,
) -> IngestJob:
    file = parse_model(StreamsFile, {"streams": dict(streams), "feeds": dict(feeds or {})})
    java = find_java(None, os.environ)
    return IngestJob(file, GatewayAddress(gateway.endpoint, gateway.key, **door), folder, java.home)


def json_file(folder: Path, number: int, ids: range) -> None:
    """Write rows to file `number`. The file gets its name only when it is complete, because Spark ignores names that begin with a point."""
    folder.mkdir(parents=True, exist_ok=True)
    written = folder / f".{number}"
    lines = [json.dumps({"id": number, "temp": number / 2}) for number in ids]
    written.write_text("\n".join(lines) + "\n", encoding="utf-8")
    written.rename(folder / f"{number:04}.json")


@contextmanager
def lines_served(lines: list[str]) -> Iterator[int]:
    """Run a server that sends the lines to its first client, and yield the port of the server."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                connection, _ = server.accept()
                with connection:
                    connection.sendall("".join(f"{line}\n" for line in lines).encode())
                    connection.recv(1)  # `recv` returns when the client has disconnected.

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.fixture
def gateway() -> Iterator[RealGateway]:
    with opened() as found:
        yield found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "ingest"


def progress_of(ingest: IngestProcess, name: str) -> FeedProgress:
    return {feed.feed: feed for feed in ingest.progress()}[name]


def ids(gateway: RealGateway, name: str) -> list[int]:
    return sorted(row["id"] for row in gateway.rows(name))


def has_all(gateway: RealGateway, name: str, wanted: range) -> Callable[[], bool]:
    return lambda: ids(gateway, name) == list(wanted)


def descendants(mark: Path) -> list[int]:
    """Return the ids of all processes with the path `mark` in their environment, which child processes inherit."""
    found = []
    for process in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            if process.name.isdigit() and str(mark).encode() in (process / "environ").read_bytes():
                found.append(int(process.name))
    return found


def names(mark: Path) -> set[str]:
    found = set()
    for process in descendants(mark):
        with suppress(OSError):
            found.add(Path(f"/proc/{process}/comm").read_text(encoding="utf-8").strip())
    return found


def jvm_of(ingest: IngestProcess) -> int:
    (found,) = Path(f"/proc/{ingest.pid}/task/{ingest.pid}/children").read_text().split()
    return int(found)


# -- sources of all kinds ------------------------------------------------------------------------------------------


def test_every_row_of_every_kind_of_spark_source_arrives(
    gateway: RealGateway, folder: Path, tmp_path: Path
) -> None:
    for name in ("parquet", "csv", "json"):
        (tmp_path / name).mkdir()
    pyarrow.parquet.write_table(table(range(10)), tmp_path / "parquet" / "a.parquet")
    pyarrow.csv.write_csv(table(range(10)), tmp_path / "csv" / "a.csv")
    json_file(tmp_path / "json", 0, range(10))
    with lines_served([str(number) for number in range(10)]) as port:
        streams = {
            "ticks": stream(
                format="rate",
                options={"rowsPerSecond": 20},
                sql="SELECT value AS id, value / 2D AS temp FROM source",
            ),
            "pq": stream(format="parquet", options={"path": str(tmp_path / "parquet")}, schema=SCHEMA),
            "comma": stream(
                format="csv",
                options={"path": str(tmp_path / "csv"), "header": True},
                schema=SCHEMA,
                path="executor",
            ),
            "js": stream(format="json", options={"path": str(tmp_path / "json")}, schema=SCHEMA),
            "fed": stream(
                format="weir_feeder",
                options={"path": str(tmp_path / "parquet"), "rate": 100, "loop": False},
            ),
            "lines": stream(
                format="socket",
                options={"host": "127.0.0.1", "port": port},
                sql="SELECT CAST(value AS BIGINT) AS id, CAST(value AS BIGINT) / 2D AS temp FROM source",
            ),
            "sums": stream(
                format="json",
                options={"path": str(tmp_path / "json")},
                schema=SCHEMA,
                sql="SELECT id % 2 AS id, SUM(temp) AS temp FROM source GROUP BY id % 2",
                output_mode="update",
            ),
        }
        for name in streams:
            gateway.declare(f"CREATE STREAM {name} (id int64, temp float64)")
        with IngestProcess(job(streams, gateway, folder)) as ingest:
            for name in WHOLE:
                eventually(has_all(gateway, name, range(10)), f"all of {name}")
            eventually(lambda: len(gateway.rows("ticks")) >= 20, "a second of ticks")
            eventually(lambda: len(gateway.rows("sums")) == 2, "both sums")
            eventually(lambda: all(feed.state == "running" for feed in ingest.progress()), "progress of all")

            def counted() -> dict[str, int]:
                """Return the number of rows that Spark reports as read. Spark reports a micro-batch after its rows are published."""
                rows = {feed.feed: feed.rows for feed in ingest.progress()}
                return {name: rows[name] for name in (*WHOLE, "sums")}

            eventually(lambda: min(counted().values()) >= 10, f"the progress of every batch: {counted()}")
            progress = {feed.feed: feed for feed in ingest.progress()}
    for name in WHOLE:
        assert sorted(gateway.rows(name), key=lambda row: row["id"]) == table(range(10)).to_pylist()
    ticks = ids(gateway, "ticks")
    assert ticks == list(range(len(ticks)))
    assert sorted(row["temp"] for row in gateway.rows("sums")) == [10.0, 12.5]
    assert {(feed.restarts, feed.last_error) for feed in progress.values()} == {(0, None)}
    assert [progress[name].rows for name in (*WHOLE, "sums")] == [10] * 6
    assert descendants(folder) == []
    assert gateway.key not in (folder / "spark.log").read_text(encoding="utf-8")


def test_feed_splits_rows_and_columns_among_its_streams(
    gateway: RealGateway, folder: Path, tmp_path: Path
) -> None:
    source = tmp_path / "in"
    json_file(source, 0, range(10))
    streams: dict[str, Any] = {
        "all": {"columns": COLUMNS},
        "even": {"columns": COLUMNS},
        "warm": {"columns": {"temp": "float64"}},
    }
    feed = {
        "source": {"format": "json", "options": {"path": str(source)}, "schema": SCHEMA},
        "streams": {
            "all": {},
            "even": {"where": "id % 2 = 0"},
            "warm": {"where": "temp >= 4", "columns": ["temp"]},
        },
    }
    for name in ("all", "even"):
        gateway.declare(f"CREATE STREAM {name} (id int64, temp float64)")
    gateway.declare("CREATE STREAM warm (temp float64)")
    with IngestProcess(job(streams, gateway, folder, feeds={"readings": feed})) as ingest:
        eventually(has_all(gateway, "all", range(10)), "what was there")
        # The killed process may have written a micro-batch only to the first stream. The next process writes it again, without duplicates.
        os.kill(ingest.pid, signal.SIGKILL)
        json_file(source, 1, range(10, 20))
        eventually(has_all(gateway, "all", range(20)), "what came later")
        eventually(lambda: len(gateway.rows("warm")) == 12, "the last stream")
        # Spark reports a micro-batch some time after its rows are published.
        eventually(
            lambda: progress_of(ingest, "readings").offsets == [{"logOffset": 1}], "news of the last batch"
        )
        assert progress_of(ingest, "readings").state == "running"
    assert ids(gateway, "even") == list(range(0, 20, 2))
    assert gateway.rows("warm") == [{"temp": number / 2} for number in range(8, 20)]


def test_condition_that_spark_refuses_fails_its_feed(gateway: RealGateway, folder: Path) -> None:
    feed = {"source": {"format": "rate"}, "streams": {"ticks": {"where": "valeu > 1"}}}
    with IngestProcess(job({"ticks": {"columns": COLUMNS}}, gateway, folder, feeds={"all": feed})) as ingest:
        eventually(lambda: progress_of(ingest, "all").state == "failed", "the failure")
        assert "`valeu` cannot be resolved" in (progress_of(ingest, "all").last_error or "")


# -- processes that are killed, and feeds that fail ----------------------------------------------------------------


def test_failed_query_is_restarted_and_publishes_each_row_once(
    gateway: RealGateway, folder: Path, tmp_path: Path
) -> None:
    source = tmp_path / "in"
    json_file(source, 0, range(10))
    streams = {
        "readings": stream(format="json", options={"path": str(source)}, schema=SCHEMA),
    }
    gateway.declare("CREATE STREAM readings (id int64, temp float64)")
    with IngestProcess(job(streams, gateway, folder, patience_s=0.5)) as ingest:
        eventually(has_all(gateway, "readings", range(10)), "what was there")
        gateway.stop()
        json_file(source, 1, range(10, 20))
        failed = eventually(
            lambda: progress_of(ingest, "readings").restarts and progress_of(ingest, "readings"), "a restart"
        )
        gateway.start()
        eventually(has_all(gateway, "readings", range(20)), "what came meanwhile")
    assert isinstance(failed, FeedProgress)
    assert "GatewayAway" in (failed.last_error or "")
    assert ids(gateway, "readings") == list(range(20))


@pytest.mark.parametrize("killed", ["jvm", pytest.param("child", marks=pytest.mark.slow)])
def test_killed_process_is_restarted_and_publishes_each_row_once(
    killed: str, gateway: RealGateway, folder: Path, tmp_path: Path
) -> None:
    source = tmp_path / "in"
    for number in range(20):
        json_file(source, number, range(10 * number, 10 * number + 10))
    options = {"path": str(source), "maxFilesPerTrigger": 1}
    streams = {"readings": stream(format="json", options=options, schema=SCHEMA)}
    gateway.declare("CREATE STREAM readings (id int64, temp float64)")
    with IngestProcess(job(streams, gateway, folder)) as ingest:
        eventually(lambda: gateway.rows("readings"), "the first rows")
        before = jvm_of(ingest)
        os.kill(before if killed == "jvm" else ingest.pid, signal.SIGKILL)
        eventually(has_all(gateway, "readings", range(200)), "all rows")
        # Spark may read a micro-batch twice, but its rows are published once. The reported progress may lack rows that a killed process read.
        restarted = eventually(
            lambda: (feed := progress_of(ingest, "readings")).state == "running" and feed.restarts and feed,
            "progress",
        )
        assert isinstance(restarted, FeedProgress)
        assert restarted.restarts == 1
        assert restarted.rows > 0
        assert jvm_of(ingest) != before
    assert ids(gateway, "readings") == list(range(200))
    assert descendants(folder) == []


def test_a_hanging_jvm_is_killed_when_weir_ingest_ends(gateway: RealGateway, folder: Path) -> None:
    gateway.declare("CREATE STREAM ticks (id int64, temp float64)")
    with IngestProcess(job({"ticks": TICKS}, gateway, folder)) as ingest:
        os.kill(jvm_of(ingest), signal.SIGSTOP)
    assert descendants(folder) == []


def test_session_that_cannot_start_is_reported_at_once(gateway: RealGateway, folder: Path) -> None:
    streams = {"ticks": stream(format="rate", sql="SELECT value AS id FROM source")}
    impossible = job(streams, gateway, folder)
    data = impossible.file.model_dump(by_alias=True) | {"session": {"master": "nowhere"}}
    impossible = IngestJob(parse_model(StreamsFile, data), impossible.door, folder, impossible.java_home)
    with pytest.raises(SparkFailed, match="Spark did not start: Master must"):
        IngestProcess(impossible).start()
    assert descendants(folder) == []


def test_second_ingest_in_the_same_folder_is_refused(gateway: RealGateway, folder: Path) -> None:
    gateway.declare("CREATE STREAM ticks (id int64, temp float64)")
    with (
        IngestProcess(job({"ticks": TICKS}, gateway, folder)),
        pytest.raises(InvalidInput, match="another ingest already uses this folder"),
    ):
        IngestProcess(job({"ticks": TICKS}, gateway, folder)).start()


# -- the command `weir ingest` -------------------------------------------------------------------------------------


@contextmanager
def command(folder: Path, *arguments: str, **environ: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """Run `weir` in a folder. Yield its process, and the path in the environment by which tests find all its child processes."""
    mark = folder / "mark"
    running = subprocess.Popen(
        [sys.executable, "-c", "from services.cli.main import main; main()", *arguments],
        env={**os.environ, **environ, "MARK": str(mark)},
        stdout=subprocess.PIPE,
        cwd=folder,
    )
    with running:
        try:
            yield running, mark
        finally:
            running.kill()


@pytest.mark.parametrize(
    "how",
    [signal.SIGKILL, signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)],
    ids=lambda how: how.name,
)
def test_no_process_is_left_when_weir_ingest_ends(
    how: signal.Signals, gateway: RealGateway, tmp_path: Path
) -> None:
    gateway.declare("CREATE STREAM ticks (id int64, temp float64)")
    (tmp_path / "streams.yaml").write_text(yaml.safe_dump({"streams": {"ticks": TICKS}}), encoding="utf-8")
    options = ("-f", "streams.yaml", "--endpoint", gateway.endpoint, "-o", "json")
    with command(tmp_path, "ingest", *options, WEIR_API_KEY=gateway.key) as (running, mark):
        assert running.stdout is not None
        first = next(status for status in map(json.loads, running.stdout) if status["feeds"][0]["rows"] > 0)
        assert first["feeds"][0]["feed"] == "ticks"
        assert len(descendants(mark)) >= 3  # Three processes run: the command, its child process and the JVM.
        for process in descendants(mark):
            with suppress(FileNotFoundError):
                assert gateway.key.encode() not in Path(f"/proc/{process}/cmdline").read_bytes()
        running.send_signal(how)
        running.stdout.read()
        code = running.wait(HUNG_S)
        if how == signal.SIGKILL:
            eventually(lambda: not descendants(mark), "the end of all")
        assert descendants(mark) == []
    assert code == {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130}[how]


def test_no_process_is_left_when_weir_ingest_is_killed_while_spark_starts(
    gateway: RealGateway, tmp_path: Path
) -> None:
    gateway.declare("CREATE STREAM ticks (id int64, temp float64)")
    (tmp_path / "streams.yaml").write_text(yaml.safe_dump({"streams": {"ticks": TICKS}}), encoding="utf-8")
    options = ("-f", "streams.yaml", "--endpoint", gateway.endpoint)
    with command(tmp_path, "ingest", *options, WEIR_API_KEY=gateway.key) as (running, mark):
        eventually(lambda: "java" in names(mark), "a JVM")
        running.kill()
        running.wait(HUNG_S)
        eventually(lambda: not descendants(mark), "the end of all")


@pytest.mark.live
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT], ids=lambda how: how.name)
def test_weir_up_with_a_feed_ends_all_its_processes_on_a_signal(how: signal.Signals, tmp_path: Path) -> None:
    ticks = {
        "columns": {"ts": "timestamp", "id": "int64"},
        "time": "ts",
        "source": {"format": "rate", "sql": "SELECT timestamp AS ts, value AS id FROM source"},
    }
    documents = [
        {"kind": "Stream", "name": "ticks", **ticks},
        {"kind": "Tenant", "name": "acme", "priority_class": "gold"},
        {"kind": "Query", "tenant": "acme", "name": "all", "sql": "SELECT id FROM ticks"},
    ]
    (tmp_path / "documents.yaml").write_text(yaml.safe_dump_all(documents), encoding="utf-8")
    home = {"WEIR_HOME": str(tmp_path / "home")}
    with command(tmp_path, "up", "--api-port", "0", "-f", "documents.yaml", "-o", "json", **home) as (
        running,
        mark,
    ):
        assert running.stdout is not None
        status = next(
            status
            for status in map(json.loads, running.stdout)
            if status["classes"] and status["classes"][0]["results"] > 0
        )
        assert status["feeds"][0]["state"] == "running"
        assert {"java", "raylet"} <= names(mark)
        running.send_signal(how)
        running.stdout.read()
        assert running.wait(HUNG_S) == {signal.SIGTERM: 143, signal.SIGINT: 130}[how]
        assert descendants(mark) == []
    # Checkpoints are in WEIR_HOME, so that `weir up` also continues from a checkpoint if it is started in another folder.
    assert (tmp_path / "home" / "feeds" / "checkpoints" / "ticks").is_dir()
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"home"}
