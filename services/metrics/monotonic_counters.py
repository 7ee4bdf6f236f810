"""Counters that never fall, computed from counts of processes that may restart.

There are two kinds of counts. A count of one *life* of a process starts at 0 when the process restarts; the counts of all lives are
added. A *kept* count is recovered after a restart, perhaps from a slightly older state. The counter of a kept count then stays constant until the
count has reached its old value.

Numbered properties:
1. While a class, node or feed is reported, its counters never fall, whichever processes restart, and nothing is counted twice.
2. Counts of classes, queries and nodes that no longer exist are removed, so memory is bounded.
3. Counts between the last report of a life and its end are lost. A restarted service starts all counters at the counts it first sees.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field

from actors.coordinator.control_plane import PlacedUnit, SystemStatus
from actors.messages.unit_messages import ResponseCounts, UnitReport
from configs.classes.live_class import LiveClass
from services.metrics.families import BRANCHES, FATES
from services.watch.losses import query_losses

Key = tuple[str, ...]
"""Name of a metric family, followed by the values of its labels, except the labels that name the class."""
Life = Hashable
"""Identifier of one life of a process, such as its process id and start time."""


@dataclass(slots=True)
class LastCount:
    """Last value of one count, and the life (run) of the process that reported the value."""

    life: Life
    value: float

    def gain(self, life: Life, value: float, goes_on: bool) -> float:
        """Return the increase since the last value. `goes_on` is True for a count that does not start at 0 after a restart of its process."""
        if goes_on or life == self.life:
            self.life = life
            gained = max(0.0, value - self.value)
            self.value += gained
            return gained
        self.life, self.value = life, value
        return value


@dataclass(slots=True)
class ResponseBuckets:
    """Response times of a class, counted in buckets that are defined relative to one delay target."""

    target_s: float
    count: float = 0
    in_time: float = 0
    sum_s: float = 0.0
    within: list[float] = field(default_factory=list)


@dataclass(slots=True)
class ClassCounts:
    """Sums of the counts of all units of a class since the class was first seen, including units that have ended."""

    values: dict[Key, float] = field(default_factory=dict)
    times: ResponseBuckets = field(default_factory=lambda: ResponseBuckets(0.0))
    restarts: int = 0


@dataclass(slots=True)
class UnitSeen:
    """State of a unit when it was last seen."""

    class_name: str
    host: str
    pid: int
    counts: dict[Key, LastCount] = field(default_factory=dict)
    life: Life = None
    answered: ResponseCounts = field(default_factory=ResponseCounts)


class ClassCounters:
    """Counters of all classes, updated from unit reports by `hear`. Calls must not overlap."""

    def __init__(self) -> None:
        self._classes: dict[str, ClassCounts] = {}
        self._units: dict[str, UnitSeen] = {}
        self._pids: dict[str, int] = {}
        self.host_restarts: Counter[str] = Counter()
        """Number of restarts of class hosts, by node."""

    def of(self, class_name: str) -> ClassCounts:
        return self._classes.get(class_name, NOTHING)

    def hear(self, system: SystemStatus) -> None:
        declared = {class_.name: class_ for class_ in system.classes}
        self._classes = {name: self._classes.get(name) or ClassCounts() for name in declared}
        self._units = {name: unit for name, unit in self._units.items() if unit.class_name in declared}
        hosts = {unit.host for unit in system.units.values()}
        self._pids = {host: pid for host, pid in self._pids.items() if host in hosts}
        for name, unit in system.units.items():
            if unit.report is not None and unit.class_name in declared:
                self._hear(name, unit, unit.report, declared[unit.class_name])

    def _hear(self, name: str, unit: PlacedUnit, report: UnitReport, declared: LiveClass) -> None:
        counted = report.counted
        if counted is None:
            return
        unit_seen, total = self._units.get(name), self._classes[unit.class_name]
        if unit_seen is None:
            unit_seen = self._units[name] = UnitSeen(unit.class_name, unit.host, counted.pid)
        if unit_seen.pid != counted.pid:
            total.restarts += 1
        unit_seen.host, unit_seen.pid = unit.host, counted.pid
        if self._pids.setdefault(unit.host, counted.pid) != counted.pid:
            self._pids[unit.host] = counted.pid
            self.host_restarts[unit.node] += 1
        life = counted.life
        for key, value in counts_of_life(report):
            add(total.values, key, gained(unit_seen.counts, key, life, value, goes_on=False))
        for key, value in counts_kept(report):
            add(total.values, key, gained(unit_seen.counts, key, life, value, counted.recovered))
        queries = set(counted.results)
        forget(unit_seen.counts, queries)
        forget(total.values, set(declared.queries))
        self._hear_times(unit_seen, total, life, counted.answered, declared.delay_target_ms / 1e3)

    def _hear_times(
        self, known: UnitSeen, total: ClassCounts, life: Life, answered: ResponseCounts, target_s: float
    ) -> None:
        if answered.target_s != target_s:
            return  # Counts for different delay targets cannot be added, because the limits of their buckets differ.
        if total.times.target_s != target_s:
            total.times = ResponseBuckets(target_s, within=[0.0] * len(answered.within))
        goes_on = known.life == life and known.answered.target_s == target_s
        before = known.answered if goes_on else ResponseCounts()
        times = total.times
        times.count += answered.count - before.count
        times.in_time += answered.in_time - before.in_time
        times.sum_s += answered.sum_s - before.sum_s
        for place, (now, then) in enumerate(zip(answered.within, before.within, strict=True)):
            times.within[place] += now - then
        known.life, known.answered = life, answered


NOTHING = ClassCounts()


class Counters:
    """Counters of nodes, feeds, mirrors and loans.

    Every scrape reads each counter once, and then calls `end_round`, which removes the counters that the scrape did not read.
    """

    def __init__(self) -> None:
        self._seen: dict[Key, LastCount] = {}
        self._totals: dict[Key, float] = {}
        self._asked: set[Key] = set()

    def of_life(self, key: Key, value: float, life: Life) -> float:
        """Return the counter for a count that starts at 0 whenever its process restarts; `life` identifies one run of the process."""
        return self._total(key, gained(self._seen, key, life, value, goes_on=False))

    def until_it_falls(self, key: Key, value: float) -> float:
        """Return the counter for a count of a process without a known identifier; if the count falls, the process has restarted."""
        counter = self._seen.get(key)
        life = 0 if counter is None else counter.life
        assert isinstance(life, int)
        return self.of_life(key, value, life + (counter is not None and value < counter.value))

    def kept(self, key: Key, value: float) -> float:
        """Return the counter for a count that survives restarts. If the count falls to less than half, it is the count of a new object with the name of the old object."""
        counter = self._seen.get(key)
        goes_on = counter is not None and value >= counter.value / 2
        return self._total(key, gained(self._seen, key, object(), value, goes_on))

    def changes(self, key: Key, pid: int) -> float:
        """Return the number of restarts of a process, which are noticed by a new process id `pid`."""
        counter = self._seen.get(key)
        return self._total(
            key, gained(self._seen, key, pid, counter is not None and counter.life != pid, False)
        )

    def _total(self, key: Key, gain: float) -> float:
        self._asked.add(key)
        return add(self._totals, key, gain)

    def end_round(self) -> None:
        """End a scrape: remove all counters that the scrape did not read."""
        for key in self._totals.keys() - self._asked:
            del self._totals[key], self._seen[key]
        self._asked = set()


def gained(seen: dict[Key, LastCount], key: Key, life: Life, value: float, goes_on: bool) -> float:
    counter = seen.get(key)
    if counter is None:
        seen[key] = LastCount(life, value)
        return value
    return counter.gain(life, value, goes_on)


def add(totals: dict[Key, float], key: Key, gain: float) -> float:
    total = totals[key] = totals.get(key, 0.0) + gain
    return total


def forget(counts: dict[Key, LastCount] | dict[Key, float], queries: Iterable[str]) -> None:
    """Remove the counts of all queries except those in `queries`."""
    gone = [key for key in counts if key[0].startswith(OF_QUERIES) and key[1] not in queries]
    for key in gone:
        del counts[key]


RESULTS, TUPLES = "weir_query_results_total", "weir_class_tuples_total"
OFFERED = "weir_class_offered_tuples_total"
OF_QUERIES = "weir_query_"
"""Beginning of the names of families that have a label for the query."""


def counts_of_life(report: UnitReport) -> Iterator[tuple[Key, float]]:
    """Yield the counts that start at 0 in each life of the unit's process."""
    counted = report.counted
    assert counted is not None
    yield ("weir_class_slices_total",), counted.slices
    yield ("weir_class_overruns_total",), counted.overruns
    yield ("weir_class_overrun_seconds_total",), counted.overrun_s
    yield ("weir_class_processor_seconds_total",), report.figures.used_s
    yield ("weir_class_ingest_seconds_total",), report.figures.ingest_s
    yield ("weir_class_decisions_at_max_drop_total",), counted.at_max_drop
    yield ("weir_class_expired_tuples_total",), counted.expired
    yield ("weir_class_reclaims_total",), counted.reclaims
    yield ("weir_class_reclaims_overdue_total",), counted.reclaims_overdue
    yield ("weir_class_reclaim_seconds_total",), counted.reclaim_s
    for branch, count in zip(BRANCHES, counted.branches, strict=True):
        yield ("weir_class_decisions_total", branch), count
    for quality in counted.quality:
        yield ("weir_query_lost_utility_total", quality.query), max(0.0, quality.answers - quality.utility)
        yield ("weir_query_missed_deadlines_total", quality.query), quality.missed
        yield ("weir_query_slowdown_total", quality.query), quality.slowdown
        yield ("weir_query_stale_seconds_total", quality.query), quality.stale_s
        yield ("weir_query_tardy_answers_total", quality.query), quality.tardy
        yield ("weir_query_tardiness_seconds_total", quality.query), quality.tardiness_s
    # Queries without losses report 0: if a counter first appeared with a loss, Prometheus would compute no rate for that loss.
    lost = {quality.query: 0 for quality in counted.quality}
    lost |= {loss.query: loss.rows for loss in query_losses(report.failures)}
    for query, rows in lost.items():
        yield ("weir_query_failed_tuples_total", query), rows


def counts_kept(report: UnitReport) -> Iterator[tuple[Key, float]]:
    """Yield the counts that a restarted unit recovers from its log."""
    for stream, (ledger, _) in report.accounts.items():
        yield (OFFERED, stream), ledger.offered
        for fate in FATES:
            yield (TUPLES, stream, fate), getattr(ledger, fate)
    if report.counted is not None:
        for query, count in report.counted.results.items():
            yield (RESULTS, query), count
