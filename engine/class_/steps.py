"""Steps of a class: together they record, in order, everything that the state of the class depends on.

Steps record which batches the door let in, how many tuples source operators took, and how far the clock moved event
time. They also record changes of queries, streams, limits, window settings and plans. A host writes steps to the class's
log, with the answers that they led to; a host that replaces it repeats them and reaches the same state. Steps refer
to batches by their numbers in the stream, so that tuples are stored only once, in the stream's log.
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
    """The next batch of a stream was queued; `mask` says which of its tuples the door let in."""

    stream: str
    batch: int
    offered: int
    shed: int
    rejected: int
    kept: float  # Kept fraction of the input, which is stored with the tuples
    mask: bytes | None  # One bit per tuple of the batch; None if all tuples were let in
    failed: int = 0  # Number of tuples lost before they reached the door
    upto: int = 0  # Number of rows in the stream up to the end of this batch

    @property
    def inside(self) -> int:
        """Number of tuples that were queued."""
        return self.offered - self.shed - self.rejected - self.failed


@dataclass(frozen=True, slots=True)
class Took:
    """A source operator took the next tuples of its stream's queue."""

    stream: str
    tuples: int


@dataclass(frozen=True, slots=True)
class Evicted:
    """The oldest tuples of a stream's queue were dropped."""

    stream: str
    tuples: int


@dataclass(frozen=True, slots=True)
class Advanced:
    """The clock moved the event time of an idle stream to `time`."""

    stream: str
    time: int
    now: float


@dataclass(frozen=True, slots=True)
class LookupsReleased:
    """A query's overdue lookups, up to a time in microseconds, were answered with the rows that had arrived."""

    query: str
    upto_us: int
    now: float


@dataclass(frozen=True, slots=True)
class QueryAdded:
    name: str
    sql: str
    with_next: bool = False
    """True if the next query of the log was added in the same change, so that the windows of both share panes."""


@dataclass(frozen=True, slots=True)
class QueryRemoved:
    name: str


@dataclass(frozen=True, slots=True)
class StreamLeft:
    """The last query that read the stream was removed. A later query reads only rows that arrive after it is added."""

    stream: str


@dataclass(frozen=True, slots=True)
class StreamsSet:
    """The streams that later queries may read were set."""

    statements: tuple[str, ...]
    """CREATE STREAM statements of these streams."""


@dataclass(frozen=True, slots=True)
class LimitsSet:
    """The limits of the state that the class's queries may hold were changed."""

    limits: ClassLimits


@dataclass(frozen=True, slots=True)
class WindowsSet:
    """The settings for windows with SLIDE AT MOST were changed."""

    windows: WindowSettings


@dataclass(frozen=True, slots=True)
class PlanSet:
    """The class's plan settings were changed; the plan of each running query is exchanged as soon as that is possible."""

    plan: PlanSettings


@dataclass(frozen=True, slots=True)
class Exchanged:
    """A query's plan was replaced by its second plan, which follows the class's plan settings."""

    query: str


@dataclass(frozen=True, slots=True)
class ExchangeGivenUp:
    """All waiting exchanges were abandoned; the queries keep their running plans."""


@dataclass(frozen=True, slots=True)
class Interrupted:
    """Answers of finished queries were delivered between settle points; answers of other queries follow later."""


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
    """Train of answers of one query; `first` is the sequence number of the train's first row."""

    query: str
    first: int
    train: Train


@dataclass(frozen=True, slots=True)
class Commit:
    """Steps from one settle point to another, the answers that the steps led to, and the total number of answers by query.

    If the last step is `Interrupted`, some of the answers follow in a later commit.
    """

    steps: tuple[Step, ...]
    answers: tuple[Answer, ...]
    answered: Mapping[str, int]
