"""All metric families that Weir has: what `docs/metrics.md`, the collector, rules and dashboards agree on.

Names are as Prometheus's queries have them. The word order follows Kubernetes' API priority and fairness where there is a
word: nominal, lower, upper, current, demand, target. Ratios of shares are of all lanes together; a *processor* is one lane's time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import Field, dataclass, fields
from typing import Any, Literal

from actors.messages.unit_messages import GAUGE, Figures
from loadshed.aloma import AlomaBranch
from services.watch.states import ClassState

Type = Literal["counter", "gauge", "histogram", "info"]
Group = Literal[
    "Shares and lending",
    "Response times",
    "Tuples and shedding",
    "The control loop",
    "Work",
    "Queries",
    "Operators",
    "Streams and feeds",
    "Mirrors",
    "Nodes",
    "The system",
]

CLASS = ("tenant", "priority_class")
STREAM_OF_CLASS = (*CLASS, "stream")
QUERY = (*CLASS, "query")
OPERATOR = (*QUERY, "operator")
STREAM = ("stream", "node")
FEED = MIRROR = ("stream",)
NODE = ("node",)
FATES = ("delivered", "shed", "late", "rejected", "failed")
RESULTS = ("changed", "unchanged", "failed")
BRANCHES = tuple(branch.name.lower() for branch in AlomaBranch)
STATES = tuple(state.name.lower() for state in ClassState)
ACTORS = ("coordinator", "dispatcher", "gateway", "host")
MOVES = ("redistribution", "reclaim", "classes")

LABELS: dict[str, str] = {
    "tenant": "Whose class it is; its name. Of a loan, the lender.",
    "priority_class": "The priority class that the tenant is declared with; empty where there is no catalog.",
    "query": "Name of the tenant's query.",
    "stream": "Name of the stream as it was declared; of a feed, the feed's name, which is its stream's where it has a source of its own; of a mirror its name, which is its stream's.",
    "node": "Name of the machine.",
    "borrower": "The tenant to which is lent; at most 500 pairs are told, those that have lent the most.",
    "fate": f"What has become of tuples: {', '.join(FATES)}. Queued ones have met none yet and are a gauge of their own.",
    "result": f"What came of a poll: {', '.join(RESULTS)}.",
    "branch": f"The cell of ALoMa's table: {', '.join(BRANCHES)}.",
    "state": f"The state of the class: {', '.join(STATES)}.",
    "kind": f"Why shares moved: {', '.join(MOVES)} (classes came, went or changed).",
    "actor": f"What was started again: {', '.join(ACTORS)}.",
    "operator": "The operator's name in the tenant's plan.",
    "version": "Of Weir.",
    "python": "Version of the interpreter.",
    "le": "Upper bound of a bucket, in seconds.",
}
"""What each label says."""


@dataclass(frozen=True, slots=True)
class Family:
    """One of them."""

    name: str
    type: Type
    group: Group
    labels: tuple[str, ...]
    unit: str
    help: str
    """One sentence."""
    per_operator: bool = False
    """Told only where the setting `metrics_operators` asks for it."""

    @property
    def series(self) -> tuple[str, ...]:
        """Names that queries may use."""
        if self.type == "histogram":
            return tuple(f"{self.name}_{part}" for part in ("bucket", "count", "sum"))
        return (self.name,)


def families(
    group: Group, labels: tuple[str, ...], rows: Iterable[tuple[str, Type, str, str]]
) -> Iterable[Family]:
    """Of one group with the same labels."""
    return (
        Family(
            name=name,
            type=kind,
            group=group,
            labels=labels,
            unit=unit,
            help=text,
            per_operator="operator" in labels,
        )
        for name, kind, unit, text in rows
    )


FIGURES: Mapping[str, Field[Any]] = {
    f"weir_class_{figure.name}": figure for figure in fields(Figures) if GAUGE in figure.metadata
}
"""Figures of a class that are exported as they are, by family."""
FAMILIES: tuple[Family, ...] = (
    *families(
        "Shares and lending",
        CLASS,
        (
            ("weir_class_nominal_share_ratio", "gauge", "ratio", "Part of the lanes that the class's priority entitles it to."),
            ("weir_class_current_share_ratio", "gauge", "ratio", "Part of the lanes that the class has now, with what it lends and borrows."),
            ("weir_class_lower_share_ratio", "gauge", "ratio", "Part of the lanes below which lending never takes the class."),
            ("weir_class_upper_share_ratio", "gauge", "ratio", "Part of the lanes above which borrowing never brings the class."),
            ("weir_class_demand_share_ratio", "gauge", "ratio", "Part of the lanes that the class's offered load would need; it may exceed 1."),
            ("weir_class_target_share_ratio", "gauge", "ratio", "The demand within the lower and upper share: what the class would have if nobody else needed anything."),
            ("weir_class_lent_seconds_total", "counter", "seconds", "Processor time that the class has lent to others."),
            ("weir_class_borrowed_seconds_total", "counter", "seconds", "Processor time that the class has borrowed from others."),
            ("weir_class_reclaims_total", "counter", "requests", "Times that the class began to ask for capacity back that it had lent."),
            ("weir_class_reclaim_seconds_total", "counter", "seconds", "Time of the load cycles at whose end the class asked for capacity back: what owners wait."),
            ("weir_class_reclaims_overdue_total", "counter", "cycles", "Load cycles at whose end the class had to ask again, since a whole cycle had not brought its capacity back."),
        ),
    ),
    *families(
        "Shares and lending",
        ("tenant", "borrower"),
        (
            ("weir_loan_processors", "gauge", "processors", "What a tenant lends another at this moment."),
            ("weir_loan_seconds_total", "counter", "seconds", "Processor time that a tenant has lent another."),
        ),
    ),
    *families(
        "Shares and lending",
        ("kind",),
        (("weir_share_moves_total", "counter", "moves", "Times that shares have moved, on any node."),),
    ),
    *families(
        "Response times",
        CLASS,
        (
            ("weir_class_response_seconds", "histogram", "seconds", "Time from the arrival of the tuple that caused an answer to the answer, in buckets around the class's target."),
            ("weir_class_response_target_seconds", "gauge", "seconds", "Response time that the class is promised."),
            ("weir_class_results_in_time_total", "counter", "answers", "Answers that came within the target; exactly, where buckets are within 1%."),
        ),
    ),
    *families(
        "Tuples and shedding",
        STREAM_OF_CLASS,
        (
            ("weir_class_offered_tuples_total", "counter", "tuples", "Tuples of the stream that have come to the class's door."),
            ("weir_class_queued_tuples", "gauge", "tuples", "Tuples of the stream that wait to be taken by an operator."),
            ("weir_class_unaccounted_tuples", "gauge", "tuples", "Offered less those that have met a fate and those that are queued, at one moment: 0, or the ledger does not close."),
        ),
    ),
    *families(
        "Tuples and shedding",
        (*STREAM_OF_CLASS, "fate"),
        (("weir_class_tuples_total", "counter", "tuples", "Tuples of the stream that have met this fate in the class."),),
    ),
    *families(
        "Tuples and shedding",
        CLASS,
        (
            ("weir_class_shed_ratio", "gauge", "ratio", "Part of the input that the load manager has the door shed now; 0 of a lossless class."),
            ("weir_class_kept_ratio", "gauge", "ratio", "Part of the input that the load manager has the door let in now."),
            ("weir_class_max_drop_ratio", "gauge", "ratio", "Highest part of the input that may be shed; 0 of a lossless class."),
            ("weir_class_expired_tuples_total", "counter", "tuples", "Tuples that were dropped since they had waited for longer than the class allows (`max_age_ms`); they are shed ones, too."),
            ("weir_class_queue_bytes", "gauge", "bytes", "Bytes of tuples queued between the class's operators; of what waits at its door only tuples are known."),
            ("weir_class_queue_age_seconds", "gauge", "seconds", "How long the oldest tuple that no operator has taken has been in the system; 0 if none waits."),
            ("weir_class_queue_work_seconds", "gauge", "seconds", "Processor time that what is queued is believed to cost."),
            *((name, "gauge", *figure.metadata[GAUGE]) for name, figure in FIGURES.items()),
        ),
    ),
    *families(
        "The control loop",
        CLASS,
        (
            ("weir_class_headroom_processors", "gauge", "processors", "Capacity that the class can really spend on tuples, as its load manager has learned it."),
            ("weir_class_load_processors", "gauge", "processors", "Work that arrives, shed or not (offered load)."),
            ("weir_class_admitted_load_processors", "gauge", "processors", "Work that is let in."),
            ("weir_class_decisions_at_max_drop_total", "counter", "decisions", "Decisions that would have shed more than the class allows."),
            ("weir_class_asleep", "gauge", "boolean", "1 if the class has no input and neither runs nor reports."),
        ),
    ),
    *families(
        "The control loop",
        (*CLASS, "branch"),
        (("weir_class_decisions_total", "counter", "decisions", "Load cycles that ended in this branch of ALoMa's table."),),
    ),
    *families(
        "The control loop",
        (*CLASS, "state"),
        (("weir_class_state", "gauge", "boolean", "1 for the state that the class is in, the most serious of those that apply; other states have no series."),),
    ),
    *families(
        "Work",
        CLASS,
        (
            ("weir_class_slices_total", "counter", "slices", "Turns that the class has run."),
            ("weir_class_overruns_total", "counter", "slices", "Turns that took more than twice their quota."),
            ("weir_class_overrun_seconds_total", "counter", "seconds", "Processor time that turns took beyond their quotas."),
            ("weir_class_processor_seconds_total", "counter", "seconds", "Processor time of the class's turns."),
            ("weir_class_ingest_seconds_total", "counter", "seconds", "Processor time of taking the class's input in, outside its turns."),
            ("weir_class_restarts_total", "counter", "restarts", "Times that a part of the class went on in another process, since the service began."),
            ("weir_class_units", "gauge", "units", "Parts of the class that have reported: its shards."),
            ("weir_class_queries", "gauge", "queries", "Queries of the class."),
        ),
    ),
    *families(
        "Queries",
        QUERY,
        (
            ("weir_query_results_total", "counter", "answers", "Answers of the query; at most 1,000 queries of a class are told."),
            ("weir_query_lost_utility_total", "counter", "answers", "What the query's answers were worth less than 1 by its QoS graph, together: 0 if none came late, their number if all came too late for anything."),
            ("weir_query_missed_deadlines_total", "counter", "answers", "Answers of the query that came after the deadline of its QoS graph."),
            ("weir_query_slowdown_total", "counter", "ratio", "Slowdowns of the query's answers together: response time over what an answer costs alone, as its operators are measured."),
            ("weir_query_stale_seconds_total", "counter", "seconds", "Time for which the query's output was behind: input had arrived whose answer was not out yet; of several shards the sum."),
            ("weir_query_tardy_answers_total", "counter", "answers", "Answers of the query's windows that came more than a pane after they fell due."),
            ("weir_query_tardiness_seconds_total", "counter", "seconds", "How long after that they came, of all of these answers together."),
            ("weir_query_failed_tuples_total", "counter", "tuples", "Tuples that failed in operators of the query, or found no room there."),
            ("weir_query_failed_ratio", "gauge", "ratio", "Part of the tuples of the last minute of input that failed in an operator of the query, or found no room there; the largest of its operators; queries without such tuples have no series."),
        ),
    ),
    *families(
        "Operators",
        OPERATOR,
        (
            ("weir_operator_cost_seconds", "gauge", "seconds", "Processor time of one input tuple, as it is measured."),
            ("weir_operator_selectivity_ratio", "gauge", "ratio", "Output tuples of one input tuple, as it is measured."),
            ("weir_operator_queued_tuples", "gauge", "tuples", "Tuples that wait for the operator."),
        ),
    ),
    *families(
        "Streams and feeds",
        STREAM,
        (
            ("weir_stream_rows_total", "counter", "rows", "Rows that the gateway has accepted."),
            ("weir_stream_batches_total", "counter", "batches", "Batches that the gateway has accepted."),
            ("weir_stream_refused_batches_total", "counter", "batches", "Batches that producers were told to bring again or that could not be taken."),
            ("weir_stream_dead_letters_total", "counter", "rows", "Rows that could not be, kept with the reason."),
            ("weir_stream_retained_bytes", "gauge", "bytes", "Input that is kept for recovery."),
            ("weir_stream_retained_limit_bytes", "gauge", "bytes", "Most input that is kept for recovery."),
            ("weir_stream_producers", "gauge", "producers", "Producers that number their batches."),
        ),
    ),
    *families(
        "Streams and feeds",
        FEED,
        (
            ("weir_feed_rows_total", "counter", "rows", "Rows that Spark has read; after a failure some may be read again."),
            ("weir_feed_lag_rows", "gauge", "rows", "Offsets that the source has and that are not done, where it tells."),
            ("weir_feed_batch_seconds", "gauge", "seconds", "What Spark's last micro-batch took."),
            ("weir_feed_restarts_total", "counter", "restarts", "Times that the feed's query was started again after a failure."),
            ("weir_feed_running", "gauge", "boolean", "1 if the feed's query runs, 0 while it begins, waits after a failure, or no process runs it."),
        ),
    ),
    *families(
        "Mirrors",
        MIRROR,
        (
            ("weir_mirror_perceived_freshness_ratio", "gauge", "ratio", "Part of the uses of the last minutes that found a fresh copy, as measured; not told before an object was polled twice."),
            ("weir_mirror_expected_freshness_ratio", "gauge", "ratio", "The same by the refresh frequencies, if rates of change and interests are as estimated."),
            ("weir_mirror_objects", "gauge", "objects", "Remote objects that the mirror copies."),
            ("weir_mirror_held_objects", "gauge", "objects", "Objects that have been fetched."),
            ("weir_mirror_failing_objects", "gauge", "objects", "Objects whose last poll failed."),
            ("weir_mirror_bandwidth_used_ratio", "gauge", "ratio", "Part of the mirror's bandwidth that polls have used in the last ten seconds."),
            ("weir_mirror_bytes_total", "counter", "bytes", "Bytes that polls have brought, whatever the bandwidth's unit."),
            ("weir_mirror_rows_total", "counter", "rows", "Rows of the mirror that its stream has taken."),
            ("weir_mirror_uses_total", "counter", "uses", "Uses of objects that answers of the mirror's query for lookups have told."),
            ("weir_mirror_solves_total", "counter", "times", "Times that refresh frequencies were solved for."),
            ("weir_mirror_running", "gauge", "boolean", "1 if the mirror polls, 0 while it begins or waits after it could not."),
        ),
    ),
    *families(
        "Mirrors",
        (*MIRROR, "result"),
        (("weir_mirror_polls_total", "counter", "polls", "Looks at objects, by what came of them."),),
    ),
    *families(
        "Nodes",
        NODE,
        (
            ("weir_node_lanes", "gauge", "processors", "Processors of the node that are given to queries."),
            ("weir_node_rounds_total", "counter", "rounds", "Rounds of the weighted round robin."),
            ("weir_node_slices_total", "counter", "slices", "Turns that were given."),
            ("weir_node_overdue_slices_total", "counter", "slices", "Turns that lasted so long that the lane went on without them."),
            ("weir_node_busy_seconds_total", "counter", "seconds", "Time that lanes were in somebody's turn, with handing over."),
            ("weir_node_slice_seconds_total", "counter", "seconds", "Time that hosts have spent inside turns."),
            ("weir_node_scheduling_seconds_total", "counter", "seconds", "Time that turns took beside their slices: deciding and handing over."),
            ("weir_node_processor_seconds_total", "counter", "seconds", "Processor time of turns."),
            ("weir_node_idle_seconds_total", "counter", "seconds", "Time that lanes had nobody to run."),
            ("weir_node_units", "gauge", "units", "Parts of classes that are placed on the node."),
        ),
    ),
    *families(
        "Nodes",
        ("actor", "node"),
        (("weir_restarts_total", "counter", "restarts", "Processes that were started again, as the service has seen since it began; the coordinator has no node."),),
    ),
    *families(
        "The system",
        (),
        (
            ("weir_units_unplaced", "gauge", "units", "Parts of classes for which there is no node."),
            ("weir_actors_quarantined", "gauge", "actors", "Actors that do not answer."),
            ("weir_reports_lost_total", "counter", "reports", "Reports of hosts for which the coordinator had no time."),
            ("weir_problems", "gauge", "problems", "Reasons why something does not run as it is declared."),
            ("weir_view_age_seconds", "gauge", "seconds", "How old what is told here is; it grows while the coordinator does not answer."),
            ("weir_service_uptime_seconds", "gauge", "seconds", "How long the service has been running."),
        ),
    ),
    *families(
        "The system",
        ("version", "python"),
        (("weir_build_info", "info", "", "1, with what this is."),),
    ),
)  # fmt: skip

BY_NAME: dict[str, Family] = {family.name: family for family in FAMILIES}
