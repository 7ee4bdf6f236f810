"""The demonstration's run on a live system: measure capacity, watch feeds and classes, and account for every tuple."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from actors.coordinator.control_plane import SystemStatus
from actors.dispatcher.turn_loop import TurnStatus
from actors.gateway.replay_feeder import Feeder
from configs.classes.live_class import LiveClass, LiveSettings
from configs.classes.managers import sheds
from configs.scenario import w11
from configs.scenario.arrivals import StepArrivals
from loadshed.ledger import TupleLedger
from services.cli.demonstration.demo_feed import PERIOD_S, Feeds, FeedTotals, fed, planned
from services.watch.class_views import ClassView, class_views
from services.watch.quality import QueryWorth, worth_of
from sim.outcome.outcome import Outcome
from sim.outcome.results import class_results, rounded
from sim.series import ClassSeries, Series

if TYPE_CHECKING:
    from actors.system import System

# Seconds between two polls of the system; classes report once per load cycle, every 150 ms.
LOOK_S = 0.2
# Seconds from a change of the load until all operators, even those behind long queues, process tuples at the new rate.
SETTLE_S = 2.0
CALIBRATE_S = 6.0
READERS_S = 30.0
# Longest wait for queued tuples to be processed, after the input has ended.
COOL_DOWN_S = 15.0


@dataclass(frozen=True, slots=True)
class Calibration:
    """Capacity of the machine, measured while all classes have more input than they can process."""

    tuples_per_s: float
    """Capacity in tuples per second, if the lanes spent all of their time in slices: the measured rate divided by `busy_part`."""
    tuples_per_lane_s: float
    """Tuples that one lane processes per second of its slices."""
    busy_part: float
    """Fraction of the lanes' time spent in slices; the rest went to the lanes' scheduling and to other processes."""
    tuple_us: float
    """Processor time of all operators per input tuple, in microseconds."""
    seconds: float = CALIBRATE_S
    """Duration of the measurement."""


@dataclass(frozen=True, slots=True)
class RunMoment:
    """State of the classes at one moment of the node's clock."""

    at: float
    classes: Mapping[str, ClassView]
    system: SystemStatus

    def delivered(self) -> int:
        return sum(class_.figures.delivered for class_ in self.classes.values())


class Watched:
    """Running system with one node, to which classes can be added."""

    def __init__(self, system: System) -> None:
        self.system = system
        (self.node,) = system.status().system.nodes

    def look(self, lending: bool = False) -> RunMoment:
        """Return the current state of all classes. With `lending`, loans are included, which costs one more call."""
        status = self.system.status()
        lent = self.system.lending() if lending else {}
        views = class_views(status.system, lent)
        return RunMoment(status.at, {view.name: view for view in views}, status.system)

    def host(self, classes: Sequence[LiveClass]) -> None:
        """Add classes, and wait until each class reads its streams, because a class misses all rows that arrive earlier."""
        self.system.apply(classes)
        self.system.wait_ready()
        streams = [stream for class_ in classes for stream in w11.names(f"{class_.name}_").values()]
        until = time.monotonic() + READERS_S
        while missing := set(streams) - self.system.readers(self.node).keys():
            if time.monotonic() > until:
                raise TimeoutError(
                    f"no class has begun to read {', '.join(sorted(missing))} after {READERS_S:g} s"
                )
            time.sleep(LOOK_S)

    def feeder(self, classes: Sequence[LiveClass], tables: Mapping[str, pa.Table]) -> Feeder:
        """Return a producer that sends the workload's input to these classes without Spark."""
        inputs = {
            class_.name: {stream: tables[name] for name, stream in w11.names(f"{class_.name}_").items()}
            for class_ in classes
        }
        return Feeder(self.system.door(self.node), inputs, "ts", 1000 * PERIOD_S)


def calibrated(
    watched: Watched, classes: Sequence[LiveClass], tables: Mapping[str, pa.Table], settings: LiveSettings
) -> Calibration:
    """Measure the throughput of classes that get as much input as they can take; the classes must be lossless."""
    watched.host(classes)
    feeder = watched.feeder(classes, tables)
    try:
        feeder.offer(None)
        began = time.monotonic()
        looks: list[tuple[float, float, float]] = []
        while (elapsed := time.monotonic() - began) < SETTLE_S + CALIBRATE_S:
            time.sleep(LOOK_S)
            look = watched.look()
            if elapsed >= SETTLE_S:
                used_s = sum(class_.figures.used_s for class_ in look.classes.values())
                looks.append((look.at, look.delivered(), used_s))
    finally:
        feeder.stop()
    for class_ in classes:
        watched.system.remove_class(class_.name)
    # A slope fitted to all polls is more exact than a difference of two polls, because the reports in one poll differ in age.
    at, delivered_at, used_at = np.array(looks).T
    per_s = float(np.polyfit(at - at[0], delivered_at, 1)[0])
    lanes_used = float(np.polyfit(at - at[0], used_at, 1)[0])
    per_lane_s = per_s / lanes_used
    return Calibration(
        tuples_per_s=per_lane_s * settings.lanes,
        tuples_per_lane_s=per_lane_s,
        busy_part=lanes_used / settings.lanes,
        tuple_us=1e6 * settings.lane_part / per_lane_s,
    )


