"""Cost of ten readers of one query's answers, for the service and for the class that answers.

A live system has one class, and each of the class's input rows gives one answer. The service runs in this process, as in
`weir up`; the producer and the readers run in other processes. Phases with and without readers alternate, so that other
programs on the machine affect both kinds of phases.
"""

from __future__ import annotations

import multiprocessing.connection
import socket
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa

from actors.gateway.producer import Producer
from actors.messages.gateway_messages import Accepted
from actors.runtime.run_dirs import RunDirs, shared_memory
from actors.system import System, start
from bench.local_places import LocalPlaces
from bench.measure import Figure
from configs.classes.live_class import LiveClass, LiveSettings
from configs.documents.declarations import Ref, documents_of
from configs.service.service_settings import ServiceSettings
from services.api.routes.results import results_of
from services.api.server import Serving
from services.api.service import Service, service_of
from services.catalog.catalog import Catalog
from services.common.weir_home import Home
from services.race.race import SPAWN

RATE, BATCH = 50_000, 500
READERS = 10
PHASES, PHASE_S = 2, 7.0
# Seconds between two samples (LOOK_S), and seconds of a phase before its first sample (SETTLED_S).
# Reported response times cover the last five seconds, so an earlier sample would contain answers of the previous phase.
LOOK_S, SETTLED_S = 0.5, 5.0
POLL_S = 0.05
CHUNK = 1 << 18
# Number of single rows that are timed from producer to reader; shortest and longest pause between two rows, in seconds.
SINGLE_ROWS, GAP_S = 400, (0.02, 0.12)
STREAM = "CREATE STREAM readings (ts int64, sensor int32, temp float64, WATERMARK FOR ts AS ts)"
SQL = "SELECT ts, sensor, temp FROM readings"
CLASS = LiveClass(name="gold", priority=1, delay_target_ms=300, streams=(STREAM,), queries={"all": SQL})
DOCUMENTS = f"""
{{kind: Stream, name: readings, sql: "{STREAM}"}}
---
{{kind: Tenant, name: gold, priority_class: gold}}
---
{{kind: Query, tenant: gold, name: all, sql: "{SQL}"}}
"""
ROW, GAP, HEARTBEAT = b'"_seq"', b"event: gap", b":\n\n"


def figures() -> list[Figure]:
    with ExitStack() as stack:
        system = stack.enter_context(start(LiveSettings(), [CLASS]))
        (node,) = system.status().system.nodes
        dirs = RunDirs(shared_memory(), system.name, node)
        service = stack.enter_context(served(dirs))
        alone, read_by_ten = Phases(), Phases()
        with produced(dirs):
            with read(service.url, service.key):
                wait_flowing(system)
            for _ in range(PHASES):
                alone.look(system, ())
                with read(service.url, service.key) as readers:
                    read_by_ten.look(system, readers)
        delays_ms = delays_of_single_rows(service, dirs)
    rows = [one / read_by_ten.seconds for one in read_by_ten.rows]
    ratio = read_by_ten.p99_ms / alone.p99_ms
    each = f"{READERS} readers of {RATE:,} answers/s"
    return [
        Figure(f"{each}: p99 of the class ÷ p99 without readers", ratio, "×", limit=1.1),
        Figure("p99 of the class without readers", alone.p99_ms, "ms"),
        Figure("rows that the slowest reader received", min(rows), "/s", least=0.98 * RATE),
        Figure("gaps that were reported to readers", float(read_by_ten.gaps), "", limit=0.0),
        Figure("processor time of the service", read_by_ten.used_pct, "% of a core"),
        Figure("processor time of the service without readers", alone.used_pct, "% of a core"),
        Figure("a single row, from the door to a reader, p50", float(np.quantile(delays_ms, 0.5)), "ms"),
        Figure("a single row, from the door to a reader, p99", float(np.quantile(delays_ms, 0.99)), "ms"),
    ]


class Phases:
    """Measurements that are summed over all phases of one kind: with readers, or without readers."""

    def __init__(self) -> None:
        self.seconds = self._used_s = 0.0
        self.rows, self.gaps = [0] * READERS, 0
        self._p99_ms: list[float] = []

    @property
    def p99_ms(self) -> float:
        return statistics.median(self._p99_ms)

    @property
    def used_pct(self) -> float:
        return 100 * self._used_s / self.seconds

    def look(self, system: System, readers: Sequence[Connection]) -> None:
        time.sleep(SETTLED_S)
        before, began, used_s = counted(readers), time.monotonic(), time.process_time()
        while time.monotonic() < began + PHASE_S:
            time.sleep(LOOK_S)
            self._p99_ms.append(p99_ms(system))
        self._used_s += time.process_time() - used_s
        after = counted(readers)
        self.seconds += time.monotonic() - began
        for place, (one, other) in enumerate(zip(before.rows, after.rows, strict=True)):
            self.rows[place] += other - one
        self.gaps += after.gaps - before.gaps


def p99_ms(system: System) -> float:
    report = system.status().system.units["gold"].report
    return 0.0 if report is None else report.figures.p99_ms


def wait_flowing(system: System) -> None:
    while not p99_ms(system):
        time.sleep(POLL_S)


@dataclass(frozen=True)
class There:
    url: str
    key: str


