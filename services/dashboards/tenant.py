"""The Tenant dashboard: response times, losses, capacity and operators of one tenant."""

from __future__ import annotations

from services.dashboards.boards import (
    BLUE,
    GREEN,
    GREY,
    OBJECTIVE_REACHED,
    OF_TARGET,
    OF_TENANT,
    ONE_TENANT,
    ORANGE,
    PER_S,
    QUERY,
    RED,
    ROWS_PER_S,
    YELLOW,
    Board,
    Panel,
    PanelQuery,
    Row,
    in_time_by,
    lost_by,
    of_target_by,
    per_second,
    quantile_by,
    rate_by,
    ratio_by,
)
from services.watch.states import TROUBLED, WARNED, ClassState

OF_QUERIES = f'{OF_TENANT}, query=~"$query"'
WITH_FAILURES = "the tenant has a query in which rows fail"
ANSWERS_GIVEN = "its queries give answers"
OPERATORS_TOLD = "`metrics_operators` is set"


def state_colour(state: ClassState) -> str:
    """Return the colour of a class's state: red and orange need attention, green is good, and blue is neither."""
    if state in TROUBLED:
        return RED
    if state in WARNED:
        return ORANGE
    return GREEN if state in (ClassState.WITHIN_TARGET, ClassState.RUNNING) else BLUE


def of_tenant(series: str) -> str:
    """Return PromQL for the sum of a tenant's series over all priority classes that the tenant has had."""
    return f"sum by (tenant) ({series}{{{OF_TENANT}}})"


def part_of_answers(series: str) -> str:
    """Return PromQL for the rate of a counter divided by the rate of all answers, per query. A query without answers has no value."""
    return ratio_by("query", series, "weir_query_results_total", OF_QUERIES)


IN_SHORT = Row(
    "Summary",
    (
        Panel(
            "In time",
            "Part of the tenant's answers within its delay target; 95% is promised.",
            "percentunit",
            (PanelQuery(in_time_by("tenant", OF_TENANT)),),
            kind="stat", width=4, height=5, thresholds=OBJECTIVE_REACHED, max=1, decimals=1,
            empty_unless=ANSWERS_GIVEN,
        ),
        Panel(
            "p95 relative to target",
            "95th percentile of the tenant's response times, divided by its delay target. Above 100%, the promise is broken.",
            "percentunit",
            (PanelQuery(of_target_by("tenant", OF_TENANT)),),
            kind="stat", width=4, height=5, thresholds=OF_TARGET, decimals=0,
            empty_unless=ANSWERS_GIVEN,
        ),
        Panel(
            "Input lost",
            "Part of the tenant's input that was not processed: shed, late, rejected or failed.",
            "percentunit",
            (PanelQuery(lost_by("tenant", OF_TENANT)),),
            kind="stat", width=4, height=5, thresholds=((None, GREEN), (0.001, YELLOW)), max=1, decimals=1,
            empty_unless="the tenant has input",
        ),
        Panel(
            "Share of the lanes",
            "Part of all lanes that the tenant has now, including borrowed and excluding lent capacity.",
            "percentunit",
            (PanelQuery(of_tenant("weir_class_current_share_ratio")),),
            kind="stat", width=4, height=5, thresholds=((None, BLUE),), max=1, decimals=1,
        ),
        Panel(
            "Oldest tuple in queue",
            "Time since the arrival of the tenant's oldest waiting tuple. If this time is close to the delay target, answers are about to be late.",
            "s",
            (PanelQuery(f"max by (tenant) (weir_class_queue_age_seconds{{{OF_TENANT}}})"),),
            kind="stat", width=4, height=5, thresholds=((None, BLUE),),
        ),
        Panel(
            "State",
            "A tenant without input is asleep: it takes no turns and sends no reports until its next tuple arrives.",
            "short",
            (PanelQuery(f"max by (tenant) (weir_class_asleep{{{OF_TENANT}}})"),),
            kind="stat", width=4, height=5, thresholds=((None, GREEN), (1, BLUE)),
            texts={"0": "awake", "1": "asleep"},
        ),
    ),
)  # fmt: skip

