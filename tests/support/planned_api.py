"""Planner of admissions, with measurements that a test sets."""

from __future__ import annotations

from dataclasses import dataclass, field

from configs.classes.live_class import LiveSettings
from services.plan.measurement import ClassMeasured, Rate, SystemMeasurement
from services.watch.source import SourceAway

# Arrival rates of streams. No machine can process the rate of stream `hot`.
FLOODED = {"hot": Rate(1e9, 0.1), "ticks": Rate(10.0, 0.1)}


@dataclass
class Told:
    """Measurement with fixed figures, in place of the measurement of a running system."""

    rates: dict[str, Rate] = field(default_factory=lambda: dict(FLOODED))
    classes: dict[str, ClassMeasured] = field(default_factory=dict)
    is_away: bool = False
    lanes: int = 1

    def measured(self, wanted: frozenset[str]) -> SystemMeasurement:
        if self.is_away:
            raise SourceAway("the running system does not answer")
        return SystemMeasurement(self.lanes, 1, LiveSettings(), self.rates, self.classes)
