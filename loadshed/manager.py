"""The load manager of a class: at the end of every load cycle, how much of the input to keep.

    event             what follows
    CycleEnded        SetKeep (if the kept fraction moved), ReportUsage, perhaps DropOlder, TrimQueue, HoldBack,
                      RequestReclaim; one Explanation
    HeadroomScaled    the headroom follows the share at once (DILoS eq. 2)

One core serves one class; the `common` manager of the simulator gives one core the inputs and outputs of all.

A class below its original share that becomes overloaded asks for its capacity back and holds its drop rate for
that cycle: what it lent must not cost it data. If the capacity has not come by the next cycle (a lost message, a
dead coordinator) it sheds by the table like any other, since a full queue helps nobody.

Usage is the offered, unshed load as a part of what the class can do: of its headroom, or of what it really had while a
queue stood, if that is less. A headroom may have been learned from what others left unused and have lent since. In the
paper late answers bring it down; here the queue term sheds before any is late. By the headroom alone such a class would
have room to spare, and shed for ever without asking for anything.

A class that may not drop everything and bounds no age (`hold_s`) lets in only as many tuples as it can work off within
that time. Input beyond stays outside, where its producers wait. The class reads no faster than it works, so its offered load
looks like what it can do; its usage therefore counts the full queue, too, as work that it would do within `hold_s`.
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
# One noisy cycle is no overload: it takes a queue of this part of a cycle's work, or a load this far above both
# headroom and share.
OVERLOAD_QUEUE_CYCLES = 0.25
OVERLOAD_MARGIN = 1.05
# So many tell what a class can have: turns of one cycle may be few, as those of another class take longer or the machine is not
# ours alone, and in one without any there was no capacity of 0.
FULL_CYCLES = 4
# What a class might have dropped and did not counts for its queue so long.
FORGET_S = 10.0

# Length of the queue of a class that holds back, in delay targets. Shorter, bursts that are worked off soon would already
# stop producers; longer, all answers behind the queue come later without any more of them.
HOLD_TARGETS = 10
# The least length: load cycles and snapshots of 0.1 s each should not stop the producers of a class with a short target.
HOLD_LEAST_S = 1.0
# Tuples that always have room: costs that are not known yet should not leave less than one train of ordinary length.
LEAST_ROOM = 1000
# Rooms are sent again when one of them changes by more than this part.
ROOM_CHANGE = 0.2

# What the branches say of the class, as an operator would put them.
MEANING: Mapping[AlomaBranch, str] = {
    AlomaBranch.DROP_MORE: "overloaded",
    AlomaBranch.RAISE: "it keeps up all the same",
    AlomaBranch.RAISE_AND_EASE: "its delay is falling all the same",
    AlomaBranch.LOWER_AND_DROP: "it falls behind all the same",
    AlomaBranch.EASE: "there is room",
    AlomaBranch.WAIT: "nothing to change",
    AlomaBranch.HOLD: "overloaded below its original share; ask for the capacity back and drop no more meanwhile",
}


@dataclass(frozen=True, slots=True)
class SetKeep:
    """To the shedder: keep this fraction of every input."""

    keep: float


@dataclass(frozen=True, slots=True)
class ReportUsage:
    """To the coordinator: the offered, unshed load, in processors, and as a part of what the class can do."""

    usage: float
    load: float


@dataclass(frozen=True, slots=True)
class RequestReclaim:
    """To the coordinator: overloaded below the original share."""


LoadEvent = CycleEnded | HeadroomScaled


@dataclass(frozen=True, slots=True)
class TrimQueue:
    """To the shedder: drop this part of what is queued, the oldest first; it would be answered too late."""

    part: float


@dataclass(frozen=True, slots=True)
class DropOlder:
    """To the shedder: drop what has waited in the queue for longer than this."""

    age_s: float


@dataclass(frozen=True, slots=True)
class HoldBack:
    """To the door: leave input outside while this many tuples of the stream are queued; by stream."""

    rooms: Mapping[str, int]


LoadCommand = SetKeep | ReportUsage | RequestReclaim | TrimQueue | DropOlder | HoldBack


def held_queue_s(target_s: float) -> float:
    """Return the seconds of work that may queue in a class that holds back the rest."""
    return max(HOLD_TARGETS * target_s, HOLD_LEAST_S)


@dataclass(frozen=True, slots=True)
class ManagerDecision:
    """One decision with the numbers it was made on."""

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
    """Decisions just before this one that changed nothing either, and are not kept."""
    since: float | None = None
    """When the first of these was made."""
    oldest_s: float = 0.0
    """Age of the oldest queued tuple, if that is more than the class allows."""
    held_back: bool = False
    """True if input waited outside for room in the queue."""

    def sentence(self) -> str:
        """Return when the decision was made, for which class, and its words."""
        more = f" (and {self.repeated:,} more like it since {self.since:.2f} s)" if self.repeated else ""
        return f"{self.at:.2f} s {self.name}: {self.words()}{more}"

    def changes_nothing(self) -> bool:
        """Return True if neither headroom nor drop rate changes, and nothing is dropped."""
        is_same = (self.before.headroom, self.before.keep) == (self.after.headroom, self.after.keep)
        return self.after.branch is AlomaBranch.WAIT and is_same and not self.trimmed

    def words(self) -> str:
        """The decision in words: what was seen → what follows."""
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
            follows.append("hold back at the producers what does not fit into its queue")
        if self.oldest_s:
            follows.append(f"drop what is too old: the oldest has waited {self.oldest_s:.1f} s")
        if self.trimmed:
            follows.append(f"drop {self.trimmed:.0%} of the queue, which would be late")
        return (
            f"load {figure(self.load)} {side} headroom {old_headroom}, {response}, "
            f"{duration(self.queued_work_s * 1e3)} of work queued → " + "; ".join(follows)
        )


@dataclass
class LoadManager:
    """ALoMa for one class. `handle(event, now)` returns commands to its shell."""

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
    _full: deque[tuple[float, float]] = field(
        init=False, default_factory=lambda: deque(maxlen=FULL_CYCLES)
    )  # the last cycles with a queue since it ran dry
    _served: float | None = field(init=False, default=None)  # what the class had while a queue stood
    _may_drop_s: float | None = field(init=False, default=None)  # of queued work, within the highest drop
    _rooms: Mapping[str, int] = field(init=False, default_factory=dict)  # as sent last

    def __post_init__(self) -> None:
        headroom = self.settings.headroom_start * self.share * self.lanes
        self.control = Control(bounded(headroom, self.headroom_max))
        self._responses = ResponseMonitor(self.settings.gap)

    def resume(self, headroom: float, keep: float) -> None:
        """Begin with what an earlier life had come to, as far as it is within the bounds of this one."""
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
        after = decide(before, load, verdict, self._limits())
        limit = self._queue_limit(after.headroom, offered, cycle)
        reclaim = self._wants_reclaim(offered, verdict, cycle, limit)
        if reclaim and not self._reclaiming:
            # The headroom still learns: if it was too high, usage would look low and the share be lent again.
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
        """Keep a decision. Of those in a row that change nothing only the last is kept, with their number."""
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
        # A burst may fill the queue of a class whose load is within what it has left.
        would_shed = limit < self.control.keep
        return (
            verdict.over_target or beyond_doubt or would_shed or (offered > headroom and self._is_full(cycle))
        )

    def _measure(self, cycle: CycleEnded) -> None:
        """A class that had something to do all the time has had all that it could get."""
        if cycle.ran_dry:
            # Of input that comes in bursts there may be some at the end of every cycle, and none in between.
            self._served = None
            self._full.clear()
            return
        if cycle.worked_s is None or cycle.cycle_s <= LEAST_CYCLE_S:
            return
        if self._served is not None:
            # As long as it has not run dry, a queue that shedding has made short is no news of more capacity.
            self._served += RATE_ALPHA * (cycle.worked_s / cycle.cycle_s - self._served)
        elif self._is_full(cycle):
            self._full.append((cycle.worked_s, cycle.cycle_s))
            worked_s, seconds = map(sum, zip(*self._full, strict=True))
            if len(self._full) == FULL_CYCLES and worked_s > 0:
                self._served = worked_s / seconds

    def _is_full(self, cycle: CycleEnded) -> bool:
        return cycle.queued_work_s > OVERLOAD_QUEUE_CYCLES * cycle.cycle_s * self.control.headroom

    def _capacity(self, headroom: float) -> float:
        """What the class can do: headroom learned in quiet times is not what a full queue is worked off with."""
        return headroom if self._served is None else max(min(headroom, self._served), LEAST_HEADROOM)

    def _queue_limit(self, headroom: float, offered: float, cycle: CycleEnded) -> float:
        allowance_s = self.settings.queue_fraction * self.target_s
        return queue_limit(self._capacity(headroom), offered, cycle.queued_work_s, cycle.cycle_s, allowance_s)

    def _part_too_much(self, cycle: CycleEnded) -> float:
        """Of a queue that cannot be worked off in time any more, what is beyond what may queue.

        The kept fraction bounds a queue as it grows. When a share is taken back, what was let in for the larger one is
        there already, and it would make everything behind it late, too.
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
        """Return the age of the oldest queued tuple if that is more than the class allows, otherwise 0.

        The class has declared that answers to such tuples are worth nothing, so `max_drop` does not count.
        """
        oldest_s = max((input_.waiting_s for input_ in cycle.inputs), default=0.0)
        return oldest_s if self.max_age_s is not None and oldest_s > self.max_age_s else 0.0

    def _held_work(self, cycle: CycleEnded) -> float:
        """Return the load, in processors, that the full queue of a class that is held back stands for."""
        return cycle.queued_work_s / self.hold_s if self.hold_s is not None and cycle.held_back else 0.0

    def _rooms_for(self, cycle: CycleEnded) -> dict[str, int]:
        """Return how many tuples of each stream may queue, so that together they are worked off within `hold_s`.

        Streams with input have equal parts: with fewer, a stream that comes rarely would wait for one that comes often.
        """
        if self.hold_s is None:
            return {}
        awake = sum(
            input_.work_s > 0 and (input_.offered > 0 or input_.waiting_s > 0) for input_ in cycle.inputs
        )
        # What a class really has bounds the time, also where its headroom has been lowered since answers are late.
        processors = self.control.headroom if self._served is None else max(self._served, LEAST_HEADROOM)
        part_s = self.hold_s * processors / max(awake, 1)
        return {
            input_.stream: max(LEAST_ROOM, round(part_s / input_.work_s))
            for input_ in cycle.inputs
            if input_.work_s > 0
        }

    def _allow(self, offered: float, cycle: CycleEnded) -> None:
        """What is dropped at the door and from the queue together is no more than the highest drop allows."""
        most = self._max_drop()
        gained_s = (most - (1 - self.control.keep)) * offered * cycle.cycle_s
        if self._may_drop_s is None:
            left_s = most * cycle.queued_work_s
        else:
            left_s = self._may_drop_s * math.exp(-cycle.cycle_s / FORGET_S)
        self._may_drop_s = max(0.0, left_s + gained_s)

    def _max_drop(self) -> float:
        return min(self.max_drop, self.settings.max_drop)

    def _limits(self) -> ShedLimits:
        return ShedLimits(self._max_drop(), self.headroom_max, self.settings.step)


def is_other(rooms: Mapping[str, int], before: Mapping[str, int]) -> bool:
    """Return True if streams differ, or if a room differs by more than measuring noise."""
    if rooms.keys() != before.keys():
        return True
    return any(abs(room - before[stream]) > ROOM_CHANGE * before[stream] for stream, room in rooms.items())
