"""Tuner: a thread that compares policies by simulation, for classes that tune themselves.

The thread samples the classes' units, another process simulates them, and the class's core in the coordinator decides
(`scheduler.tuning`).

Guarantees:
1. Simulation runs neither in a class's slices nor in this process, but in a process of low priority, one class at a time.
2. Policies of a class are compared at most every `every_s` seconds, and forecasts take at most a tenth of the time.
3. Sleeping classes are not sampled. Without classes that tune themselves there is no process and no sampling.
4. If the host of a class does not answer, the class is sampled again later, and nothing else happens.
5. While the queries of a class run by two plans at once, it is not compared: its measurements would not belong to one plan.
6. `stop` waits for a forecast that is under way, unless the simulating process is ended first.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

from actors.host.tuning_sample import UnitNow
from configs.classes.live_class import LiveClass
from configs.classes.objectives import Objective, candidates
from configs.classes.policies import Automatic, PolicySettings
from configs.classes.policy_and_plan import Choice
from configs.errors import WeirError
from scheduler.tuning import Compared
from services.common.background_thread import BackgroundThread
from services.watch.watch import Clock, Watch
from sim.forecast.policy_forecast import (
    ClassNow,
    CycleArrivals,
    ObjectiveFigures,
    objective_value,
    tried_operators,
    with_answers,
)

LOG = logging.getLogger(__name__)
LOOK_S = 1.0
# Maximum fraction of the tuner's time that forecasts for one class may take.
BUSY_PART = 0.1


class Comparing(Protocol):
    """Interface to the units of classes, and to the components in the coordinator that choose policies. Every call may raise Away."""

    def noticed(self, class_name: str) -> UnitNow | None:
        """Return the figures of a self-tuning class, measured since the previous call; None for a class that does not tune itself."""

    def compared(self, class_name: str, objective: Objective, event: Compared) -> None:
        """Send the comparison to the core of a class that tunes itself."""


Forecast = Callable[[ClassNow, Sequence[PolicySettings]], Mapping[str, float]]


class Tuner(BackgroundThread):
    """Thread that compares policies of self-tuning classes, from `start` to `stop`."""

    def __init__(
        self, source: Comparing, watch: Watch, forecast: Forecast, clock: Clock = time.monotonic
    ) -> None:
        super().__init__("tuner")
        self._source, self._watch, self._forecast, self._clock = source, watch, forecast, clock
        self._due: dict[tuple[str, Objective], float] = {}
        """Time at which the next comparison is due, by class and objective."""
        self._ran_by: dict[str, tuple[Choice | None, Choice | None]] = {}
        """Previous and present choice (policy and plan), by class."""

    def look(self) -> None:
        """Compare the policies of each class for which a comparison is due; called by the thread."""
        view = self._watch.view(max_age_s=math.inf)
        awake = {class_.name for class_ in view.classes.values() if class_.units and not class_.asleep}
        tuned = [class_ for class_ in view.system.classes if isinstance(class_.policy, Automatic)]
        keys = {(class_.name, class_.objective) for class_ in tuned}
        self._due = {key: due for key, due in self._due.items() if key in keys}
        names = {class_.name for class_ in tuned}
        self._ran_by = {name: ran_by for name, ran_by in self._ran_by.items() if name in names}
        for tuned_class in tuned:
            assert isinstance(tuned_class.policy, Automatic)
            key = tuned_class.name, tuned_class.objective
            due = self._due.setdefault(key, self._clock() + tuned_class.policy.every_s)
            if tuned_class.name in awake and self._clock() >= due and not self._stopping.is_set():
                began = self._clock()
                try:
                    self._compare(tuned_class)
                finally:
                    took_s = self._clock() - began
                    self._due[key] = began + max(tuned_class.policy.every_s, took_s / BUSY_PART)

    def _compare(self, one: LiveClass) -> None:
        sample, policies = self._source.noticed(one.name), candidates(one.objective)
        # There is no sample if the class's declaration has changed and the class no longer tunes itself.
        # A class that exchanges its plan is skipped, because its measurements belong to two plans at once.
        if sample is None or sample.is_exchanging:
            return
        now = replace(class_now(one.objective, sample), before=self._ran_before(one.name, sample))
        forecasts = self._forecast(now, policies)
        outcome = ObjectiveFigures(sample.seen, sample.queued, sample.stale, sample.lost, sample.tardy_ms)
        measured = objective_value(one.objective, outcome)
        given_up: tuple[str, ...] = ()
        if sample.has_given_up and sample.running is not None:
            plan = sample.running.choice.plan
            given_up = tuple([str(Choice(policy, plan)) for policy in policies])
        self._source.compared(one.name, one.objective, Compared(measured, forecasts, given_up))

    def _ran_before(self, name: str, found: UnitNow) -> Choice | None:
        """Return the policy and plan by which the class ran before it changed to the present policy and plan."""
        if found.running is None:
            return None
        before, last = self._ran_by.get(name, (None, None))
        if last != found.running.choice:
            before, last = last, found.running.choice
            self._ran_by[name] = before, last
        return before

    def _run(self) -> None:
        while not self._stopping.wait(LOOK_S):
            try:
                # If the system does not answer, this comparison is skipped.
                with suppress(WeirError, TimeoutError):
                    self.look()
            except Exception:
                LOG.exception("cannot compare policies")


def class_now(objective: Objective, found: UnitNow) -> ClassNow:
    return ClassNow(
        objective=objective,
        operators=with_answers(
            tried_operators(found.lines, found.graphs, found.weights, found.slacks),
            [line.outputs for line in found.lines],
            {} if found.running is None else found.running.graphs,
            {} if found.running is None else found.running.weights,
        ),
        arrivals={
            name: tuple(CycleArrivals(*slot) for slot in slots) for name, slots in found.arrivals.items()
        },
        cycle_s=found.cycle_s,
        capacity=found.capacity,
        train_max=found.train_max,
        settles=True,
        running=found.running,
        lines=found.lines,
    )
