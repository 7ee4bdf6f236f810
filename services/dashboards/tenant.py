"""One tenant: what it gets, what was lost, and why."""

from __future__ import annotations

from services.dashboards.boards import (
    BLUE,
    GREEN,
    OBJECTIVE_REACHED,
    OF_TARGET,
    OF_TENANT,
    ONE_TENANT,
    QUERY,
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
)

OF_QUERIES = f'{OF_TENANT}, query=~"$query"'
WITH_FAILURES = "the tenant has a query in which rows fail"
ANSWERS_GIVEN = "its queries give answers"
OPERATORS_TOLD = "`metrics_operators` is set"


def of_tenant(series: str) -> str:
    """Of all priority classes that it has had."""
    return f"sum by (tenant) ({series}{{{OF_TENANT}}})"


def part_of_answers(series: str) -> str:
    """By query; nothing where it gave none."""
    came = rate_by("query", "weir_query_results_total", OF_QUERIES)
    return f"{rate_by('query', series, OF_QUERIES)} / ({came} > 0)"


IN_SHORT = Row(
    "What it gets",
    (
        Panel(
            "In time",
            "Part of the tenant's answers that came within the response time it is promised. 95% is the promise.",
            "percentunit",
            (PanelQuery(in_time_by("tenant", OF_TENANT)),),
            kind="stat", width=4, height=5, thresholds=OBJECTIVE_REACHED, max=1, decimals=1,
            empty_unless=ANSWERS_GIVEN,
        ),
        Panel(
            "Response as part of target",
            "The response time that 95% of its answers stay below, divided by what it is promised. Above 100% the promise is broken.",
            "percentunit",
            (PanelQuery(of_target_by("tenant", OF_TENANT)),),
            kind="stat", width=4, height=5, thresholds=OF_TARGET, decimals=0,
            empty_unless=ANSWERS_GIVEN,
        ),
        Panel(
            "Input lost",
            "Part of its input that was not worked on: shed on purpose, too late, rejected or failed.",
            "percentunit",
            (PanelQuery(lost_by("tenant", OF_TENANT)),),
            kind="stat", width=4, height=5, thresholds=((None, GREEN), (0.001, YELLOW)), max=1, decimals=1,
            empty_unless="it has input",
        ),
        Panel(
            "Share of the lanes",
            "Part of all lanes that it has now, with what it borrows and without what it lends.",
            "percentunit",
            (PanelQuery(of_tenant("weir_class_current_share_ratio")),),
            kind="stat", width=4, height=5, thresholds=((None, BLUE),), max=1, decimals=1,
        ),
        Panel(
            "Oldest tuple in queue",
            "How long the tuple that waits longest has been in the system. Near the target, answers are about to be late.",
            "s",
            (PanelQuery(f"max by (tenant) (weir_class_queue_age_seconds{{{OF_TENANT}}})"),),
            kind="stat", width=4, height=5, thresholds=((None, BLUE),),
        ),
        Panel(
            "State",
            "A tenant without input sleeps: it takes no turns, tells nothing new, and wakes with its next tuple.",
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
            "From the arrival of the tuple that caused an answer to the answer. p95 is what 95% of the answers stay below; the dashed line is the promise.",
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
            "How answers spread",
            "How many answers a second took how long. Two bands tell of two kinds of answers, or of a burst that was worked off.",
            "s",
            (PanelQuery(rate_by("le", "weir_class_response_seconds_bucket", OF_TENANT), "{{le}}"),),
            kind="heatmap", width=12,
        ),
    ),
)  # fmt: skip

