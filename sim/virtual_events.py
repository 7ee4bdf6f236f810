"""Events of a simulated run and their queue, lanes, current faults, and the time that scheduling costs."""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf

from configs.scenario.scenario import Costs, Fault, HostDies, ReportsLate, ReportsLost
from scheduler.capacity.core import CapacityEvent
from sim.run.simulated_host import SimulatedHost


@dataclass(slots=True)
class Lane:
    """Lane: one processor, on which classes take turns."""

    number: int
    host: SimulatedHost | None = None
    quota_s: float = 0.0
    used_s: float = 0.0
    call_s: float = -1.0  # Seconds of the current operator call; −1 at the beginning of a slice
    decision_s: float = 0.0  # Part of `call_s`: the time for choosing the operator


# --- events ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CallEnds:
    """Event: the operator call on a lane ends, or a slice begins on the lane."""

    lane: Lane


@dataclass(frozen=True, slots=True)
class Arrival:
    """Event: a tuple arrives at a class that was idle."""

    host: SimulatedHost


@dataclass(frozen=True, slots=True)
class CycleDue:
    """Event: a load cycle ends."""


@dataclass(frozen=True, slots=True)
class FaultStrikes:
    fault: Fault


@dataclass(frozen=True, slots=True)
class HostReturns:
    fault: HostDies


@dataclass(frozen=True, slots=True)
class MessageArrives:
    """Event: a delayed message reaches the coordinator."""

    message: CapacityEvent


Happening = CallEnds | Arrival | CycleDue | FaultStrikes | HostReturns | MessageArrives


class EventHeap:
    """Queue of future events by time. Events with the same time leave the queue in the order in which they were pushed."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Happening]] = []
        self._pushed = 0

    def __bool__(self) -> bool:
        return bool(self._heap)

    def push(self, at_s: float, happening: Happening) -> None:
        """Add an event with the time at which it happens; an event with the time `inf` never happens and is ignored."""
        if at_s < inf:
            self._pushed += 1
            heappush(self._heap, (at_s, self._pushed, happening))

    def pop(self) -> tuple[float, Happening]:
        at_s, _, happening = heappop(self._heap)
        return at_s, happening

    def next_s(self) -> float:
        """Return the time of the next event, `inf` if the queue is empty."""
        return self._heap[0][0] if self._heap else inf


@dataclass(slots=True)
class FaultsUnderWay:
    """Faults that have begun and not ended: reports that are lost or late, and hosts that are down."""

    reports: list[ReportsLost | ReportsLate] = field(default_factory=list)
    _down_until: dict[str, float] = field(default_factory=dict)

    def of_report(self, name: str, now: float) -> ReportsLost | ReportsLate | None:
        """Return the fault that loses or delays a report of this class now, or None."""
        for fault in self.reports:
            if fault.name == name and fault.at_s <= now < fault.at_s + fault.for_s:
                return fault
        return None

    def host_died(self, fault: HostDies) -> float:
        """Record that a fault has stopped the host, and return the time at which this fault ends."""
        until = fault.at_s + fault.down_s
        self._down_until[fault.name] = max(until, self._down_until.get(fault.name, until))
        return until

    def is_down(self, name: str, now: float) -> bool:
        return now < self._down_until[name]


@dataclass(frozen=True, slots=True)
class SchedulingCosts:
    """Lane time that scheduling takes, in seconds."""

    turn_s: float
    decision_s: float
    look_s: float
    """Time per operator priority that a decision compares."""

    @classmethod
    def of(cls, costs: Costs) -> SchedulingCosts:
        return cls(costs.turn_us * 1e-6, costs.decision_us * 1e-6, costs.look_us * 1e-6)

    def of_decision(self, host: SimulatedHost) -> float:
        """Return the lane time of the decision that chose the host's current call."""
        decision_s = self.decision_s if host.decided else 0.0
        return decision_s + self.look_s * host.scheduler.looked if self.look_s else decision_s
