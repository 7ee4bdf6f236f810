"""Brings classes that tune themselves what the simulator forecasts: a thread asks their units how they are, another process
simulates, and the coordinator's core of the class decides (`scheduler.tuning`).

Guarantees:
1. Nothing is simulated in a class's slices, nor in this process: what it takes is the time of a process of its own, which gives
   way to others, one class at a time.
2. A class is compared no more often than it says, and no more than a tenth of the time, however long its forecasts take.
3. Who sleeps is not asked; while nobody tunes himself there is no process, and nobody is asked anything.
4. Who does not answer is asked again later; nothing else follows from it.
5. While queries of a class run by two plans at a time, it is not compared: what is measured and forecast is of one plan.
6. `stop` waits for a forecast that is under way; who makes it may be ended before.
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
# Of the time, what forecasts of a class may take.
BUSY_PART = 0.1


class Comparing(Protocol):
    """Whoever can ask units how they are, and reach the cores. Every call may raise Away."""

    def noticed(self, class_name: str) -> UnitNow | None:
        """What the policy of a class that tunes itself is chosen from, since this was asked for last; None of others."""

    def compared(self, class_name: str, objective: Objective, event: Compared) -> None:
        """To the core of a class that tunes itself."""


Forecast = Callable[[ClassNow, Sequence[PolicySettings]], Mapping[str, float]]


class Tuner(BackgroundThread):
    """Looks at classes from `start` to `stop`."""

    def __init__(
        self, source: Comparing, watch: Watch, forecast: Forecast, clock: Clock = time.monotonic
    ) -> None:
        super().__init__("tuner")
        self._source, self._watch, self._forecast, self._clock = source, watch, forecast, clock
        self._due: dict[tuple[str, Objective], float] = {}
        """By class and what it is tuned for."""
        self._ran_by: dict[str, tuple[Choice | None, Choice | None]] = {}
        """By class, before and now."""

    def look(self) -> None:
        """Compare the classes that are due; by the thread."""
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
        if (
            sample is None or sample.is_exchanging
        ):  # it is declared otherwise by now, or runs by two plans at a time
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
        """By what the class ran before what it runs by now."""
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
                with suppress(WeirError, TimeoutError):  # a comparison less
                    self.look()
            except Exception:
                LOG.exception("no forecast could be made")


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
