"""Are promises kept? For whoever looks in the morning, or is woken at night."""

from __future__ import annotations

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

# Queries of a table are joined by what tells its lines apart, so all of them have it.
A_LINE = "tenant, priority_class"

AT_A_GLANCE = Row(
    "At a glance",
    (
        Panel(
            "Answers within target",
            "Part of all answers that came within the response time their tenants are promised. "
            "Below 95% promises are being broken: look at the table for whose.",
            "percentunit",
            (PanelQuery(f"sum({per_second('weir_class_results_in_time_total', OF_CLASSES)}) / (sum({per_second('weir_class_response_seconds_count', OF_CLASSES)}) > 0)"),),
            kind="stat", width=4, height=5, thresholds=OBJECTIVE_REACHED, max=1, decimals=1,
        ),
        Panel(
            "Tenants that miss their target",
            "How many tenants have less than 95% of their answers in time now. 0 is what is promised.",
            "short",
            (PanelQuery(f"count({in_time_by('tenant', OF_CLASSES)} < {OBJECTIVE}) or vector(0)"),),
            kind="stat", width=4, height=5, thresholds=NONE_IS_RIGHT,
        ),
        Panel(
            "Tenants at their highest drop",
            "How many tenants are shed as much of as they have agreed to, and would be shed more. Their response times go next: "
            "there is more load than the machines can carry.",
            "short",
            (PanelQuery(f"count(sum by (tenant) ({per_second('weir_class_decisions_at_max_drop_total', OF_CLASSES)}) > 0) or vector(0)"),),
            kind="stat", width=4, height=5, thresholds=((None, GREEN), (1, ORANGE)),
        ),
        Panel(
            "Tuples not accounted for",
            "Every tuple that was offered is delivered, lost for a known reason, or queued. "
            "Anything but 0 that stays is a defect of Weir: please report it.",
            "short",
            (PanelQuery(f"sum(abs(weir_class_unaccounted_tuples{{{OF_CLASSES}}}))"),),
            kind="stat", width=4, height=5, thresholds=NONE_IS_RIGHT, texts={"0": "none"},
        ),
        Panel(
            "What needs a person",
            "Reasons why something does not run as it is declared, parts of classes that no node has room for, and "
            "processes that do not answer. The console's overview and `GET /v1/system` list them in words.",
            "short",
            (PanelQuery("sum(weir_problems) + sum(weir_units_unplaced) + sum(weir_actors_quarantined)"),),
            kind="stat", width=4, height=5, thresholds=NONE_IS_RIGHT, texts={"0": "nothing"},
        ),
        Panel(
            "Age of these figures",
            "How old what Weir tells about itself is. It grows while its coordinator does not answer; tenants' queries go on meanwhile.",
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
            "Alerts that are pending or fire",
            "Alerts of Weir's rules in this Prometheus. `page` needs somebody now, `ticket` in working hours; the runbook says what to do.",
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
            "Part of the answers that came in time. The promise is 95%. When there is more load than capacity, classes of low priority fall first.",
            "percentunit",
            (PanelQuery(in_time_by("priority_class", OF_CLASSES), "{{priority_class}}"),),
            width=12, thresholds=OBJECTIVE_REACHED, min=None, max=1,
        ),
        Panel(
            "Input lost by priority class",
            "Part of the input that was not worked on: shed, too late, rejected or failed. Bronze losing input while gold loses none "
            "is Weir working as intended.",
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
            "Slowest tenants, against their targets",
            "The response time that 95% of a tenant's answers stay below, as part of its target: above 100% the promise is broken. The ten worst.",
            "percentunit",
            (PanelQuery(worst(of_target_by("tenant", OF_CLASSES)), "{{tenant}}"),),
            width=12, thresholds=OF_TARGET, of_tenants=True,
        ),
        Panel(
            "Tenants that are shed the most",
            "Part of the input that Weir leaves out on purpose now, so that the rest is answered in time. The ten highest.",
            "percentunit",
            (PanelQuery(worst(f"max by (tenant) (weir_class_shed_ratio{{{OF_CLASSES}}})"), "{{tenant}}"),),
            width=12, max=1, of_tenants=True,
        ),
        Panel(
            "All tenants now",
            "A line a tenant. A name leads to that tenant's dashboard; a heading sorts.",
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
                "B": TableColumn("Response of target", "percentunit", OF_TARGET),
                "C": TableColumn("Target", "s"),
                "D": TableColumn("Input lost", "percentunit"),
                "E": TableColumn("Share of lanes", "percentunit"),
                "F": TableColumn("Oldest in queue", "s"),
            },
            sorted_by="Response of target", of_tenants=True,
        ),
    ),
)  # fmt: skip

HOW_MUCH = Row(
    "How much there is to do",
    (
        Panel(
            "Work against capacity",
            "In processors: the work that arrives, the part that is let in, and what there is. While work that arrives stays below the lanes, nothing needs to be shed.",
            "short",
            (
                PanelQuery(f"sum(weir_class_load_processors{{{OF_CLASSES}}})", "arrives"),
                PanelQuery(f"sum(weir_class_admitted_load_processors{{{OF_CLASSES}}})", "let in"),
                PanelQuery("sum(weir_node_lanes)", "lanes"),
            ),
            width=8, limits=("lanes",),
        ),
        Panel(
            "Tuples by what became of them",
            "Tuples a second. All but the delivered ones are lost, for the reason that is named.",
            "rowsps",
            (PanelQuery(rate_by("fate", "weir_class_tuples_total", OF_CLASSES), "{{fate}}"),),
            width=8, stacked=True,
        ),
        Panel(
            "Lent now",
            "Processors that tenants who do not need them lend to those who do. Lending costs the lender nothing: it gets them back as soon as it asks.",
            "short",
            (PanelQuery("sum(weir_loan_processors) or vector(0)", "lent"), PanelQuery("sum(weir_node_lanes)", "lanes")),
            width=8, limits=("lanes",),
        ),
    ),
)  # fmt: skip

OVERVIEW = Board(
    "weir-overview",
    "Weir / Overview",
    "Are promises kept, whose are not, and is there enough capacity?",
    (CLASS, TENANT),
    (AT_A_GLANCE, ALERTING, BY_CLASS, BY_TENANT, HOW_MUCH),
)
