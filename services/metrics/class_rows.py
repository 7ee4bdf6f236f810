"""Metric samples of one class, its streams and its queries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from actors.messages.unit_messages import BOUNDS, UnitCounts
from scheduler.capacity.redistribution import RESERVE
from services.metrics.families import FIGURES
from services.metrics.monotonic_counters import OFFERED, TUPLES, ClassCounts
from services.metrics.text import HistogramText, Labels
from services.watch.accounts import StreamAccount, name_of
from services.watch.class_views import ClassView
from services.watch.losses import query_losses

Rows = defaultdict[str, list[tuple[Labels, float | HistogramText]]]
OF_STREAMS = (OFFERED, TUPLES)
NO_QUEUE = (0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class ClassSeen:
    """Input of the samples of one class: its view, priority class, counters and unit reports at the time of a scrape."""

    view: ClassView
    priority_class: str
    lanes: int
    """Total number of lanes of all nodes."""
    counts: ClassCounts
    units: Sequence[UnitCounts]

    @property
    def labels(self) -> Labels:
        return self.view.name, self.priority_class


def add_class(rows: Rows, seen: ClassSeen) -> None:
    for name, value in {**shares(seen), **now(seen)}.items():
        rows[name].append((seen.labels, value))
    rows["weir_class_state"].append(((*seen.labels, seen.view.condition.state.name.lower()), 1.0))
    for loss in query_losses(seen.view.failures):
        rows["weir_query_failed_ratio"].append(((*seen.labels, loss.query), loss.part))
    add_times(rows, seen)
    add_counts(rows, seen)


def shares(seen: ClassSeen) -> dict[str, float]:
    view, declared = seen.view, seen.view.settings
    nominal = view.original
    lower = max(declared.min_share, nominal * (1 - declared.lendable), nominal * RESERVE)
    upper = min(1.0, nominal + declared.borrow_limit)
    demand = load_of(view) / seen.lanes
    return {
        "weir_class_nominal_share_ratio": nominal,
        "weir_class_current_share_ratio": view.share,
        "weir_class_lower_share_ratio": min(lower, upper),
        "weir_class_upper_share_ratio": upper,
        "weir_class_demand_share_ratio": demand,
        "weir_class_target_share_ratio": min(max(demand, lower), upper),
    }


def load_of(view: ClassView) -> float:
    """Return the class's offered load in processors. A sleeping class has load 0, because the class's last report is out of date."""
    return 0.0 if view.asleep else view.figures.load


def now(seen: ClassSeen) -> dict[str, float]:
    view, declared, figures, load = seen.view, seen.view.settings, seen.view.figures, load_of(seen.view)
    queues = [(unit.queue_bytes, unit.queue_age_s, unit.queue_work_s) for unit in seen.units]
    sizes, ages, work = zip(*(queues or [NO_QUEUE]), strict=True)
    return {
        **{family: getattr(figures, figure.name) for family, figure in FIGURES.items()},
        "weir_class_response_target_seconds": declared.delay_target_ms / 1e3,
        "weir_class_shed_ratio": view.drop,
        "weir_class_kept_ratio": 1 - view.drop,
        "weir_class_max_drop_ratio": 0.0 if declared.lossless else declared.max_drop,
        "weir_class_queue_bytes": sum(sizes),
        "weir_class_queue_age_seconds": 0.0 if view.asleep else max(ages),
        "weir_class_queue_work_seconds": 0.0 if view.asleep else sum(work),
        "weir_class_headroom_processors": figures.headroom,
        "weir_class_load_processors": load,
        "weir_class_admitted_load_processors": load * (1 - view.drop),
        "weir_class_asleep": view.asleep,
        "weir_class_units": view.units,
        "weir_class_queries": len(declared.queries),
        "weir_class_restarts_total": seen.counts.restarts,
    }


def add_times(rows: Rows, seen: ClassSeen) -> None:
    target_s = seen.view.settings.delay_target_ms / 1e3
    times, bounds = seen.counts.times, [part * target_s for part in BOUNDS]
    # After a change of the delay target, the counts are 0 until the next report, which has counts for the new target.
    is_known = times.target_s == target_s
    within = times.within if is_known else [0.0] * len(bounds)
    count, sum_s, in_time = (times.count, times.sum_s, times.in_time) if is_known else (0, 0.0, 0)
    rows["weir_class_response_seconds"].append((seen.labels, HistogramText(bounds, within, count, sum_s)))
    rows["weir_class_results_in_time_total"].append((seen.labels, in_time))


def add_counts(rows: Rows, seen: ClassSeen) -> None:
    named = {name.lower(): name for name in map(name_of, seen.view.settings.streams)}
    for (family, *more), value in seen.counts.values.items():
        if family in OF_STREAMS:
            more[0] = named.get(more[0], more[0])
        rows[family].append(((*seen.labels, *more), value))


def add_accounts(rows: Rows, labels: Labels, found: Iterable[StreamAccount]) -> None:
    for account in found:
        of_stream = (*labels, account.stream)
        missing = account.ledger.offered - account.ledger.accounted() - account.queued
        rows["weir_class_queued_tuples"].append((of_stream, account.queued))
        rows["weir_class_unaccounted_tuples"].append((of_stream, missing))
