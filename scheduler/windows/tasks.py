"""Window results as tasks: which of them are due, which one runs next, and which run along with it (Golab §4).

Time to deadline d is counted in updates of the synopsis: n when a sub-group has run, one less with each update. It is *due* at
d = 0 and *late* below. Here the number of the update at which d reaches 0 is kept, so that an update costs nothing but what falls
due by it. The engine calls `updated` when a synopsis has got a new interval, takes a task by `pick`, runs it and says `done`.

1. Sub-groups of a group that fell due by the same update run together, unless nothing is shared; late sharing and late-pending
   sharing add those of the group that are late, or late and due (Algorithms 2 and 3).
2. A run answers the state of its synopsis when it was picked, and d is n from that update on, however late the run was: what an
   overload delayed is not caught up with. A run that was in time is followed by one at the next multiple of the period, so that
   after an overload those meet again whose periods were chosen for meeting; the paper leaves them apart.
3. An exact query runs at multiples of its slide only. A late run answers for all of its windows that have closed since: they
   are the engine's to know. It neither runs early nor changes its period, but shares the runs it falls due with.
4. Nothing runs twice at a time, nor twice on the same state of its synopsis.
5. A sub-group's deadline is one interval after it fell due: when the next update would find it late.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from heapq import heappop, heappush
from itertools import count
from math import inf

from configs.classes.periodic_schedules import PeriodicKind, PeriodicSettings
from configs.errors import InvalidInput, UnknownName, nearest
from scheduler.windows.order import NOWHERE, TaskOrder, build_order
from scheduler.windows.periods import Periods, cheapest_periods, own_periods, shortest_periods
from scheduler.windows.scan_model import COMPARISONS, PeriodicQuery, ScanCosts, SubGroup

PERIODS: Mapping[PeriodicKind, Callable[[Sequence[SubGroup], ScanCosts], Periods]] = {
    "none": own_periods,
    "aggressive": shortest_periods,
    "conservative": own_periods,
    "hybrid": cheapest_periods,
}
# Costs that have changed by less than this part do not change the periods.
REPLAN_AT = 0.1


@dataclass(frozen=True, slots=True)
class Part:
    """One sub-group's part in a run."""

    queries: tuple[str, ...]
    due: int
    """The update at which it was due, by its period; later than the task's if it runs early."""
    promised: int
    """The update at which it is due by its slide, which its period may be shorter than."""
    due_s: float
    deadline_s: float
    key: SubKey = field(repr=False)


@dataclass(frozen=True, slots=True)
class Task:
    """Sub-groups that are answered by one scan."""

    synopsis: str
    group: str
    number: int
    """The state of the synopsis that it answers."""
    longest: int
    """Intervals to scan."""
    cost: float
    """By the group's costs."""
    parts: tuple[Part, ...]

    @property
    def queries(self) -> tuple[str, ...]:
        return tuple(query for part in self.parts for query in part.queries)


@dataclass(frozen=True, slots=True)
class Lateness:
    """How late the queries of a part were answered, by what was promised: a shortened period is nobody's deadline."""

    queries: tuple[str, ...]
    updates: int
    """Golab's latency: updates beyond the slide."""
    tardiness_s: float
    """From the deadline to the answer, at least 0."""
    response_s: float
    """From falling due to the answer, at least 0."""


# Slide, whether it may run earlier, and its number where queries run by themselves.
SubKey = tuple[int, bool, int]


class Stage(Enum):
    WAITING = 0
    DUE = 1
    RUNNING = 2


@dataclass(slots=True, eq=False)
class Sub:
    """A sub-group."""

    key: SubKey
    period: int
    due: int
    ran: int
    """The state it answered last."""
    windows: dict[str, int] = field(default_factory=dict)
    longest: int = 0
    stage: Stage = Stage.WAITING

    @property
    def slide(self) -> int:
        return self.key[0]

    @property
    def at_most(self) -> bool:
        return self.key[1]

    @property
    def described(self) -> SubGroup:
        return SubGroup(self.slide, self.longest, len(self.windows), self.at_most, sum(self.windows.values()))


