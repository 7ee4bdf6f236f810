"""Scheduler of periodic window results: decides which sub-groups are due, which run next, and which run together (Golab §4).

Golab counts the time d until a deadline in updates of the synopsis. After a run, d is the period n; each update reduces d by one. A
sub-group is *due* at d = 0 and *late* below. This module stores the number of the update at which d reaches 0 instead, so that an
update costs time only for sub-groups that become due. All queries are added before the first update. The simulator calls
`updated` when a synopsis has a new interval, gets a task from `pick`, runs it and calls `done`.

1. Sub-groups of a group that became due at the same update run together, unless sharing is off. Late sharing adds the late
   sub-groups of the group, and late-pending sharing adds the late and the due sub-groups (Algorithms 2 and 3).
2. A run answers the state of the synopsis at the time of `pick`, and d is n from that update on, even if the run was late: runs
   missed in an overload are not made up for. A run in time is followed by a run at the next multiple of the period. So after an
   overload, sub-groups with periods chosen for meeting meet again; in the paper they do not.
3. An exact query (one that may not run early) runs only at multiples of its slide. A late run answers all of its windows that
   have closed since, which its caller keeps track of. The query never runs early or changes its period, but shares a run with
   sub-groups that are due at the same time.
4. No sub-group runs twice at a time, or twice on the same state of its synopsis.
5. A sub-group's deadline is one interval after it became due, when the next update would make it late.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from heapq import heappop, heappush
from itertools import count
from math import inf

from configs.classes.periodic_schedules import PeriodicKind, PeriodicSettings
from scheduler.windows.order import NOWHERE, TaskOrder, build_order
from scheduler.windows.periods import Periods, cheapest_periods, own_periods, shortest_periods
from scheduler.windows.scan_model import COMPARISONS, PeriodicQuery, ScanCosts, SubGroup

PERIODS: Mapping[PeriodicKind, Callable[[Sequence[SubGroup], ScanCosts], Periods]] = {
    "none": own_periods,
    "aggressive": shortest_periods,
    "conservative": own_periods,
    "hybrid": cheapest_periods,
}


@dataclass(frozen=True, slots=True)
class Part:
    """Queries of one sub-group that a run answers, and the times at which these queries are due."""

    queries: tuple[str, ...]
    due: int
    """Number of the update at which the sub-group is due by its period; later than the task's `number` if it runs early."""
    promised: int
    """Number of the update at which the sub-group is due by its slide, which may be longer than its period."""
    due_s: float
    deadline_s: float
    key: SubKey = field(repr=False)


@dataclass(frozen=True, slots=True)
class Task:
    """Run of one scan that answers one or more sub-groups."""

    synopsis: str
    group: str
    number: int
    """Number of the synopsis's newest interval that the run answers."""
    cost: float
    """Expected cost, by the group's costs."""
    parts: tuple[Part, ...]

    @property
    def queries(self) -> tuple[str, ...]:
        return tuple(query for part in self.parts for query in part.queries)


@dataclass(frozen=True, slots=True)
class Lateness:
    """Lateness of queries that one task has answered, measured by their slide and not by a shorter period."""

    queries: tuple[str, ...]
    updates: int
    """Number of synopsis updates by which the answer exceeded its slide (Golab's latency)."""
    tardiness_s: float
    """Seconds from the deadline to the answer, at least 0."""


# Key of a sub-group: its slide, True if it may run early, and a number. The number is unique if each query runs alone, otherwise 0.
SubKey = tuple[int, bool, int]


class Stage(Enum):
    WAITING = 0
    DUE = 1
    RUNNING = 2


@dataclass(slots=True, eq=False)
class Sub:
    """Sub-group with its schedule."""

    key: SubKey
    period: int
    due: int
    ran: int = 0
    """Number of the newest synopsis interval at the sub-group's last run."""
    windows: dict[str, int] = field(default_factory=dict)
    stage: Stage = Stage.WAITING

    @property
    def slide(self) -> int:
        return self.key[0]

    @property
    def at_most(self) -> bool:
        return self.key[1]

    @property
    def described(self) -> SubGroup:
        windows = self.windows.values()
        return SubGroup(self.slide, max(windows), len(windows), self.at_most, sum(windows))


@dataclass(slots=True, eq=False)
class DueBatch:
    """Sub-groups of a group that became due together."""

    group: ScanGroup
    due: int
    due_s: float
    deadline_s: float
    subs: list[Sub] = field(default_factory=list)
    place: int = NOWHERE
    cost: float = 0.0
    answers: int = 0

    @property
    def rate(self) -> float:
        return self.answers / self.cost if self.cost > 0 else inf

    @property
    def tie(self) -> int:
        return 0


