"""What the routes of the running system answer; the description of the API is made from these."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from configs.classes.objectives import Objective
from services.api.explanations import Decision, ShareDecision
from services.watch.states import ClassState

Processors = Annotated[float, Field(description="Processors.")]
Milliseconds = Annotated[float, Field(ge=0)]
Ratio = Annotated[float, Field(ge=0, le=1)]
Percent = Annotated[float, Field(ge=0, le=100)]


class AsOf(BaseModel):
    """As of when, since the system may not answer now."""

    at: datetime
    age_s: float = Field(
        ge=0, description="How long ago that was; more than a second while the system does not answer."
    )


# -- classes ---------------------------------------------------------------------------------------------------


class Shares(BaseModel):
    """Of all lanes."""

    original: float = Field(description="What its priority entitles it to.")
    now: float


class Responses(BaseModel):
    """From arrival to answer, in milliseconds, from the beginning."""

    mean: float = 0.0
    p50: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    max: float = 0.0
    l2: float = 0.0


class Worth(BaseModel):
    """What answers were worth by their latency, by the QoS graphs of their queries."""

    mean: float = Field(1.0, ge=0, le=1, description="Utility of an answer.")
    missed: int = Field(0, ge=0, description="Answers after their deadline.")


class ClassWorth(Worth):
    """The same of all queries of a class."""

    lost: float = Field(0.0, description="What is lacking of 1.")
    of_queries: float = Field(1.0, description="Mean over the queries, however many answers each has.")
    missed_pct: Percent = 0.0


class Slowdown(BaseModel):
    """Response times over what answers would have cost alone."""

    mean: float = Field(0.0, ge=0, description="Of all answers.")
    of_queries: float = Field(
        0.0, ge=0, description="Mean over the queries that have answered, however many answers each has."
    )


class Staleness(BaseModel):
    """Part of the time for which an output was behind what had arrived for it."""

    mean: float = Field(0.0, ge=0, le=1, description="Of the queries, by weight.")
    max: float = Field(0.0, ge=0, le=1, description="The stalest one's.")


class ClassTardiness(BaseModel):
    """Of the answers of windows; all 0 until one has answered."""

    due: int = Field(0, ge=0, description="Answers that had a deadline of a window.")
    tardy: int = Field(0, ge=0, description="Of these, the ones after it.")
    mean_ms: Milliseconds = Field(0.0, description="How long after, those in time counted as 0.")
    max_ms: Milliseconds = 0.0


class OperatorFailure(BaseModel):
    """Rows that failed in one operator for one reason, or found no room there for it."""

    operator: str
    queries: list[str] = Field(description="The first ten queries that need the operator.")
    more_queries: int = Field(description="Number of queries that need the operator and are not named.")
    reason: str
    rows: int = Field(description="Since the operator was built in its process.")
    part: Ratio = Field(description="Part of the rows that the operator took in the last minute of input.")


class ClassStatus(AsOf):
    """A class at this moment. What is counted counts from its beginning; of several shards it is the sum."""

    age_s: float = Field(
        ge=0,
        description="Age of the figures: of the last report of the shard that has not reported for longest."
        " A class reports with each load cycle, unless it is asleep or inside a long call.",
    )
    name: str
    running: Literal[True] = True
    priority: float
    delay_target_ms: Milliseconds
    lossless: bool
    queries: int
    units: int = Field(description="Shards that have reported.")
    state: ClassState = Field(description="The most serious state that it is in.")
    reason: str = Field(description="Why it is in that state, in words.")
    asleep: bool = Field(description="Without input; it neither runs nor reports until it has some.")
    objective: Objective = Field(description="What it is measured by.")
    policy: str = Field(
        description="By which its operators run now: `hr`, or `bsd:clusters=12` with its clusters; with the plan where it has"
        " chosen another than the usual one: `hr, joins first`, `hr, unshared`."
    )
    tunes_itself: bool = Field(description="Whether it chooses its policy and plan by itself.")
    share: Shares
    lent_s: float = Field(description="Processor-seconds.")
    borrowed_s: float = Field(description="Processor-seconds.")
    headroom: Processors
    load: Processors
    keep: Ratio = Field(description="Part of the input that is let in.")
    drop: Ratio = Field(description="Part of the input that is shed; 0 of a lossless class.")
    shed_now: Ratio = Field(0.0, description="Part of the rows of the last seconds that was shed.")
    queued: int
    results: int
    results_per_s: float
    mean_ms: Milliseconds = Field(description="Response time of the last seconds.")
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
    ingest_s: float = Field(description="Processor time of taking input in.")
    used_s: float = Field(description="Processor time of its slices.")
    within_target_pct: Percent
    response_ms: Responses
    utility: ClassWorth
    slowdown: Slowdown
    staleness: Staleness
    tardiness: ClassTardiness
    slowdown_now: float = Field(
        ge=0, description="Mean slowdown of the last seconds' answers; 0 without any."
    )
    utility_now: Ratio = Field(description="Mean utility of the last seconds' answers.")
    missed_now: Ratio = Field(description="Part of the last seconds' answers that came after their deadline.")
    staleness_now: Ratio = Field(description="Staleness of the last seconds.")
    tardy_now: Ratio = Field(description="Part of the last seconds' answers of windows that were tardy.")
    queue_bytes: int = Field(description="Of tuples queued between operators.")
    late_now: dict[str, Ratio] = Field(
        default_factory=dict,
        description="Part of each stream's rows in the last minute of input that came behind its watermark and were left out;"
        " streams without such rows are missing.",
    )
    queue_age_s: float = Field(ge=0, description="Age of the oldest tuple that no operator has taken.")
    taken_per_s: float = Field(ge=0, description="Tuples per second that operators have taken lately.")
    held_back: int = Field(
        ge=0,
        description="Number of shards with a full queue, and further input in the logs of their streams or at producers.",
    )
    unsaved_bytes: int = Field(
        0,
        ge=0,
        description="Bytes that the class wrote to its log after its last snapshots; a restart repeats these first.",
    )
    problems: list[str] = Field(description="Why parts of it do not run as they should.")
    failures: list[OperatorFailure] = Field(
        default_factory=list,
        description="Rows that fail in operators of its queries; the largest 20 of each shard.",
    )


class IdleTenant(BaseModel):
    """A tenant of which nothing runs."""

    name: str
    running: Literal[False] = False
    state: ClassState = Field(description="`no queries` or `starting`.")
    reason: str = Field(description="Why nothing of it runs, in words.")


class Classes(AsOf):
    items: list[ClassStatus]


class UtilityCorner(BaseModel):
    """A point of a QoS graph."""

    latency_ms: Milliseconds
    utility: Ratio


class Tardiness(BaseModel):
    """Of the answers of a window: a pane after its end they are late, with SLIDE AT MOST a pane after the end that was promised."""

    answers: int
    tardy: int = Field(description="Answers after their deadlines.")
    mean_ms: Milliseconds = Field(description="How long after, those in time counted as 0.")


class QueryQuality(BaseModel):
    """How good the answers of one query have been."""

    query: str
    deadline_ms: Milliseconds = Field(description="Where utility begins to fall.")
    graph: list[UtilityCorner] = Field(description="Its own or its class's.")
    weight: float = Field(description="How much its freshness counts beside that of the tenant's others.")
    answers: int
    mean_ms: Milliseconds = Field(description="Response time.")
    slowdown: float = Field(
        ge=0,
        description="Mean of response times over what an answer costs alone, as its operators are measured.",
    )
    utility: Worth
    staleness: Ratio
    tardiness: Tardiness | None = Field(description="null where no window of time has answered.")
    failed: int = Field(0, ge=0, description="Rows that failed in its operators, or found no room there.")
    failed_now: Ratio = Field(
        0.0,
        description="Largest part of the rows that one of its operators took in the last minute of input.",
    )
    failed_reason: str | None = Field(None, description="Why most of them failed; null if none did.")


class TenantQuality(AsOf):
    """Since a process of the class began; of several shards over all of them. At most 1,000 queries are told."""

    tenant: str
    running: bool
    items: list[QueryQuality]
    late_now: dict[str, Ratio] = Field(
        default_factory=dict,
        description="Part of each stream's rows in the last minute of input that came behind its watermark and are in no answer.",
    )


# -- explanations ----------------------------------------------------------------------------------------------


class Explanation(BaseModel):
    """The last decisions about a tenant's class, oldest first."""

    tenant: str
    running: bool
    given_up: bool = Field(
        False,
        description="True if the class cannot be started, and is not tried again before its declaration changes.",
    )
    words: str = Field(description="How it fares now, in words.")
    items: list[Decision]


