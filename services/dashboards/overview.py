"""The Overview dashboard: do tenants get their answers in time? When an alert fires, open this dashboard first."""

from services.dashboards.boards import (
    ALERTS,
    CLASS,
    GREEN,
    NONE_IS_RIGHT,
    OBJECTIVE,
    OBJECTIVE_REACHED,
    OF_CLASSES,
    OF_TARGET,
    ORANGE,
    RED,
    ROWS_PER_S,
    TENANT,
    YELLOW,
    Board,
    Panel,
    PanelQuery,
    Row,
    TableColumn,
    in_time_by,
    lost_by,
    of_target_by,
    per_second,
    rate_by,
    worst,
)

# Grafana joins the queries of a table by their labels, so all queries of the table need the same labels.
A_LINE = "tenant, priority_class"

AT_A_GLANCE = Row(
    "At a glance",
    (
        Panel(
            "Answers within target",
            "Part of all answers within the delay target of their tenant. "
            "Below 95%, delay targets are being missed: the table of all tenants shows by which tenants.",
            "percentunit",
            (PanelQuery(f"sum({per_second('weir_class_results_in_time_total', OF_CLASSES)}) / (sum({per_second('weir_class_response_seconds_count', OF_CLASSES)}) > 0)"),),
            kind="stat", width=4, height=5, thresholds=OBJECTIVE_REACHED, max=1, decimals=1,
        ),
        Panel(
            "Tenants too slow",
            "Number of tenants that get less than 95% of their answers within their delay target now. This number should be 0.",
            "short",
            (PanelQuery(f"count({in_time_by('tenant', OF_CLASSES)} < {OBJECTIVE}) or vector(0)"),),
            kind="stat", width=4, height=5, thresholds=NONE_IS_RIGHT,
        ),
        Panel(
            "Tenants at max_drop",
            "Number of tenants that shed as much input as they allow (`max_drop`) and need to shed more. There is more load than "
            "the machines can process, so the response times of these tenants rise next.",
            "short",
            (PanelQuery(f"count(sum by (tenant) ({per_second('weir_class_decisions_at_max_drop_total', OF_CLASSES)}) > 0) or vector(0)"),),
            kind="stat", width=4, height=5, thresholds=((None, GREEN), (1, ORANGE)),
        ),
        Panel(
            "Tuples not accounted for",
            "Number of offered tuples that are neither delivered, nor lost for a known reason, nor queued. "
            "If this number stays different from 0, Weir has a defect: please report this defect.",
            "short",
            (PanelQuery(f"sum(abs(weir_class_unaccounted_tuples{{{OF_CLASSES}}}))"),),
            kind="stat", width=4, height=5, thresholds=NONE_IS_RIGHT, texts={"0": "none"},
        ),
        Panel(
            "Problems to fix",
            "Number of problems that keep declared objects from running, of shards that are placed on no node, and of "
            "processes that do not answer. The console's overview and `GET /v1/system` describe each problem.",
            "short",
            (PanelQuery("sum(weir_problems) + sum(weir_units_unplaced) + sum(weir_actors_quarantined)"),),
            kind="stat", width=4, height=5, thresholds=NONE_IS_RIGHT, texts={"0": "nothing"},
        ),
        Panel(
            "Age of these figures",
            "Age of the figures that Weir reports about itself. This age grows while the coordinator does not answer; queries keep running meanwhile.",
            "s",
            (PanelQuery("max(weir_view_age_seconds)"),),
            kind="stat", width=4, height=5, thresholds=((None, GREEN), (5, YELLOW), (30, RED)), decimals=1,
        ),
    ),
)  # fmt: skip

ALERTING = Row(
    "Alerts",
    (
        Panel(
            "Pending and firing alerts",
            "Alerts of Weir's rules in this Prometheus. `critical` or `page` needs attention now, `warning` or `ticket` in working hours. The runbook says what to do.",
            "short",
            (PanelQuery(f"sum by (alertname, alertstate, severity, priority_class, tenant, stream, node) ({ALERTS})"),),
            kind="table", width=24, height=6,
            columns={
                "alertname": TableColumn("Alert"),
                "alertstate": TableColumn("State"),
                "severity": TableColumn("Severity"),
                "priority_class": TableColumn("Priority class"),
                "tenant": TableColumn("Tenant"),
                "stream": TableColumn("Stream"),
                "node": TableColumn("Node"),
                "A": TableColumn("Alerts", "short"),
            },
            sorted_by="Alerts", nothing="No alert is pending or fires.",
        ),
    ),
)  # fmt: skip