@dataclass(slots=True, eq=False)
class ScanGroup:
    """Group of queries that one scan can answer."""

    name: str
    synopsis: Synopsis
    costs: ScanCosts
    subs: dict[SubKey, Sub] = field(default_factory=dict)
    batches: list[DueBatch] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Synopsis:
    """Synopsis with the number of its updates and its groups of queries."""

    name: str
    interval_s: float
    number: int = 0
    updated_s: float = 0.0
    groups: dict[str, ScanGroup] = field(default_factory=dict)
    # Heap of waiting sub-groups by the update at which they become due. An entry is invalid if its sub-group is now due at another update.
    calendar: list[tuple[int, int, ScanGroup, Sub]] = field(default_factory=list)


class PeriodicScheduler:
    """Scheduler of the periodic queries of one engine."""

    def __init__(self, settings: PeriodicSettings) -> None:
        self.settings = settings
        self._synopses: dict[str, Synopsis] = {}
        self._order: TaskOrder[DueBatch] = build_order(settings.order)
        self._unplanned: list[ScanGroup] = []
        self._entries = count()
        self._alone = count(1)

    def open(self, synopsis: str, interval_s: float) -> None:
        """Add a synopsis without intervals."""
        self._synopses[synopsis] = Synopsis(synopsis, interval_s)

    def add(self, query: PeriodicQuery, costs: ScanCosts = COMPARISONS) -> None:
        """Add a query to a synopsis without intervals; `costs` apply if the query's group is new."""
        synopsis = self._synopses[query.synopsis]
        assert synopsis.number == 0, f"query {query.name} is added after the first update"
        group = synopsis.groups.get(query.group)
        if group is None:
            group = synopsis.groups[query.group] = ScanGroup(query.group, synopsis, costs)
            self._unplanned.append(group)
        alone = self.settings.kind == "none" and self.settings.tasks == "query"
        key = (query.slide, query.at_most, next(self._alone) if alone else 0)
        sub = group.subs.get(key)
        if sub is None:
            sub = group.subs[key] = Sub(key, period=query.slide, due=query.slide)
            self._wait(group, sub)
        sub.windows[query.name] = query.window

    def periods(self, synopsis: str, group: str) -> Mapping[str, int]:
        """Return the number of updates between the runs of each query of a group."""
        self._plan()
        subs = self._synopses[synopsis].groups[group].subs.values()
        return {query: sub.period for sub in subs for query in sub.windows}

    def _plan(self) -> None:
        """Choose the periods of groups that have no periods yet. The first run of a sub-group is due after one period."""
        for group in self._unplanned:
            subs = list(group.subs.values())
            chosen = periods_of(self.settings, [sub.described for sub in subs], group.costs)
            for sub, period in zip(subs, chosen.periods, strict=True):
                if period != sub.period:
                    sub.period = sub.due = period
                    self._wait(group, sub)
        self._unplanned.clear()

    def updated(self, synopsis: str, now: float) -> None:
        """Note that a synopsis has one new interval."""
        self._plan()
        state = self._synopses[synopsis]
        state.number += 1
        state.updated_s = now
        self._fall_due(state)

    def pick(self, now: float) -> Task | None:
        """Return the task to run next; None if there is nothing to run."""
        batch = self._order.head(now)
        if batch is not None:
            return self._task(batch.group, self._along_with(batch))
        return self._early() if self.settings.eager else None

    def done(self, task: Task, now: float) -> tuple[Lateness, ...]:
        """Note that a task has run, and return the lateness of its parts."""
        synopsis = self._synopses[task.synopsis]
        group = synopsis.groups[task.group]
        in_time = all(part.due >= task.number for part in task.parts) and not any(
            batch.due < synopsis.number for batch in group.batches
        )
        for part in task.parts:
            sub = group.subs[part.key]
            sub.due = next_due(sub, task.number, part, in_time)
            self._wait(group, sub)
        self._fall_due(synopsis)
        return tuple(lateness(task, part, synopsis, now) for part in task.parts)

    def _wait(self, group: ScanGroup, sub: Sub) -> None:
        sub.stage = Stage.WAITING
        heappush(group.synopsis.calendar, (sub.due, next(self._entries), group, sub))

    def _fall_due(self, synopsis: Synopsis) -> None:
        calendar, changed = synopsis.calendar, {}
        while calendar and calendar[0][0] <= synopsis.number:
            due, _, group, sub = heappop(calendar)
            if sub.stage is Stage.WAITING and sub.due == due:
                batch = self._batch(group, due)
                batch.subs.append(sub)
                sub.stage = Stage.DUE
                changed[id(batch)] = batch
        for batch in changed.values():
            batch.answers = sum(len(sub.windows) for sub in batch.subs)
            batch.cost = cost_of(batch.subs, batch.group.costs)
            self._order.put(batch)

    def _batch(self, group: ScanGroup, due: int) -> DueBatch:
        """Return the batch of the group's sub-groups that became due at an update. If sharing is off, always return a new batch."""
        if self.settings.kind != "none":
            for batch in group.batches:
                if batch.due == due:
                    return batch
        synopsis = group.synopsis
        batch = DueBatch(group, due, synopsis.updated_s, synopsis.updated_s + synopsis.interval_s)
        group.batches.append(batch)
        return batch

    def _along_with(self, batch: DueBatch) -> list[DueBatch]:
        """Return a batch of due sub-groups, and all other batches that run together with this batch."""
        settings, group = self.settings, batch.group
        number = group.synopsis.number
        if settings.kind == "none" or settings.late == "off" or len(group.batches) == 1:
            return [batch]
        if settings.late == "late":
            return [
                candidate
                for candidate in group.batches
                if candidate is batch or candidate.due < number > batch.due
            ]
        # Sub-groups that are due and not late are in one batch. More than one batch means that there is an overload.
        return list(group.batches)

    def _task(self, group: ScanGroup, batches: list[DueBatch]) -> Task:
        number = group.synopsis.number
        parts = [
            Part(
                queries=tuple(sub.windows),
                due=batch.due,
                promised=sub.ran + sub.slide if sub.at_most else batch.due,
                due_s=batch.due_s,
                deadline_s=batch.deadline_s,
                key=sub.key,
            )
            for batch in batches
            for sub in batch.subs
        ]
        subs = [sub for batch in batches for sub in batch.subs]
        for batch in batches:
            if batch.place != NOWHERE:
                batch.place = NOWHERE
                group.batches.remove(batch)
        for sub in subs:
            sub.stage, sub.ran = Stage.RUNNING, number
        return Task(
            synopsis=group.synopsis.name,
            group=group.name,
            number=number,
            cost=cost_of(subs, group.costs),
            parts=tuple(parts),
        )

    def _early(self) -> Task | None:
        """Return a task that runs early: the sub-group that is due next, with sub-groups of its group that are due at the same update."""
        best: tuple[float, ScanGroup, int] | None = None
        for synopsis in self._synopses.values():
            for group in synopsis.groups.values():
                for sub in group.subs.values():
                    if may_run_early(sub, synopsis):
                        left = (sub.due - synopsis.number) * synopsis.interval_s
                        if best is None or left < best[0]:
                            best = left, group, sub.due
        if best is None:
            return None
        _, group, due = best
        subs = [sub for sub in group.subs.values() if sub.due == due and may_run_early(sub, group.synopsis)]
        since = group.synopsis.updated_s
        deadline_s = since + group.synopsis.interval_s
        batch = DueBatch(group, due, since, deadline_s, subs if self.settings.kind != "none" else subs[:1])
        return self._task(group, [batch])


