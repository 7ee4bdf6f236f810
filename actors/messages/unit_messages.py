"""Messages between the coordinator and the class hosts: the units to run, and reports of their status.

A *unit* is a class, or one shard of a class, that a host runs. Each unit has its own queues, turns, load manager and log. Its
name is the name of the class, followed by # and the shard if the class has several shards.
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
    """A unit with its original share and current share of its node's lanes."""

    declared: LiveClass
    shard: int = 0
    original: float = 0.0
    share: float = 0.0
    choice: Choice | None = None
    """Policy and plan that the unit runs with; None unless its class tunes itself and has chosen a policy."""

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
    """Return the name under which a node subscribes to streams of other nodes, to copy the streams."""
    return f"node-{node}"


def units_to_json(units: Iterable[Unit]) -> list[Any]:
    """Return units in the form in which they are stored for a host that restarts."""
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
    """Return a stored choice. Earlier versions stored no choice, or a policy without a plan."""
    if isinstance(value, Mapping):
        return Choice(POLICY.validate_python(value), declared.plan)
    return None if value is None else choice_of(value)


@dataclass(frozen=True, slots=True)
class Copy:
    """Copy that a unit's home node keeps while the unit runs elsewhere: the unit's logs, and input that the unit may read again."""

    origin: str
    streams: tuple[str, ...]
    holds_back: bool
    """True if the streams' logs must not forget input that the unit has not read."""
    results_bytes: int | None = None
    """Maximum size of the log with the unit's answers; None if the class does not set it."""


OF_UNITS, GAUGE = "of units", "gauge"
# Metadata that says how the figure of a class is computed from its units; figures without such metadata are summed.
MEAN: Mapping[str, str] = {OF_UNITS: "mean"}
WORST: Mapping[str, str] = {OF_UNITS: "worst"}


def gauge(unit: str, help: str) -> Mapping[str, tuple[str, str]]:
    """Return the metadata of a figure that is exported as the metric `weir_class_NAME`, summed over the units."""
    return {GAUGE: (unit, help)}


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of a unit that are shown to users. Counters start when the unit begins for the first time."""

    headroom: float = 0.0
    load: float = 0.0
    keep: float = field(default=1.0, metadata=MEAN)
    queued: int = 0
    results: int = 0
    results_per_s: float = 0.0
    # Mean and percentiles of the response times of the last seconds, in milliseconds.
    mean_ms: float = field(default=0.0, metadata=WORST)
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
    ingest_s: float = 0.0  # Processor-seconds used to read input
    used_s: float = 0.0  # Processor-seconds used in slices
    within_target_pct: float = 100.0  # Answers within the delay target since the unit began, in percent
    # Figures of the response times of all answers since the unit began.
    response_ms: dict[str, float] = field(default_factory=dict)
    # Figures of the utility of all answers since the unit began
    utility: dict[str, float] = field(default_factory=dict)
    # Figures of the slowdown of all answers since the unit began
    slowdown: dict[str, float] = field(default_factory=dict)
    # Figures of the staleness of the queries' outputs since the unit began
    staleness: dict[str, float] = field(default_factory=dict)
    # Figures of the tardiness of all answers of windows since the unit began
    tardiness: dict[str, float] = field(default_factory=dict)
    # Mean slowdown of the answers of the last seconds; 0 without answers.
    slowdown_now: float = field(default=0.0, metadata=MEAN)
    utility_now: float = field(default=1.0, metadata=MEAN)  # Mean utility of the answers of the last seconds
    # Fraction of answers that came after their deadlines, over the last seconds.
    missed_now: float = field(default=0.0, metadata=MEAN)
    # Mean staleness of the queries' outputs in the last seconds.
    staleness_now: float = field(default=0.0, metadata=MEAN)
    # Fraction of windows' answers that came after their deadlines, over the last seconds.
    tardy_now: float = field(default=0.0, metadata=MEAN)
    queue_bytes: int = 0  # Bytes of memory of the queues between operators
    late_now: dict[str, float] = field(default_factory=dict)
    """Fraction of the rows of the last minute that arrived behind the watermark, by stream; streams without late rows are left out."""
    queue_age_s: float = field(default=0.0, metadata=WORST)  # Age of the oldest queued tuple, in seconds
    # Fraction of the rows of the last seconds that were shed, at the door or from the queue.
    shed_now: float = field(default=0.0, metadata=MEAN)
    taken_per_s: float = 0.0  # Tuples per second that operators took in the last seconds
    held_back: int = field(
        default=0,
        metadata=gauge(
            "shards",
            "Number of shards of the class with a full queue; further input waits in the logs of the streams, or at the producers.",
        ),
    )
    unsaved_bytes: int = field(
        default=0,
        metadata=gauge(
            "bytes",
            "Bytes that the class wrote to its log after its last snapshots, and that a restart would process again.",
        ),
    )


# Upper bounds of the histogram of response times, as multiples of the delay target; closest together around the target.
BOUNDS = (0.1, 0.25, 0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0, 4.0, 8.0, 16.0)


@dataclass(frozen=True, slots=True)
class ResponseCounts:
    """Histogram of the response times of a unit's answers since its process started."""

    target_s: float = 0.0
    count: int = 0
    in_time: int = 0
    sum_s: float = 0.0
    within: tuple[int, ...] = (0,) * len(BOUNDS)
    """Number of answers within each of the BOUNDS, cumulative."""