@contextmanager
def served(dirs: RunDirs) -> Iterator[There]:
    with TemporaryDirectory() as folder, ExitStack() as stack:
        catalog = Catalog(Home(Path(folder)))
        stack.callback(catalog.close)
        catalog.apply(documents_of(DOCUMENTS), "bench")
        key, _ = catalog.keys.create("reader", ["tenant:gold"], "bench")
        service: Service = service_of(catalog, ServiceSettings(port=0))
        assert service.snapshot.now.get(Ref("Query", "all", "gold")) is not None
        service.results = results_of(service, LocalPlaces(dirs), lambda: "")
        stack.callback(service.results.close)
        serving = stack.enter_context(Serving(service))
        yield There(serving.url, key)


# -- processes of the producer and of the readers
# -----------------------------------------------------------------------------------------------


@contextmanager
def produced(dirs: RunDirs) -> Iterator[None]:
    with process(produce, dirs.door_socket):
        yield


def produce(parent: Connection, door: Path) -> None:
    """Publish RATE rows per second until the parent process ends."""
    began, sent = time.monotonic(), 0
    numbers = np.arange(BATCH)
    with Producer(door) as producer:
        while not parent.poll(max(0.0, began + sent / RATE - time.monotonic())):
            columns = {"ts": sent + numbers, "sensor": pa.array(numbers, pa.int32()), "temp": numbers / 7}
            answer = producer.publish("readings", pa.RecordBatch.from_pydict(columns))
            assert isinstance(answer, Accepted), answer
            sent += BATCH


@contextmanager
def read(url: str, key: str) -> Iterator[Sequence[Connection]]:
    with process(read_events, url, key) as parent:
        yield (parent,)


@dataclass
class Counted:
    """Number of rows that each reader has received, and number of gaps (missing rows) that were reported to readers."""

    rows: list[int]
    gaps: int = 0


def counted(readers: Sequence[Connection]) -> Counted:
    for one in readers:
        one.send("counted")
        found: Counted = one.recv()
        return found
    return Counted([0] * READERS)


def read_events(parent: Connection, url: str, key: str) -> None:
    """Read events and count rows until the parent process ends; this reader uses little processor time."""
    where, found = urlsplit(url), Counted([0] * READERS)
    sockets = [socket.create_connection((where.hostname, where.port)) for _ in range(READERS)]
    for one in sockets:
        one.sendall(request_of(key))
    rests = [b""] * READERS
    while True:
        ready = multiprocessing.connection.wait([parent, *sockets])
        if parent in ready:
            if parent.poll() and not asked(parent, found):
                return
            continue
        for place, one in enumerate(sockets):
            if one in ready:
                # The text to be counted may be split between two chunks, so the end of each chunk is kept and searched with the next chunk.
                data = rests[place] + one.recv(CHUNK)
                found.rows[place] += data.count(ROW)
                found.gaps += data.count(GAP)
                keep = max(len(ROW), len(GAP)) - 1
                rests[place] = data[-keep:]
                found.rows[place] -= rests[place].count(ROW)


def request_of(key: str) -> bytes:
    path = "/v1/tenants/gold/queries/all/results/stream?after=latest"
    return f"GET {path} HTTP/1.1\r\nHost: weir\r\nAuthorization: Bearer {key}\r\n\r\n".encode()


def delays_of_single_rows(service: There, dirs: RunDirs) -> list[float]:
    """Return the milliseconds from the publishing of a single row until a reader has its event, for several rows in an idle system."""
    with process(measure_delays, service.url, service.key, dirs.door_socket) as measuring:
        delays_ms: list[float] = measuring.recv()
        return delays_ms


def measure_delays(parent: Connection, url: str, key: str, door: Path) -> None:
    """Publish single rows at random moments, and measure for each row the time from publishing until its event is read."""
    address, gaps_s = urlsplit(url), np.random.default_rng(1).uniform(*GAP_S, SINGLE_ROWS)
    delays_ms: list[float] = []
    with socket.create_connection((address.hostname, address.port)) as events, Producer(door) as producer:
        events.sendall(request_of(key))
        while HEARTBEAT not in events.recv(CHUNK):
            pass
        for gap_s in gaps_s:
            time.sleep(gap_s)
            columns = {"ts": [time.monotonic_ns()], "sensor": pa.array([0], pa.int32()), "temp": [0.0]}
            answer = producer.publish("readings", pa.RecordBatch.from_pydict(columns))
            assert isinstance(answer, Accepted), answer
            while ROW not in (data := events.recv(CHUNK)):
                pass
            began_ns = int(data.partition(b'"ts":')[2].partition(b",")[0])
            delays_ms.append((time.monotonic_ns() - began_ns) / 1e6)
    parent.send(delays_ms)


def asked(parent: Connection, found: Counted) -> bool:
    try:
        parent.recv()
        parent.send(found)
    except (EOFError, OSError):
        return False
    return True


@contextmanager
def process(work: Callable[..., None], *arguments: object) -> Iterator[Connection]:
    """Run `work` in another process, and yield the connection to the process. Closing the connection ends the process."""
    ours, theirs = SPAWN.Pipe()
    started = SPAWN.Process(target=work, args=(theirs, *arguments), daemon=True)
    started.start()
    theirs.close()
    try:
        yield ours
    finally:
        ours.close()
        started.join()
