"""Endurance test of a live system under changing load, with processes killed at random: `python -m bench.soak [--minutes 20]`.

Checked during the run: the ledger of every class closes; answers are numbered without gaps or repetitions; class 1, which asks
for less than its share, loses nothing and is answered in time; memory and logs stay bounded. Checked at the end: all offered
tuples are accounted for, and a replay of the event logs makes the same decisions. The exit code is 1 if a check fails.

The promises to class 1 cannot be kept while a process that class 1 needs is dead, or while other programs use the
processor. Checks within `RECOVERY_S` after such a moment do not count for the promises to class 1, but for everything else.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import ray
from rich import box
from rich.console import Console
from rich.table import Table

from actors.gateway.replay_feeder import Feeder
from actors.host.host import HostStatus
from actors.host.recent_latency import RECENT_S
from actors.host.unit import UnitStatus
from actors.log.commit_format import answers_of, is_snapshot, steps_of
from actors.log.segment_log import FrameForgotten, Reader
from actors.runtime.cluster import all_names
from actors.runtime.names import COORDINATOR, dispatcher_name, find, host_name
from actors.runtime.run_dirs import RunDirs, shared_memory
from actors.system import System, start
from bench.idle import smaps_mb
from configs.classes.live_class import LiveClass, LiveSettings
from configs.scenario import w11
from configs.scenario.arrivals import StepArrivals
from services.cli.demonstration.demo_feed import inputs
from services.cli.demonstration.live_run import Calibration, Watched, calibrated
from services.cli.simulation.replay import remarks
from sim.replay import replay

SETTINGS = LiveSettings.model_validate(
    {"train_max": 1000, "retained_bytes": 256 << 20, "results_bytes": 256 << 20}
)
FIRST = "class1"
# Priority, delay target in ms, and maximum offered load (as a fraction of what the machine can process) of each class.
CLASSES: Mapping[str, tuple[float, float, float]] = {
    FIRST: (6, 300, 0.45),
    "class2": (3, 400, 0.6),
    "class3": (1, 500, 0.8),
}
LOOK_S, MEMORY_EVERY_S = 0.5, 5.0
LOAD_LASTS_S, KILL_EVERY_S = (5.0, 15.0), (20.0, 60.0)
# Seconds until a system has recovered: it starts the killed process again, and processes the input that has waited for the process.
RECOVERY_S = 20.0
# Other programs disturb the run if slices lack the processor for more than this fraction of their time.
TAKEN_PART = 0.15
ANSWER_S = 5.0
COOL_DOWN_S = 90.0
WITHIN_TARGET_LEAST = 0.95
# Maximum growth of a process's own memory over the second half of a run of any length.
GROWTH_MB = 64.0
# Maximum size of a snapshot of a class's state, in addition to the bytes of its log.
STATES_BYTES = 256 << 20


def declared(name: str, lossless: bool = False, prefix: str = "") -> LiveClass:
    priority, target_ms, _ = CLASSES[name]
    name = f"{prefix}{name}"
    return LiveClass(
        name=name,
        priority=priority,
        delay_target_ms=target_ms,
        streams=w11.streams(f"{name}_"),
        queries=w11.queries(f"{name}_"),
        lossless=lossless,
    )


class Answers:
    """Reader of a class's log that checks the sequence numbers of each query's answers for gaps and repetitions."""

    def __init__(self, folder: Path) -> None:
        self._log = Reader(folder)
        self._next = 0
        self.seen: Counter[str] = Counter()
        self.frames = self.forgotten = 0
        self.wrong: list[str] = []

    def look(self) -> None:
        try:
            for number, payload in self._log.frames(self._next):
                self._next = number + 1
                self.frames += 1
                if not is_snapshot(payload):
                    self._follow(payload)
        except FrameForgotten as lost:
            # The test read too slowly, so rows are missing. Checking continues with the sequence number of the next answer of each query.
            self.forgotten += lost.next - self._next
            self._next = lost.next
            self.seen.clear()

    def _follow(self, payload: memoryview) -> None:
        for query, count in steps_of(payload).answered.items():
            for answer in answers_of(payload, query):
                expected = self.seen.get(query, None if self.forgotten else 0)
                if expected is not None and answer.first != expected:
                    self.wrong.append(f"{query}: answer {answer.first} instead of {expected}")
                self.seen[query] = answer.first + len(answer.train)
            if self.seen.get(query, count) != count:
                self.wrong.append(f"{query}: {count} answers committed, but {self.seen[query]} in the log")


@dataclass
class Findings:
    """Problems and figures that the checks of the run have found until now."""

    looks: int = 0
    unanswered: int = 0
    """Number of checks of a class that its host did not answer."""
    kills: Counter[str] = field(default_factory=Counter)
    ledger: list[str] = field(default_factory=list)
    mismatches: list[str] = field(default_factory=list)
    promised: int = 0
    """Number of checks of class 1 that count for the promises to class 1."""
    taken: int = 0
    """Number of checks that do not count because other programs used the lane's processor."""
    in_time: int = 0
    lost: int = 0
    """Number of tuples that class 1 lost before checks that count; `in_time` is the number of such checks with p99 within the target."""
    p99_ms: list[float] = field(default_factory=list)
    memory_mb: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    shared_mb: list[float] = field(default_factory=list)


