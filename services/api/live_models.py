"""Pydantic models of the answers about the running system; the OpenAPI description is generated from them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from configs.base import Fraction, NonNegative
from configs.classes.objectives import Objective
from services.api.explanations import Decision, ShareDecision
from services.api.schemas import AnswerModel, Count
from services.watch.states import ClassState

Processors = Annotated[
    float, Field(description="Load or capacity in processors: 1.0 is the work that one processor can do.")
]
Percent = Annotated[float, Field(ge=0, le=100)]


class AsOf(AnswerModel):
    """Time and age of the figures in an answer. While the running system does not answer, the last known figures are shown."""

    at: datetime
    age_s: NonNegative
    """Age of the figures in seconds; above 1 only while the system does not answer."""


class Shares(AnswerModel):
    """Fractions of all lanes that a class is entitled to (`original`) and has at the moment (`now`)."""

    original: float
    """Fraction of all lanes that the priority entitles the class to."""
    now: float


class Responses(AnswerModel):
    """Response times since the class began, in milliseconds: the time from the arrival of a tuple to the answer that it causes."""

    mean: float = 0.0
    p50: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    max: float = 0.0
    l2: float = 0.0


class Worth(AnswerModel):
    """Utility of answers: the worth of an answer, 0 to 1, by its response time and the QoS graph of its query."""

    mean: Fraction = 1.0
    """Mean utility of all answers, 0 to 1."""
    missed: Count = 0
    """Number of answers that came after their deadline."""


class ClassWorth(Worth):
    """Utility of the answers of all queries of a class."""

    lost: float = 0.0
    """Mean utility that answers lost by their response times: 1 minus `mean`."""
    of_queries: float = 1.0
    """Mean of the queries' mean utilities; every query has the same weight."""
    missed_pct: Percent = 0.0


class Slowdown(AnswerModel):
    """Slowdown of answers: response time divided by ideal processing time."""

    mean: NonNegative = 0.0
    """Mean slowdown of all answers."""
    of_queries: NonNegative = 0.0
    """Mean of the queries' mean slowdowns; every query with answers has the same weight."""


class Staleness(AnswerModel):
    """Staleness of answers: the fraction of the time in which an input that led to an answer was still waiting."""

    mean: Fraction = 0.0
    """Mean staleness of the queries, weighted by the weights of the queries."""
    max: Fraction = 0.0
    """Staleness of the stalest query."""


class ClassTardiness(AnswerModel):
    """Tardiness of the answers of windows; all fields are 0 until a window has answered."""

    due: Count = 0
    """Number of window answers, each of which has a deadline set by its window."""
    tardy: Count = 0
    """Number of window answers that came after their deadline."""
    mean_ms: NonNegative = 0.0
    """Mean time after the deadline; an answer in time counts as 0."""
    max_ms: NonNegative = 0.0


class OperatorFailure(AnswerModel):
    """Rows that failed in one operator for one reason, for example because its state had no room for them."""

    operator: str
    queries: list[str]
    """Names of the first ten queries that need the operator."""
    more_queries: int
    """Number of queries that need the operator and are not listed in `queries`."""
    reason: str
    rows: int
    """Number of rows that failed in the operator since its process built the operator."""
    part: Fraction
    """Failed rows as a fraction of the rows that the operator took in the last minute of input."""


