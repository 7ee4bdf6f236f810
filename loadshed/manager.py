"""The load manager of a class, which decides at the end of every load cycle what fraction of the input to keep.
One core serves one class. The `common` manager uses one core with the inputs and outputs of all classes.

    event             commands
    CycleEnded        SetKeep (if the kept fraction changed), ReportUsage, and if needed DropOlder, TrimQueue, HoldBack,
                      RequestReclaim; the decision is recorded with its numbers
    HeadroomScaled    none; the headroom follows the share at once (DILoS eq. 2)

A class below its original share that becomes overloaded reclaims its capacity and holds its drop rate for that cycle, since
lending must not cost it data. If the capacity has not come back by the next cycle (a lost message, a dead coordinator), the class
sheds by the table like any other. A full queue would only delay all its answers.

Usage is the offered, unshed load divided by the capacity of the class. The capacity is its headroom, or the processor time it
really got while a queue stood, if that is less. The two differ if the headroom was learned while other classes left capacity
unused that they have lent since. In the paper, late answers reduce such a headroom; here the limit on the queue sheds before answers are
late. With the headroom alone, the class would seem to have spare capacity and would shed for ever without asking for more.

A class with `hold_s` (it must not drop everything and has no maximum age) admits only as many tuples as it can process within
that time. Further input stays outside, and its producers wait. Such a class reads only as fast as it works, so its offered load
equals its capacity. Its usage therefore also counts the full queue, as work to be done within `hold_s`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from configs.classes.load_manager import LoadSettings
from configs.numbers import duration, figure, of_target
from loadshed.aloma import LEAST_HEADROOM, AlomaBranch, Control, ShedLimits, bounded, decide, queue_limit
from loadshed.cycle import CycleEnded
from loadshed.monitors import LEAST_CYCLE_S, RATE_ALPHA, LoadMonitor, ResponseMonitor, Verdict
from scheduler.capacity.core import HeadroomScaled

EXPLANATIONS_KEPT = 1000
# Queue above which a class counts as backlogged, as a fraction of the work that the class can do in one load cycle.
OVERLOAD_QUEUE_CYCLES = 0.25
# Multiple of headroom and share above which a load is an overload beyond doubt.
OVERLOAD_MARGIN = 1.05
# Number of backlogged cycles averaged to estimate the capacity that a class really gets. One cycle is too short: it may have few turns.
FULL_CYCLES = 4
# Seconds after which the allowance for drops from the queue (see `_allow`) has decayed to about a third.
FORGET_S = 10.0

# Length of the queue of a class that holds input back, as a multiple of the class's delay target.
# A shorter queue would stop producers during short bursts; a longer queue would delay all answers without increasing their number.
HOLD_TARGETS = 10
# Minimum length of the queue of a class that holds input back, in seconds: shorter pauses of the class must not stop producers.
HOLD_LEAST_S = 1.0
# Number of tuples of each stream that may always be queued, about one train, because costs may not be known yet.
LEAST_ROOM = 1000
# Smallest relative change of a stream's room (tuples that may be queued) after which the rooms are sent to the door again.
ROOM_CHANGE = 0.2

# Meaning, for users, of each branch of ALoMa's decision table.
MEANING: Mapping[AlomaBranch, str] = {
    AlomaBranch.DROP_MORE: "overloaded",
    AlomaBranch.RAISE: "it keeps up nevertheless",
    AlomaBranch.RAISE_AND_EASE: "its delay is falling nevertheless",
    AlomaBranch.LOWER_AND_DROP: "it falls behind nevertheless",
    AlomaBranch.EASE: "there is room",
    AlomaBranch.WAIT: "nothing to change",
    AlomaBranch.HOLD: "overloaded below its original share; ask for the capacity back and drop no more meanwhile",
}


@dataclass(frozen=True, slots=True)
class SetKeep:
    """Command to the shedder to keep this fraction of every input."""

    keep: float


@dataclass(frozen=True, slots=True)
class ReportUsage:
    """Report to the coordinator: the offered, unshed load in processors, and its ratio to the capacity of the class."""

    usage: float
    load: float


@dataclass(frozen=True, slots=True)
class RequestReclaim:
    """Request to the coordinator to return lent capacity: the class has less than its original share and is overloaded."""


LoadEvent = CycleEnded | HeadroomScaled


@dataclass(frozen=True, slots=True)
class TrimQueue:
    """Command to the shedder to drop this fraction of the queue. The oldest tuples are dropped, because their answers would be too late."""

    part: float


@dataclass(frozen=True, slots=True)
class DropOlder:
    """Command to the shedder to drop tuples that have waited in the queue for longer than `age_s`."""

    age_s: float


@dataclass(frozen=True, slots=True)
class HoldBack:
    """Command to the door: maximum number of queued tuples of each stream. Further input stays outside until the queue has room."""

    rooms: Mapping[str, int]


LoadCommand = SetKeep | ReportUsage | RequestReclaim | TrimQueue | DropOlder | HoldBack


@dataclass(frozen=True, slots=True)
class ManagerDecision:
    """One decision of a load manager, with the numbers it was based on."""

    at: float
    name: str
    offered_load: float
    load: float
    verdict: Verdict
    queued_work_s: float
    before: Control
    after: Control
    queue_limited: bool
    at_max_drop: bool
    trimmed: float = 0.0
    repeated: int = 0
    """Number of decisions directly before this one that changed nothing and were not kept in the record."""
    since: float | None = None
    """Time of the first of the repeated decisions."""
    oldest_s: float = 0.0
    """Age of the oldest queued tuple, if that is more than the class allows."""
    held_back: bool = False
    """True if input was not read because the class's queue was full."""

    def sentence(self) -> str:
        """Return the time of the decision, the class and the text of `words`."""
        more = f" (and {self.repeated:,} more like it since {self.since:.2f} s)" if self.repeated else ""
        return f"{self.at:.2f} s {self.name}: {self.words()}{more}"

    def changes_nothing(self) -> bool:
        """Return True if neither headroom nor drop rate changes, and nothing is dropped."""
        is_same = (self.before.headroom, self.before.keep) == (self.after.headroom, self.after.keep)
        return self.after.branch is AlomaBranch.WAIT and is_same and not self.trimmed

    def words(self) -> str:
        """Return the decision as text: the measurements → the changes."""
        before, after, verdict = self.before, self.after, self.verdict
        side = "above" if self.load > before.headroom else "within"
        response = f"response {of_target(verdict.worst)} ({verdict.name})" if verdict.worst else "no response"
        old_headroom, headroom = figure(before.headroom), figure(after.headroom)
        old_drop, drop = f"{1 - before.keep:.1%}", f"{1 - after.keep:.1%}"
        follows = []
        if after.branch is not AlomaBranch.WAIT or not self.queue_limited:
            follows.append(MEANING[after.branch])
        if self.queue_limited:
            follows.append("let in no more than the queue allows")
        if headroom != old_headroom:
            follows.append(f"headroom {old_headroom} → {headroom}")
        if drop != old_drop:
            follows.append(f"drop {old_drop} → {drop}")
        elif after.keep < 1:
            follows.append(f"drop stays at {drop}")
        if self.at_max_drop:
            follows.append("no more may be dropped")
        if self.held_back:
            follows.append("input that does not fit into the queue waits at the producers")
        if self.oldest_s:
            follows.append(f"drop tuples that are too old: the oldest has waited {self.oldest_s:.1f} s")
        if self.trimmed:
            follows.append(f"drop {self.trimmed:.0%} of the queue, which would be answered late")
        return (
            f"load {figure(self.load)} {side} headroom {old_headroom}, {response}, "
            f"{duration(self.queued_work_s * 1e3)} of work queued → " + "; ".join(follows)
        )


