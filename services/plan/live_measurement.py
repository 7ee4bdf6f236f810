"""Measurements of the running system for `weir plan`. A thread counts the rows of streams; all else is polled for each prediction.

Guarantees:
1. A prediction waits only for answers of the coordinator and the gateways, and up to `LEAST_S` for streams with new input.
2. If the coordinator or a gateway does not answer, `measured` raises `services.watch.source.SourceAway`.
3. The thread polls gateways only when the watch has seen a change in the system.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress

from actors.coordinator.control_plane import SystemStatus
from actors.coordinator.coordinator_status import Number
from configs.classes.live_class import LiveSettings
from configs.errors import WeirError
from engine.class_.explain import PlanLine
from services.common.background_thread import BackgroundThread
from services.plan.measurement import ClassMeasured, Rate, StreamsSample, SystemMeasurement, rates_over
from services.watch.source import SourceAway, StreamCounts
from services.watch.watch import Clock, Watch

# Rows are counted every EVERY_S seconds. A rate is a mean over at least LEAST_S seconds, because shorter means are inaccurate.
# A rate is a mean over at most OVER_S seconds, because class loads, with which rates are compared, are means over about OVER_S seconds.
EVERY_S, OVER_S, LEAST_S = 1.0, 6.0, 1.0
# Maximum number of other classes with operators that are requested for a prediction; each class costs one call.
CLASSES_ASKED = 50


class RunningMeasured(BackgroundThread):
    """Implementation of `Measuring` for a running system. A thread counts rows from `start` to `stop`. Thread-safe."""

    def __init__(self, watch: Watch, settings: LiveSettings, clock: Clock = time.monotonic) -> None:
        super().__init__("plan")
        self._watch, self._settings, self._clock = watch, settings, clock
        self._samples: deque[StreamsSample] = deque(maxlen=int(OVER_S / EVERY_S))
        self._counted: Number | None = None
        """Number of the watch's latest poll when rows were last counted; rows are counted again only after a later poll."""

    def measured(self, wanted: frozenset[str]) -> SystemMeasurement:
        system = self._watch.view().system
        if self._watch.problem:
            raise SourceAway(self._watch.problem)
        return SystemMeasurement(
            sum(system.nodes.values()) or self._settings.lanes,
            len(system.nodes) or 1,
            self._settings,
            self._rates(system),
            self._classes(system, wanted),
        )

    def _classes(self, system: SystemStatus, wanted: frozenset[str]) -> dict[str, ClassMeasured]:
        loads = dict.fromkeys((class_.name for class_ in system.classes), 0.0)
        for unit in system.units.values():
            if unit.report is not None and not unit.report.asleep and unit.class_name in loads:
                loads[unit.class_name] += unit.report.load
        most = sorted(loads, key=lambda name: (name not in wanted, -loads[name], name))
        classes_asked = most[: CLASSES_ASKED + len(wanted & loads.keys())]
        return {
            name: ClassMeasured(load, self._lines(name) if name in classes_asked else ())
            for name, load in loads.items()
        }

    def _lines(self, name: str) -> list[PlanLine]:
        # A class that is starting or ending has no operators.
        with suppress(WeirError, TimeoutError):
            return self._watch.source.plan(name)
        return []

    def _rates(self, system: SystemStatus) -> Mapping[str, Rate]:
        now, samples = self._sample(system), list(self._samples)
        recent = [sample for sample in samples if now.at - sample.at <= OVER_S]
        # If no input has arrived since the last sample, the last sample is still correct, however old it is.
        if not recent and samples and samples[-1].streams == now.streams:
            recent = samples[-1:]
        recent.append(now)
        missing_s = LEAST_S - (now.at - recent[0].at)
        if missing_s > 0:
            self._stopping.wait(missing_s)
            recent.append(self._sample(system))
        return rates_over(recent)

    def count(self) -> None:
        """Take a sample of the counts if the system has changed since the last sample; called by the thread."""
        look = self._watch.view(max_age_s=math.inf).look
        if look.number != self._counted:
            self._samples.append(self._sample(look.status.system))
            self._counted = look.number

    def _sample(self, system: SystemStatus) -> StreamsSample:
        counted: dict[str, StreamCounts] = {}
        for node in system.nodes:
            counted.update(self._watch.source.streams(node))
        return StreamsSample(self._clock(), counted)

    def _run(self) -> None:
        while not self._stopping.is_set():
            # If the system does not answer, no sample is taken.
            with suppress(WeirError, TimeoutError):
                self.count()
            self._stopping.wait(EVERY_S)
