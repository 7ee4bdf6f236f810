"""The load manager of a class: at the end of every load cycle, how much of the input to keep.

    event             what follows
    CycleEnded        SetKeep (if the kept fraction moved), ReportUsage, perhaps RequestReclaim; one Explanation
    HeadroomScaled    the headroom follows the share at once (DILoS eq. 2)

One core serves one class; the `common` manager of the simulator gives one core the inputs and outputs of all.

A class below its original share that becomes overloaded asks for its capacity back and holds its drop rate for
that cycle: what it lent must not cost it data. If the capacity has not come by the next cycle (a lost message, a
dead coordinator) it sheds by the table like any other, since a full queue helps nobody.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace

from configs.load import LoadSettings
from loadshed.aloma import Branch, Control, Limits, decide, queue_limit
from loadshed.cycle import CycleEnded
from loadshed.monitors import LoadMonitor, ResponseMonitor, Verdict
from scheduler.capacity import HeadroomScaled

EXPLANATIONS_KEPT = 1000
# Overload needs a queue to show it: this part of a cycle's worth of work, so that one noisy cycle is no overload.
OVERLOAD_QUEUE_CYCLES = 0.25


@dataclass(frozen=True, slots=True)
class SetKeep:
    """To the shedder: keep this fraction of every input."""

    keep: float


@dataclass(frozen=True, slots=True)
class ReportUsage:
    """To the coordinator: offered, unshed load over headroom."""

    usage: float


@dataclass(frozen=True, slots=True)
class RequestReclaim:
    """To the coordinator: overloaded below the original share."""


LoadEvent = CycleEnded | HeadroomScaled
LoadCommand = SetKeep | ReportUsage | RequestReclaim


@dataclass(frozen=True, slots=True)
class Explanation:
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

    def sentence(self) -> str:
        """The decision in words."""
        side = "above" if self.load > self.before.headroom else "within"
        text = (
            f"{self.at:.2f} s {self.name}: load {self.load:.3f} {side} headroom {self.before.headroom:.3f}, "
            f"response {self.verdict.name} at {self.verdict.worst:.0%} of target, "
            f"{self.queued_work_s * 1e3:.0f} ms of work queued → {self.after.branch}"
        )
        if self.after.headroom != self.before.headroom:
            text += f", headroom {self.after.headroom:.3f}"
        if self.after.keep != self.before.keep:
            text += f", drop {1 - self.before.keep:.1%} → {1 - self.after.keep:.1%}"
        if self.queue_limited:
            text += " (limited by the queue)"
        if self.at_max_drop:
            text += " (at its highest drop)"
        return text


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
    explanations: deque[Explanation] = field(default_factory=lambda: deque(maxlen=EXPLANATIONS_KEPT))
    control: Control = field(init=False)
    _loads: LoadMonitor = field(init=False, default_factory=LoadMonitor)
    _responses: ResponseMonitor = field(init=False)
    _reclaiming: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self.control = Control(headroom=self.settings.headroom_start * self.share * self.lanes)
        self._responses = ResponseMonitor(self.settings.gap)

    def handle(self, event: LoadEvent, now: float) -> tuple[LoadCommand, ...]:
        match event:
            case CycleEnded():
                return self._cycle(event, now)
            case HeadroomScaled(_, factor, share):
                self.share = share
                headroom = min(self.control.headroom * factor, self.headroom_max)
                self.control = replace(self.control, headroom=headroom)
                return ()

    def _cycle(self, cycle: CycleEnded, now: float) -> tuple[LoadCommand, ...]:
        before = self.control
        offered = self._loads.offered_load(cycle.inputs, cycle.cycle_s)
        load = offered * before.keep
        verdict = self._responses.verdict(cycle.outputs, cycle.queued_work_s / before.headroom)
        reclaim = self._wants_reclaim(offered, verdict, cycle)
        if reclaim and not self._reclaiming:
            after, limit = replace(before, branch=Branch.HOLD, streak=1), 1.0
        else:
            after = decide(before, load, verdict, self._limits())
            limit = self._queue_limit(after.headroom, offered, cycle)
        keep = max(min(after.keep, limit), 1 - self._max_drop())
        self._reclaiming = reclaim
        self.control = replace(after, keep=keep)
        self.explanations.append(
            Explanation(
                now, self.name, offered, load, verdict, cycle.queued_work_s, before, self.control,
                queue_limited=keep < after.keep, at_max_drop=keep < 1 and keep <= 1 - self._max_drop(),
            )
        )  # fmt: skip
        commands: list[LoadCommand] = [ReportUsage(offered / before.headroom)]
        if keep != before.keep:
            commands.append(SetKeep(keep))
        if reclaim:
            commands.append(RequestReclaim())
        return tuple(commands)

    def _wants_reclaim(self, offered: float, verdict: Verdict, cycle: CycleEnded) -> bool:
        if self.share >= self.original_share - 1e-9:
            return False
        headroom = self.control.headroom
        queue_shows = cycle.queued_work_s > OVERLOAD_QUEUE_CYCLES * cycle.cycle_s * headroom
        return verdict.over_target or (offered > headroom and queue_shows)

    def _queue_limit(self, headroom: float, offered: float, cycle: CycleEnded) -> float:
        allowance_s = self.settings.queue_fraction * self.target_s
        return queue_limit(headroom, offered, cycle.queued_work_s, cycle.cycle_s, allowance_s)

    def _max_drop(self) -> float:
        return min(self.max_drop, self.settings.max_drop)

    def _limits(self) -> Limits:
        return Limits(self._max_drop(), self.headroom_max, self.settings.step)
