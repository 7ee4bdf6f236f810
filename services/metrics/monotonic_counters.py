"""Counters that never go backwards, made of counts that begin anew with their processes.

What is counted comes in two kinds. Some counts are of one *life* of a process: the next begins at 0, and what it counts is added
to what the earlier ones have. Others are *kept*: who begins anew goes on with them, perhaps from a little earlier, and they stand
still until they have come to where they were.

Numbered properties:
1. As long as something is told, its counters never fall, whatever begins anew and in whichever order; nothing is counted twice.
2. What is forgotten is what is told no more: memory is bounded by what there is.
3. What a life has counted after it was seen last is lost; so are earlier lives for a service that begins anew.
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
"""A family and the labels that it has beside those of the class."""
Life = Hashable


@dataclass(slots=True)
class LastCount:
    """Of one count."""

    life: Life
    value: float

    def gain(self, life: Life, value: float, goes_on: bool) -> float:
        """What has come since."""
        if goes_on or life == self.life:
            self.life = life
            gained = max(0.0, value - self.value)
            self.value += gained
            return gained
        self.life, self.value = life, value
        return value


@dataclass(slots=True)
class ResponseBuckets:
    """Response times of a class, by buckets for one target."""

    target_s: float
    count: float = 0
    in_time: float = 0
    sum_s: float = 0.0
    within: list[float] = field(default_factory=list)


@dataclass(slots=True)
class ClassCounts:
    """Of all units that a class has had, since it was seen first."""

    values: dict[Key, float] = field(default_factory=dict)
    times: ResponseBuckets = field(default_factory=lambda: ResponseBuckets(0.0))
    restarts: int = 0


@dataclass(slots=True)
class UnitSeen:
    """When it was seen last."""

    class_name: str
    host: str
    pid: int
    counts: dict[Key, LastCount] = field(default_factory=dict)
    life: Life = None
    answered: ResponseCounts = field(default_factory=ResponseCounts)


class ClassCounters:
    """Heard by one thread at a time."""

    def __init__(self) -> None:
        self._classes: dict[str, ClassCounts] = {}
        self._units: dict[str, UnitSeen] = {}
        self._pids: dict[str, int] = {}
        self.host_restarts: Counter[str] = Counter()
        """By node."""

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
            return  # its buckets are around a target that the class has no more
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
    """Counts that are of no class. What is asked for in one round and not in the next is forgotten."""

    def __init__(self) -> None:
        self._seen: dict[Key, LastCount] = {}
        self._totals: dict[Key, float] = {}
        self._asked: set[Key] = set()

    def of_life(self, key: Key, value: float, life: Life) -> float:
        """Of a count that begins at 0 in each life."""
        return self._total(key, gained(self._seen, key, life, value, goes_on=False))

    def until_it_falls(self, key: Key, value: float) -> float:
        """The same, where lives cannot be told apart but by a count that falls."""
        counter = self._seen.get(key)
        life = 0 if counter is None else counter.life
        assert isinstance(life, int)
        return self.of_life(key, value, life + (counter is not None and value < counter.value))

    def kept(self, key: Key, value: float) -> float:
        """Of a count that goes on; one that has fallen to less than half is another one of the same name."""
        counter = self._seen.get(key)
        goes_on = counter is not None and value >= counter.value / 2
        return self._total(key, gained(self._seen, key, object(), value, goes_on))

    def changes(self, key: Key, pid: int) -> float:
        """How often another process has been there than the last time."""
        counter = self._seen.get(key)
        return self._total(
            key, gained(self._seen, key, pid, counter is not None and counter.life != pid, False)
        )

    def _total(self, key: Key, gain: float) -> float:
        self._asked.add(key)
        return add(self._totals, key, gain)

    def end_round(self) -> None:
        """Everything that there is has been asked for."""
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
    """What is counted of queries that are no more."""
    gone = [key for key in counts if key[0] in OF_QUERIES and key[1] not in queries]
    for key in gone:
        del counts[key]


# -- what is counted of a unit -----------------------------------------------------------------------------------

RESULTS, TUPLES, OFFERED = (
    "weir_query_results_total",
    "weir_class_tuples_total",
    "weir_class_offered_tuples_total",
)
DECISIONS = "weir_class_decisions_total"
LOST, MISSED, SLOWDOWN, STALE, TARDY, TARDINESS, FAILED = (
    "weir_query_lost_utility_total",
    "weir_query_missed_deadlines_total",
    "weir_query_slowdown_total",
    "weir_query_stale_seconds_total",
    "weir_query_tardy_answers_total",
    "weir_query_tardiness_seconds_total",
    "weir_query_failed_tuples_total",
)
OF_QUERIES = (RESULTS, LOST, MISSED, SLOWDOWN, STALE, TARDY, TARDINESS, FAILED)


def counts_of_life(report: UnitReport) -> Iterator[tuple[Key, float]]:
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
        yield (DECISIONS, branch), count
    for quality in counted.quality:
        yield (LOST, quality.query), max(0.0, quality.answers - quality.utility)
        yield (MISSED, quality.query), quality.missed
        yield (SLOWDOWN, quality.query), quality.slowdown
        yield (STALE, quality.query), quality.stale_s
        yield (TARDY, quality.query), quality.tardy
        yield (TARDINESS, quality.query), quality.tardiness_s
    # A counter that begins with its first loss would have no rate for it.
    lost = {quality.query: 0 for quality in counted.quality}
    lost |= {loss.query: loss.rows for loss in query_losses(report.failures)}
    for query, rows in lost.items():
        yield (FAILED, query), rows


def counts_kept(report: UnitReport) -> Iterator[tuple[Key, float]]:
    for stream, (ledger, _) in report.accounts.items():
        yield (OFFERED, stream), ledger.offered
        for fate in FATES:
            yield (TUPLES, stream, fate), getattr(ledger, fate)
    if report.counted is not None:
        for query, count in report.counted.results.items():
            yield (RESULTS, query), count
