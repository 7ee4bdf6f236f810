"""Table of all metric families of Weir, with type, unit, labels and help text.

The collector, `docs/metrics.md`, the alert rules and the dashboards use only families from this table. Names are those used in
PromQL. Shares are named as in Kubernetes' API priority and fairness: nominal, lower, upper, current, demand and target. Ratios of
shares are parts of all lanes of all nodes. The unit *processors* counts lanes: 2 processors are the time of two lanes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, dataclass, fields
from typing import Any, Literal

from actors.messages.unit_messages import GAUGE, Figures
from loadshed.aloma import AlomaBranch
from services.watch.states import ClassState

Type = Literal["counter", "gauge", "histogram", "info"]

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
    "tenant": "Name of the tenant. In metrics of loans, name of the tenant that lends.",
    "priority_class": "Name of the priority class that the tenant is declared with. Empty if the system runs without a catalog.",
    "query": "Name of the tenant's query.",
    "stream": "Name of the stream as declared. In metrics of feeds and mirrors, name of the feed or mirror; a mirror's stream has the mirror's name.",
    "node": "Name of the machine.",
    "borrower": "Name of the tenant that borrows. Only the 500 pairs with the most lent time have series.",
    "fate": f"Outcome of a tuple: {', '.join(FATES)}. Queued tuples have no fate yet; a separate gauge counts them.",
    "result": f"Outcome of a poll: {', '.join(RESULTS)}.",
    "branch": f"Branch of the load manager's (ALoMa's) decision table: {', '.join(BRANCHES)}.",
    "state": f"State of the class: {', '.join(STATES)}.",
    "kind": f"Reason for a move of shares: {', '.join(MOVES)}. `classes` means that classes were added, removed or changed.",
    "actor": f"Kind of the process that was restarted: {', '.join(ACTORS)}.",
    "operator": "Number and name of the operator in the tenant's plan.",
    "version": "Version of Weir.",
    "python": "Version of the Python interpreter.",
    "le": "Upper bound of a histogram bucket, in seconds.",
}
"""Meaning of each label, as `docs/metrics.md` shows it."""


@dataclass(frozen=True, slots=True)
class Family:
    """One metric family."""

    name: str
    type: Type
    group: str
    labels: tuple[str, ...]
    unit: str
    help: str
    """Help text: one sentence."""

    @property
    def per_operator(self) -> bool:
        """True for a family that is exported only if the setting `metrics_operators` is on."""
        return "operator" in self.labels

    @property
    def series(self) -> tuple[str, ...]:
        """Names of the time series of the family, as PromQL uses them."""
        if self.type == "histogram":
            return tuple(f"{self.name}_{part}" for part in ("bucket", "count", "sum"))
        return (self.name,)


FIGURES: Mapping[str, Field[Any]] = {
    f"weir_class_{figure.name}": figure for figure in fields(Figures) if GAUGE in figure.metadata
}
"""Fields of `Figures` that are exported unchanged, by family name."""
Row = tuple[str, Type, str, str]
TABLE: tuple[tuple[str, tuple[str, ...], tuple[Row, ...]], ...] = (
    ("Shares and lending", CLASS, (
        ("weir_class_nominal_share_ratio", "gauge", "ratio", "Part of the lanes that the class's priority entitles it to."),
        ("weir_class_current_share_ratio", "gauge", "ratio", "Part of the lanes that the class has now, including borrowed and excluding lent capacity."),
        ("weir_class_lower_share_ratio", "gauge", "ratio", "Lower bound of the class's share: lending never reduces the share below this part of the lanes."),
        ("weir_class_upper_share_ratio", "gauge", "ratio", "Upper bound of the class's share: borrowing never raises the share above this part of the lanes."),
        ("weir_class_demand_share_ratio", "gauge", "ratio", "Part of the lanes that the class's offered load would need; may exceed 1."),
        ("weir_class_target_share_ratio", "gauge", "ratio", "Share that the class would have if no other class needed capacity: its demand, limited to its lower and upper share."),
        ("weir_class_lent_seconds_total", "counter", "seconds", "Processor time that the class has lent to other classes."),
        ("weir_class_borrowed_seconds_total", "counter", "seconds", "Processor time that the class has borrowed from other classes."),
        ("weir_class_reclaims_total", "counter", "requests", "Number of times that the class started to ask for lent capacity back."),
        ("weir_class_reclaim_seconds_total", "counter", "seconds", "Time for which the class waited for lent capacity: total length of the load cycles at the end of which the class asked for capacity back."),
        ("weir_class_reclaims_overdue_total", "counter", "cycles", "Number of load cycles at the end of which the class repeated its request for lent capacity, because the capacity had not come back within a whole cycle."),
    )),
    ("Shares and lending", ("tenant", "borrower"), (
        ("weir_loan_processors", "gauge", "processors", "Number of processors that one tenant lends to another now."),
        ("weir_loan_seconds_total", "counter", "seconds", "Processor time that one tenant has lent to another."),
    )),
    ("Shares and lending", ("kind",), (
        ("weir_share_moves_total", "counter", "moves", "Number of times that shares of lanes moved between classes, on all nodes."),
    )),
    ("Response times", CLASS, (
        ("weir_class_response_seconds", "histogram", "seconds", "Time from the arrival of the tuple that caused an answer to the answer, in buckets around the class's delay target."),
        ("weir_class_response_target_seconds", "gauge", "seconds", "Delay target: the response time promised to the class."),
        ("weir_class_results_in_time_total", "counter", "answers", "Number of answers within the delay target: an exact count, while buckets of response times are accurate to 1%."),
    )),
    ("Tuples and shedding", STREAM_OF_CLASS, (
        ("weir_class_offered_tuples_total", "counter", "tuples", "Number of tuples of the stream that were offered to the class."),
        ("weir_class_queued_tuples", "gauge", "tuples", "Number of tuples of the stream that wait for an operator of the class."),
        ("weir_class_unaccounted_tuples", "gauge", "tuples", "Number of offered tuples, minus tuples with a fate, minus queued tuples, at one moment; any value but 0 is a defect of Weir."),
    )),
    ("Tuples and shedding", (*STREAM_OF_CLASS, "fate"), (
        ("weir_class_tuples_total", "counter", "tuples", "Number of tuples of the stream with this fate in the class."),
    )),
    ("Tuples and shedding", CLASS, (
        ("weir_class_shed_ratio", "gauge", "ratio", "Part of the input that the class sheds now, as its load manager decided; 0 for a lossless class."),
        ("weir_class_kept_ratio", "gauge", "ratio", "Part of the input that the class lets in now, as its load manager decided."),
        ("weir_class_max_drop_ratio", "gauge", "ratio", "Largest part of the input that the class may shed (`max_drop`); 0 for a lossless class."),
        ("weir_class_expired_tuples_total", "counter", "tuples", "Number of tuples dropped because they had waited longer than the class allows (`max_age_ms`); such tuples also count as shed."),
        ("weir_class_queue_bytes", "gauge", "bytes", "Bytes of tuples queued between the class's operators, without tuples that no operator has taken yet."),
        ("weir_class_queue_age_seconds", "gauge", "seconds", "Time since the arrival of the oldest tuple that no operator has taken; 0 if no tuple waits."),
        ("weir_class_queue_work_seconds", "gauge", "seconds", "Estimated processor time needed to process all queued tuples."),
        *((name, "gauge", *figure.metadata[GAUGE]) for name, figure in FIGURES.items()),
    )),
    ("The control loop", CLASS, (
        ("weir_class_headroom_processors", "gauge", "processors", "Capacity that the class can really spend on tuples, as learned by its load manager."),
        ("weir_class_load_processors", "gauge", "processors", "Offered load: processors needed for all arriving tuples, including those that are shed."),
        ("weir_class_admitted_load_processors", "gauge", "processors", "Admitted load: processors needed for the tuples that are let in."),
        ("weir_class_decisions_at_max_drop_total", "counter", "decisions", "Number of load manager decisions that would have shed more than the class allows."),
        ("weir_class_asleep", "gauge", "boolean", "1 if the class is asleep: a class without input neither runs nor reports."),
    )),
    ("The control loop", (*CLASS, "branch"), (
        ("weir_class_decisions_total", "counter", "decisions", "Number of load cycles that ended in this branch of the load manager's (ALoMa's) decision table."),
    )),
    ("The control loop", (*CLASS, "state"), (
        ("weir_class_state", "gauge", "boolean", "1 for the current state of the class, the most serious if several apply; other states have no series."),
    )),
    ("Work", CLASS, (
        ("weir_class_slices_total", "counter", "slices", "Number of turns (slices) that the class has run."),
        ("weir_class_overruns_total", "counter", "slices", "Number of turns that took more than twice their quota."),
        ("weir_class_overrun_seconds_total", "counter", "seconds", "Processor time that the class's turns used beyond their quotas."),
        ("weir_class_processor_seconds_total", "counter", "seconds", "Processor time of the class's turns."),
        ("weir_class_ingest_seconds_total", "counter", "seconds", "Processor time spent on reading the class's input, outside its turns."),
        ("weir_class_restarts_total", "counter", "restarts", "Number of times that a shard of the class continued in another process, since the service started."),
        ("weir_class_units", "gauge", "units", "Number of shards of the class that have reported."),
        ("weir_class_queries", "gauge", "queries", "Number of queries of the class."),
    )),
    ("Queries", QUERY, (
        ("weir_query_results_total", "counter", "answers", "Number of answers of the query; only the first 1,000 queries of a class have series."),
        ("weir_query_lost_utility_total", "counter", "answers", "Utility lost by late answers of the query: the sum of 1 minus the utility of each answer, which is 0 if all answers were in time."),
        ("weir_query_missed_deadlines_total", "counter", "answers", "Number of answers of the query after the deadline, where the query's QoS graph begins to fall."),
        ("weir_query_slowdown_total", "counter", "ratio", "Sum of the slowdowns of the query's answers; a slowdown is the response time divided by the processor time that the answer needs alone."),
        ("weir_query_stale_seconds_total", "counter", "seconds", "Time for which the query's output was stale, summed over all shards: input had arrived, and the answer to this input was not out yet."),
        ("weir_query_tardy_answers_total", "counter", "answers", "Number of window answers of the query that came more than a pane after they were due."),
        ("weir_query_tardiness_seconds_total", "counter", "seconds", "Total tardiness of the query's window answers: the time after the deadline, which is a pane after an answer is due."),
        ("weir_query_failed_tuples_total", "counter", "tuples", "Number of tuples that failed in an operator of the query or found no room in its state."),
        ("weir_query_failed_ratio", "gauge", "ratio", "Part of the last minute's input that failed in an operator of the query, for the operator with the most failures; no series without failures."),
    )),
    ("Operators", OPERATOR, (
        ("weir_operator_cost_seconds", "gauge", "seconds", "Measured processor time per input tuple."),
        ("weir_operator_selectivity_ratio", "gauge", "ratio", "Measured number of output tuples per input tuple."),
        ("weir_operator_queued_tuples", "gauge", "tuples", "Number of tuples that wait for the operator."),
    )),
    ("Streams and feeds", STREAM, (
        ("weir_stream_rows_total", "counter", "rows", "Number of rows that the node's gateway has accepted."),
        ("weir_stream_batches_total", "counter", "batches", "Number of batches that the node's gateway has accepted."),
        ("weir_stream_refused_batches_total", "counter", "batches", "Number of batches that the gateway refused because the stream's log was full; producers send such batches again later."),
        ("weir_stream_dead_letters_total", "counter", "rows", "Number of rows rejected for a missing event time or a value that does not fit its column; rejected rows are kept with the reason."),
        ("weir_stream_retained_bytes", "gauge", "bytes", "Bytes of input in the stream's log, kept for recovery."),
        ("weir_stream_retained_limit_bytes", "gauge", "bytes", "Size limit of the stream's log, in which input is kept for recovery."),
        ("weir_stream_producers", "gauge", "producers", "Number of producers of which the gateway remembers the last batch number, so that a repeated batch counts once."),
    )),
    ("Streams and feeds", FEED, (
        ("weir_feed_rows_total", "counter", "rows", "Number of rows that Spark has read; rows read again after a failure count again."),
        ("weir_feed_lag_rows", "gauge", "rows", "Number of offsets at the source that Spark has not processed yet, for sources that report their newest offset."),
        ("weir_feed_batch_seconds", "gauge", "seconds", "Duration of Spark's last micro-batch."),
        ("weir_feed_restarts_total", "counter", "restarts", "Number of times that the feed's query was restarted after a failure."),
        ("weir_feed_running", "gauge", "boolean", "1 if the feed's query runs; 0 while the query starts or waits after a failure, or while no process runs the query."),
    )),
    ("Mirrors", MIRROR, (
        ("weir_mirror_perceived_freshness_ratio", "gauge", "ratio", "Measured part of the uses of the mirror's objects that found a fresh copy in the last minutes; no series before an object was polled twice."),
        ("weir_mirror_expected_freshness_ratio", "gauge", "ratio", "Part of the uses of the mirror's objects that is expected to find a fresh copy, computed from refresh frequencies and from estimated change rates and interests."),
        ("weir_mirror_objects", "gauge", "objects", "Number of remote objects that the mirror copies."),
        ("weir_mirror_held_objects", "gauge", "objects", "Number of remote objects that have been fetched at least once."),
        ("weir_mirror_failing_objects", "gauge", "objects", "Number of remote objects of which the last poll has failed."),
        ("weir_mirror_bandwidth_used_ratio", "gauge", "ratio", "Part of the mirror's bandwidth that polls used in the last ten seconds."),
        ("weir_mirror_bytes_total", "counter", "bytes", "Bytes fetched by polls, also if the bandwidth is declared in polls."),
        ("weir_mirror_rows_total", "counter", "rows", "Number of rows of the mirror that were published to its stream."),
        ("weir_mirror_uses_total", "counter", "uses", "Number of uses of objects, counted from the answers of the mirror's lookup query."),
        ("weir_mirror_solves_total", "counter", "times", "Number of times that refresh frequencies were recomputed."),
        ("weir_mirror_running", "gauge", "boolean", "1 if the mirror polls; 0 while the mirror starts or waits after a failed start."),
    )),
    ("Mirrors", (*MIRROR, "result"), (
        ("weir_mirror_polls_total", "counter", "polls", "Number of polls of objects with this result."),
    )),
    ("Nodes", NODE, (
        ("weir_node_lanes", "gauge", "processors", "Number of the node's processors that run queries (lanes)."),
        ("weir_node_rounds_total", "counter", "rounds", "Number of rounds of the weighted round robin on the node."),
        ("weir_node_slices_total", "counter", "slices", "Number of turns that were granted to classes on the node."),
        ("weir_node_overdue_slices_total", "counter", "slices", "Number of turns so overdue that the lane was given to another class."),
        ("weir_node_busy_seconds_total", "counter", "seconds", "Time for which lanes were granted to a class, including scheduling."),
        ("weir_node_slice_seconds_total", "counter", "seconds", "Time that class hosts spent inside turns, without scheduling."),
        ("weir_node_scheduling_seconds_total", "counter", "seconds", "Time that lanes spent on scheduling: deciding on turns and handing lanes over."),
        ("weir_node_processor_seconds_total", "counter", "seconds", "Processor time used in turns."),
        ("weir_node_idle_seconds_total", "counter", "seconds", "Time for which lanes had no class to run."),
        ("weir_node_units", "gauge", "units", "Number of shards of classes that are placed on the node."),
    )),
    ("Nodes", ("actor", "node"), (
        ("weir_restarts_total", "counter", "restarts", "Number of process restarts that the service has seen since it started; the coordinator has an empty node label."),
    )),
    ("The system", (), (
        ("weir_units_unplaced", "gauge", "units", "Number of shards of classes that are placed on no node."),
        ("weir_actors_quarantined", "gauge", "actors", "Number of Ray actors (processes) that do not answer, and that are not called again until they answer."),
        ("weir_reports_lost_total", "counter", "reports", "Number of reports from class hosts that the coordinator discarded because it was overloaded."),
        ("weir_problems", "gauge", "problems", "Number of problems that keep declared objects from running; `GET /v1/system` lists them."),
        ("weir_view_age_seconds", "gauge", "seconds", "Age of the figures of this scrape, which grows while the coordinator does not answer."),
        ("weir_service_uptime_seconds", "gauge", "seconds", "Time since the service started."),
    )),
    ("The system", ("version", "python"), (
        ("weir_build_info", "info", "", "Always 1; the labels hold the versions of Weir and Python."),
    )),
)  # fmt: skip
"""Groups of families: name of the group, labels, and a row of name, type, unit and help text per family."""
FAMILIES = tuple(
    Family(name=name, type=kind, group=group, labels=labels, unit=unit, help=text)
    for group, labels, rows in TABLE
    for name, kind, unit, text in rows
)
BY_NAME: dict[str, Family] = {family.name: family for family in FAMILIES}
