"""Cost of a live system without input: three classes, and 200 tenants with 50 tenants per host, all with the queries of workload W11.

All processor time of Weir's processes counts, including what Ray uses inside them; Ray's own processes are reported separately.
Memory is the proportional set size, in which shared pages count once. Processor time is that of all threads, from the kernel.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import ray

from actors.runtime.cluster import all_names
from actors.runtime.names import find
from actors.system import System, start
from bench.measure import Figure
from configs.classes.live_class import LiveClass, LiveSettings
from configs.scenario import w11

CLASSES = 3
TENANTS, A_HOST = 200, 50
SECONDS = 20.0
# Idle actors begin to save processor time only after some seconds (`actors.runtime.idle_throttle`).
REST_S = 9.0
ASLEEP_S = 60.0
POLL_S = 0.5


def figures() -> list[Figure]:
    return [*a_few(), *many()]


def a_few() -> list[Figure]:
    with start(LiveSettings(), tenants(CLASSES)) as system:
        weir, others, part = watched(system)
        everything = total(part, {*weir.values(), *others, os.getpid()})
        return [
            Figure(f"{CLASSES} idle classes: all processes, with Ray's", everything, "% of a core", 2.0),
            Figure(f"{CLASSES} idle classes: Weir's processes", total(part, weir.values()), "% of a core"),
        ]


def many() -> list[Figure]:
    with start(LiveSettings(classes_per_host=A_HOST), tenants(TENANTS)) as system:
        weir, others, part = watched(system)
        hosts = [pid for name, pid in weir.items() if name.startswith("host-")]
        wakes = wake_ups(hosts)
        time.sleep(1.0)
        per_s = {pid: (count - wakes[pid]) for pid, count in wake_ups(hosts).items()}
        return [
            Figure(
                f"{TENANTS} idle tenants: Weir's processes", total(part, weir.values()), "% of a core", 2.0
            ),
            Figure("part of the hosts", total(part, hosts), "% of a core"),
            Figure("most wake-ups of an idle host", max(per_s.values()), "times/s"),
            Figure("Ray's own processes", total(part, others), "% of a core"),
            Figure(f"{TENANTS} idle tenants: Weir's memory", smaps_mb(weir.values()) / 1e3, "GB", 3.0),
            Figure("part of the hosts", smaps_mb(hosts) / 1e3, "GB"),
            Figure("memory of Ray's own processes", smaps_mb(others) / 1e3, "GB"),
        ]


def watched(system: System) -> tuple[dict[str, int], set[int], dict[int, float]]:
    """Return Weir's processes by name, all other processes of this run, and the percentage of a processor that each process used."""
    fall_asleep(system)
    time.sleep(REST_S)
    weir = {name: int(ray.get(find(name).ping.remote())) for name in all_names()}
    others = descendants("self") - set(weir.values())
    everybody = [*weir.values(), *others, os.getpid()]
    before = used_s(everybody)
    began = time.monotonic()
    time.sleep(SECONDS)
    elapsed_s = time.monotonic() - began
    after = used_s(everybody)
    part = {pid: 100 * (after[pid] - before[pid]) / elapsed_s for pid in before.keys() & after.keys()}
    return weir, others, part


def tenants(count: int) -> list[LiveClass]:
    return [
        LiveClass(
            name=name,
            priority=1,
            delay_target_ms=500,
            streams=w11.streams(f"{name}_"),
            queries=w11.queries(f"{name}_"),
        )
        for name in (f"t{number}" for number in range(count))
    ]


def fall_asleep(system: System) -> None:
    until = time.monotonic() + ASLEEP_S
    while not all(one.report and one.report.asleep for one in system.status().system.units.values()):
        if time.monotonic() > until:
            raise TimeoutError(f"tenants without input are still awake after {ASLEEP_S:g} s")
        time.sleep(POLL_S)


def total(part: Mapping[int, float], pids: Iterable[int]) -> float:
    return sum(part.get(pid, 0.0) for pid in pids)


# -- processor time and memory of processes
# -----------------------------------------------------------------------------------------------------


def descendants(pid: str) -> set[int]:
    found: set[int] = set()
    for task in Path(f"/proc/{pid}/task").glob("*"):
        try:
            children = (task / "children").read_text("ascii").split()
        except OSError:
            continue
        for child in children:
            found |= {int(child)} | descendants(child)
    return found


def used_s(pids: Iterable[int]) -> dict[int, float]:
    """Return the processor-seconds of all threads of each process; ended processes are left out."""
    return {pid: sum(one[0] for one in found) / 1e9 for pid in pids if (found := schedstats(pid))}


def wake_ups(pids: Iterable[int]) -> dict[int, int]:
    """Return the number of times that the threads of each process got a processor."""
    return {pid: sum(one[2] for one in schedstats(pid)) for pid in pids}


def schedstats(pid: int) -> list[tuple[int, int, int]]:
    """Return for each thread: nanoseconds on a processor, nanoseconds of waiting for a processor, and how many times the thread ran."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            on, waiting, times = map(int, task.read_text("ascii").split())
        except OSError:
            continue
        found.append((on, waiting, times))
    return found


def smaps_mb(pids: Iterable[int], what: str = "Pss:") -> float:
    total_kb = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines()
        except OSError:
            continue
        total_kb += sum(int(line.split()[1]) for line in lines if line.startswith(what))
    return total_kb / 1e3