@dataclass
class LiveRun:
    """Run of a scenario on a live system."""

    watched: Watched
    name: str
    description: str
    settings: LiveSettings
    classes: Sequence[LiveClass]
    feeds: Feeds
    plan: Mapping[str, StepArrivals]
    seconds: float
    on_look: Callable[[LiveRun], None] = field(default=lambda run: None)

    last: RunMoment = field(init=False)
    offered: FeedTotals = field(init=False)
    """Numbers of tuples by class since the feeds began."""
    began: float = field(init=False, default=0.0)
    _series: Series = field(init=False)
    _shares: dict[str, float] = field(init=False, default_factory=dict)
    _turns: tuple[TurnStatus, TurnStatus] = field(init=False)
    _begun: RunMoment = field(init=False)
    _offered_before: FeedTotals = field(init=False)
    _ended: RunMoment = field(init=False)

    def __post_init__(self) -> None:
        self._series = Series({class_.name: ClassSeries() for class_ in self.classes})

    @property
    def now(self) -> float:
        """Seconds since the scenario began."""
        return self.last.at - self.began

    def run(self) -> None:
        """Record the state of the classes until the scenario ends, and wait until the queues are empty. Nothing in the run is changed."""
        system, node = self.watched.system, self.watched.node
        self.began = self.feeds.wait_flowing()
        time.sleep(max(0.0, self.began - time.monotonic()))
        self._offered_before, turns_before = self.feeds.offered(), system.turns(node)
        self._begun = self.last = self.watched.look()
        while (left_s := self.began + self.seconds - time.monotonic()) > 0:
            time.sleep(min(LOOK_S, left_s))
            self._look()
        self._ended, self._turns = self.last, (turns_before, system.turns(node))
        self.offered = self.feeds.offered()
        self._cool_down()

    def _look(self) -> None:
        before, self.last = self.last, self.watched.look(lending=True)
        elapsed_s = self.last.at - max(before.at, self.began)
        for name, class_view in self.last.classes.items():
            self._shares[name] = self._shares.get(name, 0.0) + class_view.share * elapsed_s
        if self._series.due():
            self._record(before)
        self.on_look(self)

    def _record(self, before: RunMoment) -> None:
        manages = sheds(self.settings.manager) != "nobody"
        for name, series in self._series.classes.items():
            class_view = self.last.classes[name]
            series.at_s.append(self.now)
            series.response_ms.append(mean_between(before.classes.get(name), class_view))
            series.headroom.append(class_view.figures.headroom if manages else None)
            series.load.append(class_view.figures.load)
            series.share.append(class_view.share)
            series.drop.append(class_view.drop)
            series.queued.append(class_view.figures.queued)
        self._series.thin()

    def _cool_down(self) -> None:
        """Wait until every offered tuple is accounted for, for at most COOL_DOWN_S."""
        until = time.monotonic() + COOL_DOWN_S
        while time.monotonic() < until and not all(self._done(name) for name in self.plan):
            time.sleep(LOOK_S)
            self.last, self.offered = self.watched.look(lending=True), self.feeds.offered()
            self.on_look(self)

    def _done(self, name: str) -> bool:
        figures = self.last.classes[name].figures
        is_over = self.offered.replayed[name] > fed(self.plan[name], self.seconds) - 1
        return is_over and figures.queued == 0 and figures.offered == self.offered.accepted[name]

    def offered_note(self) -> str:
        """Return a text with the offered rate and, if the feeds brought fewer rows than scheduled, the missing part in percent."""
        begun, ended = self._offered_before, self.offered
        accepted = sum(ended.accepted.values()) - sum(begun.accepted.values())
        missed = sum(ended.missed.values()) - sum(begun.missed.values())
        note = f"{accepted / self.seconds / 1e6:.2f} offered"
        return note + (f" ({missed / (accepted + missed):.1%} of the plan missed)" if missed else "")

    def times(self) -> tuple[float, float]:
        """Return when the scenario began and ended, in seconds since 1970."""
        ago_s = time.monotonic() - self.began
        begin = time.time() - ago_s
        return begin, begin + min(ago_s, self.seconds)

    def useful_per_s(self) -> float:
        """Return the number of tuples that were processed per second of the scenario."""
        return (self._ended.delivered() - self._begun.delivered()) / self.seconds

    def outcome(self, calibration: Calibration, load: float, phases_s: Mapping[str, float]) -> Outcome:
        result = rounded(self._result(calibration, load) | {"phases_s": dict(phases_s)})
        moves = [replace(move, at=move.at - self.began) for move in self.watched.system.share_moves()]
        during = [move for move in moves if 0 <= move.at <= self.seconds]
        return Outcome(
            result=result,
            description=self.description,
            lanes=self.settings.lanes,
            series=self._series.classes,
            moves=during,
            queries=w11.COMPUTES,
        )

    def _result(self, calibration: Calibration, load: float) -> dict[str, Any]:
        before, (turns_before, turns_after) = self._offered_before, self._turns
        busy_s, in_slices_s = (
            sum(getattr(lane, what) for lane in turns_after.lanes)
            - sum(getattr(lane, what) for lane in turns_before.lanes)
            for what in ("busy_s", "in_slices_s")
        )
        return {
            "scenario": self.name,
            "manager": self.settings.manager,
            "policy": ",".join(dict.fromkeys(class_.policy_name for class_ in self.classes)),
            "seed": None,
            "seconds": self.seconds,
            "classes": [self._class(class_) for class_ in self.classes],
            "ledger_closed": all(self._closes(class_.name) for class_ in self.classes),
            "lending": self.watched.system.lending(),
            "utilisation": busy_s / (self.seconds * self.settings.lanes),
            "scheduling_overhead_pct": 100 * (busy_s - in_slices_s) / busy_s if busy_s else 0.0,
            "load": load,
            "useful_per_s": self.useful_per_s(),
            "calibration": asdict(calibration),
            "offered": {
                name: {
                    "planned_per_s": planned(plan, self.seconds) / self.seconds,
                    "accepted": self.offered.accepted[name],
                    "accepted_per_s": (self.offered.accepted[name] - before.accepted[name]) / self.seconds,
                    "missed": self.offered.missed[name] - before.missed[name],
                }
                for name, plan in self.plan.items()
            },
            "machine": {
                "cores": os.cpu_count(),
                "lanes": self.settings.lanes,
                "lane_part": self.settings.lane_part,
                "not_pinned": turns_after.not_pinned,
            },
        }

    def _class(self, settings: LiveClass) -> dict[str, Any]:
        view, during = self.last.classes[settings.name], self._ended.classes[settings.name].figures
        figures, queries = view.figures, worth_of(self._ended.system, settings)
        return class_results(
            settings,
            self._ledger(settings.name),
            queued=figures.queued,
            results=figures.results,
            response_ms=during.response_ms,
            slowdown=during.slowdown or None,
            staleness=during.staleness or None,
            utility=during.utility or None,
            tardiness=tardiness_of(queries),
            queries={query.query: query_results(query) for query in queries},
            share={
                "original": view.original,
                "mean": self._shares[settings.name] / (self._ended.at - self.began),
                "last": self._ended.classes[settings.name].share,
            },
            headroom=during.headroom if sheds(self.settings.manager) != "nobody" else None,
            target_met_pct=during.within_target_pct,
        )

    def _ledger(self, name: str) -> TupleLedger:
        figures = self.last.classes[name].figures
        return TupleLedger(**{count.name: getattr(figures, count.name) for count in fields(TupleLedger)})

    def _closes(self, name: str) -> bool:
        """Return True if the ledger of a class closes and agrees with the number of tuples that the gateway accepted."""
        ledger, queued = self._ledger(name), self.last.classes[name].figures.queued
        return ledger.closes(queued) and ledger.offered == self.offered.accepted[name]


