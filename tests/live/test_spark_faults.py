"""Rows go from Spark to the answers of a class while processes are killed, streams are wrong, and logs or disks are full.

Every row has an id, which queries return. Spark sends one stream on the driver's path, another on the executors' path.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from actors.log.segment_log import Reader
from actors.log.train_format import batch_head
from actors.runtime.names import gateway_name, host_name
from actors.runtime.run_dirs import RunDirs
from actors.system import System, call, start
from bench.idle import descendants
from configs.classes.live_class import LiveClass, LiveSettings
from configs.documents.spark_streams import StreamsFile
from configs.yaml_loading import parse_model
from services.ingest.flight import FlightSettings
from services.ingest.java import find_java
from services.ingest.job import CHECKPOINTS, GatewayAddress, IngestJob
from services.ingest.keys import new_key
from services.ingest.process import IngestProcess
from services.ingest.progress import FeedProgress
from tests.live import runs
from tests.spark.gateways import RealGateway
from tests.support.waiting import eventually

pytestmark = [pytest.mark.live, pytest.mark.spark]

# Little input is retained, so that a hanging class soon holds its producers back.
SETTINGS = LiveSettings.model_validate(
    {"load": {"cycle_ms": 50}, "train_max": 200, "retained_bytes": 2 << 20, "idle_after_s": None}
)
COLUMNS = {"ts": "timestamp", "id": "int64"}
# The parts of a micro-batch arrive in any order, so the streams accept rows that are up to a second late.
SQL = "CREATE STREAM {} (ts timestamp, id int64, WATERMARK FOR ts AS ts - INTERVAL 1 SECONDS)"
SCHEMA = "ts TIMESTAMP, id BIGINT"
BEGIN_US = 1_700_000_000_000_000
# Number of files that are added at once; Spark makes one micro-batch of each.
TOGETHER = 5

Definition = dict[str, Any]
Kill = Callable[[], object]


# Streams of rows with ascending ids, which the tests send through Spark.


class Ids:
    """Folder of files with ascending ids; Spark reads one file per micro-batch."""

    def __init__(self, folder: Path, file_rows: int = 100) -> None:
        self.folder = folder
        self.count = 0
        self._a_file = file_rows
        folder.mkdir(parents=True)

    def add(self, files: int = TOGETHER) -> None:
        for _ in range(files):
            ids = range(self.count, self.count + self._a_file)
            times = pa.array([BEGIN_US + number for number in ids], pa.timestamp("us", "UTC"))
            draft = self.folder / ".draft"
            pq.write_table(pa.table({"ts": times, "id": pa.array(ids, pa.int64())}), draft)
            # Spark reads the oldest file first.
            os.utime(draft, (self.count, self.count))
            draft.rename(self.folder / f"{self.count:06}.parquet")
            self.count += self._a_file

    def source(self, path: str = "driver", select: str = "ts, id", **more: Any) -> Definition:
        options = {"path": str(self.folder), "maxFilesPerTrigger": 1}
        # On the executors' path a batch has many parts, so that a kill often comes when only some of the parts are staged.
        hint = "/*+ REPARTITION(8) */ " if path == "executor" else ""
        sql = f"SELECT {hint}{select} FROM source"
        source = {"format": "parquet", "options": options, "schema": SCHEMA, "sql": sql}
        return {"columns": COLUMNS, "time": "ts", "source": {**source, "path": path, **more}}


def declared(name: str, *streams: str) -> LiveClass:
    """Return a lossless class with a query for each stream."""
    queries = {f"of_{stream}": f"SELECT id FROM {stream}" for stream in streams}
    return runs.declared(name, 1, [SQL.format(stream) for stream in streams], queries)


def job(streams: Mapping[str, Definition], door: GatewayAddress, folder: Path) -> IngestJob:
    file = parse_model(StreamsFile, {"streams": dict(streams)})
    return IngestJob(file, door, folder, find_java(None, os.environ).home)


def door_of(system: System) -> GatewayAddress:
    endpoint = system.endpoint(runs.node_of(system))
    assert endpoint is not None
    return GatewayAddress(endpoint, system.ingest_key)


def progress_of(ingest: IngestProcess, feed: str) -> FeedProgress:
    return {progress.feed: progress for progress in ingest.progress()}[feed]


def rows_of(dirs: RunDirs, stream: str) -> int:
    """Return the number of rows that the stream's log has ever had."""
    log = Reader(dirs.stream(stream))
    (rows, _, before), *_ = [batch_head(payload) for _, payload in log.frames(log.next - 1)]
    return before + rows


