"""Simulated host of a class: the class's operator scheduler, with cost models in place of operators.

The lane calls this host as the live dispatcher calls a live host: `start(now)` begins the next operator call and returns
its cost, and `finish(now)` delivers its results. Costs and counts are measured here, outside the operators.
"""

from __future__ import annotations

from collections.abc import Iterator

from configs.classes.policies import PolicySettings
from configs.scenario.scenario import Scenario, SimulatedClass
from loadshed.cycle import CycleEnded
from loadshed.shedder import Shedder
from scheduler.operators.policies import NONE
from scheduler.operators.scheduler import OperatorScheduler, QueryScheduler
from sim.run.networks import BoxPlan
from sim.run.offered_load import arrivals_of, scaled_plan
from sim.run.operator_calls import OperatorCalls
from sim.run.operator_models import build_effects
from sim.run.operator_queues import OperatorQueues
from sim.run.rng import array_generator
from sim.run.simulated_answers import SimulatedAnswers, UnsettledAnswers
from sim.run.simulated_door import HostClock, SimulatedDoor, StreamEntry


class SimulatedHost:
    """Host that runs one class of a scenario in virtual time."""

    def __init__(self, scenario: Scenario, settings: SimulatedClass, seed: int) -> None:
        self.name, self.settings = settings.name, settings
        self.plan, scale = scaled_plan(scenario, settings, seed)
        self.network = self.plan.network(settings.graph)
        self.rates = {name: stream.arrivals.mean_rate() * scale for name, stream in settings.streams.items()}
        self.train_max, self.settles = settings.train_max or scenario.train_max, scenario.settles
        self.clock = HostClock()
        self.down = False
        self.decided = True  # False if the current operator call follows from an earlier decision
        self.processed_s = self._processed_at_cycle = 0.0
        self._ran_dry = True

        alone = self.plan.estimates(1, self.rates)
        evenly = scenario.selection == "even"
        self.scheduler = self._build_scheduler(scenario)
        self.queues = OperatorQueues(self.plan, self.scheduler)
        self.calls = OperatorCalls(
            self.plan,
            build_effects(self.plan, self.network, alone=alone, name=self.name, seed=seed, evenly=evenly),
        )
        entries = list(stream_entries(scenario, settings, self.plan, scale, seed))
        self.door = SimulatedDoor(entries, self.queues, self.calls, self.clock, scenario.queue_max)
        target_s = settings.delay_target_ms / 1e3
        self.answers = SimulatedAnswers(self.plan, self.network, alone, settings.graph, target_s)
        self._unsettled = UnsettledAnswers(self.plan, self.network, self.queues, self.answers)
        self._is_root = [not below for below in self.plan.downstream]

    def _build_scheduler(self, scenario: Scenario) -> OperatorScheduler:
        settings = self.settings
        initial = self.plan.estimates(min(scenario.train_max, 10), self.rates)
        for number, believed in self.plan.beliefs.items():
            initial[number] = believed
        sources_last = settings.sources == "last"
        if sources_last and scenario.networks[settings.network].kind == "sharaf":
            return QueryScheduler(self.network, settings.first_policy, initial, scenario.adaptive)
        return OperatorScheduler(
            self.network, settings.first_policy, initial, scenario.adaptive, sources_last
        )

    # --- methods that the lane calls --------------------------------------------------------------------------

    def start(self, now: float) -> float:
        """Begin the next operator call; return its cost in seconds, or −1 if no operator has input."""
        if self.down:
            return -1.0
        call = self.calls.under_way
        if call is None:
            decisions = self.scheduler.decisions
            operator = self.scheduler.pick(now + self.clock.offset_s)
            self.decided = self.scheduler.decisions > decisions
            if operator == NONE:
                self._ran_dry = True
                return -1.0
            call = self.calls.begin(operator, self.queues.take(operator, self.train_max), now)
        else:  # The host died during this call. The call now runs again with the same results.
            call.runs = True
        return self.calls.cost_s(call)

    def finish(self, now: float) -> None:
        """End the call in progress: deliver its results, notify the scheduler, and record the cost of the call."""
        call = self.calls.end()
        if call is None:  # The host died during the call, so the call has no results now.
            return
        operator, out, tuples = call.operator, call.out, len(call.train)
        self.queues.pass_on(operator, tuples, out, now)
        if out and self._is_root[operator]:
            if self.settles:
                self._unsettled.waiting.append((operator, out))
            else:
                self.answers.add(operator, out, now + self.clock.offset_s)
        if self._unsettled.waiting and not self.queues.busy_inside:
            self._unsettled.hand_out(now + self.clock.offset_s)
        self.scheduler.statistics.observe(operator, tuples, len(out), call.cost_s)
        self.processed_s += call.cost_s

    def slice_ended(self, now: float) -> None:
        self._unsettled.hand_out_finished(self.clock.stamp(now))

    def is_empty(self) -> bool:
        return self.calls.under_way is None and self.queues.is_empty()

    def has_input(self) -> bool:
        return not self.down and not self.is_empty()

    # --- methods that are called at the end of a load cycle -----------------------------------------------------------------------

    def end_cycle(self, now: float, cycle_s: float) -> CycleEnded:
        """Return the measurements of the load cycle for the load manager, and begin a new cycle."""
        believed = self.scheduler.refresh()
        self.queues.memory.change(0.0, now)
        inputs, held_back = self.door.end_cycle(believed, self.clock.stamp(now))
        waiting = {stream.stream: stream.waiting_s for stream in inputs}
        cycle = CycleEnded(
            cycle_s=cycle_s,
            inputs=inputs,
            outputs=tuple(
                self.answers.end_cycle(root, max(waiting[stream] for stream in streams))
                for root, streams in self.plan.readers.items()
            ),
            queued_work_s=self.queues.work_s(believed),
            worked_s=self.processed_s - self._processed_at_cycle,
            ran_dry=self._ran_dry,
            held_back=held_back,
        )
        self._ran_dry = self.is_empty()
        self._processed_at_cycle = self.processed_s
        return cycle

    def switch(self, policy: PolicySettings) -> None:
        """Switch to another policy; queued tuples and the call in progress stay as they are."""
        self.scheduler.switch(policy, self.queues.heads())

    # --- methods that faults call ----------------------------------------------------------------------------

    def die(self, retained: bool) -> None:
        """Stop the host. With `retained`, queued input survives the restart; otherwise all tuples inside fail."""
        if retained:
            self.calls.interrupt()
        else:
            self.door.fail_everything()
            self.queues.clear()
            self._unsettled.waiting.clear()
            self.calls.under_way = None
        self.down = True
        self.queues.announce_all()

    def revive(self, rebuild_s: float) -> None:
        """Restart the host; its next call also takes `rebuild_s` seconds for rebuilding windows."""
        self.down = False
        self.calls.rebuild(rebuild_s)


def stream_entries(
    scenario: Scenario, settings: SimulatedClass, plan: BoxPlan, scale: float, seed: int
) -> Iterator[StreamEntry]:
    for stream, operators in plan.entries.items():
        yield StreamEntry(
            stream=stream,
            operators=operators,
            chunks=arrivals_of(scenario, settings, stream, scale, seed),
            shedder=Shedder(settings.victim, array_generator(seed, settings.name, stream, "shedder")),
            rng=array_generator(seed, settings.name, stream, "tuples"),
            settings=settings.streams[stream],
        )
