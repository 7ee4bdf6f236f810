"""The Runtime dashboard: health of Weir's processes, use of the lanes, and the slices that classes get."""

from __future__ import annotations

from services.dashboards.boards import (
    GREEN,
    NODE,
    NONE_IS_RIGHT,
    OF_NODES,
    PER_S,
    RED,
    YELLOW,
    Board,
    Panel,
    PanelQuery,
    Row,
    rate_by,
    ratio_by,
    worst,
)

BY_NODE = "{{node}}"


def per_lane(series: str) -> str:
    return f"{rate_by('node', series, OF_NODES)} / sum by (node) (weir_node_lanes{{{OF_NODES}}})"


HEALTH = Row(
    "Health",
    (
        Panel(
            "Uptime",
            "Time since the service started.",
            "s",
            (PanelQuery("max(weir_service_uptime_seconds)"),),
            kind="stat", width=4, height=5, thresholds=((None, "blue"),),
        ),
        Panel(
            "Version",
            "Version of Weir. Two versions at the same time mean that an update is in progress.",
            "short",
            (PanelQuery("count by (version) (weir_build_info)", "{{version}}"),),
            kind="stat", width=4, height=5, thresholds=((None, "blue"),),
        ),
        Panel(
            "Not as declared",
            "Number of problems that keep declared objects from running; `GET /v1/system` describes each problem.",
            "short",
            (PanelQuery("sum(weir_problems)"),),
            kind="stat", width=4, height=5, thresholds=NONE_IS_RIGHT, texts={"0": "nothing"},
        ),
        Panel(
            "Without a node",
            "Number of shards that are placed on no node. Tenants get no answers from such shards until a node is available.",
            "short",
            (PanelQuery("sum(weir_units_unplaced)"),),
            kind="stat", width=4, height=5, thresholds=NONE_IS_RIGHT, texts={"0": "none"},
        ),
        Panel(
            "Silent processes",
            "Number of processes that do not answer. Such a process is not called until it answers again. Ray restarts dead processes; a process that hangs must be ended by hand.",
            "short",
            (PanelQuery("sum(weir_actors_quarantined)"),),
            kind="stat", width=4, height=5, thresholds=NONE_IS_RIGHT, texts={"0": "none"},
        ),
        Panel(
            "Age of the metrics",
            "Age of the figures that the service exports. This age grows while the coordinator does not answer.",
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
            "Part of the time for which a node's lanes are granted to a class. Near 100%, no idle capacity is left to lend.",
            "percentunit",
            (PanelQuery(per_lane("weir_node_busy_seconds_total"), BY_NODE),),
            width=8, max=1, thresholds=((None, GREEN), (0.9, YELLOW)),
        ),
        Panel(
            "Cost of scheduling",
            "Time spent on deciding on turns and handing lanes over, as part of the time that lanes are busy. A few percent are usual; more means that turns are too short.",
            "percentunit",
            (PanelQuery(ratio_by("node", "weir_node_scheduling_seconds_total", "weir_node_busy_seconds_total", OF_NODES), BY_NODE),),
            width=8, max=1, thresholds=((None, GREEN), (0.1, YELLOW)),
        ),
        Panel(
            "Processor time of turns",
            "Part of the lanes' time that queries use as processor time. If it is far below \"Lanes busy\", other programs use the same processors.",
            "percentunit",
            (PanelQuery(per_lane("weir_node_processor_seconds_total"), BY_NODE),),
            width=8, max=1,
        ),
        Panel(
            "Turns",
            "Turns granted per second, by node.",
            PER_S,
            (PanelQuery(rate_by("node", "weir_node_slices_total", OF_NODES), BY_NODE),),
            width=8,
        ),
        Panel(
            "Length of a turn",
            "Mean duration of a turn.",
            "s",
            (PanelQuery(ratio_by("node", "weir_node_slice_seconds_total", "weir_node_slices_total", OF_NODES), BY_NODE),),
            width=8,
        ),
        Panel(
            "Rounds",
            "Rounds per second. In a round, every class with work gets its turns.",
            PER_S,
            (PanelQuery(rate_by("node", "weir_node_rounds_total", OF_NODES), BY_NODE),),
            width=8,
        ),
        Panel(
            "Lanes idle",
            "Part of the time for which a node's lanes had no class to run.",
            "percentunit",
            (PanelQuery(per_lane("weir_node_idle_seconds_total"), BY_NODE),),
            width=8, max=1,
        ),
        Panel(
            "Turns that overran",
            "Turns per second that took more than twice their quota, for the ten tenants with the highest rates. The excess is deducted from the next turns of the same tenant.",
            PER_S,
            (PanelQuery(worst(rate_by("tenant", "weir_class_overruns_total")), "{{tenant}}"),),
            width=8, of_tenants=True,
        ),
        Panel(
            "Overdue turns",
            "Turns per second that lasted so long that the lane was given to another class. This rate should be 0; otherwise a process or the machine hangs.",
            PER_S,
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
            "Number of process restarts. A restart neither loses nor repeats tuples or answers; the classes of the process pause for about two seconds.",
            "short",
            (PanelQuery("sum by (actor) (increase(weir_restarts_total[$__rate_interval]))", "{{actor}}"),),
            width=8, stacked=True,
        ),
        Panel(
            "Tenants that were moved or restarted",
            "Number of times that a shard of a tenant continued in another process, for the ten highest. If a tenant appears again and again, "
            "one of the tenant's queries crashes the process.",
            "short",
            (PanelQuery(worst("sum by (tenant) (increase(weir_class_restarts_total[$__rate_interval]))"), "{{tenant}}"),),
            width=8, of_tenants=True,
        ),
        Panel(
            "Reports lost",
            "Reports per second that the overloaded coordinator discarded. Lending then works with older figures.",
            PER_S,
            (PanelQuery("sum(rate(weir_reports_lost_total[$__rate_interval]))", "lost"),),
            width=8,
        ),
        Panel(
            "Shards by node",
            "Number of shards of classes that are placed on each node.",
            "short",
            (PanelQuery(f"sum by (node) (weir_node_units{{{OF_NODES}}})", BY_NODE),),
            width=8, stacked=True,
        ),
        Panel(
            "State by tenant",
            "Bytes of a tenant's windows, groups and queues, for the ten largest.",
            "bytes",
            (PanelQuery(worst("sum by (tenant) (weir_class_state_bytes)"), "{{tenant}}"),),
            width=8, of_tenants=True,
        ),
        Panel(
            "Processor time by tenant",
            "Processors used by a tenant's turns, for the ten largest.",
            "short",
            (PanelQuery(worst(rate_by("tenant", "weir_class_processor_seconds_total")), "{{tenant}}"),),
            width=8, of_tenants=True,
        ),
        Panel(
            "Ingest by tenant",
            "Processors used to read a tenant's input, outside its turns, for the ten largest.",
            "short",
            (PanelQuery(worst(rate_by("tenant", "weir_class_ingest_seconds_total")), "{{tenant}}"),),
            width=12, of_tenants=True,
        ),
        Panel(
            "Classes and queries",
            "Number of tenants and shards that have reported, and of declared queries.",
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
    "Are Weir's processes healthy, how are the lanes used, and are turns on time?",
    (NODE,),
    (HEALTH, LANES, PROCESSES),
)