def assert_answered_once(system: System, hosted: LiveClass, count: int) -> None:
    """Assert that every query has given one answer for each of the first `count` ids, and that the ledger closes."""
    offered = count * len(hosted.queries)
    figures = runs.worked_off(system, {hosted.name: offered})[hosted.name]
    assert (figures.offered, figures.delivered, figures.results) == (offered, offered, offered)
    dirs = runs.folders(system, runs.node_of(system))
    for name, found in runs.answers(system, [hosted]).items():
        assert found.column("id").to_pylist() == list(range(count)), name
    streams = runs.reads(hosted)
    assert {stream: rows_of(dirs, stream) for stream in streams} == dict.fromkeys(streams, count)


@pytest.fixture(scope="module")
def system() -> Iterator[System]:
    with start(SETTINGS, [], pinned=False, endpoint=FlightSettings()) as running:
        yield running


# Tests in which processes between Spark and the class are killed.


@dataclass
class Pipeline:
    """Path of rows from files to a class, with methods that kill the processes on the path."""

    system: System
    ingest: IngestProcess
    ids: Ids
    hosted: LiveClass
    folder: Path
    killed: list[int] = field(default_factory=list)

    def disturb(self, kills: Sequence[tuple[str, Kill]]) -> None:
        """Call each function in `kills` in the middle of a micro-batch, and check that the batch is completed."""
        for stream, kill in kills:
            checkpoint = self.folder / CHECKPOINTS / stream
            self.ids.add()
            (batch,) = eventually(partial(self.unfinished_batch, stream), f"a batch of {stream}")
            kill()
            eventually(partial(is_done, checkpoint, batch), f"batch {batch} of {stream}")
        self.ids.add()
        assert_answered_once(self.system, self.hosted, self.ids.count)

    def unfinished_batch(self, stream: str) -> list[int]:
        """Return a list with the number of the unfinished micro-batch, or an empty list.

        On the executors' path, a micro-batch counts only if parts of the batch are staged.
        """
        checkpoint = self.folder / CHECKPOINTS / stream
        planned, done = last(checkpoint / "offsets"), last(checkpoint / "commits")
        if planned == done or (stream == "by_executor" and not self.staged()):
            return []
        return [planned]

    def staged(self) -> int:
        status = call(self.system.gateway(runs.node_of(self.system)).status)
        return int(status["staged"]["batches"])

    def jvm(self) -> int:
        (found,) = Path(f"/proc/{self.ingest.pid}/task/{self.ingest.pid}/children").read_text().split()
        return int(found)

    def kill_jvm(self) -> None:
        os.kill(self.jvm(), signal.SIGKILL)

    def kill_driver(self) -> None:
        os.kill(self.ingest.pid, signal.SIGKILL)

    def kill_workers(self) -> None:
        """Kill the processes that run Python tasks: the children of Spark's daemons."""
        daemons = [pid for pid in descendants(str(self.ingest.pid)) if "pyspark.daemon" in command(pid)]
        workers = {worker for daemon in daemons for worker in descendants(str(daemon))}
        assert workers
        for worker in workers:
            os.kill(worker, signal.SIGKILL)

    def kill_gateway(self) -> None:
        self.killed.append(runs.kill(gateway_name(runs.node_of(self.system))))

    def kill_host(self) -> None:
        self.killed.append(runs.kill_host(self.system, self.hosted.name))


def is_done(checkpoint: Path, batch: int) -> bool:
    return last(checkpoint / "commits") >= batch


def last(folder: Path) -> int:
    """Return the greatest number among the entries of a checkpoint folder, or -1."""
    names = os.listdir(folder) if folder.is_dir() else ()
    return max((int(name) for name in names if name.isdigit()), default=-1)


