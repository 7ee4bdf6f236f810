"""Periodic queries in virtual time: one processor updates synopses (pre-aggregated intervals), answers one-time queries and
runs due queries.

Updates and one-time queries come first, as in Golab's Algorithm 1; no run is interrupted. An update of a synopsis is due at
each multiple of its interval, but waits until the current run has ended. Lateness counts from the time at which the update
was due.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from heapq import heapify, heapreplace
from math import inf

from configs.classes.periodic_schedules import PeriodicSettings
from scheduler.windows import PeriodicQuery, PeriodicScheduler, ScanCosts, Task


@dataclass(frozen=True, slots=True)
class SynopsisLoad:
    """Cost of updating a synopsis, which is the same under every schedule."""

    interval_s: float
    update_s: float = 0.0
    """Processor-seconds per update; there is one update in each interval."""


@dataclass(frozen=True)
class PeriodicWorkload:
    """Workload of a run: queries, synopses and costs."""

    queries: Sequence[PeriodicQuery]
    synopses: Mapping[str, SynopsisLoad]
    costs: Mapping[str, ScanCosts]
    """Costs of a run of each group, in seconds."""
    one_time_every_s: float = inf
    one_time_s: float = 0.0


@dataclass(slots=True)
class QueryRuns:
    """Number of runs of one query, and the lateness of the runs."""

    runs: int = 0
    unanswered: int = 0
    """Number of runs (0 or 1) that were due at the end of the simulation. Such a run counts as late, but gives no answer."""
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
    """Number of runs of a group of queries."""

    runs: int = 0
    """Number of runs; one run answers several queries."""
    shared: int = 0
    """Number of runs that answered several sub-groups."""
    busy_s: float = 0.0

    def add(self, task: Task) -> None:
        self.runs += 1
        self.shared += len(task.parts) > 1
        self.busy_s += task.cost


@dataclass(frozen=True)
class PeriodicOutcome:
    """Outcome of a workload under a schedule."""

    seconds: float
    queries: Mapping[str, QueryRuns]
    scans: Mapping[str, GroupScans]
    """Runs by name of the group."""
    busy_s: float
    periods: Mapping[str, int] = field(default_factory=dict)
    """Number of synopsis updates between two runs, by query."""
    shortened: float = 0.0
    """Fraction of the queries that have a period shorter than their slide."""

    @property
    def tasks(self) -> int:
        """Return the number of runs of all groups."""
        return sum(scan.runs for scan in self.scans.values())

    @property
    def shared(self) -> int:
        """Return the number of runs that answered several sub-groups at once."""
        return sum(scan.shared for scan in self.scans.values())

    @property
    def answers(self) -> int:
        return sum(query.answers for query in self.queries.values())

    @cached_property
    def throughput(self) -> float:
        """Number of answers per second."""
        return self.answers / self.seconds

    @cached_property
    def latency_updates(self) -> float:
        """Mean number of synopsis updates by which answers exceeded the slide. Each query's mean has equal weight."""
        return mean([query.updates_late / query.runs for query in self.queries.values() if query.runs])

    @cached_property
    def tardiness_s_max(self) -> float:
        return max((query.tardiness_s_max for query in self.queries.values()), default=0.0)

    @property
    def utilisation(self) -> float:
        return self.busy_s / self.seconds


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def run_periodic(workload: PeriodicWorkload, settings: PeriodicSettings, seconds: float) -> PeriodicOutcome:
    """Run the workload under a schedule. Runs that are still due at the end count with their lateness at that moment."""
    scheduler = PeriodicScheduler(settings)
    for name, load in workload.synopses.items():
        scheduler.open(name, load.interval_s)
    for query in workload.queries:
        scheduler.add(query, workload.costs[query.group])
    groups = dict.fromkeys((query.synopsis, query.group) for query in workload.queries)
    slides = {query.name: query.slide for query in workload.queries}
    periods = {name: period for group in groups for name, period in scheduler.periods(*group).items()}
    shortened = mean([float(period < slides[name]) for name, period in periods.items()])

    # Heap of coming events: the next update of each synopsis, with the synopsis's name, and the next one-time query, with an empty name.
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
                scheduler.updated(name, at_s)
                # Times are multiplied, not added up, because sums of intervals such as 0.1 s would drift.
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
