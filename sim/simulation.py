"""A scenario in virtual time: the pure ring under an event heap.

The main loop is `Simulation.run`. It makes the same four calls as the live one: observe what happened, let the
cores decide, enact their commands, record. Its clock is the heap's; nothing here looks at another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf

from configs.classes.policies import policy_of
from configs.scenario.scenario import ClockJumps, Fault, HostDies, ReportsLate, ReportsLost, Scenario
from loadshed.cycle import CycleEnded
from loadshed.manager import DropOlder, HoldBack, SetKeep, TrimQueue
from scheduler.capacity.core import CapacityEvent
from scheduler.tuning import SwitchPolicy
from scheduler.turns.round_robin import ClassReady, Grant, SliceEnded
from sim.control_ring import ControlRing, OpenRecord, Order, build_ring
from sim.forecast.policy_forecast import Run
from sim.policy_tuning import tuned
from sim.run.simulated_host import SimulatedHost
from sim.series import ClassSeries, Series


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
CoreEvent = ClassReady | SliceEnded | CapacityEvent | dict[str, CycleEnded]


@dataclass
class Simulation:
    """One run of a scenario under a manager."""

    scenario: Scenario
    manager: str = "dilos"
    seed: int | None = None
    on_cycle: Callable[[Simulation], None] | None = None
    open_record: OpenRecord | None = None

    now: float = field(init=False, default=0.0)
    overhead_s: float = field(init=False, default=0.0)
    busy_s: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        if self.seed is None:
            self.seed = self.scenario.seed
        scenario = self.scenario
        self.hosts = {class_.name: SimulatedHost(scenario, class_, self.seed) for class_ in scenario.classes}
        tunings = {class_.name: tuned(class_, self.hosts[class_.name]) for class_ in scenario.classes}
        self.tunings = {name: one for name, one in tunings.items() if one is not None}
        cores = {name: one.core for name, one in self.tunings.items()}
        self.ring: ControlRing = build_ring(scenario, self.manager, self.open_record, cores)
        self.lanes = [Lane(number) for number in range(scenario.lanes)]
        self.originals = scenario.original_shares()
        self.series = Series({name: ClassSeries() for name in self.hosts})
        self.share_integral = dict.fromkeys(self.hosts, 0.0)
        self.clock_offset = 0.0
        self._end = inf if scenario.drain else scenario.seconds
        self._cycle_s = scenario.load.cycle_ms / 1e3
        self._cycle_began = 0.0
        self._turn_s = scenario.costs.turn_us * 1e-6
        self._decision_s = scenario.costs.decision_us * 1e-6
        self._look_s = scenario.costs.look_us * 1e-6
        self._faults_on: list[ReportsLost | ReportsLate] = []
        self._down_until: dict[str, float] = {}
        self._heap: list[tuple[float, int, Happening]] = []
        self._pushed = 0
        for host in self.hosts.values():
            self._push(host.door.next_arrival, Arrival(host))
        self._push(self._cycle_s, CycleDue())
        for fault in scenario.faults:
            self._push(fault.at_s, FaultStrikes(fault))

    # --- the main loop -------------------------------------------------------------------------------

    def run(self) -> Simulation:
        """The main loop: observe, decide, enact, record."""
        while self._heap and self._heap[0][0] <= self._end:
            self.now, _, happening = heappop(self._heap)
            for event in self._observe(happening):
                orders, grants = self._decide(event)
                self._enact(orders, grants)
                self._record(event)
        self.now = self.now if self.scenario.drain else self._end
        for host in self.hosts.values():
            host.door.ingest(self.now)
        return self

    def _observe(self, happening: Happening) -> list[CoreEvent]:
        """What the cores are to be told of it."""
        match happening:
            case CallEnds(lane):
                return self._run_lane(lane)
            case Arrival(host):
                return self._wake(host)
            case CycleDue():
                return [self._end_cycle()]
            case MessageArrives(message):
                return [message]
            case FaultStrikes(fault):
                return self._strike(fault)
            case HostReturns(fault):
                return self._return(fault)

    def _decide(self, event: CoreEvent) -> tuple[list[Order], list[Grant]]:
        """Let the cores decide; orders to shedders and grants are all that leaves the ring."""
        now = self.now + self.clock_offset
        match event:
            case dict():
                orders, grants = self.ring.end_cycle(event, now, self._transport)
                return [*orders, *self._tune(event, now)], grants
            case ClassReady() | SliceEnded():
                return [], list(self.ring.turn(event, now))
            case _:
                return [], self.ring.tell_coordinator(event, now)

    def _tune(self, cycles: Mapping[str, CycleEnded], now: float) -> list[Order]:
        """What classes that tune themselves decide, as far as they compare now."""
        orders = []
        for name, one in self.tunings.items():
            host, manager = self.hosts[name], self.ring.manager_of(name)
            one.cycle_ended(cycles[name], host)
            can_spend = manager.control.headroom if manager else 0.0
            capacity = min(1.0, max(can_spend, self.shares()[name] * self.scenario.lanes))
            compared = one.compared(now, host, capacity, self._cycle_s, alone)
            if compared is not None:
                orders += self.ring.compare(name, compared, now)
        return orders

    def _enact(self, orders: list[Order], grants: list[Grant]) -> None:
        for name, order in orders:
            match order:
                case SetKeep(keep):
                    self.hosts[name].door.set_keep(keep)
                case TrimQueue(part):
                    self.hosts[name].door.trim(part)
                case DropOlder(age_s):
                    self.hosts[name].door.drop_older(age_s, self.now)
                case HoldBack(rooms):
                    self.hosts[name].door.rooms = rooms
                case SwitchPolicy(policy):
                    self.hosts[name].switch(policy_of(policy))
        for grant in grants:
            lane = self.lanes[grant.lane]
            lane.host, lane.quota_s = self.hosts[grant.name], grant.quota_s
            lane.used_s, lane.call_s = 0.0, -1.0
            self.overhead_s += self._turn_s
            self._push(self.now + self._turn_s, CallEnds(lane))

    def _record(self, event: CoreEvent) -> None:
        if not isinstance(event, dict):
            return
        shares = self.shares()
        for name, host in self.hosts.items():
            host.door.begin_cycle()
            self.share_integral[name] += shares[name] * self._cycle_s
        if self.series.due():
            self._record_series(event, shares)
        if self.on_cycle is not None:
            self.on_cycle(self)

    # --- observing -----------------------------------------------------------------------------------

    def _run_lane(self, lane: Lane) -> list[CoreEvent]:
        """Run the lane's slice on, call by call, until it ends or something else comes first."""
        host, now = lane.host, self.now
        assert host is not None
        while True:
            if lane.call_s >= 0:
                host.finish(now)
                lane.used_s += lane.call_s
                self.busy_s += lane.call_s - lane.decision_s
            host.door.ingest(now)
            cost_s = host.start(now) if lane.used_s < lane.quota_s else -1.0
            if cost_s < 0:
                self.now = now
                return [self._end_slice(lane, host)]
            lane.decision_s = self._decision_s if host.decided else 0.0
            if self._look_s:
                lane.decision_s += self._look_s * host.scheduler.looked
            self.overhead_s += lane.decision_s
            lane.call_s = cost_s + lane.decision_s
            now += lane.call_s
            if now > self._heap[0][0] or now > self._end:
                self._push(now, CallEnds(lane))
                return []

    def _end_slice(self, lane: Lane, host: SimulatedHost) -> SliceEnded:
        host.slice_ended(self.now)
        backlog = host.has_input()
        if not backlog and not host.down:
            self._push(host.door.next_arrival, Arrival(host))
        lane.host = None
        return SliceEnded(host.name, lane.number, lane.used_s, backlog)

    def _wake(self, host: SimulatedHost) -> list[CoreEvent]:
        host.door.ingest(self.now)
        if host.has_input():
            return [ClassReady(host.name)]
        if not host.down:
            self._push(host.door.next_arrival, Arrival(host))
        return []

    def _end_cycle(self) -> dict[str, CycleEnded]:
        # A cycle is measured by the clock, which may have jumped; never with less than nothing.
        elapsed = max(0.0, self.now + self.clock_offset - self._cycle_began)
        self._cycle_began = self.now + self.clock_offset
        for host in self.hosts.values():
            host.door.ingest(self.now)
        if self.now < self.scenario.seconds or any(not host.is_empty() for host in self.hosts.values()):
            self._push(self.now + self._cycle_s, CycleDue())
        return {name: host.end_cycle(self.now, elapsed) for name, host in self.hosts.items()}

    def _strike(self, fault: Fault) -> list[CoreEvent]:
        match fault:
            case HostDies():
                host = self.hosts[fault.name]
                host.die(fault.retained)
                until = fault.at_s + fault.down_s
                self._down_until[fault.name] = max(until, self._down_until.get(fault.name, until))
                self._push(until, HostReturns(fault))
            case ClockJumps():
                self.clock_offset += fault.by_s
                for host in self.hosts.values():
                    host.door.ingest(self.now)
                    host.clock.offset_s = self.clock_offset
            case ReportsLost() | ReportsLate():
                self._faults_on.append(fault)
        return []

    def _return(self, fault: HostDies) -> list[CoreEvent]:
        if self.now < self._down_until[fault.name]:  # it died again while it was down
            return []
        self.hosts[fault.name].revive(fault.rebuild_ms / 1e3)
        return self._wake(self.hosts[fault.name])

    # --- the rest ------------------------------------------------------------------------------------

    def shares(self) -> dict[str, float]:
        return self.ring.capacity.shares if self.ring.capacity is not None else self.originals

    def _transport(self, name: str, message: CapacityEvent) -> bool:
        """Whether a class's message gets through now; a late one is delivered later."""
        for fault in self._faults_on:
            if fault.name == name and fault.at_s <= self.now < fault.at_s + fault.for_s:
                if isinstance(fault, ReportsLate):
                    self._push(self.now + fault.delay_s, MessageArrives(message))
                return False
        return True

    def _record_series(self, cycles: dict[str, CycleEnded], shares: dict[str, float]) -> None:
        for name, series in self.series.classes.items():
            outputs, host = cycles[name].outputs, self.hosts[name]
            results = sum(output.results for output in outputs)
            total_s = sum(output.mean_s * output.results for output in outputs)
            manager = self.ring.manager_of(name)
            last = manager.explanations[-1] if manager and manager.explanations else None
            series.at_s.append(self.now)
            series.response_ms.append(1e3 * total_s / results if results else None)
            series.headroom.append(manager.control.headroom if manager else None)
            series.load.append(last.offered_load if last else None)
            series.share.append(shares[name])
            series.drop.append(1 - manager.control.keep if manager else 0.0)
            series.queued.append(host.queues.tuples())
        self.series.thin()

    def _push(self, at: float, happening: Happening) -> None:
        if at < inf:
            self._pushed += 1
            heappush(self._heap, (at, self._pushed, happening))


def alone(scenario: Scenario, look: Callable[[Run], None] | None) -> Run:
    """A class of such a run by itself, to see what would become of it (`sim.forecast.policy_forecast`)."""
    return Simulation(scenario, "none", on_cycle=look).run()
