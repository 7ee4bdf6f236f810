"""What coordinator and class hosts tell each other: which parts of classes there are, and how they fare.

A *unit* is what a host runs: a class, or one shard of it. It has queues, turns, a load manager and a log of its own, and is
named after its class, with the shard behind a # if there are several.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from configs.classes.live_class import LiveClass
from configs.classes.policies import POLICY
from configs.classes.policy_and_plan import Choice, choice_of
from loadshed.cycle import CycleEnded
from loadshed.ledger import TupleLedger
from loadshed.manager import ManagerDecision


@dataclass(frozen=True, slots=True)
class Unit:
    """One part of a class, with what it is entitled to on its node."""

    declared: LiveClass
    shard: int = 0
    original: float = 0.0
    share: float = 0.0
    choice: Choice | None = None
    """By which policy and plan it runs, if its class tunes itself and has come to some."""

    @property
    def name(self) -> str:
        return unit_name(self.declared.name, self.shard, self.declared.shards)

    @property
    def runs_by(self) -> Choice:
        return self.declared.first_choice if self.choice is None else self.choice


def unit_name(class_name: str, shard: int, shards: int) -> str:
    return class_name if shards == 1 else f"{class_name}#{shard}"


def class_of(unit: str) -> str:
    return unit.partition("#")[0]


def copies_reader(node: str) -> str:
    """Return the name under which a node follows the streams of others."""
    return f"node-{node}"


def units_to_json(units: Iterable[Unit]) -> list[Any]:
    """As they are kept for a host that begins anew."""
    return [
        [
            unit.declared.model_dump(mode="json"),
            unit.shard,
            unit.original,
            unit.share,
            None if unit.choice is None else str(unit.choice),
        ]
        for unit in units
    ]


def units_from_json(value: Iterable[Any]) -> list[Unit]:
    units = []
    for saved, shard, original, share, *rest in value:
        declared = LiveClass.model_validate(saved)
        units.append(Unit(declared, shard, original, share, choice_from_json(declared, *rest)))
    return units


def choice_from_json(declared: LiveClass, value: Any = None) -> Choice | None:
    """What was kept before classes tuned themselves has none, and before they chose plans a policy."""
    if isinstance(value, Mapping):
        return Choice(POLICY.validate_python(value), declared.plan)
    return None if value is None else choice_of(value)


@dataclass(frozen=True, slots=True)
class Copy:
    """What a unit's home has of it while it runs on another node: its logs, and the input it would need again."""

    origin: str
    streams: tuple[str, ...]
    holds_back: bool
    """True if the streams' logs may not forget input that the unit has not read."""
    results_bytes: int | None = None
    """Where the class says how much of its answers is kept."""


OF_UNITS, GAUGE = "of units", "gauge"
# How a figure of a class is made of those of its units; without either they are summed.
MEAN: Mapping[str, str] = {OF_UNITS: "mean"}
WORST: Mapping[str, str] = {OF_UNITS: "worst"}


def gauge(unit: str, help: str) -> Mapping[str, tuple[str, str]]:
    """Return the metadata of a figure that is exported as it is: `weir_class_NAME`, summed over the units."""
    return {GAUGE: (unit, help)}


@dataclass(frozen=True, slots=True)
class Figures:
    """A unit as people see it; whatever is counted counts from its beginning."""

    headroom: float = 0.0
    load: float = 0.0
    keep: float = field(default=1.0, metadata=MEAN)
    queued: int = 0
    results: int = 0
    results_per_s: float = 0.0
    mean_ms: float = field(default=0.0, metadata=WORST)  # of the last seconds
    p50_ms: float = field(default=0.0, metadata=WORST)
    p95_ms: float = field(default=0.0, metadata=WORST)
    p99_ms: float = field(default=0.0, metadata=WORST)
    offered: int = 0
    delivered: int = 0
    shed: int = 0
    late: int = 0
    rejected: int = 0
    failed: int = 0
    state_bytes: int = field(
        default=0, metadata=gauge("bytes", "Bytes of the class's windows, groups and queues.")
    )
    ingest_s: float = 0.0  # processor time of taking input in
    used_s: float = 0.0  # processor time of its slices
    within_target_pct: float = 100.0  # from the beginning
    response_ms: dict[str, float] = field(default_factory=dict)  # from the beginning
    utility: dict[str, float] = field(default_factory=dict)  # from the beginning
    slowdown: dict[str, float] = field(default_factory=dict)  # from the beginning
    staleness: dict[str, float] = field(default_factory=dict)  # from the beginning
    tardiness: dict[str, float] = field(default_factory=dict)  # from the beginning; of windows
    slowdown_now: float = field(default=0.0, metadata=MEAN)  # mean of the last seconds; 0 without answers
    utility_now: float = field(default=1.0, metadata=MEAN)  # mean of the last seconds
    missed_now: float = field(default=0.0, metadata=MEAN)  # part of the answers of the last seconds
    staleness_now: float = field(default=0.0, metadata=MEAN)  # of the last seconds
    tardy_now: float = field(default=0.0, metadata=MEAN)  # part of the answers of windows of the last seconds
    queue_bytes: int = 0  # between operators
    late_now: dict[str, float] = field(default_factory=dict)
    """By stream, the part of the rows of the last minute of input that came behind its watermark; without those that have none."""
    queue_age_s: float = field(default=0.0, metadata=WORST)  # of the oldest tuple that no operator has taken
    # Part of the rows of the last seconds that was shed, at the door or from the queue.
    shed_now: float = field(default=0.0, metadata=MEAN)
    taken_per_s: float = 0.0  # tuples that operators have taken in the last seconds
    held_back: int = field(
        default=0,
        metadata=gauge(
            "shards",
            "Number of shards of the class with a full queue, so that further input waits in the logs of its streams, and at"
            " producers when a log is full.",
        ),
    )
    unsaved_bytes: int = field(
        default=0,
        metadata=gauge(
            "bytes",
            "Bytes that the class wrote to its log after its last snapshots: what a restart repeats first.",
        ),
    )