class OperatorFigures(BaseModel):
    """A box of the class's network; of several shards the first one's."""

    number: int
    name: str
    feeds: list[int] = Field(description="Numbers of those that take what it gives.")
    queries: list[str]
    tuples: int = Field(description="Taken so far.")
    calls: int = Field(description="Trains in which they came.")
    measured: bool = Field(
        description="False while cost and selectivity are mostly the first estimate: for the first 1,000 tuples."
    )
    cost_us: float = Field(description="Processor time an input tuple.")
    selectivity: float = Field(description="Output tuples an input tuple.")
    rate: float | None = Field(
        description="Answers a second of processor time from here on: its priority under `hr`."
    )
    queued: int


class Operators(BaseModel):
    tenant: str
    running: bool
    items: list[OperatorFigures]


# -- the ledger ------------------------------------------------------------------------------------------------


class AccountLine(BaseModel):
    """offered = delivered + shed + late + rejected + failed + queued."""

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
        description="True if no query of the class reads the stream any more; a query that reads it again continues the account."
    )


class RejectedRows(BaseModel):
    """Rows of a stream that gateways have rejected."""

    stream: str
    rows: int
    reason: str = Field(description="Why the last of them were rejected.")


class Ledger(AsOf):
    items: list[AccountLine]
    closes: bool = Field(description="Whether every account does.")
    given_up: list[str] = Field(
        description="Tenants whose class is given up; their accounts are those of the last report."
    )
    rejected_at_gateways: list[RejectedRows] = Field(
        default_factory=list,
        description="Streams of which gateways have rejected rows. Such rows reach no class, and are in no account.",
    )


