"""Cost of a turn between real processes: three hosts that always have input share one lane in the ratio 6 : 3 : 1.

A hand-over is the time between two slices as their hosts measured it: the end of a slice, the message Ended, the decision,
the message Granted, and the begin of the next slice. The hand-over is measured with dispatcher and class threads on the
lane's core, and with threads where the operating system puts them. On a shared machine, other programs run between and
inside slices. So the best second of a run shows the cost of the hand-over itself, and the median second shows the cost
under the present
load.
"""

from __future__ import annotations

import itertools
import multiprocessing
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from actors.dispatcher.turn_loop import TurnLoop, TurnStatus
from actors.host.turn_client import SliceClient
from actors.runtime.cpu_pinning import Cores, cores_of_process, keep_process_off, lane_cores
from bench.measure import Figure

SHARES = {"gold": 0.6, "silver": 0.3, "bronze": 0.1}
ROUND_S = 0.01
PINNED_S, LOOSE_S, IDLE_S = 10.0, 5.0, 2.0
# Processor-seconds that a train takes; a slice does not end inside a train.
TRAIN_S = 1e-4

Slice = tuple[float, float, float]  # Begin, end and processor time of a slice


@dataclass(frozen=True, slots=True)
class Told:
    """Measurements that a host sends at the end of a run."""

    slices: list[Slice]
    outside_s: float  # Processor time of the class thread outside slices


@dataclass(frozen=True, slots=True)
class Measured:
    """Measurements of one run of the three hosts."""

    slices: Mapping[str, list[Slice]]
    exchange_s: float
    """Processor time of the dispatcher's loop, and of the class threads outside slices."""
    status: TurnStatus
    idle_wake_ups: int

    @property
    def windows(self) -> list[list[Slice]]:
        """Slices on the lane, grouped by second."""
        on_lane = sorted(one for found in self.slices.values() for one in found)
        seconds = itertools.groupby(on_lane, key=lambda one: int(one[0] - on_lane[0][0]))
        return [found for found in (list(group) for _, group in seconds) if len(found) > 1]

    @property
    def hand_overs_us(self) -> list[float]:
        """Median time between two slices in each second, in microseconds."""
        return [1e6 * statistics.median(gaps(found)) for found in self.windows]

    @property
    def outside_pct(self) -> list[float]:
        """Percentage of the lane's time outside slices, in each second."""
        return [100 * sum(gaps(found)) / (found[-1][1] - found[0][0]) for found in self.windows]

    @property
    def exchange_pct(self) -> float:
        """Percentage of the used processor time that was spent on hand-overs."""
        used_s = sum(one[2] for found in self.slices.values() for one in found)
        return 100 * self.exchange_s / (self.exchange_s + used_s)

    @property
    def off_by(self) -> float:
        """Maximum difference between a class's fraction of the processor time and the share of the class."""
        used = {name: sum(one[2] for one in found) for name, found in self.slices.items()}
        total = sum(used.values())
        return max(abs(used[name] / total - share) for name, share in SHARES.items())


def figures() -> list[Figure]:
    cores = lane_cores(1, cores_of_process())
    loose = measured(Cores(why_not="for comparison"), LOOSE_S)
    pinned = measured(cores, PINNED_S)
    where = f"not pinned: {cores.why_not}" if cores.why_not else "one core"
    best_us, median_us = min(pinned.hand_overs_us), statistics.median(pinned.hand_overs_us)
    best_pct, median_pct = min(pinned.outside_pct), statistics.median(pinned.outside_pct)
    loose_us = statistics.median(loose.hand_overs_us)
    return [
        Figure(f"hand-over, {where}, p50 of the best second", best_us, "µs", limit=120.0),
        Figure(f"hand-over, {where}, p50 of the median second", median_us, "µs"),
        Figure("hand-over, any core, p50 of the best second", min(loose.hand_overs_us), "µs"),
        Figure("hand-over, any core, p50 of the median second", loose_us, "µs"),
        Figure("hand-over, one core ÷ any core", median_us / loose_us, "×"),
        Figure("decision, from Ended read to Granted sent", 1e3 * pinned.status.decided_ms["p50"], "µs"),
        Figure(f"lane time outside slices, {where}, best second", best_pct, "%", limit=3.0),
        Figure(f"lane time outside slices, {where}, median second", median_pct, "%"),
        Figure("lane time outside slices, any core", statistics.median(loose.outside_pct), "%"),
        Figure(f"processor time of hand-overs, {where}", pinned.exchange_pct, "%"),
        Figure("processor time of hand-overs, any core", loose.exchange_pct, "%"),
        Figure(
            f"greatest deviation from 6 : 3 : 1 over {PINNED_S:g} s", 100 * pinned.off_by, "points", limit=2.0
        ),
        Figure(f"wake-ups of an idle dispatcher in {IDLE_S:g} s", pinned.idle_wake_ups, "", limit=1.0),
    ]