@dataclass(slots=True, eq=False)
class DueBatch:
    """Sub-groups of a group that fell due together."""

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
    """Queries that one scan answers."""

    name: str
    synopsis: Synopsis
    costs: ScanCosts
    planned_with: ScanCosts
    subs: dict[SubKey, Sub] = field(default_factory=dict)
    batches: list[DueBatch] = field(default_factory=list)
    running: int = 0


@dataclass(slots=True, eq=False)
class Synopsis:
    """What is updated at a time."""

    name: str
    interval_s: float
    number: int
    updated_s: float
    groups: dict[str, ScanGroup] = field(default_factory=dict)
    # Waiting sub-groups by the update at which they fall due; an entry that names another update than theirs is old.
    calendar: list[tuple[int, int, ScanGroup, Sub]] = field(default_factory=list)


class PeriodicScheduler:
    """The periodic queries of one engine."""

    def __init__(self, settings: PeriodicSettings) -> None:
        self.settings = settings
        self._synopses: dict[str, Synopsis] = {}
        self._queries: dict[str, tuple[PeriodicQuery, ScanGroup, SubKey]] = {}
        self._order: TaskOrder[DueBatch] = build_order(settings.order)
        self._changed: dict[tuple[str, str], ScanGroup] = {}
        self._entries = count()
        self._alone = count(1)
        self._waiting = 0

    # -- what there is ---------------------------------------------------------------------------------

    def open(self, synopsis: str, interval_s: float, number: int = 0, now: float = 0.0) -> None:
        """A synopsis whose newest interval is `number`; exact queries are due at multiples of their slides."""
        self._synopses[synopsis] = Synopsis(synopsis, interval_s, number, now)

    def close(self, synopsis: str) -> None:
        """It is gone with all of its queries."""
        for group in list(self._synopsis(synopsis).groups.values()):
            for sub in list(group.subs.values()):
                for query in list(sub.windows):
                    self.remove(query)
        del self._synopses[synopsis]

    def add(self, query: PeriodicQuery, costs: ScanCosts = COMPARISONS) -> None:
        """`costs` are those of a group that is new."""
        if query.name in self._queries:
            raise InvalidInput("there is a query of this name", "name", query.name, "choose another one")
        synopsis = self._synopsis(query.synopsis)
        group = synopsis.groups.get(query.group)
        if group is None:
            group = synopsis.groups[query.group] = ScanGroup(query.group, synopsis, costs, costs)
        alone = self.settings.kind == "none" and self.settings.tasks == "query"
        key = (query.slide, query.at_most, next(self._alone) if alone else 0)
        sub = group.subs.get(key)
        if sub is None:
            due = next_multiple(synopsis.number, query.slide)
            sub = group.subs[key] = Sub(key, query.slide, due, synopsis.number)
            self._wait(group, sub)
        sub.windows[query.name] = query.window
        sub.longest = max(sub.longest, query.window)
        self._queries[query.name] = (query, group, key)
        self._replan_later(group)

    def remove(self, query: str) -> None:
        """It is wanted no longer; a run under way may still answer it."""
        if query not in self._queries:
            raise UnknownName("no such periodic query", "name", query, nearest(query, self._queries))
        _, group, key = self._queries.pop(query)
        sub = group.subs[key]
        del sub.windows[query]
        sub.longest = max(sub.windows.values(), default=0)
        if not sub.windows:
            self._forget(group, sub)
        if group.subs:
            self._replan_later(group)

    def price(self, synopsis: str, group: str, costs: ScanCosts) -> None:
        """What runs of the group were measured to cost, in seconds. Periods follow what has clearly changed."""
        priced = self._synopsis(synopsis).groups[group]
        priced.costs = costs
        if differs(costs, priced.planned_with):
            self._replan_later(priced)

    def periods(self, synopsis: str, group: str) -> Mapping[str, int]:
        """After how many updates each query of a group runs."""
        self._replan()
        subs = self._synopsis(synopsis).groups[group].subs.values()
        return {query: sub.period for sub in subs for query in sub.windows}

    @property
    def waiting(self) -> int:
        """Sub-groups that are due and do not run yet."""
        return self._waiting

    # -- the protocol ----------------------------------------------------------------------------------

    def updated(self, synopsis: str, now: float, number: int | None = None) -> None:
        """The synopsis has got an interval, or all of them up to `number`."""
        self._replan()
        state = self._synopsis(synopsis)
        state.number = state.number + 1 if number is None else max(number, state.number)
        state.updated_s = now
        self._fall_due(state)

    def pick(self, now: float) -> Task | None:
        """What is to run next; None if nothing is to do."""
        self._replan()
        batch = self._order.head(now)
        if batch is not None:
            return self._task(batch.group, self._along_with(batch))
        return self._early() if self.settings.eager else None

    def done(self, task: Task, now: float) -> tuple[Lateness, ...]:
        """The task has run."""
        synopsis = self._synopses.get(task.synopsis)
        group = synopsis.groups.get(task.group) if synopsis is not None else None
        if synopsis is not None and group is not None:
            group.running -= len(task.parts)
            in_time = all(part.due >= task.number for part in task.parts) and not any(
                batch.due < synopsis.number for batch in group.batches
            )
            for part in task.parts:
                sub = group.subs.get(part.key)
                if sub is not None and sub.stage is Stage.RUNNING:
                    sub.due = next_due(sub, task.number, part, in_time)
                    self._wait(group, sub)
            self._forget_empty(group)
            self._fall_due(synopsis)
        return tuple(lateness(task, part, synopsis, now) for part in task.parts)

    # -- falling due -----------------------------------------------------------------------------------

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
                self._waiting += 1
                changed[id(batch)] = batch
        for batch in changed.values():
            self._put(batch)

    def _batch(self, group: ScanGroup, due: int) -> DueBatch:
        """Those of the group that fell due by the same update; nobody else's, if nothing is shared."""
        if self.settings.kind != "none":
            for batch in group.batches:
                if batch.due == due:
                    return batch
        synopsis = group.synopsis
        batch = DueBatch(group, due, synopsis.updated_s, synopsis.updated_s + synopsis.interval_s)
        group.batches.append(batch)
        return batch

    def _put(self, batch: DueBatch) -> None:
        batch.answers = sum(len(sub.windows) for sub in batch.subs)
        batch.cost = cost_of(batch.subs, batch.group.costs)
        self._order.put(batch)

    def _forget(self, group: ScanGroup, sub: Sub) -> None:
        """A sub-group without queries."""
        del group.subs[sub.key]
        if sub.stage is Stage.DUE:
            self._waiting -= 1
            batch = next(candidate for candidate in group.batches if sub in candidate.subs)
            batch.subs.remove(sub)
            if batch.subs:
                self._put(batch)
            else:
                batch.place = NOWHERE
                group.batches.remove(batch)
        sub.stage, sub.due = Stage.WAITING, -1
        self._forget_empty(group)

    def _forget_empty(self, group: ScanGroup) -> None:
        if not group.subs and not group.running:
            del group.synopsis.groups[group.name]
            self._changed.pop((group.synopsis.name, group.name), None)

    # -- running ---------------------------------------------------------------------------------------

    def _along_with(self, batch: DueBatch) -> list[DueBatch]:
        """The batch and what runs with it."""
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
        # Those of the group that are due and not late are one batch: where there are several, there is an overload.
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
            self._waiting -= sub.stage is Stage.DUE
            sub.stage, sub.ran = Stage.RUNNING, number
        group.running += len(subs)
        return Task(
            synopsis=group.synopsis.name,
            group=group.name,
            number=number,
            longest=max(sub.longest for sub in subs),
            cost=cost_of(subs, group.costs),
            parts=tuple(parts),
        )

    def _early(self) -> Task | None:
        """What would be due next and may run now: the lowest d in seconds, and what of its group has the same d."""
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

    # -- periods ---------------------------------------------------------------------------------------

    def _replan_later(self, group: ScanGroup) -> None:
        self._changed[group.synopsis.name, group.name] = group

    def _replan(self) -> None:
        """New periods for groups whose queries or costs have changed, but not amid a run."""
        for name, group in list(self._changed.items()):
            if not group.running:
                del self._changed[name]
                self._set_periods(group)

    def _set_periods(self, group: ScanGroup) -> None:
        subs = list(group.subs.values())
        described = [sub.described for sub in subs]
        group.planned_with = group.costs
        chosen = periods_of(self.settings, described, group.costs)
        for sub, period in zip(subs, chosen.periods, strict=True):
            sub.period = period
        if self.settings.kind != "none":
            self._synchronise(group)

    def _synchronise(self, group: ScanGroup) -> None:
        """Sub-groups with one period are due together, at the next multiple of it unless one has to run before."""
        synopsis = group.synopsis
        by_period: dict[int, list[Sub]] = {}
        for sub in group.subs.values():
            if sub.at_most:
                by_period.setdefault(sub.period, []).append(sub)
        for period, subs in by_period.items():
            due = min(next_multiple(synopsis.number, period), *(latest_due(sub) for sub in subs))
            for sub in subs:
                if sub.stage is Stage.WAITING and sub.due != due:
                    sub.due = due
                    self._wait(group, sub)
        self._fall_due(synopsis)

    def _synopsis(self, name: str) -> Synopsis:
        if name not in self._synopses:
            raise UnknownName("no such synopsis", "synopsis", name, nearest(name, self._synopses))
        return self._synopses[name]