def command(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


@pytest.fixture(scope="module")
def pipeline(system: System, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    ids, folder = Ids(tmp_path_factory.mktemp("way") / "ids"), tmp_path_factory.mktemp("ingest")
    hosted = declared("gold", "by_driver", "by_executor")
    runs.host(system, [hosted])
    streams = {"by_driver": ids.source(), "by_executor": ids.source("executor")}
    with IngestProcess(job(streams, door_of(system), folder)) as ingest:
        yield Pipeline(system, ingest, ids, hosted, folder)


def test_no_row_is_lost_or_repeated_when_spark_processes_are_killed(pipeline: Pipeline) -> None:
    pipeline.disturb([("by_executor", pipeline.kill_jvm), ("by_driver", pipeline.kill_driver)])
    assert progress_of(pipeline.ingest, "by_driver").restarts >= 2


def test_no_row_is_lost_or_repeated_when_python_workers_of_spark_are_killed(pipeline: Pipeline) -> None:
    before = progress_of(pipeline.ingest, "by_executor").restarts

    def has_failed() -> bool:
        """Kill workers; return True if a task failed. No task fails if the killed workers were idle."""
        pipeline.disturb([("by_executor", pipeline.kill_workers)] * 2)
        return progress_of(pipeline.ingest, "by_executor").restarts > before

    eventually(has_failed, "a task that fails")


def test_no_row_is_lost_or_repeated_when_the_gateway_is_killed(pipeline: Pipeline) -> None:
    pipeline.killed.clear()
    kill = pipeline.kill_gateway
    pipeline.disturb([("by_executor", kill), ("by_driver", kill), ("by_executor", kill)])
    assert len(set(pipeline.killed)) == 3


def test_no_row_is_lost_or_repeated_when_the_host_of_a_class_is_killed(pipeline: Pipeline) -> None:
    pipeline.killed.clear()
    kill = pipeline.kill_host
    pipeline.disturb([("by_driver", kill), ("by_executor", kill), ("by_driver", kill)])
    assert len(set(pipeline.killed)) == 3


def test_no_row_is_lost_or_repeated_when_all_processes_are_killed_at_once(pipeline: Pipeline) -> None:
    def kill_all() -> None:
        hosts = (
            gateway_name(runs.node_of(pipeline.system)),
            host_name(runs.units(pipeline.system)["gold"].host),
        )
        pids = [*map(runs.pid_of, hosts), pipeline.jvm()]
        pipeline.kill_workers()
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    pipeline.disturb([("by_executor", kill_all)])


# Tests of streams with wrong columns, and keys that are not valid.


def test_error_of_a_stream_is_reported_and_other_streams_continue(system: System, tmp_path: Path) -> None:
    ids = Ids(tmp_path / "ids")
    hosted = [declared("good", "good"), declared("dated", "dated")]
    gateway = system.gateway(runs.node_of(system))
    runs.host(system, [*hosted, declared("others", "drifted", "mistyped")])
    streams = {
        "good": ids.source(),
        "dated": ids.source(select="IF(id % 10 = 3, NULL, ts) AS ts, id"),
        "nowhere": ids.source(),
        "drifted": ids.source(select="ts, id, id AS more"),
        "mistyped": ids.source("executor", select="ts, CAST(id AS STRING) AS id"),
    }
    wrong = {
        "nowhere": "no stream of this name",
        "drifted": "column more: the stream has no column of this name",
        "mistyped": "type string; expected int64",
    }
    ids.add(2)
    with IngestProcess(job(streams, door_of(system), tmp_path / "ingest")) as ingest:
        for name, words in wrong.items():
            error = eventually(partial(error_of, ingest, name), f"the error of {name}")
            assert words in error, error
        ids.add(2)
        assert_answered_once(system, hosted[0], ids.count)
        assert progress_of(ingest, "good").restarts == 0
        living = [number for number in range(ids.count) if number % 10 != 3]
        runs.worked_off(system, {"dated": len(living)})
        assert runs.answers(system, hosted[1:])["dated.of_dated"].column("id").to_pylist() == living
    dead = {stream["stream"]: stream["dead"] for stream in call(gateway.status)["streams"]}
    assert (dead["dated"], dead["good"]) == ({"no event time: ts": ids.count - len(living)}, {})


def test_wrong_key_is_reported_but_never_shown(system: System, tmp_path: Path) -> None:
    ids, key = Ids(tmp_path / "ids"), new_key()
    ids.add(1)
    door = GatewayAddress(door_of(system).endpoint, key)
    with IngestProcess(job({"good": ids.source()}, door, tmp_path / "ingest")) as ingest:
        error = eventually(partial(error_of, ingest, "good"), "the error")
    assert "this key is not valid for this gateway: check the option apiKey" in error
    assert key not in error
    written = [file for file in (tmp_path / "ingest").rglob("*") if file.is_file()]
    assert written
    assert all(key.encode() not in file.read_bytes() for file in written)


def error_of(ingest: IngestProcess, feed: str) -> str:
    return progress_of(ingest, feed).last_error or ""


# Tests of logs, disks and memory that are full.


def test_slow_lossless_class_holds_back_only_its_own_stream(system: System, tmp_path: Path) -> None:
    much, few = Ids(tmp_path / "much", file_rows=5000), Ids(tmp_path / "few")
    slow, quick = declared("slow", "held"), declared("quick", "free")
    runs.host(system, [slow, quick])
    streams = {"held": much.source("executor"), "free": few.source("executor")}
    gateway = system.gateway(runs.node_of(system))

    def refused() -> int:
        return sum(stream["refused_batches"] for stream in call(gateway.status)["streams"])

    with IngestProcess(job(streams, door_of(system), tmp_path / "ingest")) as ingest:
        pid = runs.pid_of(host_name(runs.units(system)["slow"].host))
        os.kill(pid, signal.SIGSTOP)
        try:
            much.add(30)
            eventually(refused, "a log without room")
            few.add(10)
            assert_answered_once(system, quick, few.count)
            assert rows_of(runs.folders(system, runs.node_of(system)), "held") < much.count
        finally:
            os.kill(pid, signal.SIGCONT)
        assert_answered_once(system, slow, much.count)
        assert [progress_of(ingest, stream).restarts for stream in streams] == [0, 0]


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """Mount a small file system, which needs root."""
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", str(folder)], capture_output=True
    )
    if made.returncode:
        pytest.skip("mounting a small file system needs root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Write a file that takes all free space; return its path."""
    path = folder / "filler"
    subprocess.run(["dd", "if=/dev/zero", f"of={path}", "bs=4k"], capture_output=True)
    assert shutil.disk_usage(folder).free == 0
    return path


def test_full_disk_of_a_checkpoint_is_reported_and_other_streams_continue(
    system: System, tmp_path: Path
) -> None:
    ids, hosted = Ids(tmp_path / "ids"), declared("disks", "on_full", "on_free")
    runs.host(system, [hosted])
    ids.add()
    with small_disk(tmp_path / "disk", "512k") as disk:
        streams = {"on_full": ids.source(checkpoint=str(disk / "checkpoint")), "on_free": ids.source()}
        with IngestProcess(job(streams, door_of(system), tmp_path / "ingest")) as ingest:
            assert_answered_once(system, hosted, ids.count)
            filler = fill(disk)
            ids.add()
            error = eventually(partial(error_of, ingest, "on_full"), "the error")
            dirs = runs.folders(system, runs.node_of(system))
            eventually(lambda: rows_of(dirs, "on_free") == ids.count, "the other stream")
            filler.unlink()
            ids.add()
            assert_answered_once(system, hosted, ids.count)
            assert progress_of(ingest, "on_free").restarts == 0
    assert "No space left on device" in error, error


def test_feeds_wait_while_the_memory_of_the_gateway_is_full_and_then_continue(tmp_path: Path) -> None:
    ids = Ids(tmp_path / "ids", file_rows=5000)
    with small_disk(tmp_path / "memory", "4m") as memory:
        gateway = RealGateway(memory)
        try:
            gateway.declare(SQL.format("ids"))
            door = GatewayAddress(gateway.endpoint, gateway.key)
            with IngestProcess(job({"ids": ids.source("executor")}, door, tmp_path / "ingest")) as ingest:
                ids.add()
                eventually(lambda: len(gateway.rows("ids")) == ids.count, "what there was room for")
                filler = fill(memory)
                ids.add(20)
                eventually(gateway.refused, "memory without room")
                filler.unlink()
                eventually(lambda: len(gateway.rows("ids")) == ids.count, "the rest")
                assert progress_of(ingest, "ids").restarts == 0
            assert sorted(row["id"] for row in gateway.rows("ids")) == list(range(ids.count))
        finally:
            gateway.close()
