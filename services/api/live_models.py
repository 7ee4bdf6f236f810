"""Pydantic models of the answers about the running system; the OpenAPI description is generated from them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from configs.classes.objectives import Objective
from services.api.explanations import Decision, ShareDecision
from services.watch.states import ClassState

Processors = Annotated[
    float, Field(description="Load or capacity in processors: 1.0 is the work that one processor can do.")
]
Milliseconds = Annotated[float, Field(ge=0)]
Ratio = Annotated[float, Field(ge=0, le=1)]
Percent = Annotated[float, Field(ge=0, le=100)]


class AsOf(BaseModel):
    """Time and age of the figures in an answer. While the running system does not answer, the last known figures are shown."""

    at: datetime
    age_s: float = Field(
        ge=0, description="Age of the figures in seconds; above 1 only while the system does not answer."
    )


# -- classes ---------------------------------------------------------------------------------------------------


class Shares(BaseModel):
    """Fractions of all lanes that a class is entitled to (`original`) and has at the moment (`now`)."""

    original: float = Field(description="Fraction of all lanes that the priority entitles the class to.")
    now: float


class Responses(BaseModel):
    """Response times since the class began, in milliseconds: the time from the arrival of a tuple to the answer that it causes."""

    mean: float = 0.0
    p50: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    max: float = 0.0
    l2: float = 0.0


class Worth(BaseModel):
    """Utility of answers: the worth of an answer, 0 to 1, by its response time and the QoS graph of its query."""

    mean: float = Field(1.0, ge=0, le=1, description="Mean utility of all answers, 0 to 1.")
    missed: int = Field(0, ge=0, description="Number of answers that came after their deadline.")


class ClassWorth(Worth):
    """Utility of the answers of all queries of a class."""

    lost: float = Field(
        0.0, description="Mean utility that answers lost by their response times: 1 minus `mean`."
    )
    of_queries: float = Field(
        1.0,
        description="Mean of the queries' mean utilities; every query has the same weight.",
    )
    missed_pct: Percent = 0.0


class Slowdown(BaseModel):
    """Slowdown of answers: response time divided by ideal processing time."""

    mean: float = Field(0.0, ge=0, description="Mean slowdown of all answers.")
    of_queries: float = Field(
        0.0,
        ge=0,
        description="Mean of the queries' mean slowdowns; every query with answers has the same weight.",
    )


class Staleness(BaseModel):
    """Staleness of answers: the fraction of the time in which an input that led to an answer was still waiting."""

    mean: float = Field(
        0.0, ge=0, le=1, description="Mean staleness of the queries, weighted by the weights of the queries."
    )
    max: float = Field(0.0, ge=0, le=1, description="Staleness of the stalest query.")


class ClassTardiness(BaseModel):
    """Tardiness of the answers of windows; all fields are 0 until a window has answered."""

    due: int = Field(
        0, ge=0, description="Number of window answers, each of which has a deadline set by its window."
    )
    tardy: int = Field(0, ge=0, description="Number of window answers that came after their deadline.")
    mean_ms: Milliseconds = Field(
        0.0, description="Mean time after the deadline; an answer in time counts as 0."
    )
    max_ms: Milliseconds = 0.0


class OperatorFailure(BaseModel):
    """Rows that failed in one operator for one reason, for example because its state had no room for them."""

    operator: str
    queries: list[str] = Field(description="Names of the first ten queries that need the operator.")
    more_queries: int = Field(
        description="Number of queries that need the operator and are not listed in `queries`."
    )
    reason: str
    rows: int = Field(
        description="Number of rows that failed in the operator since its process built the operator."
    )
    part: Ratio = Field(
        description="Failed rows as a fraction of the rows that the operator took in the last minute of input."
    )


class ClassStatus(AsOf):
    """Status of a class at this moment. Counts start when the class begins; counts of several shards are summed."""

    age_s: float = Field(
        ge=0,
        description="Age of the figures in seconds: time since the last report of the shard that reported longest ago."
        " A class reports after each load cycle, unless the class is asleep or inside a long operator call.",
    )
    name: str
    running: Literal[True] = True
    priority: float
    delay_target_ms: Milliseconds
    lossless: bool
    queries: int
    units: int = Field(description="Number of the class's shards that have reported.")
    state: ClassState = Field(
        description="State of the class; the most serious state if several states apply."
    )
    reason: str = Field(description="Reason for the class's state, as text.")
    asleep: bool = Field(
        description="True while the class has no input; a class without input neither runs nor reports."
    )
    objective: Objective = Field(
        description="Objective of the class: the quantity that the policy of the class is to optimise."
    )
    policy: str = Field(
        description="Policy that schedules the class's operators now, for example `hr` or `bsd:clusters=12`."
        " If the plan differs from the default plan, the name of the plan follows the policy: `hr, joins first`, `hr, unshared`."
    )
    tunes_itself: bool = Field(description="True if the class chooses its policy and plan automatically.")
    share: Shares
    lent_s: float = Field(description="Capacity lent to other classes, in processor-seconds.")
    borrowed_s: float = Field(description="Capacity borrowed from other classes, in processor-seconds.")
    headroom: Processors
    load: Processors
    keep: Ratio = Field(description="Fraction of the arriving input that the class admits now.")
    drop: Ratio = Field(
        description="Fraction of the arriving input that the class sheds now; 0 for a lossless class."
    )
    shed_now: Ratio = Field(0.0, description="Fraction of the rows of the last seconds that were shed.")
    queued: int
    results: int
    results_per_s: float
    mean_ms: Milliseconds = Field(
        description="Mean response time of the answers of the last seconds, in milliseconds."
    )
    p50_ms: Milliseconds
    p95_ms: Milliseconds
    p99_ms: Milliseconds
    offered: int
    delivered: int
    shed: int
    late: int
    rejected: int
    failed: int
    state_bytes: int
    ingest_s: float = Field(description="Processor time of the class for receiving its input, in seconds.")
    used_s: float = Field(
        description="Processor time that the class has used in its slices (its turns on a lane), in seconds."
    )
    within_target_pct: Percent
    response_ms: Responses
    utility: ClassWorth
    slowdown: Slowdown
    staleness: Staleness
    tardiness: ClassTardiness
    slowdown_now: float = Field(
        ge=0, description="Mean slowdown of the answers of the last seconds; 0 without answers."
    )
    utility_now: Ratio = Field(description="Mean utility of the last seconds' answers.")
    missed_now: Ratio = Field(
        description="Fraction of the last seconds' answers that came after their deadline."
    )
    staleness_now: Ratio = Field(description="Staleness of the class's answers in the last seconds.")
    tardy_now: Ratio = Field(description="Fraction of the last seconds' window answers that were tardy.")
    queue_bytes: int = Field(description="Memory of the tuples that are queued between operators, in bytes.")
    late_now: dict[str, Ratio] = Field(
        default_factory=dict,
        description="Fraction of late rows by stream, in the last minute of input. A late row is behind the watermark of its stream, "
        "and is left out. Streams without late rows are not listed.",
    )
    queue_age_s: float = Field(
        ge=0, description="Age in seconds of the oldest queued tuple that no operator has taken yet."
    )
    taken_per_s: float = Field(
        ge=0,
        description="Number of tuples per second that operators took from the class's queue in the last seconds.",
    )
    held_back: int = Field(
        ge=0,
        description="Number of shards with a full queue and more input waiting in stream logs or at producers.",
    )
    unsaved_bytes: int = Field(
        0,
        ge=0,
        description="Bytes that the class has written to its log since its last snapshots; a restarted class replays these bytes first.",
    )
    problems: list[str] = Field(description="Reasons why parts of the class do not run as declared.")
    failures: list[OperatorFailure] = Field(
        default_factory=list,
        description="Rows that failed in operators of the class, by operator and reason: the 20 most frequent entries of each shard.",
    )


class IdleTenant(BaseModel):
    """Status of a tenant that has no running class."""

    name: str
    running: Literal[False] = False
    state: ClassState = Field(description="State of the tenant: `no queries` or `starting`.")
    reason: str = Field(description="Reason why no class of the tenant runs, as text.")


class Classes(AsOf):
    items: list[ClassStatus]


class UtilityCorner(BaseModel):
    """Point of a QoS graph."""

    latency_ms: Milliseconds
    utility: Ratio


class Tardiness(BaseModel):
    """Tardiness of window answers. A deadline is one pane after the end of a window (the promised end with SLIDE AT MOST)."""

    answers: int
    tardy: int = Field(description="Number of window answers that came after their deadlines.")
    mean_ms: Milliseconds = Field(description="Mean time after the deadline; an answer in time counts as 0.")


class QueryQuality(BaseModel):
    """Quality of the answers of one query."""

    query: str
    deadline_ms: Milliseconds = Field(
        description="Deadline of the query's answers: the response time at which utility begins to fall, in milliseconds."
    )
    graph: list[UtilityCorner] = Field(
        description="QoS graph of the query; the QoS graph of its class if the query has none."
    )
    weight: float = Field(
        description="Weight of the query's freshness relative to the tenant's other queries."
    )
    answers: int
    mean_ms: Milliseconds = Field(description="Mean response time of the query's answers, in milliseconds.")
    slowdown: float = Field(
        ge=0,
        description="Mean slowdown of the query's answers: response time divided by ideal processing time (from measured costs).",
    )
    utility: Worth
    staleness: Ratio
    tardiness: Tardiness | None = Field(
        description="Tardiness of window answers; null if no time window has answered."
    )
    failed: int = Field(
        0,
        ge=0,
        description="Number of rows that failed in the query's operators, or that were refused because an operator's state had no room.",
    )
    failed_now: Ratio = Field(
        0.0,
        description="Fraction of rows that failed in the last minute of input, in the query's operator with the largest fraction.",
    )
    failed_reason: str | None = Field(
        None,
        description="Most frequent reason why rows failed in the query's operators; null if no row failed.",
    )


class TenantQuality(AsOf):
    """Quality of a tenant's answers since its class began, over all shards; at most 1,000 queries are listed."""

    tenant: str
    running: bool
    items: list[QueryQuality]
    late_now: dict[str, Ratio] = Field(
        default_factory=dict,
        description="Fraction of late rows by stream, in the last minute of input. A late row is behind the watermark of its stream, "
        "and is left out.",
    )


