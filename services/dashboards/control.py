"""Who has what, who lends to whom, and how load managers steer."""

from __future__ import annotations

from services.dashboards.boards import (
    CLASS,
    OF_CLASSES,
    OF_TENANT,
    TENANT,
    Board,
    Panel,
    PanelQuery,
    Row,
    rate_by,
    worst,
)

USAGE = (
    f"sum by (tenant) (weir_class_load_processors{{{OF_CLASSES}}})"
    f" / (sum by (tenant) (weir_class_headroom_processors{{{OF_CLASSES}}}) > 0)"
)


def by_tenant(series: str) -> str:
    return f"sum by (tenant) ({series}{{{OF_CLASSES}}})"


OVER = f"{by_tenant('weir_class_current_share_ratio')} - {by_tenant('weir_class_nominal_share_ratio')}"

SHARES = Row(
    "Who has what",
    (
        Panel(
            "Shares of the lanes",
            "Part of all lanes that each tenant has now, the twenty largest. What is not stacked up to 100% belongs to the others.",
            "percentunit",
            (PanelQuery(worst(by_tenant("weir_class_current_share_ratio"), 20), "{{tenant}}"),),
            width=12, stacked=True, max=1, of_tenants=True,
        ),
        Panel(
            "Above and below what they are entitled to",
            "Share now less the share that the tenant's priority entitles it to: above 0 it borrows, below it lends. The ten largest borrowers and lenders.",
            "percentunit",
            (
                PanelQuery(worst(f"{OVER} > 0"), "{{tenant}} borrows"),
                PanelQuery(f"bottomk(10, {OVER} < 0)", "{{tenant}} lends"),
            ),
            width=12, min=None, of_tenants=True, empty_unless="somebody lends",
        ),
        Panel(
            "Demand",
            "Part of all lanes that each tenant's load would need, the ten largest. If they add up to more than 100%, somebody is shed or waits.",
            "percentunit",
            (PanelQuery(worst(by_tenant("weir_class_demand_share_ratio")), "{{tenant}}"),),
            width=12, of_tenants=True,
        ),
        Panel(
            "Bounds of lending",
            "The lowest and the highest share that lending may bring the chosen tenants to, added up, beside what they have.",
            "percentunit",
            (
                PanelQuery(f"sum(weir_class_lower_share_ratio{{{OF_CLASSES}}})", "lowest"),
                PanelQuery(f"sum(weir_class_current_share_ratio{{{OF_CLASSES}}})", "now"),
                PanelQuery(f"sum(weir_class_upper_share_ratio{{{OF_CLASSES}}})", "highest"),
            ),
            width=12, limits=("lowest", "highest"),
        ),
    ),
)  # fmt: skip

LENDING = Row(
    "Who lends to whom",
    (
        Panel(
            "Loans now",
            "Processors that one tenant lends another at this moment, the twenty largest.",
            "short",
            (PanelQuery(worst(f"sum by (tenant, borrower) (weir_loan_processors{{{OF_TENANT}}})", 20), "{{tenant}} → {{borrower}}"),),
            width=12, stacked=True, empty_unless="somebody has lent",
        ),
        Panel(
            "Lent so far",
            "Processors lent on average over the time shown, the twenty largest pairs: who lives on whose idle capacity.",
            "short",
            (PanelQuery(worst(rate_by("tenant, borrower", "weir_loan_seconds_total", OF_TENANT), 20), "{{tenant}} → {{borrower}}"),),
            width=12, empty_unless="somebody has lent",
        ),
        Panel(
            "Moves of shares",
            "Times a second that shares have moved: by redistribution of what is idle, because an owner asked for its own back, or because classes came, went or changed.",
            "eps",
            (PanelQuery(rate_by("kind", "weir_share_moves_total"), "{{kind}}"),),
            width=8, stacked=True,
        ),
        Panel(
            "Owners asking for their own",
            "Times a second that tenants began to ask for capacity back that they had lent, the ten most.",
            "eps",
            (PanelQuery(worst(rate_by("tenant", "weir_class_reclaims_total", OF_CLASSES)), "{{tenant}}"),),
            width=8, of_tenants=True,
        ),
        Panel(
            "Owners that had to ask twice",
            "Load cycles a second at whose end an owner had to ask again, since a whole cycle had not brought its capacity back. It should be 0.",
            "eps",
            (PanelQuery(worst(rate_by("tenant", "weir_class_reclaims_overdue_total", OF_CLASSES)), "{{tenant}}"),),
            width=8, of_tenants=True,
        ),
    ),
)  # fmt: skip

LOOP = Row(
    "The control loop",
    (
        Panel(
            "Load against headroom",
            "The work that arrives divided by what the tenant can really spend on tuples, the ten highest. Above 100% it is shed, or waits.",
            "percentunit",
            (PanelQuery(worst(USAGE), "{{tenant}}"),),
            width=8, thresholds=((None, "green"), (1.0, "red")), of_tenants=True,
        ),
        Panel(
            "Headroom",
            "Processors that a tenant can really spend on tuples, as its load manager has learned it, the ten largest. It follows the share, less what taking turns costs.",
            "short",
            (PanelQuery(worst(by_tenant("weir_class_headroom_processors")), "{{tenant}}"),),
            width=8, of_tenants=True,
        ),
        Panel(
            "Shed now",
            "Part of the input that load managers leave out on purpose, the ten highest.",
            "percentunit",
            (PanelQuery(worst(f"max by (tenant) (weir_class_shed_ratio{{{OF_CLASSES}}})"), "{{tenant}}"),),
            width=8, max=1, of_tenants=True,
        ),
        Panel(
            "Decisions by branch",
            "Load cycles a second of all chosen tenants that ended in each branch of the load manager's table. \"Wait\" most of the time is a quiet system.",
            "eps",
            (PanelQuery(rate_by("branch", "weir_class_decisions_total", OF_CLASSES), "{{branch}}"),),
            width=12, stacked=True,
        ),
        Panel(
            "Decisions that wanted to shed more",
            "Load cycles a second at whose end a tenant would have been shed more of than it allows, the ten most. Its response times suffer.",
            "eps",
            (PanelQuery(worst(rate_by("tenant", "weir_class_decisions_at_max_drop_total", OF_CLASSES)), "{{tenant}}"),),
            width=12, of_tenants=True,
        ),
        Panel(
            "Work that is queued",
            "Processor time that what is queued is believed to cost, the ten most. Divided by the headroom it is how long the queue takes.",
            "s",
            (PanelQuery(worst(by_tenant("weir_class_queue_work_seconds")), "{{tenant}}"),),
            width=12, of_tenants=True,
        ),
        Panel(
            "Oldest tuple in queue by tenant",
            "How long the tuple that waits longest has been in the system, the ten oldest.",
            "s",
            (PanelQuery(worst(f"max by (tenant) (weir_class_queue_age_seconds{{{OF_CLASSES}}})"), "{{tenant}}"),),
            width=12, of_tenants=True,
        ),
    ),
)  # fmt: skip

CONTROL = Board(
    "weir-control",
    "Weir / Lending and control loop",
    "Who has what, who lends to whom, and how load managers steer.",
    (CLASS, TENANT),
    (SHARES, LENDING, LOOP),
    marks_moves=True,
)