RESPONSE = Row(
    "Response time",
    (
        Panel(
            "Response time against target",
            "Time from the arrival of the tuple that caused an answer until the answer leaves. 95% of the answers are faster than p95. The dashed line is the delay target.",
            "s",
            (
                PanelQuery(quantile_by("tenant", 0.5, OF_TENANT), "p50"),
                PanelQuery(quantile_by("tenant", 0.95, OF_TENANT), "p95"),
                PanelQuery(quantile_by("tenant", 0.99, OF_TENANT), "p99"),
                PanelQuery(f"max by (tenant) (weir_class_response_target_seconds{{{OF_TENANT}}})", "target"),
            ),
            width=12, limits=("target",),
        ),
        Panel(
            "Distribution of response times",
            "Answers per second by response time. Two bands mean that there are two kinds of answers, or that a burst was processed.",
            "s",
            (PanelQuery(rate_by("le", "weir_class_response_seconds_bucket", OF_TENANT), "{{le}}"),),
            kind="heatmap", width=12,
        ),
    ),
)  # fmt: skip

WORTH = Row(
    "Quality of answers",
    (
        Panel(
            "Utility by query",
            "Mean utility of the answers, read from the query's QoS graph at their response times. 100% means that all answers are in time, 0% that all answers are too late to be of use.",
            "percentunit",
            (PanelQuery(f"clamp_min(1 - {part_of_answers('weir_query_lost_utility_total')}, 0)", "{{query}}"),),
            max=1, empty_unless=ANSWERS_GIVEN,
        ),
        Panel(
            "Missed deadlines by query",
            "Part of the answers after the deadline, where utility begins to fall. Many missed deadlines with a high utility mean that answers are only slightly late.",
            "percentunit",
            (PanelQuery(part_of_answers("weir_query_missed_deadlines_total"), "{{query}}"),),
            empty_unless=ANSWERS_GIVEN,
        ),
        Panel(
            "Slowdown by query",
            "Mean of response time divided by the processor time that an answer needs alone. The slowdown makes queries of very different cost comparable.",
            "short",
            (PanelQuery(part_of_answers("weir_query_slowdown_total"), "{{query}}"),),
            empty_unless=ANSWERS_GIVEN,
        ),
        Panel(
            "Staleness by query",
            "Part of the time for which the output was stale: input had arrived and its answer was not out yet. At 100%, the query never catches up with its input.",
            "percentunit",
            (
                PanelQuery(
                    f"sum by (tenant, query) ({per_second('weir_query_stale_seconds_total', OF_QUERIES)})"
                    f" / on (tenant) group_left () max by (tenant) (weir_class_units{{{OF_TENANT}}})",
                    "{{query}}",
                ),
            ),
            empty_unless=ANSWERS_GIVEN,
        ),
        Panel(
            "Tardy results by query",
            "Part of the window answers that came more than a pane after the answer was due; 0 for queries without windows. "
            "With SLIDE AT MOST, the promised window end counts.",
            "percentunit",
            (PanelQuery(part_of_answers("weir_query_tardy_answers_total"), "{{query}}"),),
            empty_unless=ANSWERS_GIVEN,
        ),
        Panel(
            "Tardiness by query",
            "Mean time that window answers came after their deadline, which is a pane after an answer is due. Answers in time count as 0; the mean is over all answers.",
            "s",
            (PanelQuery(part_of_answers("weir_query_tardiness_seconds_total"), "{{query}}"),),
            empty_unless=ANSWERS_GIVEN,
        ),
        Panel(
            "Failed part by query",
            "Part of the rows in the last minute of input that failed in the query, or found no room in its state. `weir query quality` shows the reason.",
            "percentunit",
            (PanelQuery(f"max by (query) (weir_query_failed_ratio{{{OF_QUERIES}}})", "{{query}}"),),
            width=12, empty_unless=WITH_FAILURES,
        ),
        Panel(
            "Failed rows by query",
            "Rows per second that failed in the query, or found no room in its state. Failed rows are in no answer, and count as delivered in the ledger.",
            ROWS_PER_S,
            (PanelQuery(f"sum by (query) ({per_second('weir_query_failed_tuples_total', OF_QUERIES)})", "{{query}}"),),
            width=12, empty_unless=ANSWERS_GIVEN,
        ),
    ),
)  # fmt: skip