@dataclass
class Soak:
    """One run of the endurance test, on a running system."""

    system: System
    feeder: Feeder
    capacity_per_s: float
    seconds: float
    chance: random.Random
    console: Console
    found: Findings = field(init=False, default_factory=Findings)
    _hosts: dict[str, str] = field(init=False, default_factory=dict)
    _disturbed_until: float = field(init=False, default=0.0)
    _shed: int | None = field(init=False, default=None)
    _lane: tuple[float, float] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        units = self.system.status().system.units
        self._hosts = {name: one.host for name, one in units.items()}
        (self.node,) = self.system.status().system.nodes
        self._dirs = RunDirs(shared_memory(), self.system.name, self.node)
        self.answers = {name: Answers(self._dirs.class_log(name)) for name in CLASSES}

    def run(self) -> None:
        """Change the load, kill processes and check the system until the time is over."""
        began = time.monotonic()
        load_at, kill_at, memory_at = began, began + self._drawn(KILL_EVERY_S), began
        while (now := time.monotonic()) < began + self.seconds:
            if now >= load_at:
                self._change_load()
                load_at = now + self._drawn(LOAD_LASTS_S)
            if now >= kill_at:
                self._kill(now - began)
                kill_at = time.monotonic() + self._drawn(KILL_EVERY_S)
            if now >= memory_at:
                self._look_at_memory(now - began)
                memory_at = now + MEMORY_EVERY_S
            self._look(now)
            time.sleep(max(0.0, LOOK_S - (time.monotonic() - now)))

    def cool_down(self) -> dict[str, int]:
        """Stop the input and wait; return for each class the number of accepted tuples that are still not accounted for."""
        accepted = self.feeder.offer({name: steps(0.0) for name in CLASSES}).accepted
        until = time.monotonic() + COOL_DOWN_S
        while True:
            missing = {name: self._missing(name, accepted[name]) for name in CLASSES}
            for one in self.answers.values():
                one.look()
            if not any(missing.values()) or time.monotonic() > until:
                return missing
            time.sleep(LOOK_S)

    def _drawn(self, between: tuple[float, float]) -> float:
        return self.chance.uniform(*between)

    def _change_load(self) -> None:
        parts = {name: self.chance.uniform(0.0, most) for name, (_, _, most) in CLASSES.items()}
        # Sometimes a class gets no input and lends everything.
        for name in parts:
            if self.chance.random() < 0.2:
                parts[name] = 0.0
        self.feeder.offer({name: steps(part * self.capacity_per_s) for name, part in parts.items()})

    def _kill(self, at: float) -> None:
        hosts = {f"host of {name}": host_name(host) for name, host in self._hosts.items()}
        others = {"dispatcher": dispatcher_name(self.node), "coordinator": COORDINATOR}
        who = self.chance.choice([*hosts, *others])
        try:
            pid: int = ray.get(find((hosts | others)[who]).ping.remote(), timeout=ANSWER_S)
        except (ray.exceptions.RayError, ValueError):
            return  # The chosen process has died already
        os.kill(pid, signal.SIGKILL)
        self.found.kills[who] += 1
        self.console.print(f"{at:6.0f} s  killed the {who}", highlight=False)
        if who in (f"host of {FIRST}", *others):
            self._disturbed_until = time.monotonic() + RECOVERY_S

    def _look(self, now: float) -> None:
        self.found.looks += 1
        if self._is_taken():
            self.found.taken += 1
            self._disturbed_until = max(self._disturbed_until, now + RECOVERY_S)
        for one in self.answers.values():
            one.look()
        for name in CLASSES:
            status = self._status(name)
            if status is None:
                self.found.unanswered += 1
                continue
            self._check_ledger(name, status)
            if name == FIRST:
                self._check_promises(status, now)

    def _is_taken(self) -> bool:
        """Return True if slices had the processor for too small a part of their time since the last check."""
        before = self._lane
        try:
            (lane,) = self.system.turns(self.node).lanes
        except (ray.exceptions.RayError, ValueError):
            return False  # The dispatcher was killed, which already counts as a disturbance
        self._lane = lane.in_slices_s, lane.used_s
        if before is None or lane.in_slices_s <= before[0]:
            return False
        return 1 - (lane.used_s - before[1]) / (lane.in_slices_s - before[0]) > TAKEN_PART

    def _status(self, name: str) -> UnitStatus | None:
        with suppress(ray.exceptions.RayError, ValueError):
            host: HostStatus = ray.get(find(host_name(self._hosts[name])).status.remote(), timeout=ANSWER_S)
            self.found.ledger += [f"{unit} was given up: {why}" for unit, why in host.broken.items()]
            return host.units.get(name)
        return None

    def _check_ledger(self, name: str, status: UnitStatus) -> None:
        one = status.figures
        fates = one.delivered + one.shed + one.late + one.rejected + one.failed + one.queued
        if one.offered != fates:
            self.found.ledger.append(f"{name}: {one.offered} offered, {fates} accounted for: {one}")
        self.found.mismatches += [
            f"{name}: {one}" for one in status.mismatches if f"{name}: {one}" not in self.found.mismatches
        ]

    def _check_promises(self, status: UnitStatus, now: float) -> None:
        one, before = status.figures, self._shed
        lost = one.shed + one.late + one.rejected + one.failed
        self._shed = lost
        # Percentiles cover the last RECENT_S seconds, so they are checked only if the last disturbance was earlier.
        if now < self._disturbed_until + RECENT_S or before is None or status.repeating:
            return
        self.found.promised += 1
        self.found.lost += max(0, lost - before)
        self.found.in_time += one.p99_ms <= CLASSES[FIRST][1]
        self.found.p99_ms.append(one.p99_ms)

    def _missing(self, name: str, accepted: int) -> int:
        status = self._status(name)
        if status is None:
            return accepted
        return accepted - status.figures.offered if not status.figures.queued else accepted

    def _look_at_memory(self, at: float) -> None:
        with suppress(ray.exceptions.RayError):
            for name in all_names():
                with suppress(ray.exceptions.RayError, ValueError):
                    pid: int = ray.get(find(name).ping.remote(), timeout=ANSWER_S)
                    found = self.found.memory_mb.setdefault(name.partition("-")[0], [])
                    found.append((at, smaps_mb([pid], "Pss_Anon:")))
        self.found.shared_mb.append(disk_mb(self._dirs.root))