@dataclass(frozen=True, slots=True)
class Quality:
    """Quality of the answers of one query since the unit's process started."""

    query: str
    answers: int
    utility: float
    """Sum of the utilities of all answers."""
    missed: int
    """Number of answers after the deadline."""
    response_s: float
    """Sum of the response times of all answers."""
    stale_s: float
    staleness: float
    """Fraction of the time for which the output was stale."""
    due: int = 0
    """Number of answers of windows, each of which has its own deadline."""
    tardy: int = 0
    """Number of answers of windows after their deadlines."""
    tardiness_s: float = 0.0
    """Sum of the times by which answers of windows missed their deadlines."""
    slowdown: float = 0.0
    """Sum of the slowdowns of all answers: response time over ideal processing time."""


@dataclass(frozen=True, slots=True)
class Qualities:
    """Quality of several queries, stored in columns to keep reports small: a report is sent in each load cycle."""

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


@dataclass(slots=True)
class UnitCounts:
    """Counters of a unit for metrics. All except `results` start from 0 whenever the unit is started."""

    pid: int
    born: float
    """Start time of the unit. Together with `pid` it identifies one life of the unit."""
    recovered: bool
    """True if the unit continues from its log; accounts and `results` then continue, too."""
    slices: int = 0
    overruns: int = 0
    overrun_s: float = 0.0
    branches: tuple[int, ...] = ()
    """Number of load cycles that ended in each branch of ALoMa's decision table, in the order of `AlomaBranch`."""
    at_max_drop: int = 0
    reclaims: int = 0
    reclaims_overdue: int = 0
    reclaim_s: float = 0.0
    answered: ResponseCounts = ResponseCounts()
    results: Mapping[str, int] = field(default_factory=dict)
    """Number of answers of the first QUERIES_MAX queries, by query."""
    queue_bytes: int = 0
    queue_age_s: float = 0.0
    queue_work_s: float = 0.0
    quality: Qualities = Qualities()
    """Quality of the answers of the first QUERIES_MAX queries, measured at most one second ago."""
    expired: int = 0
    """Number of tuples dropped because they were older than the class allows."""

    @property
    def life(self) -> tuple[int, float]:
        return self.pid, self.born


# Maximum number of queries in a report. Reports are sent in each load cycle and must stay small.
QUERIES_MAX = 1000
# Maximum number of failures in a report, and of queries that each failure names.
FAILURES_MAX = 20
FAILURE_QUERIES_MAX = 10


@dataclass(frozen=True, slots=True)
class Failure:
    """Rows that failed in one operator for the same reason, for example because the operator had no room."""

    operator: str
    queries: tuple[str, ...]
    """Names of the first FAILURE_QUERIES_MAX queries that need the operator."""
    reason: str
    rows: int
    """Number of failed rows since the operator was built in this process."""
    part: float = 0.0
    """Failed rows as a fraction of the rows that the operator took in the last minute."""
    more_queries: int = 0
    """Number of queries that need the operator but are left out of `queries`."""


Trouble = Literal["", "failing", "given up"]
FAILING: Trouble = "failing"
GIVEN_UP: Trouble = "given up"


@dataclass(frozen=True, slots=True)
class UnitReport:
    """Report that a host sends at the end of a unit's load cycle."""

    unit: str
    usage: float
    load: float
    reclaim: bool
    asleep: bool
    figures: Figures
    cycle: CycleEnded | None = (
        None  # Measurements of the unit's last load cycle; None unless the manager is `common`
    )
    accounts: Mapping[str, Account] = field(default_factory=dict)
    """Account of each stream's tuples, taken at the same moment as the figures."""
    problem: str = ""
    """Reason why the unit does not run properly; empty if it does."""
    trouble: Trouble = ""
    """Effect of the problem: "given up" if the unit is stopped, "failing" if it cannot read input or write its log now."""
    counted: UnitCounts | None = None
    failures: tuple[Failure, ...] = ()
    """The FAILURES_MAX failures in operators that have the most rows."""
    at: float = 0.0
    """Time at which the cycle ended, by the clock of the unit's node."""


Account = tuple[TupleLedger, int]
"""Ledger of a stream's tuples and the number of queued tuples, which together account for every offered tuple."""


@dataclass(frozen=True, slots=True)
class Explanations:
    """Last decisions of a unit's load manager, oldest first."""

    epoch_s: float
    """Seconds to add to the times of decisions, which are by the node's monotonic clock, to get seconds since 1970."""
    decisions: tuple[ManagerDecision, ...]