class ClassStatus(AsOf):
    """Status of a class at this moment. Counts start when the class begins; counts of several shards are summed."""

    age_s: NonNegative
    """Seconds since the report of the shard that reported longest ago. Only a class that is asleep or in a long operator call skips reports."""
    name: str
    running: Literal[True] = True
    priority: float
    delay_target_ms: NonNegative
    lossless: bool
    queries: int
    units: int
    """Number of the class's shards that have reported."""
    state: ClassState
    """State of the class; the most serious state if several states apply."""
    reason: str
    """Reason for the class's state, as text."""
    asleep: bool
    """True while the class has no input; a class without input neither runs nor reports."""
    objective: Objective
    """Objective of the class: the quantity that the policy of the class is to optimise."""
    policy: str
    """Policy that runs the operators now, such as `bsd:clusters=12`, and the plan unless it is the default, as in `hr, joins first`."""
    tunes_itself: bool
    """True if the class chooses its policy and plan automatically."""
    share: Shares
    lent_s: float
    """Capacity lent to other classes, in processor-seconds."""
    borrowed_s: float
    """Capacity borrowed from other classes, in processor-seconds."""
    headroom: Processors
    load: Processors
    keep: Fraction
    """Fraction of the arriving input that the class admits now."""
    drop: Fraction
    """Fraction of the arriving input that the class sheds now; 0 for a lossless class."""
    shed_now: Fraction = 0.0
    """Fraction of the rows of the last seconds that were shed."""
    queued: int
    results: int
    results_per_s: float
    mean_ms: NonNegative
    """Mean response time of the answers of the last seconds, in milliseconds."""
    p50_ms: NonNegative
    p95_ms: NonNegative
    p99_ms: NonNegative
    offered: int
    delivered: int
    shed: int
    late: int
    rejected: int
    failed: int
    state_bytes: int
    ingest_s: float
    """Processor time of the class for receiving its input, in seconds."""
    used_s: float
    """Processor time that the class has used in its slices (its turns on a lane), in seconds."""
    within_target_pct: Percent
    response_ms: Responses
    utility: ClassWorth
    slowdown: Slowdown
    staleness: Staleness
    tardiness: ClassTardiness
    slowdown_now: NonNegative
    """Mean slowdown of the answers of the last seconds; 0 without answers."""
    utility_now: Fraction
    """Mean utility of the last seconds' answers."""
    missed_now: Fraction
    """Fraction of the last seconds' answers that came after their deadline."""
    staleness_now: Fraction
    """Staleness of the class's answers in the last seconds."""
    tardy_now: Fraction
    """Fraction of the last seconds' window answers that were tardy."""
    queue_bytes: int
    """Memory of the tuples that are queued between operators, in bytes."""
    late_now: dict[str, Fraction] = Field(default_factory=dict)
    """Fraction of late rows (behind the watermark, so left out) in the last minute of input, for each stream with late rows."""
    queue_age_s: NonNegative
    """Age in seconds of the oldest queued tuple that no operator has taken yet."""
    taken_per_s: NonNegative
    """Number of tuples per second that operators took from the class's queue in the last seconds."""
    held_back: Count
    """Number of shards with a full queue and more input waiting in stream logs or at producers."""
    unsaved_bytes: Count = 0
    """Bytes that the class has written to its log since its last snapshots; a restarted class replays these bytes first."""
    problems: list[str]
    """Reasons why parts of the class do not run as declared."""
    failures: list[OperatorFailure] = Field(default_factory=list)
    """Rows that failed in operators of the class, by operator and reason: the 20 most frequent entries of each shard."""


class IdleTenant(AnswerModel):
    """Status of a tenant that has no running class."""

    name: str
    running: Literal[False] = False
    state: ClassState
    """State of the tenant: `no queries` or `starting`."""
    reason: str
    """Reason why no class of the tenant runs, as text."""


class Classes(AsOf):
    items: list[ClassStatus]


class UtilityCorner(AnswerModel):
    """Point of a QoS graph."""

    latency_ms: NonNegative
    utility: Fraction


class Tardiness(AnswerModel):
    """Tardiness of window answers. A deadline is one pane after the end of a window (the promised end with SLIDE AT MOST)."""

    answers: int
    tardy: int
    """Number of window answers that came after their deadlines."""
    mean_ms: NonNegative
    """Mean time after the deadline; an answer in time counts as 0."""


class QueryQuality(AnswerModel):
    """Quality of the answers of one query."""

    query: str
    deadline_ms: NonNegative
    """Deadline of the query's answers: the response time at which utility begins to fall, in milliseconds."""
    graph: list[UtilityCorner]
    """QoS graph of the query; the QoS graph of its class if the query has none."""
    weight: float
    """Weight of the query's freshness relative to the tenant's other queries."""
    answers: int
    mean_ms: NonNegative
    """Mean response time of the query's answers, in milliseconds."""
    slowdown: NonNegative
    """Mean slowdown of the query's answers: response time divided by ideal processing time (from measured costs)."""
    utility: Worth
    staleness: Fraction
    tardiness: Tardiness | None
    """Tardiness of window answers; null if no time window has answered."""
    failed: Count = 0
    """Number of rows that failed in the query's operators, or that were refused because an operator's state had no room."""
    failed_now: Fraction = 0.0
    """Fraction of rows that failed in the last minute of input, in the query's operator with the largest fraction."""
    failed_reason: str | None = None
    """Most frequent reason why rows failed in the query's operators; null if no row failed."""