def steps(rate: float) -> StepArrivals:
    return StepArrivals.model_validate({"kind": "steps", "steps": [{"at_s": 0, "rate": rate}]})


def disk_mb(folder: Path) -> float:
    """Return the megabytes that the files in a folder take."""
    total = 0
    for file in folder.rglob("*"):
        with suppress(OSError):
            total += file.stat().st_blocks * 512
    return total / 1e6


@dataclass(frozen=True)
class Check:
    name: str
    passed: bool
    value: str


def checks(soak: Soak, missing: Mapping[str, int], events: Path) -> Iterator[Check]:
    found, report = soak.found, replay(events)
    yield Check("ledgers close at every look", not found.ledger, told(found.ledger, f"{found.looks:,} looks"))
    yield Check(
        "all accepted tuples are accounted for", not any(missing.values()), f"missing {dict(missing)}"
    )
    wrong = [line for one in soak.answers.values() for line in one.wrong]
    commits = sum(one.frames for one in soak.answers.values())
    skipped = sum(one.forgotten for one in soak.answers.values())
    yield Check("answers have no gaps", not wrong, told(wrong, f"{commits:,} commits, {skipped:,} not read"))
    yield Check("repeated answers are equal", not found.mismatches, told(found.mismatches, "all of them"))
    p99_ms = float(np.median(found.p99_ms)) if found.p99_ms else 0.0
    in_time = found.in_time / found.promised if found.promised else 0.0
    yield Check(
        f"{FIRST} loses nothing",
        found.lost == 0,
        f"{found.lost:,} tuples in {found.promised:,} looks; {found.taken:,} looks were disturbed by other programs",
    )
    yield Check(
        f"{FIRST} is answered in time",
        in_time >= WITHIN_TARGET_LEAST,
        f"{in_time:.1%} of looks, p99 {p99_ms:.0f} ms",
    )
    for role, samples in found.memory_mb.items():
        growth, most = growth_mb(samples), max(mb for _, mb in samples)
        yield Check(
            f"memory of {role}", growth <= GROWTH_MB, f"{growth:+.0f} MB in the second half, most {most:.0f}"
        )
    bound_mb = logs_bound_mb()
    most_mb = max(found.shared_mb)
    yield Check("logs in shared memory", most_mb <= bound_mb, f"{most_mb:,.0f} MB of {bound_mb:,.0f}")
    lives = sum(len(core.lives) for core in report.cores)
    problems = [] if report.agrees else remarks(report)
    yield Check(
        "a replay makes the same decisions",
        report.agrees,
        told(problems, f"{report.events:,} in {lives} lives"),
    )


