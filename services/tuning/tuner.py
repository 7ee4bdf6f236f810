"""Brings classes that tune themselves what the simulator forecasts: a thread asks their units how they are, another process
simulates, and the coordinator's core of the class decides (`scheduler.tuning`).

Guarantees:
1. Nothing is simulated in a class's slices, nor in this process: what it takes is the time of a process of its own, which gives
   way to others, one class at a time.
2. A class is compared no more often than it says, and no more than a tenth of the time, however long its forecasts take.
3. Who sleeps is not asked; while nobody tunes himself there is no process, and nobody is asked anything.
4. Who does not answer is asked again later; nothing else follows from it.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Protocol

from actors.noticed import UnitNow
from configs.live import LiveClass
from configs.objectives import Objective, candidates
from configs.policies import Automatic, PolicySettings
from configs.problems import WeirError
from scheduler.tuning import Compared
from services.watch.watch import Clock, Watch
from sim.lookahead import Arrived, ClassNow, Seen, objective_value, tried_operators

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


class Tuner:
    """Looks at classes from `start` to `stop`."""

    def __init__(
        self, source: Comparing, watch: Watch, forecast: Forecast, clock: Clock = time.monotonic
    ) -> None:
        self._source, self._watch, self._forecast, self._clock = source, watch, forecast, clock
        self._due: dict[tuple[str, Objective], float] = {}
        """By class and what it is tuned for."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tuner", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Idempotent. A forecast that is under way is waited for; who makes it may be ended before."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def __enter__(self) -> Tuner:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def look(self) -> None:
        """Compare the classes that are due; by the thread."""
        view = self._watch.view(max_age_s=math.inf)
        awake = {one.name for one in view.classes.values() if one.units and not one.asleep}
        tuned = [one for one in view.system.classes if isinstance(one.policy, Automatic)]
        known = {(one.name, one.objective) for one in tuned}
        self._due = {key: due for key, due in self._due.items() if key in known}
        for one in tuned:
            assert isinstance(one.policy, Automatic)
            key = one.name, one.objective
            due = self._due.setdefault(key, self._clock() + one.policy.every_s)
            if one.name in awake and self._clock() >= due and not self._stopping.is_set():
                began = self._clock()
                try:
                    self._compare(one)
                finally:
                    took_s = self._clock() - began
                    self._due[key] = began + max(one.policy.every_s, took_s / BUSY_PART)

    def _compare(self, one: LiveClass) -> None:
        found = self._source.noticed(one.name)
        if found is None:  # it is declared otherwise by now
            return
        forecasts = self._forecast(class_now(one.objective, found), candidates(one.objective))
        seen = Seen(found.seen, found.queued, found.stale, found.lost, found.tardy_ms)
        measured = objective_value(one.objective, seen)
        self._source.compared(one.name, one.objective, Compared(measured, forecasts))

    def _run(self) -> None:
        while not self._stopping.wait(LOOK_S):
            try:
                with suppress(WeirError, TimeoutError):  # a comparison less
                    self.look()
            except Exception:
                LOG.exception("no forecast could be made")


def class_now(objective: Objective, found: UnitNow) -> ClassNow:
    return ClassNow(
        objective,
        tried_operators(found.lines, found.graphs, found.weights, found.slacks),
        {name: tuple(Arrived(*one) for one in slots) for name, slots in found.arrivals.items()},
        found.cycle_s,
        found.capacity,
        found.train_max,
        settles=True,
    )
