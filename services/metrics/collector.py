"""Collector of the metrics of the whole running system, so that Prometheus needs one target.

Guarantees:
1. A scrape polls no process: it reads the watch's latest view, and figures of dispatchers and gateways (`services.metrics.nodes`).
2. Every family of `services.metrics.families` is exported, even without samples. Families per operator are exported only on request.
3. No counter falls while the service runs, whatever else is restarted (`services.metrics.monotonic_counters`).
"""

from __future__ import annotations

import platform
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from operator import attrgetter

from actors.messages.unit_messages import UnitCounts
from services.ingest.progress import FeedProgress
from services.metrics.class_rows import ClassSeen, Rows, add_accounts, add_class
from services.metrics.families import FAMILIES, RESULTS
from services.metrics.monotonic_counters import ClassCounters, Counters
from services.metrics.nodes import Nodes
from services.metrics.text import CONTENT_TYPE, Samples, text_of
from services.mirror.poll_loop import MirrorProgress
from services.watch.accounts import StreamAccount, accounts
from services.watch.loans import lending
from services.watch.watch import View, Watch

LOANS_MAX = 500
# Maximum age of a view for a scrape, in seconds; Prometheus scrapes less often than once per second.
MAX_AGE_S = 1.0


class SystemCollector:
    """Collector of all metrics of a running system; its methods may be called from several threads."""

    content_type = CONTENT_TYPE

    def __init__(
        self,
        watch: Watch,
        nodes: Nodes,
        feeds: Callable[[], Sequence[FeedProgress]] = tuple,
        priority_classes: Callable[[], Mapping[str, str]] = dict,
        mirrors: Callable[[], Sequence[MirrorProgress]] = tuple,
    ) -> None:
        """Export the system that `watch` sees; `priority_classes` returns the priority class of each tenant."""
        self._watch, self._nodes = watch, nodes
        self._feeds, self._mirrors, self._priority_classes = feeds, mirrors, priority_classes
        self._classes, self._counters = ClassCounters(), Counters()
        self._lock = threading.Lock()

    def text(self) -> bytes:
        """Return the metrics as text for a scrape."""
        return text_of(self.samples())

    def samples(self) -> Samples:
        """Return the current samples of all families; raise SourceAway if the coordinator has never answered."""
        view = self._watch.view(MAX_AGE_S)
        with self._lock:
            self._classes.hear(view.system)
            rows: Rows = defaultdict(list)
            self._add_classes(rows, view)
            self._add_loans(rows, view)
            self._add_nodes(rows, view)
            self._add_streams(rows)
            self._add_feeds(rows)
            self._add_mirrors(rows)
            self._add_system(rows, view)
            self._add_operators(rows)
            self._counters.end_round()
        with_operators = self._nodes.operators is not None
        return {
            family.name: rows[family.name] for family in FAMILIES if with_operators or not family.per_operator
        }

    def _add_classes(self, rows: Rows, view: View) -> None:
        declared = self._priority_classes()
        lanes = sum(view.system.nodes.values()) or 1
        units: defaultdict[str, list[UnitCounts]] = defaultdict(list)
        for unit in view.system.units.values():
            if unit.report is not None and unit.report.counted is not None:
                units[unit.class_name].append(unit.report.counted)
        streams: defaultdict[str, list[StreamAccount]] = defaultdict(list)
        for account in accounts(view.system):
            streams[account.tenant].append(account)
        for name, class_view in view.classes.items():
            class_seen = ClassSeen(
                class_view, declared.get(name, ""), lanes, self._classes.of(name), units[name]
            )
            add_class(rows, class_seen)
            add_accounts(rows, class_seen.labels, streams[name])
            for family, seconds in (
                ("weir_class_lent_seconds_total", class_view.lent_s),
                ("weir_class_borrowed_seconds_total", class_view.borrowed_s),
            ):
                rows[family].append((class_seen.labels, self._counters.kept((family, name), seconds)))

    def _add_loans(self, rows: Rows, view: View) -> None:
        loans = [
            loan
            for loan in lending(view.system, view.look.lending)
            if loan.lender in view.classes and loan.borrower in view.classes
        ]
        for loan in sorted(loans, key=attrgetter("seconds"), reverse=True)[:LOANS_MAX]:
            pair = loan.lender, loan.borrower
            name = "weir_loan_seconds_total"
            rows["weir_loan_processors"].append((pair, loan.now))
            rows[name].append((pair, self._counters.kept((name, *pair), loan.seconds)))

    def _add_operators(self, rows: Rows) -> None:
        if self._nodes.operators is None:
            return
        declared = self._priority_classes()
        for tenant, lines in self._nodes.operators.seen.items():
            for line in lines:
                # The label contains the operator's number and name, because a query may have several operators with the same name.
                operator = f"{line.number} {line.name}"
                labels = tenant, declared.get(tenant, ""), ",".join(line.queries), operator
                rows["weir_operator_cost_seconds"].append((labels, line.cost_us / 1e6))
                rows["weir_operator_selectivity_ratio"].append((labels, line.selectivity))
                rows["weir_operator_queued_tuples"].append((labels, line.queued))

    def _add_nodes(self, rows: Rows, view: View) -> None:
        nodes_seen, system = self._nodes.seen, view.system
        placed = [unit.node for unit in system.units.values()]
        for node, lanes in system.nodes.items():
            rows["weir_node_lanes"].append(((node,), lanes))
            rows["weir_node_units"].append(((node,), placed.count(node)))
            rows["weir_restarts_total"].append((("host", node), self._classes.host_restarts[node]))
        for node, turn_status in nodes_seen.turns.items():
            turns, of = turn_status.turns, turn_status.turns.lanes
            for name, value in (
                ("weir_node_rounds_total", turns.rounds),
                ("weir_node_slices_total", sum(lane.slices for lane in of)),
                ("weir_node_overdue_slices_total", turns.overdue_count),
                ("weir_node_busy_seconds_total", sum(lane.busy_s for lane in of)),
                ("weir_node_slice_seconds_total", sum(lane.in_slices_s for lane in of)),
                ("weir_node_scheduling_seconds_total", turns.handed_over_s),
                ("weir_node_processor_seconds_total", sum(lane.used_s for lane in of)),
                ("weir_node_idle_seconds_total", sum(lane.idle_s for lane in of)),
            ):
                rows[name].append(((node,), self._counters.of_life((name, node), value, turn_status.pid)))
            self._add_restarts(rows, "dispatcher", node, turn_status.pid)
        for node, inflow in nodes_seen.inflow.items():
            self._add_restarts(rows, "gateway", node, inflow.pid)
        for kind, moves in nodes_seen.moves.items():
            rows["weir_share_moves_total"].append(((kind,), moves))
        self._add_restarts(rows, "coordinator", "", view.look.status.pid)

    def _add_restarts(self, rows: Rows, actor: str, node: str, pid: int) -> None:
        rows["weir_restarts_total"].append(((actor, node), self._counters.changes((actor, node), pid)))

    def _add_streams(self, rows: Rows) -> None:
        for node, inflow in self._nodes.seen.inflow.items():
            for stream in inflow.streams:
                labels = stream["stream"], node
                for name, count in (
                    ("weir_stream_rows_total", stream["accepted_rows"]),
                    ("weir_stream_batches_total", stream["accepted_batches"]),
                    ("weir_stream_refused_batches_total", stream["refused_batches"]),
                    ("weir_stream_dead_letters_total", sum(stream["dead"].values())),
                ):
                    rows[name].append((labels, self._counters.kept((name, *labels), count)))
                rows["weir_stream_retained_bytes"].append((labels, stream["bytes"]))
                rows["weir_stream_retained_limit_bytes"].append((labels, stream["bytes_max"]))
                rows["weir_stream_producers"].append((labels, stream["producers"]))

    def _add_feeds(self, rows: Rows) -> None:
        for feed in self._feeds():
            labels = (feed.feed,)
            for name, count in (
                ("weir_feed_rows_total", feed.rows),
                ("weir_feed_restarts_total", feed.restarts),
            ):
                rows[name].append((labels, self._counters.until_it_falls((name, feed.feed), count)))
            rows["weir_feed_running"].append((labels, feed.state == "running"))
            if feed.lag is not None:
                rows["weir_feed_lag_rows"].append((labels, feed.lag))
            if feed.batch_ms is not None:
                rows["weir_feed_batch_seconds"].append((labels, feed.batch_ms / 1e3))

    def _add_mirrors(self, rows: Rows) -> None:
        for mirror in self._mirrors():
            labels, statistics = (mirror.mirror,), mirror.statistics
            unchanged = statistics.polls - statistics.changes - statistics.failures
            results = zip(RESULTS, (statistics.changes, unchanged, statistics.failures), strict=True)
            for name, labels_given, count in (
                *(("weir_mirror_polls_total", (mirror.mirror, result), polls) for result, polls in results),
                ("weir_mirror_bytes_total", labels, mirror.bytes),
                ("weir_mirror_rows_total", labels, mirror.published),
                ("weir_mirror_uses_total", labels, statistics.uses),
                ("weir_mirror_solves_total", labels, statistics.solved),
            ):
                rows[name].append((labels_given, self._counters.until_it_falls((name, *labels_given), count)))
            for name, value in (
                ("weir_mirror_expected_freshness_ratio", statistics.perceived_expected),
                ("weir_mirror_objects", statistics.objects),
                ("weir_mirror_held_objects", statistics.held),
                ("weir_mirror_failing_objects", statistics.failing),
                ("weir_mirror_bandwidth_used_ratio", mirror.spent_per_s / mirror.bandwidth),
                ("weir_mirror_running", mirror.state == "running"),
            ):
                rows[name].append((labels, value))
            if statistics.perceived_measured is not None:
                rows["weir_mirror_perceived_freshness_ratio"].append((labels, statistics.perceived_measured))

    def _add_system(self, rows: Rows, view: View) -> None:
        status, watch = view.look.status, self._watch
        problems = sum(len(class_.problems) for class_ in view.classes.values())
        problems += len(watch.problems()) + len(watch.losses()) + bool(watch.problem)
        lost = self._counters.of_life(("weir_reports_lost_total",), status.reports_lost, status.pid)
        for name, value in (
            ("weir_units_unplaced", len(view.system.unplaced)),
            ("weir_actors_quarantined", len(status.quarantined)),
            ("weir_reports_lost_total", lost),
            ("weir_problems", problems),
            ("weir_view_age_seconds", watch.age_s(view)),
            ("weir_service_uptime_seconds", watch.uptime_s),
        ):
            rows[name].append(((), value))
        rows["weir_build_info"].append(((version("weir"), platform.python_version()), 1.0))