def told(problems: Sequence[str], otherwise: str) -> str:
    return f"{len(problems)}; the first: {problems[0]}" if problems else otherwise


def growth_mb(samples: Sequence[tuple[float, float]]) -> float:
    """Return the megabytes by which the samples grow in the second half of the run, measured with a fitted straight line."""
    half = [one for one in samples if one[0] >= samples[-1][0] / 2]
    if len(half) < 2 or half[0][0] == half[-1][0]:
        return 0.0
    at, mb = np.array(half).T
    return float(np.polyfit(at, mb, 1)[0] * (at[-1] - at[0]))


def logs_bound_mb() -> float:
    streams = 2 * len(CLASSES) * SETTINGS.retained_bytes
    return (streams + len(CLASSES) * (SETTINGS.results_bytes + STATES_BYTES)) / 1e6


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=1, help="seed of the random load and kills")
    parser.add_argument("--json", type=Path, help="also write the result to this file")
    parser.add_argument(
        "--keep", type=Path, help="folder that keeps the event logs (default: they are removed)"
    )
    given = parser.parse_args()
    console = Console()
    with tempfile.TemporaryDirectory(prefix="weir-soak-") as temporary:
        folder = given.keep or Path(temporary)
        soak, missing, capacity = soaked(given.minutes, given.seed, folder, console)
        verdict = list(checks(soak, missing, folder / "events" / soak.system.name))
    console.print(
        table(verdict, f"{given.minutes:g} minutes, seed {given.seed}, kills {dict(soak.found.kills)}")
    )
    if given.json is not None:
        result = {
            "minutes": given.minutes,
            "seed": given.seed,
            "capacity_per_s": capacity.tuples_per_s,
            "kills": dict(soak.found.kills),
            "looks": soak.found.looks,
            "unanswered": soak.found.unanswered,
            "checks": [asdict(one) for one in verdict],
            "memory_mb": soak.found.memory_mb,
            "shared_mb": soak.found.shared_mb,
        }
        given.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return 0 if all(one.passed for one in verdict) else 1


def soaked(
    minutes: float, seed: int, folder: Path, console: Console
) -> tuple[Soak, dict[str, int], Calibration]:
    with start(SETTINGS, [], data_folder=folder) as system:
        watched = Watched(system)
        tables = inputs()
        capacity = calibrated(
            watched,
            [declared(name, lossless=True, prefix="calibrate_") for name in CLASSES],
            tables,
            SETTINGS,
        )
        console.print(f"{capacity.tuples_per_s / 1e6:.2f} million tuples/s", highlight=False)
        classes = [declared(name) for name in CLASSES]
        watched.host(classes)
        feeder = watched.feeder(classes, tables)
        try:
            chance = random.Random(seed)
            soak = Soak(system, feeder, capacity.tuples_per_s, 60 * minutes, chance, console)
            soak.run()
            return soak, soak.cool_down(), capacity
        finally:
            feeder.stop()


def table(verdict: Sequence[Check], title: str) -> Table:
    shown = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
    for name in ("check", "", "found"):
        shown.add_column(name)
    for one in verdict:
        shown.add_row(one.name, "[green]held[/]" if one.passed else "[bold red]failed[/]", one.value)
    return shown


if __name__ == "__main__":
    sys.exit(main())