@dataclass
class LoadManager:
    """Load manager of one class, by ALoMa. `handle(event, now)` returns the commands to carry out."""

    name: str
    settings: LoadSettings
    target_s: float
    share: float
    original_share: float
    max_drop: float = 0.95
    lanes: int = 1
    headroom_max: float = 1.0
    trims: bool = True
    max_age_s: float | None = None
    hold_s: float | None = None
    explanations: deque[ManagerDecision] = field(default_factory=lambda: deque(maxlen=EXPLANATIONS_KEPT))
    control: Control = field(init=False)
    _loads: LoadMonitor = field(init=False, default_factory=LoadMonitor)
    _responses: ResponseMonitor = field(init=False)
    _reclaiming: bool = field(init=False, default=False)
    # Processor time used in each of the last backlogged cycles, and the cycle's length, in seconds. Cleared when input runs out.
    _full: deque[tuple[float, float]] = field(init=False, default_factory=lambda: deque(maxlen=FULL_CYCLES))
    # Capacity in processors that the class really got while it had a queue.
    _served: float | None = field(init=False, default=None)
    # Queued work in processor-seconds that may still be dropped without exceeding `max_drop`.
    _may_drop_s: float | None = field(init=False, default=None)
    # Number of tuples of each stream that may be queued, as last sent to the door.
    _rooms: Mapping[str, int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        headroom = self.settings.headroom_start * self.share * self.lanes
        self.control = Control(bounded(headroom, self.headroom_max))
        self._responses = ResponseMonitor(self.settings.gap)

    def resume(self, headroom: float, keep: float) -> None:
        """Start with the headroom and kept fraction from before a restart, within the current limits."""
        self.control = Control(bounded(headroom, self.headroom_max), max(keep, 1 - self._max_drop()))

    def handle(self, event: LoadEvent, now: float) -> tuple[LoadCommand, ...]:
        match event:
            case CycleEnded():
                return self._cycle(event, now)
            case HeadroomScaled(_, factor, share, original):
                self.share, self.original_share = share, original
                if self._served is not None:
                    self._served *= factor
                headroom = self.control.headroom * factor
                self.control = replace(self.control, headroom=bounded(headroom, self.headroom_max))
                return ()

    def _cycle(self, cycle: CycleEnded, now: float) -> tuple[LoadCommand, ...]:
        before = self.control
        self._measure(cycle)
        offered = self._loads.offered_load(cycle.inputs, cycle.cycle_s)
        self._allow(offered, cycle)
        load = offered * before.keep
        verdict = self._responses.verdict(cycle.outputs, cycle.queued_work_s / before.headroom)
        limits = ShedLimits(self._max_drop(), self.headroom_max, self.settings.step)
        after = decide(before, load, verdict, limits)
        limit = self._queue_limit(after.headroom, offered, cycle)
        reclaim = self._wants_reclaim(offered, verdict, cycle, limit)
        if reclaim and not self._reclaiming:
            # The headroom is still adjusted: if it stayed too high, usage would look low and the share would be lent again.
            after, limit = (
                replace(after, branch=AlomaBranch.HOLD, streak=1, keep=max(before.keep, after.keep)),
                1.0,
            )
        floor = 1 - self._max_drop()
        keep = max(min(after.keep, limit), floor)
        self._reclaiming = reclaim
        self.control = replace(after, keep=keep)
        self._explain(
            ManagerDecision(
                at=now, name=self.name, offered_load=offered, load=load, verdict=verdict, queued_work_s=cycle.queued_work_s, before=before, after=self.control,
                queue_limited=keep < after.keep,
                at_max_drop=keep <= floor and (after.branch is AlomaBranch.DROP_MORE or min(after.keep, limit) < 1),
                trimmed=(part := 0.0 if reclaim else self._part_too_much(cycle)),
                oldest_s=(oldest_s := self._too_old(cycle)),
                held_back=cycle.held_back,
            )
        )  # fmt: skip
        needed = offered + self._held_work(cycle)
        commands: list[LoadCommand] = [ReportUsage(needed / self._capacity(before.headroom), offered)]
        if keep != before.keep:
            commands.append(SetKeep(keep))
        if oldest_s and self.max_age_s is not None:
            commands.append(DropOlder(self.max_age_s))
        if part > 0:
            commands.append(TrimQueue(part))
        rooms = self._rooms_for(cycle)
        if is_other(rooms, self._rooms):
            self._rooms = rooms
            commands.append(HoldBack(rooms))
        if reclaim:
            commands.append(RequestReclaim())
        return tuple(commands)

    def _explain(self, decision: ManagerDecision) -> None:
        """Record a decision. Consecutive decisions that change nothing are stored as one decision with a count."""
        last = self.explanations[-1] if self.explanations else None
        if last is not None and last.changes_nothing() and decision.changes_nothing():
            since = last.at if last.since is None else last.since
            decision = replace(decision, repeated=last.repeated + 1, since=since)
            self.explanations.pop()
        self.explanations.append(decision)

    def _wants_reclaim(self, offered: float, verdict: Verdict, cycle: CycleEnded, limit: float) -> bool:
        if self.share >= self.original_share - 1e-9:
            return False
        headroom = self.control.headroom
        beyond_doubt = offered > OVERLOAD_MARGIN * max(headroom, self.share * self.lanes)
        # A burst may fill the queue although the mean load is within the share that the class has after lending.
        would_shed = limit < self.control.keep
        return (
            verdict.over_target or beyond_doubt or would_shed or (offered > headroom and self._is_full(cycle))
        )

    def _measure(self, cycle: CycleEnded) -> None:
        """Update the estimate of the capacity that the class really gets, from cycles in which it always had work."""
        if cycle.ran_dry:
            # Input in bursts may leave a queue at the end of every cycle although the class was idle in between.
            self._served = None
            self._full.clear()
            return
        if cycle.worked_s is None or cycle.cycle_s <= LEAST_CYCLE_S:
            return
        if self._served is not None:
            # The average of the capacity that the class gets is updated even if shedding has shortened the queue.
            self._served += RATE_ALPHA * (cycle.worked_s / cycle.cycle_s - self._served)
        elif self._is_full(cycle):
            self._full.append((cycle.worked_s, cycle.cycle_s))
            worked_s, seconds = map(sum, zip(*self._full, strict=True))
            if len(self._full) == FULL_CYCLES and worked_s > 0:
                self._served = worked_s / seconds

    def _is_full(self, cycle: CycleEnded) -> bool:
        return cycle.queued_work_s > OVERLOAD_QUEUE_CYCLES * cycle.cycle_s * self.control.headroom

    def _capacity(self, headroom: float) -> float:
        """Return the capacity of the class: its headroom, or the capacity measured while it had a queue, if that is less."""
        return headroom if self._served is None else max(min(headroom, self._served), LEAST_HEADROOM)

    def _queue_limit(self, headroom: float, offered: float, cycle: CycleEnded) -> float:
        allowance_s = self.settings.queue_fraction * self.target_s
        return queue_limit(self._capacity(headroom), offered, cycle.queued_work_s, cycle.cycle_s, allowance_s)

    def _part_too_much(self, cycle: CycleEnded) -> float:
        """Return the fraction of the queue that can no longer be processed within the target, and is therefore dropped.

        The kept fraction limits only the growth of a queue. When a share is taken back, the queue admitted for the larger share
        already exists, and would make all later tuples late, too.
        """
        if not self.trims or self._may_drop_s is None:
            return 0.0
        allowed = self.settings.queue_fraction
        worked_off_s = self.target_s * self._capacity(self.control.headroom)
        in_time_s = (1 + allowed) / 2 * worked_off_s
        if cycle.queued_work_s <= in_time_s:
            return 0.0
        excess = 1 - allowed * worked_off_s / cycle.queued_work_s
        part = min(excess, self._max_drop(), self._may_drop_s / cycle.queued_work_s)
        self._may_drop_s -= part * cycle.queued_work_s
        return part

    def _too_old(self, cycle: CycleEnded) -> float:
        """Return the age of the oldest queued tuple if it is above the maximum age of the class, otherwise 0.

        The class has declared that answers to such tuples are worth nothing, so `max_drop` does not limit their number.
        """
        oldest_s = max((input_.waiting_s for input_ in cycle.inputs), default=0.0)
        return oldest_s if self.max_age_s is not None and oldest_s > self.max_age_s else 0.0

    def _held_work(self, cycle: CycleEnded) -> float:
        """Return the load, in processors, of the full queue of a class that holds input back. The load is added to the usage."""
        return cycle.queued_work_s / self.hold_s if self.hold_s is not None and cycle.held_back else 0.0

    def _rooms_for(self, cycle: CycleEnded) -> dict[str, int]:
        """Return the number of tuples of each stream that may be queued, so that all are processed within `hold_s`.

        Streams with input get equal parts of the time, so that a stream with little input does not wait behind a busy stream.
        """
        if self.hold_s is None:
            return {}
        awake = sum(
            input_.work_s > 0 and (input_.offered > 0 or input_.waiting_s > 0) for input_ in cycle.inputs
        )
        # The measured capacity is used even if it is above the headroom, which late answers may have lowered.
        processors = self.control.headroom if self._served is None else max(self._served, LEAST_HEADROOM)
        part_s = self.hold_s * processors / max(awake, 1)
        return {
            input_.stream: max(LEAST_ROOM, round(part_s / input_.work_s))
            for input_ in cycle.inputs
            if input_.work_s > 0
        }

    def _allow(self, offered: float, cycle: CycleEnded) -> None:
        """Update how much queued work may be dropped, so that drops at the door and from the queue together stay within `max_drop`."""
        most = self._max_drop()
        gained_s = (most - (1 - self.control.keep)) * offered * cycle.cycle_s
        if self._may_drop_s is None:
            left_s = most * cycle.queued_work_s
        else:
            left_s = self._may_drop_s * math.exp(-cycle.cycle_s / FORGET_S)
        self._may_drop_s = max(0.0, left_s + gained_s)

    def _max_drop(self) -> float:
        return min(self.max_drop, self.settings.max_drop)


def is_other(rooms: Mapping[str, int], before: Mapping[str, int]) -> bool:
    """Return True if the streams differ, or if the queue limit (room) of a stream has changed by more than ROOM_CHANGE."""
    if rooms.keys() != before.keys():
        return True
    return any(abs(room - before[stream]) > ROOM_CHANGE * before[stream] for stream, room in rooms.items())
