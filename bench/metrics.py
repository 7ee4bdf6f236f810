"""Cost of metrics: of a scrape with many tenants, and of the counting in a class at the end of a load cycle."""

from __future__ import annotations

import pickle
import time
from dataclasses import dataclass, replace

import numpy as np

from actors.coordinator.control_plane import PlacedUnit, SystemStatus
from actors.coordinator.coordinator_status import CoordinatorStatus, Decisions, Number, StatusMoment
from actors.dispatcher.dispatcher_actor import DispatcherStatus
from actors.dispatcher.turn_lane import LaneStatus
from actors.dispatcher.turn_loop import TurnStatus
from actors.host.slice_counts import Counting
from actors.host.unit_quality import qualities
from actors.messages.unit_messages import Figures, Qualities, UnitReport
from bench.measure import TRIES, Figure, seconds_each
from configs.classes.live_class import LiveClass, LiveSettings
from engine.class_.explain import PlanLine
from engine.class_.hosted_class import HostedClass
from engine.network.one_time import OneTimeAnswer
from loadshed.aloma import Control
from loadshed.ledger import TupleLedger
from loadshed.manager import ManagerDecision
from loadshed.monitors import Verdict
from scheduler.capacity.core import ShareMove
from services.metrics.collector import SystemCollector
from services.metrics.nodes import Nodes
from services.watch.source import Inflow, StreamCounts
from services.watch.watch import Watch

TENANTS, QUERIES = 1000, 5
NODE = "n1"
STREAM = "CREATE STREAM s (ts timestamp, v int64, WATERMARK FOR ts AS ts)"
SLICES = 100_000
ANSWERS = 10_000


def figures() -> list[Figure]:
    took_s, size = scrape()
    settings = LiveSettings()
    # The class is assumed to have a whole lane: one slice per round, and the whole processor time of a load cycle.
    slice_part = slice_s() / (settings.round_ms / 1e3)
    cycle_part = cycle_s() / (settings.load.cycle_ms / 1e3)
    everything = f"{TENANTS:,} tenants with {QUERIES} queries each"
    return [
        Figure(f"a scrape of {everything}", 1e3 * took_s, "ms", limit=300.0),
        Figure(f"size of a scrape of {everything}", size / 1e6, "MB", limit=15.0),
        Figure(
            "metrics: part of the processor time of a class's slices",
            100 * (slice_part + cycle_part),
            "%",
            limit=0.5,
        ),
    ]


def scrape() -> tuple[float, int]:
    """Return processor-seconds and bytes of a scrape; all values have changed since the previous scrape."""
    source = Full()
    with Watch(source, every_s=3600.0) as watch:
        nodes = Nodes(source, watch)
        nodes.look()
        collector = SystemCollector(watch, nodes, priority_classes=source.priority_classes)
        found, text = [], b""
        for _ in range(TRIES + 1):
            source.go_on()
            watch.look()
            began = time.process_time()
            text = collector.text()
            found.append(time.process_time() - began)
    # The first scrape creates all labels, so it does not count.
    return min(found[1:]), len(text)


@dataclass
class Full:
    """Stand-in for a running system with TENANTS tenants, from which the service reads the figures for metrics."""

    name: str = "bench"
    looks: int = 0

    def __post_init__(self) -> None:
        self.classes = [
            LiveClass(
                name=f"tenant-{number:04}",
                priority=1.0 + number % 3,
                delay_target_ms=100.0 + number % 7,
                streams=(STREAM,),
                queries={f"query-{place}": f"SELECT v FROM s WHERE v > {place}" for place in range(QUERIES)},
            )
            for number in range(TENANTS)
        ]
        self.hosted = hosted(self.classes[0])
        self.go_on()

    def go_on(self) -> None:
        """Advance the figures of all classes by one load cycle."""
        self.looks += 1
        told = replace(
            Counting(recovered=False, born=1.0).told(self.hosted, 0.0, told_quality(self.hosted)),
            slices=100_003 * self.looks,
        )
        units = {}
        for number, one in enumerate(self.classes):
            ledger = TupleLedger(1_234_567 * self.looks, 1_234_000 * self.looks, 560 * self.looks)
            account = {"s": (ledger, 7 * self.looks)}
            shown = Figures(0.001, 0.00123 + number / 1e6, 0.75, used_s=0.123456 * self.looks)
            answered = replace(told.answered, target_s=one.delay_target_ms / 1e3)
            counted = replace(told, answered=answered)
            report = UnitReport(
                one.name, 0.9, shown.load, False, False, shown, None, account, counted=counted
            )
            units[one.name] = PlacedUnit(one.name, NODE, f"h{number}", 1e-3, 1e-3, None, report, NODE)
        self.system = SystemStatus({NODE: 2}, tuple(self.classes), units, (), {})

    def priority_classes(self) -> dict[str, str]:
        return {one.name: ("gold", "silver", "bronze")[int(one.priority) - 1] for one in self.classes}

    def look(self, seen: Number | None) -> StatusMoment | None:
        lent = {
            one.name: {other.name: 1.5} for one, other in zip(self.classes, self.classes[1:], strict=False)
        }
        return StatusMoment((self.looks,), CoordinatorStatus(1, 0.0, self.system, (), (), (), 0), lent)

    def has_ended(self) -> bool:
        return False

    def turns(self, node: str) -> DispatcherStatus:
        lanes = (LaneStatus(None, 1000, 2.0, 1.5, 1.4, 0.5),) * 2
        return DispatcherStatus(1, TurnStatus(10, lanes, {}, (), 0, 0, 0, {}, 0.5, ""))

    def inflow(self, node: str) -> Inflow:
        return Inflow(1, ())

    def moves(self, last: int) -> tuple[list[ShareMove], float]:
        return [], 0.0

    def plan(self, class_name: str) -> list[PlanLine]:
        return []

    def answer_once(self, class_name: str, sql: str) -> dict[str, OneTimeAnswer]:
        return {}

    def decisions(self, class_name: str, last: int) -> Decisions:
        return Decisions({}, (), 0.0)

    def endpoint(self, node: str) -> str | None:
        return None

    def streams(self, node: str) -> dict[str, StreamCounts]:
        return {}


def hosted(declared: LiveClass) -> HostedClass:
    """Return a hosted class that has many answers with different response times."""
    found = HostedClass(declared, 1000)
    found.times.total.add_array(np.random.default_rng(1).exponential(0.05, ANSWERS), 0.0)
    found.runner.answers.counts = dict.fromkeys(declared.queries, ANSWERS)
    return found


def told_quality(there: HostedClass) -> Qualities:
    """Return the quality of the class's answers, which is computed once per second and sent with each report."""
    return qualities(there.runner.answers.quality, 0.0)


def slice_s() -> float:
    counting = Counting(recovered=False, born=0.0)
    return seconds_each(lambda: counting.slice_ended(1e-3, 1.1e-3), SLICES)


def cycle_s() -> float:
    """Return the seconds that counting for metrics takes at the end of a load cycle."""
    there = hosted(Full().classes[0])
    quality = told_quality(there)
    counting, control = Counting(recovered=False, born=0.0), Control(0.5)
    explanation = ManagerDecision(0.0, "t", 0.4, 0.4, Verdict(), 0.0, control, control, False, False)

    def cycle() -> None:
        counting.decided(explanation, False, 0.15)
        # A unit pickles its counts to send them with its report, so the benchmark pickles them as well.
        pickle.dumps(counting.told(there, 0.0, quality))

    return seconds_each(cycle, ANSWERS)
