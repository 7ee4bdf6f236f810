"""Cost of running a class in a host: workload W11 from producer to log, through gateway, ingest, slices and commits, in real processes.

For comparison, the same queries run over the same batches in a single thread, in the same benchmark run and on the core of
the slices. Speeds are those of a host that has run for a while: the input is repeated with later times, and measuring
begins after the logs of input and answers have been filled once. Answers are compared in a shorter run, after which the log
still holds all
answers.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.dispatcher.turn_loop import TurnLoop
from actors.gateway.gateway_loop import Gateway
from actors.gateway.producer import Producer
from actors.host.answer_reader import AnswerReader
from actors.host.host import Host, HostStatus, prepare_process
from actors.messages.gateway_messages import Accepted
from actors.messages.unit_messages import Unit
from actors.runtime.cpu_pinning import Cores, cores_of_process, keep_process_off, lane_cores
from actors.runtime.run_dirs import RunDirs, shared_memory
from bench.measure import Figure
from configs.classes.live_class import LiveClass, LiveSettings
from services.race import w11_workload
from services.race.race import ENGINE, SPAWN, attempt, prepare

# Length of the input in seconds of event time, in measured runs and in runs that compare answers; a second has 10,000 readings.
SECONDS, COMPARED_S = 1500, 150
# Number of repetitions of the input until measuring begins, until measuring ends, and until the producer ends.
# Before measuring, repetitions fill the gigabyte of input that Weir stores. After measuring, further repetitions keep the class busy.
WARM_LAPS, LAPS, LAPS_GIVEN = 2, 4, 6
BATCH = 10_000
TRIES = 3
POLL_S = 0.02
CLASS = LiveClass(
    name="w11",
    priority=1,
    delay_target_ms=1000,
    streams=w11_workload.STREAMS,
    queries=w11_workload.QUERIES,
    lossless=True,
)
SETTINGS = LiveSettings(manager="none", idle_after_s=None)


@dataclass(frozen=True, slots=True)
class Measured:
    """Measurements of one run through a host."""

    readings: int
    slices_s: float
    ingest_s: float
    process_s: float
    kept_waiting: float
    """Fraction of the slices' time in which the class thread did not have the processor."""
    queries: Mapping[str, Any]
    """Summary of the answers of each query, in runs that compare answers."""

    @property
    def readings_per_s(self) -> float:
        return self.readings / (self.slices_s + self.ingest_s)


def figures() -> list[Figure]:
    cores = lane_cores(1, cores_of_process())
    (short_alone,), (short,) = tried(COMPARED_S, 1, cores, compared=True)
    engine, live = tried(SECONDS, TRIES, cores, compared=False)
    alone = max(engine, key=lambda one: one["readings_per_s"])
    best = max(live, key=lambda one: one.readings_per_s)
    right = short.queries == short_alone["queries"]
    total_s = best.slices_s + best.ingest_s
    return [
        Figure(
            "live: W11 per processor-second of slices and ingest", best.readings_per_s / 1e6, "M readings"
        ),
        Figure("live: the same in one thread", alone["readings_per_s"] / 1e6, "M readings"),
        Figure("live: host ÷ one thread", best.readings_per_s / alone["readings_per_s"], "×", least=0.85),
        Figure("live: part of ingest", 100 * best.ingest_s / total_s, "%"),
        Figure("live: the host's time outside slices and ingest", 100 * (best.process_s / total_s - 1), "%"),
        Figure("live: part of slices without the processor", 100 * best.kept_waiting, "%"),
        Figure("live: answers equal those of one thread", float(right), "", least=1.0),
    ]


def tried(
    seconds: int, tries: int, cores: Cores, compared: bool
) -> tuple[list[dict[str, Any]], list[Measured]]:
    """Run workload W11 alternately in one thread and in a host, and return the measurements of both kinds of runs."""
    data = w11_workload.generated(seconds)
    engine, live = [], []
    with ProcessPoolExecutor(1, SPAWN, prepare, (data, cores.lanes[0] if cores.lanes else None)) as pool:
        for _ in range(tries):
            engine.append(pool.submit(attempt, ENGINE, BATCH).result())
            live.append(
                run(data, cores, compared, *((0, 1, 1) if compared else (WARM_LAPS, LAPS, LAPS_GIVEN)))
            )
    return engine, live


@contextmanager
def running(cores: Cores) -> Iterator[RunDirs]:
    """Run gateway and dispatcher of a node that has no hosts yet."""
    dirs = RunDirs(shared_memory(), f"bench-{os.getpid()}", "n")
    held = dirs.hold()
    try:
        with process(serve, dirs, cores):
            yield dirs
    finally:
        dirs.remove()
        os.close(held)


