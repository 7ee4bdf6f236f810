"""Is the machinery well? Processes, lanes and turns."""

from __future__ import annotations

from services.dashboards.boards import (
    GREEN,
    NODE,
    NONE_IS_RIGHT,
    OF_NODES,
    RED,
    YELLOW,
    Board,
    Panel,
    PanelQuery,
    Row,
    rate_by,
    worst,
)

BY_NODE = "{{node}}"


def per_lane(series: str) -> str:
    return f"{rate_by('node', series, OF_NODES)} / sum by (node) (weir_node_lanes{{{OF_NODES}}})"


HEALTH = Row(
    "Health",
    (
        Panel(
            "Running since",
            "How long the service has been running.",
            "s",
            (PanelQuery("max(weir_service_uptime_seconds)"),),
            kind="stat", width=4, height=5, thresholds=((None, "blue"),),
        ),
        Panel(
            "Version",
            "Of Weir. Two at a time are an update under way.",
            "short",
            (PanelQuery("count by (version) (weir_build_info)", "{{version}}"),),
            kind="stat", width=4, height=5, thresholds=((None, "blue"),),
        ),
        Panel(
            "Not as declared",
            "Reasons why something does not run as it is declared; `/v1/system` tells them in words.",
            "short",
            (PanelQuery("sum(weir_problems)"),),
            kind="stat", width=4, height=5, thresholds=NONE_IS_RIGHT, texts={"0": "nothing"},
        ),
        Panel(
            "Without a node",
            "Parts of classes for which no node has room. Their tenants get nothing until there is one.",
            "short",
            (PanelQuery("sum(weir_units_unplaced)"),),
            kind="stat", width=4, height=5, thresholds=NONE_IS_RIGHT, texts={"0": "none"},
        ),
        Panel(
            "Actors that do not answer",
            "Processes that are asked no more because they did not answer. Ray starts what has died; what hangs needs a person.",
            "short",
            (PanelQuery("sum(weir_actors_quarantined)"),),
            kind="stat", width=4, height=5, thresholds=NONE_IS_RIGHT, texts={"0": "none"},
        ),
        Panel(
            "Age of what is told",
            "Grows while the coordinator does not answer.",
            "s",
            (PanelQuery("max(weir_view_age_seconds)"),),
            kind="stat", width=4, height=5, thresholds=((None, GREEN), (5, YELLOW), (30, RED)), decimals=1,
        ),
    ),
)  # fmt: skip

LANES = Row(
    "Lanes and turns",
    (
        Panel(
            "Lanes busy",
            "Part of a node's lanes that is in somebody's turn. Near 100% there is nothing left to lend.",
            "percentunit",
            (PanelQuery(per_lane("weir_node_busy_seconds_total"), BY_NODE),),
            width=8, max=1, thresholds=((None, GREEN), (0.9, YELLOW)),
        ),
        Panel(
            "Cost of taking turns",
            "Time for deciding and handing over, as part of the time that lanes are busy. A few percent are usual; more means that turns are too short.",
            "percentunit",
            (
                PanelQuery(
                    f"{rate_by('node', 'weir_node_scheduling_seconds_total', OF_NODES)}"
                    f" / ({rate_by('node', 'weir_node_busy_seconds_total', OF_NODES)} > 0)",
                    BY_NODE,
                ),
            ),
            width=8, max=1, thresholds=((None, GREEN), (0.1, YELLOW)),
        ),
        Panel(
            "Processor time of turns",
            "Part of the lanes that queries really run on. Clearly less than lanes busy: somebody else uses these processors.",
            "percentunit",
            (PanelQuery(per_lane("weir_node_processor_seconds_total"), BY_NODE),),
            width=8, max=1,
        ),
        Panel(
            "Turns",
            "Turns a second that were given, by node.",
            "eps",
            (PanelQuery(rate_by("node", "weir_node_slices_total", OF_NODES), BY_NODE),),
            width=8,
        ),
        Panel(
            "Length of a turn",
            "What a turn takes on average.",
            "s",
            (
                PanelQuery(
                    f"{rate_by('node', 'weir_node_slice_seconds_total', OF_NODES)}"
                    f" / ({rate_by('node', 'weir_node_slices_total', OF_NODES)} > 0)",
                    BY_NODE,
                ),
            ),
            width=8,
        ),
        Panel(
            "Rounds",
            "Rounds a second in which every class that has work gets its turns.",
            "eps",
            (PanelQuery(rate_by("node", "weir_node_rounds_total", OF_NODES), BY_NODE),),
            width=8,
        ),
        Panel(
            "Lanes idle",
            "Part of a node's lanes that had nobody to run.",
            "percentunit",
            (PanelQuery(per_lane("weir_node_idle_seconds_total"), BY_NODE),),
            width=8, max=1,
        ),
        Panel(
            "Turns that were too long",
            "Turns a second that took more than twice their quota, the ten tenants with most. They pay for it with their next turns.",
            "eps",
            (PanelQuery(worst(rate_by("tenant", "weir_class_overruns_total")), "{{tenant}}"),),
            width=8, of_tenants=True,
        ),
        Panel(
            "Turns that were given up",
            "Turns a second that lasted so long that the lane went on without them. It should be 0: a process hangs, or the machine does.",
            "eps",
            (PanelQuery(rate_by("node", "weir_node_overdue_slices_total", OF_NODES), BY_NODE),),
            width=8,
        ),
    ),
)  # fmt: skip