WORTH = Row(
    "What its answers are worth",
    (
        Panel(
            "Utility by query",
            "Mean worth of an answer by how long it took, on the query's QoS graph: 100% where none is late, 0% where all come too late for anything.",
            "percentunit",
            (PanelQuery(f"clamp_min(1 - {part_of_answers('weir_query_lost_utility_total')}, 0)", "{{query}}"),),
            max=1, empty_unless=ANSWERS_GIVEN,
        ),
        Panel(
            "Missed deadlines by query",
            "Part of the answers that came after the deadline, where utility begins to fall. Missed deadlines with much utility are near misses.",
            "percentunit",
            (PanelQuery(part_of_answers("weir_query_missed_deadlines_total"), "{{query}}"),),
            empty_unless=ANSWERS_GIVEN,
        ),
        Panel(
            "Slowdown by query",
            "Response time of an answer over what it would cost alone, in the mean: how much longer it took than the processor time that went into it. Queries of very different cost can be compared by it.",
            "short",
            (PanelQuery(part_of_answers("weir_query_slowdown_total"), "{{query}}"),),
            empty_unless=ANSWERS_GIVEN,
        ),
        Panel(
            "Staleness by query",
            "Part of the time for which the output was behind: input had arrived whose answer was not out yet. Along 100% a query never catches up, whatever its answers are worth.",
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
            "Part of the answers of windows that came more than a pane after they fell due; 0 for queries without windows. With SLIDE AT MOST what counts is the end that was promised.",
            "percentunit",
            (PanelQuery(part_of_answers("weir_query_tardy_answers_total"), "{{query}}"),),
            empty_unless=ANSWERS_GIVEN,
        ),
        Panel(
            "Tardiness by query",
            "How long after that an answer came, in the mean over all answers of the query.",
            "s",
            (PanelQuery(part_of_answers("weir_query_tardiness_seconds_total"), "{{query}}"),),
            empty_unless=ANSWERS_GIVEN,
        ),
        Panel(
            "Failed part by query",
            "Part of the rows of the last minute of input that failed in the query, or found no room there. `weir query quality` shows the reason.",
            "percentunit",
            (PanelQuery(f"max by (query) (weir_query_failed_ratio{{{OF_QUERIES}}})", "{{query}}"),),
            width=12, empty_unless=WITH_FAILURES,
        ),
        Panel(
            "Failed rows by query",
            "Rows a second that failed in the query, or found no room there. They are in no answer, and count as delivered in the ledger.",
            "rowsps",
            (PanelQuery(f"sum by (query) ({per_second('weir_query_failed_tuples_total', OF_QUERIES)})", "{{query}}"),),
            width=12, empty_unless=ANSWERS_GIVEN,
        ),
    ),
)  # fmt: skip

DATA = Row(
    "Its data",
    (
        Panel(
            "What became of its tuples",
            "Tuples a second. Shed: left out on purpose at the door. Late: behind the watermark of its stream, and in no answer. Rejected: no room in a queue. Failed: lost to a failure.",
            "rowsps",
            (PanelQuery(rate_by("fate", "weir_class_tuples_total", OF_TENANT), "{{fate}}"),),
            width=8, stacked=True,
        ),
        Panel(
            "Shed now, and at most",
            "Part of its input that is left out on purpose. The dashed line is as much as it has agreed to; along it, response times suffer next.",
            "percentunit",
            (
                PanelQuery(f"max by (tenant) (weir_class_shed_ratio{{{OF_TENANT}}})", "shed"),
                PanelQuery(f"max by (tenant) (weir_class_max_drop_ratio{{{OF_TENANT}}})", "at most"),
            ),
            width=8, max=1, limits=("at most",),
        ),
        Panel(
            "Offered by stream",
            "Tuples a second that come to its door, of each stream that its queries read.",
            "rowsps",
            (PanelQuery(rate_by("stream", "weir_class_offered_tuples_total", OF_TENANT), "{{stream}}"),),
            width=8, stacked=True,
        ),
        Panel(
            "State of the class",
            "The most serious state that its class is in, and the number of its shards with a full queue, for which producers wait.",
            "short",
            (
                PanelQuery(f"max by (state) (weir_class_state{{{OF_TENANT}}})", "{{state}}"),
                PanelQuery(of_tenant("weir_class_held_back"), "shards held back"),
            ),
            width=12,
        ),
        Panel(
            "Too old",
            "Tuples a second that were dropped after a wait longer than `max_age_ms`; they are among those that were shed.",
            "rowsps",
            (PanelQuery(rate_by("tenant", "weir_class_expired_tuples_total", OF_TENANT), "too old"),),
            width=12,
        ),
        Panel(
            "Queued by stream",
            "Tuples that wait for their first operator. A queue that stays is load above the tenant's capacity.",
            "short",
            (PanelQuery(f"sum by (stream) (weir_class_queued_tuples{{{OF_TENANT}}})", "{{stream}}"),),
            width=8, stacked=True,
        ),
        Panel(
            "Memory",
            "Bytes of its windows, groups and queues, and of its log that no snapshot covers. Windows that are wide, or groups that are many, show here first.",
            "bytes",
            (
                PanelQuery(of_tenant("weir_class_state_bytes"), "all state"),
                PanelQuery(of_tenant("weir_class_queue_bytes"), "of it queued"),
                PanelQuery(of_tenant("weir_class_unsaved_bytes"), "log since the last snapshots"),
            ),
            width=8,
        ),
        Panel(
            "Answers by query",
            "Answers a second of each of its queries.",
            "rowsps",
            (PanelQuery(rate_by("query", "weir_query_results_total", OF_QUERIES), "{{query}}"),),
            width=8, stacked=True,
        ),
    ),
)  # fmt: skip

