"""Self-tuning classes of a simulated run: the same tuning core as in the live system, and the forecasts that it compares.

Forecasts use costs, selectivities and arrivals that were measured during the run, not those of the scenario. They take no
virtual time, because the live system computes them outside the lanes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from configs.classes.objectives import candidates
from configs.classes.policies import Automatic, PolicySettings
from configs.scenario.scenario import AggregateBox, SimulatedClass
from loadshed.cycle import CycleEnded
from loadshed.responses import ResponseStatistics
from scheduler.tuning import Compared, TuningCore, tuning_core
from sim.forecast.operator_costs import Cost
from sim.forecast.policy_forecast import (
    ClassNow,
    CycleArrivals,
    ObjectiveFigures,
    Simulate,
    TriedOperator,
    forecasts,
    objective_value,
    quality,
)
from sim.run.simulated_answers import AnswerTotals
from sim.run.simulated_host import SimulatedHost

# Maximum number of load cycles for which the numbers of arrivals are stored. Older cycles are dropped.
CYCLES_KEPT = 64


@dataclass
class TunedClass:
    """Self-tuning class, with its measurements since the last comparison of policies."""

    settings: SimulatedClass
    core: TuningCore
    every_s: float
    choices: Sequence[PolicySettings]
    seen: ResponseStatistics
    """Response times of answers since the last comparison."""
    _arrivals: dict[str, deque[CycleArrivals]] = field(init=False, default_factory=dict)
    _queued: list[int] = field(init=False, default_factory=list)
    _due: float = field(init=False)
    _totals: AnswerTotals = field(init=False, default=AnswerTotals())
    _compared_at: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        self._due = self.every_s

    def cycle_ended(self, cycle: CycleEnded, host: SimulatedHost) -> None:
        for input_ in cycle.inputs:
            slots = self._arrivals.setdefault(input_.stream, deque(maxlen=CYCLES_KEPT))
            slots.append(CycleArrivals(input_.offered, input_.batches))
        self._queued.append(host.queues.tuples())

    def compared(
        self, now: float, host: SimulatedHost, capacity: float, cycle_s: float, simulate: Simulate
    ) -> Compared | None:
        """Return the measured value of the objective and its forecast for each policy, or None if no comparison is due yet."""
        if now < self._due:
            return None
        self._due = now + self.every_s
        queued = sum(self._queued) / len(self._queued) if self._queued else 0.0
        measured = objective_value(self.settings.objective, self._seen(now, host, queued))
        values = forecasts(self.class_now(host, capacity, cycle_s), self.choices, simulate)
        # All measurements are discarded, so that the next measurement and the next forecast cover the same arrivals.
        self._queued.clear()
        self._arrivals.clear()
        self.seen = host.answers.new_sample()
        return Compared(measured, values)

    def _seen(self, now: float, host: SimulatedHost, queued: float) -> ObjectiveFigures:
        before, self._totals = self._totals, host.answers.totals()
        seconds, self._compared_at = now - self._compared_at, now
        return quality(self.seen, self._totals.since(before), queued, seconds)

    def class_now(self, host: SimulatedHost, capacity: float, cycle_s: float) -> ClassNow:
        return ClassNow(
            objective=self.settings.objective,
            operators=operators_of(host),
            arrivals={name: tuple(slots) for name, slots in self._arrivals.items()},
            cycle_s=cycle_s,
            capacity=capacity,
            train_max=host.train_max,
            settles=host.settles,
        )


def tuned(settings: SimulatedClass, host: SimulatedHost) -> TunedClass | None:
    """Return the tuning of a class, or None if the class has a fixed policy."""
    auto, core = settings.policy, tuning_core(settings)
    if core is None or not isinstance(auto, Automatic):
        return None
    return TunedClass(settings, core, auto.every_s, candidates(settings.objective), host.answers.new_sample())


def operators_of(host: SimulatedHost) -> tuple[TriedOperator, ...]:
    """Return the class's operators as measured, with the measured cost divided into cost per call and cost per tuple."""
    entries = {number: entry.stream for entry in host.door.entries for number in entry.operators}
    operators = []
    for number, (operator, estimate) in enumerate(
        zip(host.network.operators, host.scheduler.statistics.estimates, strict=True)
    ):
        call_s, train = host.plan.boxes[number].call_s, host.calls.mean_train(number)
        if isinstance(host.plan.boxes[number].model, AggregateBox):
            # A window emits once per many thousand tuples, so a running average would fall to almost 0 between two outputs.
            estimate = host.calls.mean_estimate(number) or estimate
        tuple_s = max(0.0, estimate.cost_s - call_s / train)
        cost = Cost(call_s, tuple_s, estimate.selectivity)
        operators.append(
            TriedOperator(
                name=operator.name,
                feeds=operator.downstream,
                cost=cost,
                stream=entries.get(number, ""),
                partner=operator.partner,
                utility=None if operator.utility is None else operator.utility.points,
                weight=operator.weight,
                slack_s=operator.slack_s,
            )
        )
    return tuple(operators)