def periods_of(settings: PeriodicSettings, sub_groups: Sequence[SubGroup], costs: ScanCosts) -> Periods:
    if settings.kind == "hybrid":
        return cheapest_periods(sub_groups, costs, settings.meetings)
    return PERIODS[settings.kind](sub_groups, costs)


def cost_of(subs: Sequence[Sub], costs: ScanCosts) -> float:
    """Return the cost of one run."""
    windows = [window for sub in subs for window in sub.windows.values()]
    return costs.scan(max(windows)) + costs.answering(len(windows), sum(windows))


def next_due(sub: Sub, number: int, part: Part, in_time: bool) -> int:
    """Return the next update at which a sub-group is due. Its last run answered the intervals up to update `number`."""
    if not sub.at_most or (in_time and part.due == number):
        return (number // sub.period + 1) * sub.period
    return number + sub.period


def lateness(task: Task, part: Part, synopsis: Synopsis, now: float) -> Lateness:
    due_s, interval_s = part.due_s, part.deadline_s - part.due_s
    if part.promised > min(part.due, task.number):
        # Updates come at regular intervals. So the time of update number `part.promised` can be computed from the time of the last update.
        reached = synopsis.number >= part.promised
        since = synopsis.updated_s - (synopsis.number - part.promised) * interval_s if reached else inf
        due_s = max(due_s, since)
    return Lateness(part.queries, max(0, task.number - part.promised), max(0.0, now - due_s - interval_s))


def may_run_early(sub: Sub, synopsis: Synopsis) -> bool:
    return sub.at_most and sub.stage is Stage.WAITING and sub.ran < synopsis.number
