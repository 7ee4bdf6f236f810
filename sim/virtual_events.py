"""Events of virtual time and their queue; lanes, current faults and the cost of scheduling."""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf

from configs.scenario.scenario import Costs, Fault, HostDies, ReportsLate, ReportsLost
from scheduler.capacity.core import CapacityEvent
from sim.run.simulated_host import SimulatedHost


@dataclass(slots=True)
class Lane:
    """One processor's worth of turns."""

    number: int
    host: SimulatedHost | None = None
    quota_s: float = 0.0
    used_s: float = 0.0
    call_s: float = -1.0  # −1: the slice has just begun
    decision_s: float = 0.0  # part of it, for choosing the operator


# --- what can happen ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CallEnds:
    """The operator call on a lane is done, or its slice begins."""

    lane: Lane


@dataclass(frozen=True, slots=True)
class Arrival:
    """A tuple arrives at a class that was idle."""

    host: SimulatedHost


@dataclass(frozen=True, slots=True)
class CycleDue:
    """A load cycle ends."""


@dataclass(frozen=True, slots=True)
class FaultStrikes:
    fault: Fault


@dataclass(frozen=True, slots=True)
class HostReturns:
    fault: HostDies


@dataclass(frozen=True, slots=True)
class MessageArrives:
    """A delayed message reaches the coordinator."""

    message: CapacityEvent


Happening = CallEnds | Arrival | CycleDue | FaultStrikes | HostReturns | MessageArrives


class EventHeap:
    """Return the next event. Events of one moment come in the order in which they were pushed."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Happening]] = []
        self._pushed = 0

    def __bool__(self) -> bool:
        return bool(self._heap)

    def push(self, at_s: float, happening: Happening) -> None:
        """Schedule what happens; nothing ever happens at `inf`."""
        if at_s < inf:
            self._pushed += 1
            heappush(self._heap, (at_s, self._pushed, happening))

    def pop(self) -> tuple[float, Happening]:
        at_s, _, happening = heappop(self._heap)
        return at_s, happening

    def next_s(self) -> float:
        """Time of what happens next, `inf` if nothing does."""
        return self._heap[0][0] if self._heap else inf


@dataclass(slots=True)
class FaultsUnderWay:
    """Faults that have struck: reports that do not arrive in time, and hosts that are down."""

    reports: list[ReportsLost | ReportsLate] = field(default_factory=list)
    _down_until: dict[str, float] = field(default_factory=dict)

    def of_report(self, name: str, now: float) -> ReportsLost | ReportsLate | None:
        """Return the fault that a class's report meets now, if there is one."""
        for fault in self.reports:
            if fault.name == name and fault.at_s <= now < fault.at_s + fault.for_s:
                return fault
        return None

    def host_died(self, fault: HostDies) -> float:
        """Return when the host would be back from this fault alone."""
        until = fault.at_s + fault.down_s
        self._down_until[fault.name] = max(until, self._down_until.get(fault.name, until))
        return until

    def is_down(self, name: str, now: float) -> bool:
        return now < self._down_until[name]


@dataclass(frozen=True, slots=True)
class SchedulingCosts:
    """Time that decisions take on a lane."""

    turn_s: float
    decision_s: float
    look_s: float
    """Per operator that a decision compares."""

    @classmethod
    def of(cls, costs: Costs) -> SchedulingCosts:
        return cls(costs.turn_us * 1e-6, costs.decision_us * 1e-6, costs.look_us * 1e-6)

    def of_decision(self, host: SimulatedHost) -> float:
        """Time for the decision that led to the host's call."""
        decision_s = self.decision_s if host.decided else 0.0
        return decision_s + self.look_s * host.scheduler.looked if self.look_s else decision_s
