"""A host that is killed at random moments: its answers are the same as without the kills.

The host runs in processes of its own, over logs that outlive them; gateway, dispatcher and producer keep running.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from actors.dispatcher.turn_loop import TurnLoop
from actors.gateway.gateway_loop import Gateway
from actors.gateway.producer import Producer
from actors.host.answer_reader import AnswerReader
from actors.host.host import Host
from actors.messages.gateway_messages import Accepted
from actors.messages.unit_messages import Unit, UnitReport
from actors.runtime.run_dirs import RunDirs
from configs.classes.live_class import LiveClass, LiveSettings
from engine.class_.door import Door
from engine.class_.hosted_class import HostedClass
from engine.data.train import train_from_arrow, values_to_arrow
from loadshed.shedder import Shedder
from tests.support.answer_logs import answer_rows

pytestmark = pytest.mark.slow

STREAMS = (
    "CREATE STREAM readings (ts int64, sensor int32, temp float64, WATERMARK FOR ts AS ts)",
    "CREATE STREAM alerts (ts int64, sensor int32, level int32, WATERMARK FOR ts AS ts)",
)
QUERIES = {
    "hot": "SELECT ts, sensor, temp FROM readings WHERE temp > 0",
    "mean": "SELECT window_end AS wend, sensor, SUM(temp) AS v FROM readings [RANGE 4 SECONDS SLIDE 2 SECONDS] GROUP BY sensor",
    "last": "SELECT COUNT(*) AS n, MAX(temp) AS hi FROM readings [ROWS 5 SLIDE 3]",
    "near": "SELECT r.ts AS rts, a.ts AS ats, r.sensor, r.temp, a.level FROM readings r JOIN alerts a ON r.sensor = a.sensor"
    " AND a.ts BETWEEN r.ts - INTERVAL 500 MILLISECONDS AND r.ts + INTERVAL 500 MILLISECONDS",
    "many": "SELECT window_end AS wend, COUNT(*) AS n FROM hot [RANGE 2 SECONDS]",
}
GOLD = LiveClass(name="gold", priority=1, delay_target_ms=300, streams=STREAMS, queries=QUERIES)
KILLS = 12
BATCHES = 600
HUNG_S = 60.0
# Host processes are forked from a process that has loaded all modules and has no threads.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["actors.host.host"])


def live(manager: str, queue_max: int) -> LiveSettings:
    return LiveSettings.model_validate(
        {
            "manager": manager,
            "train_max": 16,
            "queue_max": queue_max,
            "snapshot_s": 0.01,
            "idle_after_s": None,
            "load": {"cycle_ms": 10},
        }
    )


def host_process(dirs: RunDirs, settings: LiveSettings, parent: Connection) -> None:
    host = Host("h1", dirs, settings, lambda *_: None, lambda problem: os._exit(1))
    host.start([Unit(GOLD, 0, 1.0, 1.0)])
    parent.send("up")
    parent.recv()


@contextmanager
def around(dirs: RunDirs, **retained: Any) -> Iterator[Gateway]:
    gateway, turns = Gateway(dirs, **retained), TurnLoop(dirs.dispatcher_socket, round_s=0.002)
    for sql in STREAMS:
        gateway.streams.declare(sql)
    turns.set_shares({"gold": 1.0}, {"gold": "h1"})
    threads = [threading.Thread(target=one.run) for one in (gateway, turns)]
    for thread in threads:
        thread.start()
    try:
        yield gateway
    finally:
        gateway.stop()
        turns.stop()
        for thread in threads:
            thread.join()


def drawn(seed: int) -> list[tuple[str, pa.RecordBatch]]:
    """Return random batches in the order in which they are sent."""
    chance, clock = np.random.default_rng(seed), {"readings": 0, "alerts": 0}
    found = []
    for _ in range(BATCHES):
        stream = "readings" if chance.random() < 0.7 else "alerts"
        size = int(chance.integers(1, 60))
        times = clock[stream] + np.sort(chance.integers(0, 700, size))
        clock[stream] = int(times[-1])
        columns: dict[str, Any] = {"ts": times, "sensor": pa.array(chance.integers(0, 4, size), pa.int32())}
        if stream == "readings":
            columns["temp"] = chance.integers(-8, 8, size) / 4
        else:
            columns["level"] = pa.array(chance.integers(1, 5, size), pa.int32())
        found.append((stream, pa.RecordBatch.from_pydict(columns)))
    return found


def undisturbed(sent: Sequence[tuple[str, pa.RecordBatch]]) -> dict[str, Counter[tuple[Any, ...]]]:
    """Return the answers of a class that is never killed."""
    hosted = HostedClass(GOLD, 1000)
    doors = {
        name: Door(name, Shedder("random", np.random.default_rng(0)), 10**9)
        for name in hosted.queries.schemas
    }
    for number, (stream, batch) in enumerate(sent):
        train = train_from_arrow(batch, hosted.queries.schemas[stream].schema, 0.0)
        hosted.take(doors[stream].admit(number, train, 0))
        hosted.run(1e9, lambda: 0.0, lambda: 0.0)
    commit = hosted.committed()
    assert commit is not None
    found: dict[str, Counter[tuple[Any, ...]]] = {}
    for answer in commit.answers:
        columns = [values_to_arrow(one).to_pylist() for one in answer.train.columns]
        found.setdefault(answer.query, Counter()).update(zip(*columns, strict=True))
    return found


def is_known(gateway: Gateway) -> bool:
    """Return True if this or an earlier process of the host has made the class a reader of all streams."""
    return all("gold" in stream["readers"] for stream in gateway.streams.status())


def run_and_kill(dirs: RunDirs, settings: LiveSettings, chance: random.Random, gateway: Gateway) -> None:
    """Start the host and kill it at random moments, KILLS times. A kill does not count before the gateway knows the class."""
    kills = early = 0
    while kills < KILLS:
        ours, theirs = PROCESSES.Pipe()
        process = PROCESSES.Process(target=host_process, args=(dirs, settings, theirs))
        process.start()
        theirs.close()
        assert ours.recv() == "up"
        # On a busy machine the gateway may learn of the class late, so the wait grows with each early kill.
        process.join(0.1 * early + chance.uniform(0, 0.2 if kills % 3 else 0.02))
        assert process.pid is not None
        assert process.exitcode is None, "the host has ended without a kill"
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        ours.close()
        if is_known(gateway):
            kills, early = kills + 1, 0
        else:
            early += 1


def publish(dirs: RunDirs, sent: Sequence[tuple[str, pa.RecordBatch]]) -> None:
    """Publish batches evenly over the time that the kills take."""
    with Producer(dirs.door_socket) as producer:
        for stream, batch in sent:
            assert isinstance(producer.publish(stream, batch), Accepted)
            threading.Event().wait(0.001)


def wait_known(gateway: Gateway, killing: Future[None]) -> None:
    while not is_known(gateway):
        if killing.done():
            killing.result()
        threading.Event().wait(0.001)


@pytest.mark.parametrize(("manager", "queue_max"), [("none", 10**6), ("dilos", 100)])
def test_a_repeatedly_killed_host_gives_the_same_answers(manager: str, queue_max: int) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance, sent, settings = random.Random(seed), drawn(seed), live(manager, queue_max)
    with TemporaryDirectory() as base:
        dirs = RunDirs(Path(base), "s", "n")
        held = dirs.hold()
        with around(dirs) as gateway, ThreadPoolExecutor(2) as threads:
            killing = threads.submit(run_and_kill, dirs, settings, chance, gateway)
            wait_known(gateway, killing)
            feeding = threads.submit(publish, dirs, sent)
            killing.result()
            feeding.result()
            ended = threading.Event()
            offered = sum(len(batch) for _, batch in sent)

            def report(_: str, reports: Sequence[UnitReport]) -> None:
                if reports[0].figures.offered == offered and not reports[0].figures.queued:
                    ended.set()

            host = Host("h1", dirs, settings, report, lambda problem: None)
            host.start([Unit(GOLD, 0, 1.0, 1.0)])
            assert ended.wait(HUNG_S), host.status()
            status, ledgers = host.status().units["gold"], host.ledger("gold")
            host.stop()
        assert not status.mismatches
        for ledger, queued in ledgers.values():
            assert ledger.closes(queued)
            assert ledger.failed == 0
        reader = AnswerReader(dirs, "gold")
        found = {query: [tuple(row.values()) for row in answer_rows(reader, query)] for query in QUERIES}
        os.close(held)
    for answers in found.values():
        assert [row[0] for row in answers] == list(range(len(answers)))
    if manager == "none":
        expected = undisturbed(sent)
        assert {query: Counter(row[1:] for row in answers) for query, answers in found.items()} == expected


# Sizes of logs in bytes. The gateway drops a segment of such a small log after every few batches.
LITTLE = {"bytes_max": 1 << 18, "segment_bytes": 1 << 14}


@pytest.mark.parametrize("manager", ["none", "dilos"])
def test_rows_that_a_full_log_dropped_while_a_killed_host_was_away_count_as_failed(
    manager: str,
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance, settings = random.Random(seed), live(manager, 10**6)
    with TemporaryDirectory() as base:
        dirs = RunDirs(Path(base), "s", "n")
        held = dirs.hold()
        with around(dirs, **LITTLE) as gateway, ThreadPoolExecutor(2) as threads:
            killing = threads.submit(run_and_kill, dirs, settings, chance, gateway)
            wait_known(gateway, killing)
            sent: Counter[str] = Counter()
            number = 0
            while not killing.done() or number % 2:
                stream, batch = numbered(number)
                publish(dirs, [(stream, batch)])
                sent[stream] += len(batch)
                number += 1
            killing.result()
            ended = threading.Event()

            def report(_: str, reports: Sequence[UnitReport]) -> None:
                figures = reports[0].figures
                if figures.offered == sum(sent.values()) and not figures.queued:
                    ended.set()

            host = Host("h1", dirs, settings, report, lambda problem: None)
            host.start([Unit(GOLD, 0, 1.0, 1.0)])
            assert ended.wait(HUNG_S), host.status()
            ledgers = host.ledger("gold")
            host.stop()
        os.close(held)
    for ledger, queued in ledgers.values():
        assert ledger.closes(queued)
    assert {stream: ledger.offered for stream, (ledger, _) in ledgers.items()} == sent
    assert sum(ledger.failed for ledger, _ in ledgers.values()) > 0


def numbered(number: int) -> tuple[str, pa.RecordBatch]:
    """Return a batch of many tuples, of stream `alerts` if its number is odd and of `readings` otherwise."""
    size, stream = 150, "alerts" if number % 2 else "readings"
    times = 100 * number + np.arange(size)
    columns: dict[str, Any] = {"ts": times, "sensor": pa.array(times % 4, pa.int32())}
    if stream == "readings":
        columns["temp"] = (times % 16 - 8) / 4
    else:
        columns["level"] = pa.array(times % 4 + 1, pa.int32())
    return stream, pa.RecordBatch.from_pydict(columns)