BY_CLASS = Row(
    "By priority class",
    (
        Panel(
            "Answers within target by priority class",
            "Part of the answers within the delay target; 95% is promised. With more load than capacity, this part falls first for classes of low priority.",
            "percentunit",
            (PanelQuery(in_time_by("priority_class", OF_CLASSES), "{{priority_class}}"),),
            width=12, thresholds=OBJECTIVE_REACHED, min=None, max=1,
        ),
        Panel(
            "Input lost by priority class",
            "Part of the input that was not processed: shed, late, rejected or failed. Under overload, priority classes of "
            "low priority are meant to lose input, and priority classes of high priority to lose none.",
            "percentunit",
            (PanelQuery(lost_by("priority_class", OF_CLASSES), "{{priority_class}}"),),
            width=12, max=1,
        ),
    ),
)  # fmt: skip

BY_TENANT = Row(
    "By tenant",
    (
        Panel(
            "Slowest tenants, relative to their targets",
            "95th percentile of a tenant's response times, divided by its delay target, for the ten slowest tenants. Above 100%, the promise is broken.",
            "percentunit",
            (PanelQuery(worst(of_target_by("tenant", OF_CLASSES)), "{{tenant}}"),),
            width=12, thresholds=OF_TARGET, of_tenants=True,
        ),
        Panel(
            "Tenants that shed the most",
            "Part of a tenant's input that is shed now, so that the rest is answered in time, for the ten tenants with the highest values.",
            "percentunit",
            (PanelQuery(worst(f"max by (tenant) (weir_class_shed_ratio{{{OF_CLASSES}}})"), "{{tenant}}"),),
            width=12, max=1, of_tenants=True,
        ),
        Panel(
            "All tenants now",
            "One row per tenant. Click a name to open the tenant's dashboard, or a heading to sort.",
            "short",
            (
                PanelQuery(in_time_by(A_LINE, OF_CLASSES)),
                PanelQuery(of_target_by(A_LINE, OF_CLASSES)),
                PanelQuery(f"max by ({A_LINE}) (weir_class_response_target_seconds{{{OF_CLASSES}}})"),
                PanelQuery(lost_by(A_LINE, OF_CLASSES)),
                PanelQuery(f"sum by ({A_LINE}) (weir_class_current_share_ratio{{{OF_CLASSES}}})"),
                PanelQuery(f"max by ({A_LINE}) (weir_class_queue_age_seconds{{{OF_CLASSES}}})"),
            ),
            kind="table", width=24, height=10,
            columns={
                "tenant": TableColumn("Tenant"),
                "priority_class": TableColumn("Priority class"),
                "A": TableColumn("Answers in time", "percentunit", OBJECTIVE_REACHED),
                "B": TableColumn("p95 / target", "percentunit", OF_TARGET),
                "C": TableColumn("Target", "s"),
                "D": TableColumn("Input lost", "percentunit"),
                "E": TableColumn("Share of lanes", "percentunit"),
                "F": TableColumn("Oldest in queue", "s"),
            },
            sorted_by="p95 / target", of_tenants=True,
        ),
    ),
)  # fmt: skip

HOW_MUCH = Row(
    "Load",
    (
        Panel(
            "Load and capacity",
            "Processors needed for all input (arrives), processors needed for the admitted input (let in), and processors that run queries (lanes). While all input needs fewer processors than there are lanes, nothing needs to be shed.",
            "short",
            (
                PanelQuery(f"sum(weir_class_load_processors{{{OF_CLASSES}}})", "arrives"),
                PanelQuery(f"sum(weir_class_admitted_load_processors{{{OF_CLASSES}}})", "let in"),
                PanelQuery("sum(weir_node_lanes)", "lanes"),
            ),
            width=8, limits=("lanes",),
        ),
        Panel(
            "Tuples by fate",
            "Tuples per second by fate. All tuples except delivered ones are lost; the fate names the reason.",
            ROWS_PER_S,
            (PanelQuery(rate_by("fate", "weir_class_tuples_total", OF_CLASSES), "{{fate}}"),),
            width=8, stacked=True,
        ),
        Panel(
            "Lent now",
            "Number of processors that tenants with idle capacity lend to tenants with too much load. A lender gets its capacity back as soon as the lender asks.",
            "short",
            (PanelQuery("sum(weir_loan_processors) or vector(0)", "lent"), PanelQuery("sum(weir_node_lanes)", "lanes")),
            width=8, limits=("lanes",),
        ),
    ),
)  # fmt: skip

OVERVIEW = Board(
    "weir-overview",
    "Weir / Overview",
    "Do tenants get their answers in time, which tenants do not, and is there enough capacity?",
    (CLASS, TENANT),
    (AT_A_GLANCE, ALERTING, BY_CLASS, BY_TENANT, HOW_MUCH),
)