def periods_of(settings: PeriodicSettings, sub_groups: Sequence[SubGroup], costs: ScanCosts) -> Periods:
    if settings.kind == "hybrid":
        return cheapest_periods(sub_groups, costs, settings.meetings)
    return PERIODS[settings.kind](sub_groups, costs)


def cost_of(subs: Sequence[Sub], costs: ScanCosts) -> float:
    """Of one run."""
    described = [sub.described for sub in subs]
    answers, windows = (
        sum(sub_group.answers for sub_group in described),
        sum(sub_group.windows for sub_group in described),
    )
    return costs.scan(max(sub_group.longest for sub_group in described)) + costs.answering(answers, windows)


def next_multiple(number: int, period: int) -> int:
    return (number // period + 1) * period


def next_due(sub: Sub, number: int, part: Part, in_time: bool) -> int:
    """After a run that answered the state `number`."""
    if not sub.at_most or (in_time and part.due == number):
        return next_multiple(number, sub.period)
    return number + sub.period


def latest_due(sub: Sub) -> int:
    return sub.ran + sub.slide if sub.stage is Stage.WAITING else sub.due


def lateness(task: Task, part: Part, synopsis: Synopsis | None, now: float) -> Lateness:
    due_s, interval_s = part.due_s, part.deadline_s - part.due_s
    if part.promised > min(part.due, task.number):
        # Updates come at regular times, or all at once.
        reached = synopsis is not None and synopsis.number >= part.promised
        since = (
            synopsis.updated_s - (synopsis.number - part.promised) * interval_s
            if synopsis and reached
            else inf
        )
        due_s = max(due_s, since)
    return Lateness(
        part.queries,
        max(0, task.number - part.promised),
        max(0.0, now - due_s - interval_s),
        max(0.0, now - due_s),
    )


def may_run_early(sub: Sub, synopsis: Synopsis) -> bool:
    return sub.at_most and sub.stage is Stage.WAITING and sub.ran < synopsis.number


def differs(one: ScanCosts, other: ScanCosts) -> bool:
    """Clearly: only the proportions of costs matter for periods."""

    def proportions(costs: ScanCosts) -> list[float]:
        parts = (costs.interval, costs.call, costs.answer, costs.answer_interval)
        return [part / sum(parts) if any(parts) else 0.0 for part in parts]

    pairs = zip(proportions(one), proportions(other), strict=True)
    return any(abs(a - b) > REPLAN_AT * max(a, b) for a, b in pairs)
