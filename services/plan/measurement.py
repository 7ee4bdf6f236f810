"""What is measured of a running system for a plan: rates of its streams, loads and operators of its classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from configs.classes.live_class import LiveSettings
from engine.class_.explain import PlanLine
from services.watch.source import StreamCounts

# A batch that comes more seldom is planned as one that comes this often: a run lasts some seconds.
BATCH_MAX_S = 3.0


@dataclass(frozen=True, slots=True)
class StreamsSample:
    """All streams at one moment, by their names in small letters."""

    at: float
    streams: Mapping[str, StreamCounts]


@dataclass(frozen=True, slots=True)
class Rate:
    """Rows a second, and the time from one batch to the next; 0 where that is not known."""

    rows_per_s: float
    batch_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ClassMeasured:
    """A class that runs."""

    load: float
    """Offered, in processors."""
    lines: Sequence[PlanLine] = ()
    """Its operators; none where they were not asked for."""


@dataclass(frozen=True)
class SystemMeasurement:
    """A running system."""

    lanes: int
    nodes: int
    settings: LiveSettings
    rates: Mapping[str, Rate]
    """Of streams that are there, in small letters; 0 where nothing has come."""
    classes: Mapping[str, ClassMeasured] = field(default_factory=dict)


class Measuring(Protocol):
    """Whoever knows the running system."""

    def measured(self, wanted: frozenset[str]) -> SystemMeasurement:
        """As it is now; with the operators of the classes that are wanted, and of those that ask for most."""


def rates_over(samples: Sequence[StreamsSample]) -> dict[str, Rate]:
    """What came between samples, of which the last is now; of a stream that has just begun nothing is known."""
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
    """The first from which on the stream has been counted; one that is dropped and declared anew begins with nothing."""
    first = samples[-1]
    for sample in reversed(samples[:-1]):
        if name not in sample.streams or sample.streams[name].rows > first.streams[name].rows:
            break
        first = sample
    return first
