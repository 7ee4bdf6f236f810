"""Measurements of a running system for a prediction (`weir plan`): rates of its streams, and loads and operators of its classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from configs.classes.live_class import LiveSettings
from engine.class_.explain import PlanLine
from services.watch.source import StreamCounts

# Maximum seconds between batches in a prediction: a simulated run is short, so longer times are shortened to this time.
BATCH_MAX_S = 3.0


@dataclass(frozen=True, slots=True)
class StreamsSample:
    """Row counts and batch counts of all streams at one moment, by stream name in lower case."""

    at: float
    streams: Mapping[str, StreamCounts]


@dataclass(frozen=True, slots=True)
class Rate:
    """Rows per second of a stream, and the time between its batches; 0 if that time is not known."""

    rows_per_s: float
    batch_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ClassMeasured:
    """Measurements of one running class."""

    load: float
    """Offered load in processors."""
    lines: Sequence[PlanLine] = ()
    """Operators of the class; empty if the class was not asked for them."""


@dataclass(frozen=True)
class SystemMeasurement:
    """Measurements of a running system."""

    lanes: int
    nodes: int
    settings: LiveSettings
    rates: Mapping[str, Rate]
    """Rate of each existing stream, by name in lower case; the rate is 0 for a stream without input."""
    classes: Mapping[str, ClassMeasured] = field(default_factory=dict)


class Measuring(Protocol):
    """Interface that returns measurements of the running system."""

    def measured(self, wanted: frozenset[str]) -> SystemMeasurement:
        """Return current measurements, with the operators of the classes named in `wanted` and of the classes with the highest loads."""


def rates_over(samples: Sequence[StreamsSample]) -> dict[str, Rate]:
    """Return the rates up to the last sample; a stream that is only in the last sample has no rate."""
    rates = {}
    for name in samples[-1].streams if samples else ():
        since = earliest(samples, name)
        now, before = samples[-1].streams[name], since.streams[name]
        elapsed_s, batches = samples[-1].at - since.at, now.batches - before.batches
        if elapsed_s > 0:
            period_s = min(elapsed_s / batches, BATCH_MAX_S) if batches > 0 else 0.0
            rates[name] = Rate((now.rows - before.rows) / elapsed_s, period_s)
    return rates


def earliest(samples: Sequence[StreamsSample], name: str) -> StreamsSample:
    """Return the oldest sample since the stream was declared. If a count is smaller than before, the stream was declared again."""
    first = samples[-1]
    for sample in reversed(samples[:-1]):
        if name not in sample.streams or sample.streams[name].rows > first.streams[name].rows:
            break
        first = sample
    return first
