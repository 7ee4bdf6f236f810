"""What a class did with its input, in order: enough to do it again.

A class is a function of its steps: which batches its door let in, how many tuples its source operators took of
them, how far the clock moved event time, which queries came and went, over which streams and within which limits, how windows
were scheduled, by which plans. A host writes them down with the answers they led to; a host
that takes its place repeats them and comes to the same state. Steps refer to batches by their number in the
stream, so that the tuples themselves are written down once, by whoever keeps the stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from configs.classes.limits import ClassLimits
from configs.classes.plans import PlanSettings
from configs.classes.window_settings import WindowSettings
from engine.data.train import Train


@dataclass(frozen=True, slots=True)
class Opened:
    """The next batch of a stream joined the queue; which of its tuples did."""

    stream: str
    batch: int
    offered: int
    shed: int
    rejected: int
    kept: float  # the fraction its tuples stand for
    mask: bytes | None  # a bit a tuple of the batch; None if all were let in
    failed: int = 0  # lost on the way here
    upto: int = 0  # rows that the stream has had with this batch

    @property
    def inside(self) -> int:
        """How many tuples joined the queue."""
        return self.offered - self.shed - self.rejected - self.failed


@dataclass(frozen=True, slots=True)
class Took:
    """A source operator took the next tuples of its stream's queue."""

    stream: str
    tuples: int


@dataclass(frozen=True, slots=True)
class Evicted:
    """The oldest tuples of a stream's queue were dropped for newer ones."""

    stream: str
    tuples: int


@dataclass(frozen=True, slots=True)
class Advanced:
    """The clock told how far event time of an idle stream has come."""

    stream: str
    time: int
    now: float


@dataclass(frozen=True, slots=True)
class LookupsReleased:
    """Lookups of a query that had waited for long were answered with the rows there were, up to a time in microseconds."""

    query: str
    upto_us: int
    now: float


@dataclass(frozen=True, slots=True)
class QueryAdded:
    name: str
    sql: str
    with_next: bool = False
    """Together with the one after it: windows that come together share panes that suit them all."""


@dataclass(frozen=True, slots=True)
class QueryRemoved:
    name: str


@dataclass(frozen=True, slots=True)
class StreamLeft:
    """No query reads the stream any more. A later query begins with the rows that come after it was added."""

    stream: str


@dataclass(frozen=True, slots=True)
class StreamsSet:
    """Queries that are added from here on may read these streams and no others."""

    statements: tuple[str, ...]
    """CREATE STREAM statements."""


@dataclass(frozen=True, slots=True)
class LimitsSet:
    """Queries may hold this much from here on."""

    limits: ClassLimits


@dataclass(frozen=True, slots=True)
class WindowsSet:
    """Windows with SLIDE AT MOST are answered by other settings from here on."""

    windows: WindowSettings


@dataclass(frozen=True, slots=True)
class PlanSet:
    """Queries run by another of the equivalent plans from here on, those that run already as soon as they can."""

    plan: PlanSettings


@dataclass(frozen=True, slots=True)
class Exchanged:
    """A query that ran by another plan runs by its class's from here on."""

    query: str


@dataclass(frozen=True, slots=True)
class ExchangeGivenUp:
    """Those that run by another plan go on by it."""


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The answers up to here were handed out with more queued inside; what other queries give of it comes later."""


Step = (
    Opened
    | Took
    | Evicted
    | Advanced
    | LookupsReleased
    | QueryAdded
    | QueryRemoved
    | StreamLeft
    | StreamsSet
    | LimitsSet
    | WindowsSet
    | PlanSet
    | Exchanged
    | ExchangeGivenUp
    | Interrupted
)


class Answer(NamedTuple):
    """Results of one query; `first` is the sequence number of the first row."""

    query: str
    first: int
    train: Train


@dataclass(frozen=True, slots=True)
class Commit:
    """Steps from one settle point to another, the answers they led to, and how many answers there are by query.

    Not all answers that they led to, if the last step is `Interrupted`.
    """

    steps: tuple[Step, ...]
    answers: tuple[Answer, ...]
    answered: Mapping[str, int]