DATA = Row(
    "Input",
    (
        Panel(
            "Tuples by fate",
            "Tuples per second. Delivered: passed to operators. Shed: dropped by decision. Late: behind the stream's watermark, so in no answer. "
            "Rejected: no room in a queue. Failed: lost to a failure.",
            ROWS_PER_S,
            (PanelQuery(rate_by("fate", "weir_class_tuples_total", OF_TENANT), "{{fate}}"),),
            width=8, stacked=True,
        ),
        Panel(
            "Shed now, and at most",
            "Part of the tenant's input that is shed. The dashed line is the maximum that the tenant allows (`max_drop`). When shedding reaches this line, response times rise next.",
            "percentunit",
            (
                PanelQuery(f"max by (tenant) (weir_class_shed_ratio{{{OF_TENANT}}})", "shed"),
                PanelQuery(f"max by (tenant) (weir_class_max_drop_ratio{{{OF_TENANT}}})", "at most"),
            ),
            width=8, max=1, limits=("at most",),
        ),
        Panel(
            "Offered by stream",
            "Tuples per second offered to the tenant, by stream.",
            ROWS_PER_S,
            (PanelQuery(rate_by("stream", "weir_class_offered_tuples_total", OF_TENANT), "{{stream}}"),),
            width=8, stacked=True,
        ),
        Panel(
            "State of the class",
            "Current state of the tenant's class (the most serious if several apply), and the number of its shards with a full queue. "
            "Producers may have to wait for such shards.",
            "short",
            (
                PanelQuery(f"max by (state) (weir_class_state{{{OF_TENANT}}})", "{{state}}"),
                PanelQuery(of_tenant("weir_class_held_back"), "shards held back"),
            ),
            width=12, colours={state.name.lower(): state_colour(state) for state in ClassState} | {"shards held back": GREY},
        ),
        Panel(
            "Too old",
            "Tuples per second dropped because they had waited longer than `max_age_ms`; they also count as shed.",
            ROWS_PER_S,
            (PanelQuery(rate_by("tenant", "weir_class_expired_tuples_total", OF_TENANT), "too old"),),
            width=12,
        ),
        Panel(
            "Queued by stream",
            "Tuples that wait for their first operator, by stream. A queue that does not shrink means that the load exceeds the tenant's capacity.",
            "short",
            (PanelQuery(f"sum by (stream) (weir_class_queued_tuples{{{OF_TENANT}}})", "{{stream}}"),),
            width=8, stacked=True,
        ),
        Panel(
            "Memory",
            "Bytes of the tenant's windows, groups and queues, and of the part of its log that no snapshot covers. Wide windows and many groups use the most.",
            "bytes",
            (
                PanelQuery(of_tenant("weir_class_state_bytes"), "all state"),
                PanelQuery(of_tenant("weir_class_queue_bytes"), "queues (part of state)"),
                PanelQuery(of_tenant("weir_class_unsaved_bytes"), "log since the last snapshots"),
            ),
            width=8,
        ),
        Panel(
            "Answers by query",
            "Answers per second of each of the tenant's queries.",
            ROWS_PER_S,
            (PanelQuery(rate_by("query", "weir_query_results_total", OF_QUERIES), "{{query}}"),),
            width=8, stacked=True,
        ),
    ),
)  # fmt: skip