# -- explanations ----------------------------------------------------------------------------------------------


class Explanation(BaseModel):
    """Explanation of a class: its present state, and the last decisions about the class, oldest first."""

    tenant: str
    running: bool
    given_up: bool = Field(
        False,
        description="True if the class failed repeatedly while it started. "
        "Weir starts the class again only after its declaration changes.",
    )
    words: str = Field(description="Present state of the class, as text.")
    items: list[Decision]


class OperatorFigures(BaseModel):
    """Operator of a class with its measurements. If the class has several shards, the first shard is measured."""

    number: int
    name: str
    feeds: list[int] = Field(description="Numbers of the operators that take this operator's output.")
    queries: list[str]
    tuples: int = Field(description="Number of tuples that the operator has taken since its start.")
    calls: int = Field(
        description="Number of calls of the operator since its start; each call takes one train of tuples."
    )
    measured: bool = Field(
        description="False for the operator's first 1,000 tuples: until then, cost and selectivity are mostly initial estimates."
    )
    cost_us: float = Field(
        description="Cost of the operator: processor time per input tuple, in microseconds."
    )
    selectivity: float = Field(description="Selectivity of the operator: output tuples per input tuple.")
    rate: float | None = Field(
        description="Answers per second of processor time from this operator to the end of its queries. "
        "The policy `hr` runs the operator with the highest rate first."
    )
    queued: int


