"""Periodic queries in virtual time: one processor that updates synopses, answers one-time queries and runs what is due.

Updates and one-time queries come first, as in Golab's Algorithm 1; nothing is interrupted. A synopsis is updated at multiples of
its interval, and not before the run under way has ended; who falls due by it is late from the update's own time on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from heapq import heapify, heapreplace
from math import inf

from configs.classes.periodic_schedules import PeriodicSettings
from scheduler.windows import PeriodicQuery, ScanCosts, Task, build_periodic


@dataclass(frozen=True, slots=True)
class SynopsisLoad:
    """Work that comes with a synopsis, whatever the schedule."""

    interval_s: float
    update_s: float = 0.0
    """Of the processor's time, each interval."""


@dataclass(frozen=True)
class PeriodicWorkload:
    """What is to be run."""

    queries: Sequence[PeriodicQuery]
    synopses: Mapping[str, SynopsisLoad]
    costs: Mapping[str, ScanCosts]
    """By group, in seconds."""
    one_time_every_s: float = inf
    one_time_s: float = 0.0


@dataclass(slots=True)
class QueryRuns:
    """What became of one query."""

    runs: int = 0
    unanswered: int = 0
    """Of them, one that was due when the time was over: as late as that, but no answer."""
    updates_late: int = 0
    tardiness_s: float = 0.0
    tardiness_s_max: float = 0.0

    @property
    def answers(self) -> int:
        return self.runs - self.unanswered

    def add(self, updates: int, tardiness_s: float, answered: bool = True) -> None:
        self.runs += 1
        self.unanswered += not answered
        self.updates_late += updates
        self.tardiness_s += tardiness_s
        self.tardiness_s_max = max(self.tardiness_s_max, tardiness_s)


@dataclass(slots=True)
class GroupScans:
    """What was run for a group."""

    runs: int = 0
    """One answers several queries."""
    shared: int = 0
    """Those that answered several sub-groups."""
    busy_s: float = 0.0

    def add(self, task: Task) -> None:
        self.runs += 1
        self.shared += len(task.parts) > 1
        self.busy_s += task.cost


@dataclass(frozen=True)
class PeriodicOutcome:
    """What a schedule came to."""

    seconds: float
    queries: Mapping[str, QueryRuns]
    scans: Mapping[str, GroupScans]
    """By group."""
    busy_s: float
    periods: Mapping[str, int] = field(default_factory=dict)
    """After how many updates each query runs."""
    shortened: float = 0.0
    """Share of the queries whose period is shorter than their slide."""

    @property
    def tasks(self) -> int:
        """Runs, of all groups."""
        return sum(scan.runs for scan in self.scans.values())

    @property
    def shared(self) -> int:
        """Those that answered several sub-groups."""
        return sum(scan.shared for scan in self.scans.values())

    @property
    def answers(self) -> int:
        return sum(query.answers for query in self.queries.values())

    @cached_property
    def throughput(self) -> float:
        """Queries answered per second."""
        return self.answers / self.seconds

    @cached_property
    def latency_updates(self) -> float:
        """Updates beyond the slide, mean of the queries' means."""
        return mean([query.updates_late / query.runs for query in self.queries.values() if query.runs])

    @cached_property
    def tardiness_s(self) -> float:
        """Mean of the queries' means."""
        return mean([query.tardiness_s / query.runs for query in self.queries.values() if query.runs])

    @cached_property
    def tardiness_s_max(self) -> float:
        return max((query.tardiness_s_max for query in self.queries.values()), default=0.0)

    @property
    def utilisation(self) -> float:
        return self.busy_s / self.seconds


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def run_periodic(workload: PeriodicWorkload, settings: PeriodicSettings, seconds: float) -> PeriodicOutcome:
    """The workload under a schedule. A run that is due and has not ended is as late as if it ended with the time."""
    scheduler = build_periodic(settings)
    for name, load in workload.synopses.items():
        scheduler.open(name, load.interval_s)
    for query in workload.queries:
        scheduler.add(query, workload.costs[query.group])
    groups = dict.fromkeys((query.synopsis, query.group) for query in workload.queries)
    slides = {query.name: query.slide for query in workload.queries}
    periods = {name: period for group in groups for name, period in scheduler.periods(*group).items()}
    shortened = mean([float(period < slides[name]) for name, period in periods.items()])

    # When each comes next, and its name; of one-time queries, none.
    coming: list[tuple[float, str]] = [(load.interval_s, name) for name, load in workload.synopses.items()]
    if workload.one_time_every_s < inf:
        coming.append((workload.one_time_every_s, ""))
    heapify(coming)
    updates = dict.fromkeys(workload.synopses, 0)
    runs = {query.name: QueryRuns() for query in workload.queries}
    scans = {group: GroupScans() for _, group in groups}
    now, busy_s = 0.0, 0.0
    while now < seconds:
        at_s, name = coming[0]
        if at_s <= now:
            if name:
                load = workload.synopses[name]
                updates[name] += 1
                scheduler.updated(name, at_s, updates[name])
                # Multiplied, not added up: intervals such as 0.1 s would drift.
                heapreplace(coming, ((updates[name] + 1) * load.interval_s, name))
                spent = load.update_s
            else:
                heapreplace(coming, (at_s + workload.one_time_every_s, name))
                spent = workload.one_time_s
        elif (task := scheduler.pick(now)) is not None:
            spent = task.cost
            scans[task.group].add(task)
            for late in scheduler.done(task, now + spent):
                for query_name in late.queries:
                    runs[query_name].add(late.updates, late.tardiness_s)
        else:
            spent, now = 0.0, min(at_s, seconds)
        now += spent
        busy_s += spent
    while (task := scheduler.pick(now)) is not None and any(part.due <= task.number for part in task.parts):
        for late in scheduler.done(task, now):
            for query_name in late.queries:
                if late.updates or not runs[query_name].runs:
                    runs[query_name].add(late.updates, late.tardiness_s, answered=False)
    return PeriodicOutcome(
        seconds=max(now, seconds),
        queries=runs,
        scans=scans,
        busy_s=busy_s,
        periods=periods,
        shortened=shortened,
    )
