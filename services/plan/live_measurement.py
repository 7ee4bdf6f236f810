"""The running system as plans need it: a thread counts what comes in, the rest is asked for when a plan is made.

Guarantees:
1. A plan waits for nothing but answers of the coordinator and the gateways, and `LEAST_S` where input has just begun.
2. Who does not answer is `services.watch.source.SourceAway` to whoever asks.
3. It is the watch that looks: while that sees nothing change, nobody is asked anything.
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

# Rates are means over so long: loads, with which they are compared, are about as recent. Less than the least tells little.
EVERY_S, OVER_S, LEAST_S = 1.0, 6.0, 1.0
# Classes whose operators are asked for, beside those that are wanted; a call each.
CLASSES_ASKED = 50


class RunningMeasured(BackgroundThread):
    """A `Measuring`, which counts from `start` to `stop`; its methods may be called by several threads."""

    def __init__(self, watch: Watch, settings: LiveSettings, clock: Clock = time.monotonic) -> None:
        super().__init__("plan")
        self._watch, self._settings, self._clock = watch, settings, clock
        self._samples: deque[StreamsSample] = deque(maxlen=int(OVER_S / EVERY_S))
        self._counted: Number | None = None
        """Of the look after which was counted last."""

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

    # -- classes ---------------------------------------------------------------------------------------------

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
        with suppress(WeirError, TimeoutError):  # it is beginning, or going
            return self._watch.source.plan(name)
        return []

    # -- streams ---------------------------------------------------------------------------------------------

    def _rates(self, system: SystemStatus) -> Mapping[str, Rate]:
        now, samples = self._sample(system), list(self._samples)
        recent = [sample for sample in samples if now.at - sample.at <= OVER_S]
        # Where nothing has come since the last one, it does not matter how long ago that was.
        if not recent and samples and samples[-1].streams == now.streams:
            recent = samples[-1:]
        recent.append(now)
        missing_s = LEAST_S - (now.at - recent[0].at)
        if missing_s > 0:
            self._stopping.wait(missing_s)
            recent.append(self._sample(system))
        return rates_over(recent)

    def count(self) -> None:
        """What has come in, if anything has changed since the last time; by the thread."""
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
            with suppress(WeirError, TimeoutError):  # a sample less
                self.count()
            self._stopping.wait(EVERY_S)