class Operators(BaseModel):
    tenant: str
    running: bool
    items: list[OperatorFigures]


# -- the ledger ------------------------------------------------------------------------------------------------


class AccountLine(BaseModel):
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
    ended: bool = Field(
        description="True if no query of the class reads the stream now; a later query that reads the stream continues the account."
    )


class RejectedRows(BaseModel):
    """Number of rows of a stream that gateways rejected, with the latest reason."""

    stream: str
    rows: int
    reason: str = Field(description="Reason of the latest rejection.")


class Ledger(AsOf):
    items: list[AccountLine]
    closes: bool = Field(
        description="True if every account in the ledger closes: each offered tuple has exactly one fate."
    )
    given_up: list[str] = Field(
        description="Tenants with a class that failed repeatedly while it started, so that Weir stopped starting the class. "
        "Accounts of such a class are from the last report of the class."
    )
    rejected_at_gateways: list[RejectedRows] = Field(
        default_factory=list,
        description="Number of rows that gateways rejected, by stream. Rejected rows reach no class, and are in no class's account.",
    )


class TenantLedger(Ledger):
    tenant: str
    running: bool


# -- lending ---------------------------------------------------------------------------------------------------


class LentLine(BaseModel):
    lender: str
    borrower: str
    lent_s: float = Field(
        description="Capacity that the lender has lent to the borrower since the start, in processor-seconds."
    )
    now: Processors = Field(
        description="Capacity that the lender lends to the borrower at this moment, in processors."
    )


class Lending(AsOf):
    items: list[LentLine]
    moves: list[ShareDecision] = Field(
        description="Last decisions that moved shares between classes, oldest first."
    )


# -- the system ------------------------------------------------------------------------------------------------


class NodeStatus(BaseModel):
    name: str
    lanes: int
    endpoint: str | None = Field(description="Arrow Flight endpoint of the node, for producers and readers.")


class UnitPlace(BaseModel):
    unit: str
    tenant: str
    node: str
    host: str
    share: float = Field(description="Fraction of its node's lanes that the unit has.")
    moving_to: str | None


class SystemView(AsOf):
    version: str
    name: str
    uptime_s: float
    gateway: str | None = Field(description="Arrow Flight endpoint of the first node.")
    nodes: list[NodeStatus]
    classes: int
    units: list[UnitPlace]
    unplaced: list[str] = Field(
        description="Units (classes or shards of classes) that have no node to run on."
    )
    waited_for: list[str] = Field(description="Actors that were created and have not answered yet.")
    quarantined: list[str] = Field(description="Actors that have stopped answering.")
    failures: list[str] = Field(description="Last calls between actors that failed, as text.")
    problems: list[str] = Field(description="Reasons why parts of the system do not run as declared.")


# -- history ---------------------------------------------------------------------------------------------------


class ClassHistory(BaseModel):
    """Time series of a class, by name of the figure: one value per sample time; null where the value is unknown."""

    name: str
    delay_target_ms: Milliseconds
    series: dict[str, list[float | None]]


class History(BaseModel):
    interval_s: float
    at: list[float] = Field(
        description="Times of the samples, in seconds since 1970. Samples are missing for the time in which the system was away."
    )
    classes: list[ClassHistory]
    left_out: int = Field(
        description="Number of classes left out because the answer would be too large; name the wanted classes in `tenant`."
    )