def gaps(slices: list[Slice]) -> list[float]:
    return [after[0] - before[1] for before, after in itertools.pairwise(slices)]


def measured(cores: Cores, seconds: float) -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "turns" / "dispatcher.sock"
        with processes(path, cores) as hosts, serving(TurnLoop(path, ROUND_S, cores=cores)) as (loop, thread):
            loop.set_shares(SHARES, {name: name for name in SHARES})
            while len(loop.status().hosts) < len(SHARES):
                time.sleep(0.01)
            before = wake_ups(thread)
            time.sleep(IDLE_S)
            idle, spent_s = wake_ups(thread) - before, processor_s(thread)
            for host in hosts.values():
                host.send("begin")
            time.sleep(seconds)
            status, spent_s = loop.status(), processor_s(thread) - spent_s
            for host in hosts.values():
                host.send("end")
            told = {name: host.recv() for name, host in hosts.items()}
    outside_s = sum(told_one.outside_s for told_one in told.values())
    return Measured({name: one.slices for name, one in told.items()}, spent_s + outside_s, status, idle)


@contextmanager
def serving(loop: TurnLoop) -> Iterator[tuple[TurnLoop, threading.Thread]]:
    thread = threading.Thread(target=loop.run)
    thread.start()
    try:
        yield loop, thread
    finally:
        loop.stop()
        thread.join()


@contextmanager
def processes(path: Path, cores: Cores) -> Iterator[dict[str, Connection]]:
    """Start one process for each class."""
    context = multiprocessing.get_context("spawn")
    ends: dict[str, Connection] = {}
    started = []
    for name in SHARES:
        ends[name], theirs = context.Pipe()
        started.append(context.Process(target=host_process, args=(path, name, cores, theirs)))
        started[-1].start()
        theirs.close()
    try:
        for end in ends.values():
            end.recv()
        yield ends
    finally:
        for end in ends.values():
            end.close()
        for one in started:
            one.join()


def host_process(path: Path, name: str, cores: Cores, owner: Connection) -> None:
    """Run a class thread that always has work; the main thread starts and stops the class thread when messages of the benchmark arrive."""
    cores = keep_process_off(cores)
    slices: list[Slice] = []

    def run(_: str, quota_s: float) -> tuple[float, bool]:
        began, spent = time.monotonic(), time.thread_time()
        used_s = 0.0
        while used_s < quota_s:
            until = time.thread_time() + TRAIN_S
            while time.thread_time() < until:
                pass
            used_s = time.thread_time() - spent
        slices.append((began, time.monotonic(), used_s))
        return used_s, True

    client = SliceClient(path, name, run, lambda: None, classes=(name,), cores=cores)
    spent_s: list[float] = []

    def serve() -> None:
        client.serve()
        spent_s.append(time.thread_time())

    thread = threading.Thread(target=serve)
    thread.start()
    owner.send("here")
    try:
        assert owner.recv() == "begin"
        client.ready(name)
        assert owner.recv() == "end"
    except EOFError:
        pass
    finally:
        client.stop()
        thread.join()
    owner.send(Told(slices, sum(spent_s) - sum(one[2] for one in slices)))


def processor_s(thread: threading.Thread) -> float:
    assert thread.ident is not None
    return time.clock_gettime(time.pthread_getcpuclockid(thread.ident))


def wake_ups(thread: threading.Thread) -> int:
    """Return the number of times that the thread has gone to sleep."""
    status = Path(f"/proc/self/task/{thread.native_id}/status").read_text(encoding="ascii")
    lines = dict(line.split(":", 1) for line in status.splitlines())
    return int(lines["voluntary_ctxt_switches"])