# Bounds of response times that are counted, as parts of the target: close together where promises are kept or broken.
BOUNDS = (0.1, 0.25, 0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0, 4.0, 8.0, 16.0)


@dataclass(frozen=True, slots=True)
class ResponseCounts:
    """How long the answers of one life have taken."""

    target_s: float = 0.0
    count: int = 0
    in_time: int = 0
    sum_s: float = 0.0
    within: tuple[int, ...] = (0,) * len(BOUNDS)
    """Answers that took no longer than each of the BOUNDS."""


@dataclass(frozen=True, slots=True)
class Quality:
    """How good the answers of one query have been, in one life."""

    query: str
    answers: int
    utility: float
    """Of all answers together."""
    missed: int
    """Answers after the deadline."""
    response_s: float
    """Of all answers together."""
    stale_s: float
    staleness: float
    """The same as a part of the time."""
    due: int = 0
    """Answers of windows, which have deadlines of their own."""
    tardy: int = 0
    """Of these, the ones after their deadlines."""
    tardiness_s: float = 0.0
    """How long after, of all together."""
    slowdown: float = 0.0
    """Response time over what an answer costs alone, of all answers together."""


@dataclass(frozen=True, slots=True)
class Qualities:
    """The same of several queries, in columns: a report goes out with each load cycle."""

    query: tuple[str, ...] = ()
    answers: tuple[int, ...] = ()
    utility: tuple[float, ...] = ()
    missed: tuple[int, ...] = ()
    response_s: tuple[float, ...] = ()
    stale_s: tuple[float, ...] = ()
    staleness: tuple[float, ...] = ()
    due: tuple[int, ...] = ()
    tardy: tuple[int, ...] = ()
    tardiness_s: tuple[float, ...] = ()
    slowdown: tuple[float, ...] = ()

    def __iter__(self) -> Iterator[Quality]:
        columns = (getattr(self, column.name) for column in fields(self))
        return map(Quality, *columns)


@dataclass(frozen=True, slots=True)
class UnitCounts:
    """What is counted of a unit for those who watch from outside: from 0 in each of its lives, but for `results`."""

    pid: int
    born: float
    """With the process, tells one life from another."""
    recovered: bool
    """Whether it goes on with what an earlier life has left; then so do accounts and `results`."""
    slices: int = 0
    overruns: int = 0
    overrun_s: float = 0.0
    branches: tuple[int, ...] = ()
    """Load cycles that ended in each branch of ALoMa's, in its order."""
    at_max_drop: int = 0
    reclaims: int = 0
    reclaims_overdue: int = 0
    reclaim_s: float = 0.0
    answered: ResponseCounts = ResponseCounts()
    results: Mapping[str, int] = field(default_factory=dict)
    """By query; of the first QUERIES_MAX."""
    queue_bytes: int = 0
    queue_age_s: float = 0.0
    queue_work_s: float = 0.0
    quality: Qualities = Qualities()
    """Of the same queries, at most a second old."""
    expired: int = 0
    """Tuples that were dropped for their age."""

    @property
    def life(self) -> tuple[int, float]:
        return self.pid, self.born


# A report goes out with each load cycle.
QUERIES_MAX = 1000
# Number of failures in a report, and of queries that each of them names.
FAILURES_MAX = 20
FAILURE_QUERIES_MAX = 10


@dataclass(frozen=True, slots=True)
class Failure:
    """Rows that failed in one operator for one reason, or found no room there for it."""

    operator: str
    queries: tuple[str, ...]
    """Names of the first FAILURE_QUERIES_MAX queries that need the operator."""
    reason: str
    rows: int
    """Count since the operator was built in this process."""
    part: float = 0.0
    """Part of the rows that the operator took in the last minute of input."""
    more_queries: int = 0
    """Number of queries that need the operator and are not named."""


Trouble = Literal["", "failing", "given up"]
FAILING: Trouble = "failing"
GIVEN_UP: Trouble = "given up"


@dataclass(frozen=True, slots=True)
class UnitReport:
    """From a host at the end of a unit's load cycle."""

    unit: str
    usage: float
    load: float
    reclaim: bool
    asleep: bool
    figures: Figures
    cycle: CycleEnded | None = None  # where one manager decides for all
    accounts: Mapping[str, Account] = field(default_factory=dict)
    """By stream; of the same moment as the figures."""
    problem: str = ""
    """Why it does not run as it should; empty if it does."""
    trouble: Trouble = ""
    """Whether the problem keeps it from running, or it runs all the same."""
    counted: UnitCounts | None = None
    failures: tuple[Failure, ...] = ()
    """The largest FAILURES_MAX in operators of its queries."""
    at: float = 0.0
    """When the cycle ended, by the clock of the unit's node."""


Account = tuple[TupleLedger, int]
"""What has become of a stream's tuples, and how many are queued: it closes."""


@dataclass(frozen=True, slots=True)
class Explanations:
    """The last decisions of a unit's load manager, oldest first."""

    epoch_s: float
    """To be added to their times, which are of the clock of the unit's node, for seconds since 1970."""
    decisions: tuple[ManagerDecision, ...]