def run(data: w11_workload.Data, cores: Cores, compared: bool, warm: int, laps: int, given: int) -> Measured:
    lap = len(data.readings) + len(data.alerts)
    with running(cores) as dirs, process(serve_host, dirs, cores) as host:
        enough = threading.Event()
        publishing = threading.Thread(target=publish, args=(dirs, data, given, enough))
        publishing.start()
        before, since_s = done(host, warm * lap)
        after, until_s = done(host, laps * lap)
        enough.set()
        publishing.join()
        queries = {name: checked(dirs, name, data) for name in w11_workload.QUERIES} if compared else {}
    begun, ended = before.units["w11"].figures, after.units["w11"].figures
    return Measured(
        round((ended.delivered - begun.delivered) * len(data.readings) / lap),
        ended.used_s - begun.used_s,
        ended.ingest_s - begun.ingest_s,
        until_s - since_s,
        1 - (after.used_s - before.used_s) / (after.ran_s - before.ran_s),
        queries,
    )


def done(host: Connection, tuples: int) -> tuple[HostStatus, float]:
    """Wait until the class has taken this many tuples; return the host's status and processor time."""
    while (found := asked(host))[0].units["w11"].figures.delivered < tuples:
        time.sleep(POLL_S)
    return found


def publish(dirs: RunDirs, data: w11_workload.Data, laps: int, enough: threading.Event) -> None:
    """Publish the input repeatedly, as fast as the gateway accepts it, so that the class always has input."""
    with Producer(dirs.door_socket) as producer:
        for lap in range(laps):
            for stream, batch in w11_workload.turns(data, BATCH):
                (rows,) = later(batch, 1000 * SECONDS * lap).combine_chunks().to_batches()
                while not isinstance(answer := producer.publish(stream, rows), Accepted):
                    assert answer.retry_after_s is not None, answer.reason
                    time.sleep(answer.retry_after_s)
                if enough.is_set():
                    return


def later(batch: pa.Table, ms: int) -> pa.Table:
    """Return a copy of the batch with later timestamps."""
    return batch.set_column(0, "ts", pc.add(batch.column("ts"), ms)) if ms else batch


def checked(dirs: RunDirs, query: str, data: w11_workload.Data) -> dict[str, Any]:
    reader = AnswerReader(dirs, "w11")
    wanted = [place for place, (name, _) in enumerate(reader.columns(query)) if name != "window_start"]
    parts = [
        tuple(np.array(answer.train.columns[place].data) for place in wanted)
        for answer in reader.answers(query)
    ]
    return w11_workload.checked(query, parts, data)


@contextmanager
def process(work: Any, dirs: RunDirs, cores: Cores) -> Iterator[Connection]:
    """Run `work` in another process, and yield the connection to the process once it is ready. Closing the connection ends the process."""
    ours, theirs = SPAWN.Pipe()
    started = SPAWN.Process(target=work, args=(dirs, cores, theirs))
    started.start()
    theirs.close()
    try:
        assert ours.recv() == "ready"
        yield ours
    finally:
        ours.close()
        started.join()


def asked(host: Connection) -> tuple[HostStatus, float]:
    host.send("status")
    found: tuple[HostStatus, float] = host.recv()
    return found


def serve(dirs: RunDirs, cores: Cores, parent: Connection) -> None:
    """Run gateway and dispatcher until the parent closes the connection."""
    keep_process_off(cores)
    gateway, turns = (
        Gateway(dirs, bytes_max=SETTINGS.retained_bytes),
        TurnLoop(dirs.dispatcher_socket, 0.01, cores=cores),
    )
    for sql in w11_workload.STREAMS:
        gateway.streams.declare(sql)
    turns.set_shares({"w11": 1.0}, {"w11": "h1"})
    threads = [threading.Thread(target=one.run) for one in (gateway, turns)]
    for thread in threads:
        thread.start()
    parent.send("ready")
    answer(parent, lambda: None)
    gateway.stop()
    turns.stop()
    for thread in threads:
        thread.join()


def serve_host(dirs: RunDirs, cores: Cores, parent: Connection) -> None:
    cores = keep_process_off(cores)
    prepare_process()
    host = Host("h1", dirs, SETTINGS, lambda *_: None, lambda problem: os._exit(1), cores=cores)
    host.start([Unit(CLASS, 0, 1.0, 1.0)])
    while "w11" not in (dirs.stream("alerts") / "stream.json").read_text(encoding="utf-8"):
        time.sleep(POLL_S)
    parent.send("ready")
    answer(parent, lambda: (host.status(), time.process_time()))
    host.stop()


def answer(parent: Connection, told: Any) -> None:
    try:
        while True:
            parent.recv()
            parent.send(told())
    except EOFError:
        return