CAPACITY = Row(
    "Capacity",
    (
        Panel(
            "Shares",
            "Parts of all lanes. Entitled: original share by priority. Now: current share, after lending and borrowing. "
            "Wanted: share that the load needs, within the bounds of lending. If \"now\" is below \"entitled\", the tenant lends.",
            "percentunit",
            (
                PanelQuery(of_tenant("weir_class_nominal_share_ratio"), "entitled"),
                PanelQuery(of_tenant("weir_class_current_share_ratio"), "now"),
                PanelQuery(of_tenant("weir_class_target_share_ratio"), "wanted"),
            ),
            width=8, limits=("entitled",),
        ),
        Panel(
            "Load against headroom",
            "Load and headroom in processors. Headroom is the capacity that the tenant can really spend on tuples; load above it is shed or makes answers late.",
            "short",
            (
                PanelQuery(of_tenant("weir_class_load_processors"), "arrives"),
                PanelQuery(of_tenant("weir_class_admitted_load_processors"), "let in"),
                PanelQuery(of_tenant("weir_class_headroom_processors"), "headroom"),
            ),
            width=8, limits=("headroom",),
        ),
        Panel(
            "Lent and borrowed",
            "Processors that the tenant lends to other tenants and borrows from them now, by name.",
            "short",
            (
                PanelQuery(f"sum by (borrower) (weir_loan_processors{{{OF_TENANT}}})", "to {{borrower}}"),
                PanelQuery('sum by (tenant) (weir_loan_processors{borrower=~"$tenant"})', "from {{tenant}}"),
            ),
            width=8, empty_unless="the tenant has lent or borrowed",
        ),
        Panel(
            "Decisions of the load manager",
            "Load cycles per second, by the branch of the load manager's decision table. \"drop_more\": the load rises. \"hold\": the tenant waits for lent capacity.",
            PER_S,
            (PanelQuery(rate_by("branch", "weir_class_decisions_total", OF_TENANT), "{{branch}}"),),
            width=12, stacked=True,
        ),
        Panel(
            "Waiting for lent capacity",
            "Part of the time for which the tenant waited for lent capacity. Each wait should be at most one load cycle.",
            "percentunit",
            (PanelQuery(f"sum by (tenant) ({per_second('weir_class_reclaim_seconds_total', OF_TENANT)})", "waiting"),),
            width=6,
        ),
        Panel(
            "Restarts",
            "Number of times that a shard of the tenant continued in another process. A restart loses and repeats nothing; the shard pauses for about two seconds.",
            "short",
            (PanelQuery(f"sum by (tenant) (increase(weir_class_restarts_total{{{OF_TENANT}}}[$__rate_interval]))", "restarts"),),
            width=6,
        ),
    ),
)  # fmt: skip

OPERATORS = Row(
    "Operators",
    (
        Panel(
            "Cost per tuple",
            "Processor time of an operator per input tuple. High values show where a query is expensive.",
            "s",
            (PanelQuery(f"max by (query, operator) (weir_operator_cost_seconds{{{OF_QUERIES}}})", "{{operator}} of {{query}}"),),
            width=24, empty_unless=OPERATORS_TOLD,
        ),
        Panel(
            "Selectivity",
            "Output tuples of an operator per input tuple. Above 1, the operators after it get more tuples than this operator does.",
            "short",
            (PanelQuery(f"max by (query, operator) (weir_operator_selectivity_ratio{{{OF_QUERIES}}})", "{{operator}} of {{query}}"),),
            width=24, empty_unless=OPERATORS_TOLD,
        ),
        Panel(
            "Queues of operators",
            "Number of tuples that wait for each operator.",
            "short",
            (PanelQuery(f"sum by (query, operator) (weir_operator_queued_tuples{{{OF_QUERIES}}})", "{{operator}} of {{query}}"),),
            width=24, empty_unless=OPERATORS_TOLD,
        ),
    ),
)  # fmt: skip

TENANT_BOARD = Board(
    "weir-tenant",
    "Weir / Tenant",
    "Does a tenant get its answers in time, which of its input was lost, and why?",
    (ONE_TENANT, QUERY),
    (IN_SHORT, RESPONSE, WORTH, DATA, CAPACITY, OPERATORS),
    marks_moves=True,
)
