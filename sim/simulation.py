"""Run of a scenario in virtual time: a heap of events drives the decision makers (cores) of the live system.

The main loop is `Simulation.run`. The loop has the same four steps as the live system: observe what happened, let the cores
decide, carry out the commands, and record. Time is the time of the current event; no real clock is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf

from configs.classes.policies import policy_of
from configs.scenario.scenario import ClockJumps, Fault, HostDies, ReportsLate, ReportsLost, Scenario
from loadshed.cycle import CycleEnded
from loadshed.manager import DropOlder, HoldBack, SetKeep, TrimQueue
from scheduler.capacity.core import CapacityEvent
from scheduler.tuning import SwitchPolicy
from scheduler.turns.round_robin import ClassReady, Grant, SliceEnded
from sim.control_ring import ControlRing, OpenRecord, Order, build_ring
from sim.forecast.policy_forecast import SimulatedRun
from sim.policy_tuning import tuned
from sim.run.simulated_host import SimulatedHost
from sim.series import ClassSeries, Series
from sim.virtual_events import (
    Arrival,
    CallEnds,
    CycleDue,
    EventHeap,
    FaultStrikes,
    FaultsUnderWay,
    Happening,
    HostReturns,
    Lane,
    MessageArrives,
    SchedulingCosts,
)

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
        self.tunings = {name: tuning for name, tuning in tunings.items() if tuning is not None}
        cores = {name: tuning.core for name, tuning in self.tunings.items()}
        self.ring: ControlRing = build_ring(scenario, self.manager, self.open_record, cores)
        self.lanes = [Lane(number) for number in range(scenario.lanes)]
        self.series = Series({name: ClassSeries() for name in self.hosts})
        self.clock_offset = 0.0
        self._end = inf if scenario.drain else scenario.seconds
        self._cycle_s = scenario.load.cycle_ms / 1e3
        self._cycle_began = 0.0
        self._costs = SchedulingCosts.of(scenario.costs)
        self._faults = FaultsUnderWay()
        self._events = EventHeap()
        for host in self.hosts.values():
            self._events.push(host.door.next_arrival, Arrival(host))
        self._events.push(self._cycle_s, CycleDue())
        for fault in scenario.faults:
            self._events.push(fault.at_s, FaultStrikes(fault))

    # --- main loop of the run -------------------------------------------------------------------------------

    def run(self) -> Simulation:
        """Process events in the order of time until the scenario ends, and return this run."""
        while self._events and self._events.next_s() <= self._end:
            self.now, happening = self._events.pop()
            for event in self._observe(happening):
                orders, grants = self._decide(event)
                self._enact(orders, grants)
                self._record(event)
        self.now = self.now if self.scenario.drain else self._end
        for host in self.hosts.values():
            host.door.ingest(self.now)
        return self

    def _observe(self, happening: Happening) -> list[CoreEvent]:
        """Apply an event of the simulated machine, and return the events that the cores must handle."""
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
        """Pass an event to the cores; return their orders to shedders and schedulers, and granted turns."""
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
        """Return the orders of self-tuning classes that compare policies at the end of this load cycle."""
        orders = []
        for name, tuning in self.tunings.items():
            host, manager = self.hosts[name], self.ring.manager_of(name)
            tuning.cycle_ended(cycles[name], host)
            can_spend = manager.control.headroom if manager else 0.0
            capacity = min(1.0, max(can_spend, self.ring.shares()[name] * self.scenario.lanes))
            compared = tuning.compared(now, host, capacity, self._cycle_s, alone)
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
            self.overhead_s += self._costs.turn_s
            self._events.push(self.now + self._costs.turn_s, CallEnds(lane))

    def _record(self, event: CoreEvent) -> None:
        if not isinstance(event, dict):
            return
        shares = self.ring.shares()
        for name, host in self.hosts.items():
            host.door.begin_cycle()
            self.series.shared_s[name] += shares[name] * self._cycle_s
        if self.series.due():
            self._record_series(event, shares)
        if self.on_cycle is not None:
            self.on_cycle(self)

    # --- operator calls and load cycles -----------------------------------------------------------------------------------

    def _run_lane(self, lane: Lane) -> list[CoreEvent]:
        """Continue a lane's slice, one operator call after another, until the slice ends or another event is due."""
        host, now = lane.host, self.now
        assert host is not None
        until = min(self._events.next_s(), self._end)
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
            lane.decision_s = self._costs.of_decision(host)
            self.overhead_s += lane.decision_s
            lane.call_s = cost_s + lane.decision_s
            now += lane.call_s
            if now > until:
                self._events.push(now, CallEnds(lane))
                return []

    def _end_slice(self, lane: Lane, host: SimulatedHost) -> SliceEnded:
        host.slice_ended(self.now)
        backlog = host.has_input()
        if not backlog and not host.down:
            self._events.push(host.door.next_arrival, Arrival(host))
        lane.host = None
        return SliceEnded(host.name, lane.number, lane.used_s, backlog)

    def _wake(self, host: SimulatedHost) -> list[CoreEvent]:
        host.door.ingest(self.now)
        if host.has_input():
            return [ClassReady(host.name)]
        if not host.down:
            self._events.push(host.door.next_arrival, Arrival(host))
        return []

    def _end_cycle(self) -> dict[str, CycleEnded]:
        # The clock may have jumped back, but the length of a cycle must not be negative.
        elapsed = max(0.0, self.now + self.clock_offset - self._cycle_began)
        self._cycle_began = self.now + self.clock_offset
        for host in self.hosts.values():
            host.door.ingest(self.now)
        if self.now < self.scenario.seconds or any(not host.is_empty() for host in self.hosts.values()):
            self._events.push(self.now + self._cycle_s, CycleDue())
        return {name: host.end_cycle(self.now, elapsed) for name, host in self.hosts.items()}

    def _strike(self, fault: Fault) -> list[CoreEvent]:
        match fault:
            case HostDies():
                host = self.hosts[fault.name]
                host.die(fault.retained)
                self._events.push(self._faults.host_died(fault), HostReturns(fault))
            case ClockJumps():
                self.clock_offset += fault.by_s
                for host in self.hosts.values():
                    host.door.ingest(self.now)
                    host.clock.offset_s = self.clock_offset
            case ReportsLost() | ReportsLate():
                self._faults.reports.append(fault)
        return []

    def _return(self, fault: HostDies) -> list[CoreEvent]:
        # The host may be down because of a later fault, which will restart the host itself.
        if self._faults.is_down(fault.name, self.now):
            return []
        self.hosts[fault.name].revive(fault.rebuild_ms / 1e3)
        return self._wake(self.hosts[fault.name])

    # --- messages to the coordinator, and time series -------------------------------------------------------------------------

    def _transport(self, name: str, message: CapacityEvent) -> bool:
        """Return True if a class's message reaches the coordinator now; schedule a delayed message for later."""
        fault = self._faults.of_report(name, self.now)
        if isinstance(fault, ReportsLate):
            self._events.push(self.now + fault.delay_s, MessageArrives(message))
        return fault is None

    def _record_series(self, cycles: dict[str, CycleEnded], shares: Mapping[str, float]) -> None:
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


def alone(scenario: Scenario, look: Callable[[SimulatedRun], None] | None) -> SimulatedRun:
    """Run a scenario without load management for `sim.forecast.policy_forecast`; `look` is called after each cycle."""
    return Simulation(scenario, "none", on_cycle=look).run()