PROCESSES = Row(
    "Processes",
    (
        Panel(
            "Restarts by kind",
            "Processes that were started again. None of them loses or repeats anything; a class pauses for some two seconds.",
            "short",
            (PanelQuery("sum by (actor) (increase(weir_restarts_total[$__rate_interval]))", "{{actor}}"),),
            width=8, stacked=True,
        ),
        Panel(
            "Tenants that were moved or restarted",
            "Times that a part of a tenant's class went on in another process, the ten most. The same name again and again: its queries break their process.",
            "short",
            (PanelQuery(worst("sum by (tenant) (increase(weir_class_restarts_total[$__rate_interval]))"), "{{tenant}}"),),
            width=8, of_tenants=True,
        ),
        Panel(
            "Reports lost",
            "Reports a second for which the coordinator had no time. Lending works on older figures then.",
            "eps",
            (PanelQuery("sum(rate(weir_reports_lost_total[$__rate_interval]))", "lost"),),
            width=8,
        ),
        Panel(
            "Parts of classes by node",
            "Shards that are placed on each node.",
            "short",
            (PanelQuery(f"sum by (node) (weir_node_units{{{OF_NODES}}})", BY_NODE),),
            width=8, stacked=True,
        ),
        Panel(
            "State by tenant",
            "Bytes of windows, groups and queues, the ten largest.",
            "bytes",
            (PanelQuery(worst("sum by (tenant) (weir_class_state_bytes)"), "{{tenant}}"),),
            width=8, of_tenants=True,
        ),
        Panel(
            "Processor time by tenant",
            "Processors that tenants' turns use, the ten largest.",
            "short",
            (PanelQuery(worst(rate_by("tenant", "weir_class_processor_seconds_total")), "{{tenant}}"),),
            width=8, of_tenants=True,
        ),
        Panel(
            "Taking input in",
            "Processors that taking tenants' input in uses, outside their turns, the ten largest.",
            "short",
            (PanelQuery(worst(rate_by("tenant", "weir_class_ingest_seconds_total")), "{{tenant}}"),),
            width=12, of_tenants=True,
        ),
        Panel(
            "Classes and queries",
            "How much is declared and has reported.",
            "short",
            (
                PanelQuery("count(count by (tenant) (weir_class_units))", "tenants"),
                PanelQuery("sum(weir_class_units)", "shards"),
                PanelQuery("sum(weir_class_queries)", "queries"),
            ),
            width=12,
        ),
    ),
)  # fmt: skip

RUNTIME = Board(
    "weir-runtime",
    "Weir / Runtime",
    "Is the machinery well: processes, lanes and turns?",
    (NODE,),
    (HEALTH, LANES, PROCESSES),
)
