"""Recovery times of a live system: after a lender reclaims its share, and after a process is killed.

Three classes with the queries of workload W11 run on a live system of one node. Times of reclaims are read from the event logs.
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray

from actors.gateway.replay_feeder import Feeder
from actors.log.segment_log import Reader
from actors.runtime.names import COORDINATOR, dispatcher_name, find, host_name
from actors.runtime.run_dirs import RunDirs, shared_memory
from actors.system import System, start
from bench.measure import POLL_S, Figure, wait
from configs.classes.live_class import LiveClass, LiveSettings
from configs.scenario import w11
from configs.scenario.arrivals import StepArrivals
from services.race import w11_workload as workload

PERIOD_S = 10
PRIORITIES = {"gold": 6.0, "silver": 3.0, "bronze": 1.0}
# Trains are short and therefore costly, so that a feeder on another processor can offer more than the lane can process.
SETTINGS = LiveSettings(train_max=500)
MUCH = 2e6
TRIES = 5
LOAN_S = 15.0
RECLAIM_S = 2.0
BACK_S = 60.0


def figures() -> list[Figure]:
    with (
        tempfile.TemporaryDirectory(prefix="weir-bench-") as folder,
        system(Path(folder)) as (running, feeder),
    ):
        asked = [lend_and_reclaim(running, feeder) for _ in range(TRIES)]
        offer(feeder, gold=MUCH / 20, bronze=MUCH)
        host = running.status().system.units["gold"].host
        node = node_of(running)
        without_s = {
            "host": until_answers(running, host_name(host)),
            "dispatcher": until_answers(running, dispatcher_name(node)),
        }
        without_s["coordinator"] = until_another(COORDINATOR)
        running.stop()
        events = Path(folder) / "events" / running.name
        reclaimed_ms = [1e3 * reclaim_s(events, at) for at in asked]
    return [
        Figure(
            "emergency reclaim: first overloaded cycle to full share, worst", max(reclaimed_ms), "ms", 200.0
        ),
        Figure("emergency reclaim: first overloaded cycle to full share, best", min(reclaimed_ms), "ms"),
        Figure("killed class host: until its class answers again", without_s["host"], "s"),
        Figure("killed dispatcher: until a class answers again", without_s["dispatcher"], "s"),
        Figure("killed coordinator: until another answers", without_s["coordinator"], "s"),
    ]


@contextmanager
def system(folder: Path) -> Iterator[tuple[System, Feeder]]:
    classes = [
        LiveClass(
            name=name,
            priority=priority,
            delay_target_ms=500,
            streams=w11.streams(f"{name}_"),
            queries=w11.queries(f"{name}_"),
        )
        for name, priority in PRIORITIES.items()
    ]
    with start(SETTINGS, classes, data_folder=folder) as running:
        node, streams = node_of(running), {n for one in classes for n in w11.names(f"{one.name}_").values()}
        wait(lambda: streams <= running.readers(node).keys(), "readers", BACK_S)
        data = workload.generated(PERIOD_S)
        tables = {"readings": data.readings, "alerts": data.alerts}
        inputs = {
            one: {stream: tables[name] for name, stream in w11.names(f"{one}_").items()} for one in PRIORITIES
        }
        feeder = Feeder(running.door(node), inputs, "ts", 1000 * PERIOD_S)
        try:
            yield running, feeder
        finally:
            feeder.stop()


def node_of(running: System) -> str:
    (node,) = running.status().system.nodes
    return node


def offer(feeder: Feeder, **rates: float) -> float:
    """Feed each class at its rate in `rates` (tuples per second), or not at all; return the time at which these rates began."""
    plan = {
        name: StepArrivals.model_validate(
            {"kind": "steps", "steps": [{"at_s": 0, "rate": rates.get(name, 0.0)}]}
        )
        for name in PRIORITIES
    }
    return feeder.offer(plan).at


# -- time until a reclaimed share is returned
# -------------------------------------------------------------------------------------------------------


def lend_and_reclaim(running: System, feeder: Feeder) -> float:
    """Let a class lend its share, then offer the class more input than it can process; return the time at which the overload began."""

    def lent() -> bool:
        return running.status().system.units["bronze"].share > 0.5

    offer(feeder, bronze=MUCH)
    wait(lent, "loan", LOAN_S)
    at = offer(feeder, gold=MUCH, bronze=MUCH)
    time.sleep(RECLAIM_S)
    return at


def reclaim_s(events: Path, at: float) -> float:
    """Return the seconds from the end of the class's first overloaded load cycle until the class has its full share again."""
    overloaded = next(
        now
        for now, event, commands in decisions(events, "load-gold-")
        if now > at
        and any(one == "RequestReclaim" or (one[0] == "ReportUsage" and one[1] > 1) for one in commands)
    )
    original = PRIORITIES["gold"] / sum(PRIORITIES.values())
    full = next(
        now
        for now, event, _ in decisions(events, "turns-")
        if now > overloaded and event[0] == "SharesSet" and dict(event[1]).get("gold", 0.0) >= original - 1e-9
    )
    return full - overloaded


def decisions(events: Path, prefix: str) -> Iterator[tuple[float, Any, Any]]:
    for file in sorted(events.glob(f"{prefix}*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            one = json.loads(line)
            if type(one) is list:
                yield one[0], one[1], one[2]


# -- time until a killed process is replaced
# ---------------------------------------------------------------------------------------------------------


def until_answers(running: System, actor: str) -> float:
    """Kill an actor's process, and return the seconds until class gold commits answers again."""
    log = Reader(RunDirs(shared_memory(), running.name, node_of(running)).class_log("gold"))
    before = log.next
    wait(lambda: log.next > before, "answers", BACK_S)
    killed = killed_at(actor)
    # Commits that the killed process had begun must not count, so the benchmark waits until these commits are over.
    time.sleep(POLL_S)
    before = log.next
    wait(lambda: log.next > before, "answers", BACK_S)
    return time.monotonic() - killed


def until_another(actor: str) -> float:
    killed = killed_at(actor)

    def answers() -> bool:
        try:
            return bool(ray.get(find(actor).ping.remote()))
        except (ray.exceptions.RayError, ValueError):
            return False

    wait(answers, actor, BACK_S)
    return time.monotonic() - killed


def killed_at(actor: str) -> float:
    pid: int = ray.get(find(actor).ping.remote())
    os.kill(pid, signal.SIGKILL)
    return time.monotonic()