def query_results(one: QueryWorth) -> dict[str, Any]:
    """Return the results of a query in the form of the simulator's results."""
    return {
        "results": one.answers,
        "mean_ms": one.mean_ms,
        "deadline_ms": 1e3 * one.graph.deadline_s,
        "slowdown": one.slowdown,
        "utility": one.utility,
        "missed": one.missed,
        "staleness": one.staleness,
        "tardiness": tardiness_of([one]),
    }


def tardiness_of(queries: Sequence[QueryWorth]) -> dict[str, float] | None:
    """Return the tardiness of the answers of windows; None if there are no such answers."""
    due = sum(query.due for query in queries)
    if not due:
        return None
    together_ms = sum(query.tardiness_ms * query.due for query in queries)
    return {"due": due, "tardy": sum(query.tardy for query in queries), "mean_ms": together_ms / due}


def mean_between(before: ClassView | None, after: ClassView) -> float | None:
    """Return the mean response time of the answers between two polls. Each poll has the mean over all answers since the start."""
    results, total_ms = after.figures.results, total_response_ms(after)
    if before is not None:
        results, total_ms = results - before.figures.results, total_ms - total_response_ms(before)
    return max(0.0, total_ms / results) if results > 0 else None


def total_response_ms(view: ClassView) -> float:
    return view.figures.results * view.figures.response_ms.get("mean", 0.0)