CAPACITY = Row(
    "Its capacity",
    (
        Panel(
            "Shares",
            "Parts of all lanes. Entitled: by its priority. Now: with what it lends and borrows. Wanted: what its load would need, within its bounds. Now below entitled is lending.",
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
            "In processors. Headroom is what the tenant can really spend on tuples; work beyond it must be shed or makes answers late.",
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
            "Processors that it lends to others and borrows from them now, by name.",
            "short",
            (
                PanelQuery(f"sum by (borrower) (weir_loan_processors{{{OF_TENANT}}})", "to {{borrower}}"),
                PanelQuery('sum by (tenant) (weir_loan_processors{borrower=~"$tenant"})', "from {{tenant}}"),
            ),
            width=8, empty_unless="it has lent or borrowed",
        ),
        Panel(
            "How it was steered",
            "Load cycles a second that ended in each branch of the load manager's table. Many \"drop more\": load rises; \"hold for reclaim\": it waits for capacity that it has lent.",
            "eps",
            (PanelQuery(rate_by("branch", "weir_class_decisions_total", OF_TENANT), "{{branch}}"),),
            width=12, stacked=True,
        ),
        Panel(
            "Waiting for what it has lent",
            "Seconds a second that it waited for lent capacity to come back. It should be short and rare: a load cycle at most each time.",
            "percentunit",
            (PanelQuery(f"sum by (tenant) ({per_second('weir_class_reclaim_seconds_total', OF_TENANT)})", "waiting"),),
            width=6,
        ),
        Panel(
            "Restarts",
            "Times that a part of it went on in another process. Nothing is lost or repeated by one; it pauses for some two seconds.",
            "short",
            (PanelQuery(f"sum by (tenant) (increase(weir_class_restarts_total{{{OF_TENANT}}}[$__rate_interval]))", "restarts"),),
            width=6,
        ),
    ),
)  # fmt: skip

OPERATORS = Row(
    "Its operators",
    (
        Panel(
            "Time by tuple",
            "Processor time that an operator takes for one tuple. A high one is where a query is expensive.",
            "s",
            (PanelQuery(f"max by (query, operator) (weir_operator_cost_seconds{{{OF_QUERIES}}})", "{{query}} {{operator}}"),),
            empty_unless=OPERATORS_TOLD,
        ),
        Panel(
            "Selectivity",
            "Tuples that an operator gives for each that it takes. Above 1 it makes more work for those after it.",
            "short",
            (PanelQuery(f"max by (query, operator) (weir_operator_selectivity_ratio{{{OF_QUERIES}}})", "{{query}} {{operator}}"),),
            empty_unless=OPERATORS_TOLD,
        ),
        Panel(
            "Waiting for operators",
            "Tuples in front of each operator: where a queue stands.",
            "short",
            (PanelQuery(f"sum by (query, operator) (weir_operator_queued_tuples{{{OF_QUERIES}}})", "{{query}} {{operator}}"),),
            empty_unless=OPERATORS_TOLD,
        ),
    ),
)  # fmt: skip

TENANT_BOARD = Board(
    "weir-tenant",
    "Weir / Tenant",
    "What one tenant gets, what of its data was lost, and why.",
    (ONE_TENANT, QUERY),
    (IN_SHORT, RESPONSE, WORTH, DATA, CAPACITY, OPERATORS),
    marks_moves=True,
)