class TenantQuality(AsOf):
    """Quality of a tenant's answers since its class began, over all shards; at most 1,000 queries are listed."""

    tenant: str
    running: bool
    items: list[QueryQuality]
    late_now: dict[str, Fraction] = Field(default_factory=dict)
    """Fraction of late rows (behind the watermark, so left out) in the last minute of input, for each stream with late rows."""


class Explanation(AnswerModel):
    """Explanation of a class: its present state, and the last decisions about the class, oldest first."""

    tenant: str
    running: bool
    given_up: bool = False
    """True if the class failed repeatedly while it started. Weir starts the class again only after its declaration changes."""
    words: str
    """Present state of the class, as text."""
    items: list[Decision]


class OperatorFigures(AnswerModel):
    """Operator of a class with its measurements. If the class has several shards, the first shard is measured."""

    number: int
    name: str
    feeds: list[int]
    """Numbers of the operators that take this operator's output."""
    queries: list[str]
    tuples: int
    """Number of tuples that the operator has taken since its start."""
    calls: int
    """Number of calls of the operator since its start; each call takes one train of tuples."""
    measured: bool
    """False for the operator's first 1,000 tuples: until then, cost and selectivity are mostly initial estimates."""
    cost_us: float
    """Cost of the operator: processor time per input tuple, in microseconds."""
    selectivity: float
    """Selectivity of the operator: output tuples per input tuple."""
    rate: float | None
    """Answers per processor-second from this operator to the end of its queries; the policy `hr` runs the highest rate first."""
    queued: int


class Operators(AnswerModel):
    tenant: str
    running: bool
    items: list[OperatorFigures]


class AccountLine(AnswerModel):
    """Fates of a stream's tuples in a class. The account closes if offered = delivered + shed + late + rejected + failed + queued."""

    tenant: str
    stream: str
    offered: int
    delivered: int
    shed: int
    late: int
    rejected: int
    failed: int
    queued: int
    closes: bool
    ended: bool
    """True if no query of the class reads the stream now; a later query that reads the stream continues the account."""


class RejectedRows(AnswerModel):
    """Number of rows of a stream that gateways rejected, with the latest reason."""

    stream: str
    rows: int
    reason: str
    """Reason of the latest rejection."""


class Ledger(AsOf):
    items: list[AccountLine]
    closes: bool
    """True if every account in the ledger closes: each offered tuple has exactly one fate."""
    given_up: list[str]
    """Tenants with a class that Weir stopped starting after repeated failures; its accounts are from its last report."""
    rejected_at_gateways: list[RejectedRows] = Field(default_factory=list)
    """Number of rows that gateways rejected, by stream. Rejected rows reach no class, and are in no class's account."""


class TenantLedger(Ledger):
    tenant: str
    running: bool


class LentLine(AnswerModel):
    lender: str
    borrower: str
    lent_s: float
    """Capacity that the lender has lent to the borrower since the start, in processor-seconds."""
    now: float
    """Capacity that the lender lends to the borrower at this moment, in processors."""


class Lending(AsOf):
    items: list[LentLine]
    moves: list[ShareDecision]
    """Last decisions that moved shares between classes, oldest first."""


class NodeStatus(AnswerModel):
    name: str
    lanes: int
    endpoint: str | None
    """Arrow Flight endpoint of the node, for producers and readers."""


class UnitPlace(AnswerModel):
    unit: str
    tenant: str
    node: str
    host: str
    share: float
    """Fraction of its node's lanes that the unit has."""
    moving_to: str | None


class SystemView(AsOf):
    version: str
    name: str
    uptime_s: float
    gateway: str | None
    """Arrow Flight endpoint of the first node."""
    nodes: list[NodeStatus]
    classes: int
    units: list[UnitPlace]
    unplaced: list[str]
    """Units (classes or shards of classes) that have no node to run on."""
    waited_for: list[str]
    """Actors that were created and have not answered yet."""
    quarantined: list[str]
    """Actors that have stopped answering."""
    failures: list[str]
    """Last calls between actors that failed, as text."""
    problems: list[str]
    """Reasons why parts of the system do not run as declared."""


class ClassHistory(AnswerModel):
    """Time series of a class, by name of the figure: one value per sample time; null where the value is unknown."""

    name: str
    delay_target_ms: NonNegative
    series: dict[str, list[float | None]]


class History(AnswerModel):
    interval_s: float
    at: list[float]
    """Times of the samples, in seconds since 1970. Samples are missing for the time in which the system was away."""
    classes: list[ClassHistory]
    left_out: int
    """Number of classes left out because the answer would be too large; name the wanted classes in `tenant`."""