class TenantLedger(Ledger):
    tenant: str
    running: bool


# -- lending ---------------------------------------------------------------------------------------------------


class LentLine(BaseModel):
    lender: str
    borrower: str
    lent_s: float = Field(description="Processor-seconds, since the beginning.")
    now: Processors = Field(description="Processors, at this moment.")


class Lending(AsOf):
    items: list[LentLine]
    moves: list[ShareDecision] = Field(description="The last moves of shares, oldest first.")


# -- the system ------------------------------------------------------------------------------------------------


class NodeStatus(BaseModel):
    name: str
    lanes: int
    endpoint: str | None = Field(description="Where producers and readers reach it, by Arrow Flight.")


class UnitPlace(BaseModel):
    unit: str
    tenant: str
    node: str
    host: str
    share: float = Field(description="Of the lanes of its node.")
    moving_to: str | None


class SystemView(AsOf):
    version: str
    name: str
    uptime_s: float
    gateway: str | None = Field(description="Flight endpoint of the first node.")
    nodes: list[NodeStatus]
    classes: int
    units: list[UnitPlace]
    unplaced: list[str] = Field(description="Units for which there is no node.")
    waited_for: list[str] = Field(description="Actors that have not answered since they were made.")
    quarantined: list[str] = Field(description="Actors that do not answer any more.")
    failures: list[str] = Field(description="The last calls between actors that failed.")
    problems: list[str] = Field(description="Why something does not run as it is declared.")


# -- history ---------------------------------------------------------------------------------------------------


class ClassHistory(BaseModel):
    """A value for each moment, null where it is not known."""

    name: str
    delay_target_ms: Milliseconds
    series: dict[str, list[float | None]]


class History(BaseModel):
    interval_s: float
    at: list[float] = Field(
        description="Moments, in seconds since 1970; longer apart where the system was away."
    )
    classes: list[ClassHistory]
    left_out: int = Field(description="Classes for which there was no room: name those you want.")
