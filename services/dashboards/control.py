"""Dashboard named Control: shares of the lanes, loans between tenants, and decisions of load managers."""

from __future__ import annotations

from services.dashboards.boards import (
    CLASS,
    OF_CLASSES,
    OF_TENANT,
    PER_S,
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
# Smaller differences of shares come from rounding.
LEAST = "0.0001"

SHARES = Row(
    "Shares",
    (
        Panel(
            "Shares of the lanes",
            "Part of all lanes that each tenant has now, for the twenty largest shares. The gap up to 100% belongs to all other tenants.",
            "percentunit",
            (PanelQuery(worst(by_tenant("weir_class_current_share_ratio"), 20), "{{tenant}}"),),
            width=12, stacked=True, max=1, of_tenants=True,
        ),
        Panel(
            "Above and below the original share",
            "Current share minus the original share, which follows from the tenant's priority: above 0 the tenant borrows, below 0 it lends. "
            "The ten largest borrowers and lenders are shown.",
            "percentunit",
            (
                PanelQuery(worst(f"{OVER} > {LEAST}"), "{{tenant}} borrows"),
                PanelQuery(f"bottomk(10, {OVER} < -{LEAST})", "{{tenant}} lends"),
            ),
            width=12, min=None, of_tenants=True, empty_unless="a tenant lends",
        ),
        Panel(
            "Demand",
            "Part of all lanes that each tenant's load would need, for the ten largest. If all parts together exceed 100%, tuples are shed or wait.",
            "percentunit",
            (PanelQuery(worst(by_tenant("weir_class_demand_share_ratio")), "{{tenant}}"),),
            width=12, of_tenants=True,
        ),
        Panel(
            "Bounds of lending",
            "Current share of the chosen tenants in sum, with the lowest and the highest share that lending may lead to.",
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
    "Lending",
    (
        Panel(
            "Loans now",
            "Processors that one tenant lends to another now, for the twenty largest loans.",
            "short",
            (PanelQuery(worst(f"sum by (tenant, borrower) (weir_loan_processors{{{OF_TENANT}}})", 20), "{{tenant}} → {{borrower}}"),),
            width=12, stacked=True, empty_unless="a tenant has lent capacity",
        ),
        Panel(
            "Loans over time",
            "Processors lent on average over the last minutes by one tenant to another, for the twenty largest pairs.",
            "short",
            (PanelQuery(worst(rate_by("tenant, borrower", "weir_loan_seconds_total", OF_TENANT), 20), "{{tenant}} → {{borrower}}"),),
            width=12, empty_unless="a tenant has lent capacity",
        ),
        Panel(
            "Moves of shares",
            "Moves of shares per second, by reason: redistribution of idle capacity, reclaim of lent capacity by its owner, or classes that were added, "
            "removed or changed.",
            PER_S,
            (PanelQuery(rate_by("kind", "weir_share_moves_total"), "{{kind}}"),),
            width=8, stacked=True,
        ),
        Panel(
            "Reclaims",
            "Reclaims per second: a tenant starts to ask for lent capacity back. The ten tenants with the highest rates are shown.",
            PER_S,
            (PanelQuery(worst(rate_by("tenant", "weir_class_reclaims_total", OF_CLASSES)), "{{tenant}}"),),
            width=8, of_tenants=True,
        ),
        Panel(
            "Overdue reclaims",
            "Load cycles per second that ended with a tenant asking again for lent capacity, because the capacity had not come back within a whole cycle. This rate should be 0.",
            PER_S,
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
            "Offered load divided by headroom, the capacity that a tenant can really spend on tuples, for the ten highest. Above 100%, tuples are shed or wait.",
            "percentunit",
            (PanelQuery(worst(USAGE), "{{tenant}}"),),
            width=8, thresholds=((None, "green"), (1.0, "red")), of_tenants=True,
        ),
        Panel(
            "Headroom",
            "Processors that a tenant can really spend on tuples, as learned by its load manager, for the ten largest. This headroom follows the tenant's share, minus the cost of scheduling.",
            "short",
            (PanelQuery(worst(by_tenant("weir_class_headroom_processors")), "{{tenant}}"),),
            width=8, of_tenants=True,
        ),
        Panel(
            "Shed now",
            "Part of a tenant's input that its load manager sheds now, for the ten tenants with the highest values.",
            "percentunit",
            (PanelQuery(worst(f"max by (tenant) (weir_class_shed_ratio{{{OF_CLASSES}}})"), "{{tenant}}"),),
            width=8, max=1, of_tenants=True,
        ),
        Panel(
            "Decisions by branch",
            "Load cycles per second of all chosen tenants, by the branch of the load manager's decision table. In a quiet system, most decisions are \"wait\".",
            PER_S,
            (PanelQuery(rate_by("branch", "weir_class_decisions_total", OF_CLASSES), "{{branch}}"),),
            width=12, stacked=True,
        ),
        Panel(
            "Decisions limited by max_drop",
            "Load cycles per second that would have shed more than the tenant's `max_drop` allows, for the ten highest. The response times of such a tenant rise.",
            PER_S,
            (PanelQuery(worst(rate_by("tenant", "weir_class_decisions_at_max_drop_total", OF_CLASSES)), "{{tenant}}"),),
            width=12, of_tenants=True,
        ),
        Panel(
            "Queued work",
            "Estimated processor time needed to process a tenant's queue, for the ten highest. This time divided by the headroom is the time until the queue is empty.",
            "s",
            (PanelQuery(worst(by_tenant("weir_class_queue_work_seconds")), "{{tenant}}"),),
            width=12, of_tenants=True,
        ),
        Panel(
            "Oldest tuple in queue by tenant",
            "Time since the arrival of a tenant's oldest waiting tuple, for the ten oldest.",
            "s",
            (PanelQuery(worst(f"max by (tenant) (weir_class_queue_age_seconds{{{OF_CLASSES}}})"), "{{tenant}}"),),
            width=12, of_tenants=True,
        ),
    ),
)  # fmt: skip

CONTROL = Board(
    "weir-control",
    "Weir / Lending and control loop",
    "Which share does each tenant have, which tenants lend to which, and what do load managers decide?",
    (CLASS, TENANT),
    (SHARES, LENDING, LOOP),
    marks_moves=True,
)
