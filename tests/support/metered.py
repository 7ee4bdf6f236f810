"""System in the process of the tests, from which a watch and metrics can be collected."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from actors.dispatcher.dispatcher_actor import DispatcherStatus
from actors.dispatcher.turn_lane import LaneStatus
from actors.dispatcher.turn_loop import TurnStatus
from scheduler.mirrors.poller import MirrorStatistics
from services.ingest.progress import FeedProgress
from services.metrics.collector import SystemCollector
from services.metrics.nodes import Nodes
from services.mirror.poll_loop import MirrorProgress
from services.watch.source import Inflow, SourceAway
from services.watch.watch import Watch
from tests.support.watched import InProcess

MIRROR = MirrorProgress(
    "prices",
    50.0,
    "polls",
    "running",
    MirrorStatistics(40, 38, 500, 120, 30, 2, 480.0, 7, 11.0, 0.75, 0.625),
    published=119,
    bytes=9000,
    spent_per_s=40.0,
)
FEED = FeedProgress("sensors", "running", rows=500, batch_ms=150.0, lag=20.0, restarts=1)


@dataclass
class Metered(InProcess):
    """Watched system that also implements NodeSource, the interface to the nodes for metrics."""

    slices: int = 10
    pids: dict[str, int] = field(default_factory=lambda: {"dispatcher": 2, "gateway": 3})
    inflows: list[dict[str, Any]] = field(default_factory=list)
    feeds: list[FeedProgress] = field(default_factory=lambda: [FEED])
    mirrors: list[MirrorProgress] = field(default_factory=lambda: [MIRROR])

    def turns(self, node: str) -> DispatcherStatus:
        self._answer()
        lanes = (LaneStatus(None, self.slices, 2.0, 1.5, 1.25, 0.5),) * 2
        turns = TurnStatus(4, lanes, {}, (), 1, 0, 0, {}, 0.25, "")
        return DispatcherStatus(self.pids["dispatcher"], turns)

    def inflow(self, node: str) -> Inflow:
        self._answer()
        return Inflow(self.pids["gateway"], self.inflows)


def stream(name: str = "Readings", rows: int = 100, **dead: int) -> dict[str, Any]:
    """Return the counts of a stream in the form in which a gateway reports them."""
    return {
        "stream": name,
        "origin": None,
        "bytes": 1000,
        "bytes_max": 4000,
        "accepted_rows": rows,
        "accepted_batches": rows // 10,
        "refused_batches": 2,
        "producers": 1,
        "dead": dead,
    }


@dataclass(frozen=True)
class Metering:
    """Collector of metrics, with the watch and the nodes from which it collects."""

    system: Metered
    watch: Watch
    nodes: Nodes
    collector: SystemCollector

    def told(self) -> dict[str, float]:
        """Return the current value of each series, by its name in Prometheus's text format."""
        self.watch.look()
        self.nodes.look()
        lines = self.collector.text().decode().splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return {series: float(value) for series, value in pairs}


@contextmanager
def metering(system: Metered, with_operators: bool = False, **priority_classes: str) -> Iterator[Metering]:
    """Yield a collector of the system's metrics. The collector polls the system only when the test calls for an update."""
    with Watch(system, every_s=3600.0) as watch:
        # The first poll of the watch's thread must end first. Otherwise its older view could replace the view of a later poll.
        with suppress(SourceAway):
            watch.view()
        nodes = Nodes(system, watch, with_operators=with_operators)
        yield Metering(
            system,
            watch,
            nodes,
            SystemCollector(
                watch, nodes, lambda: system.feeds, lambda: priority_classes, lambda: system.mirrors
            ),
        )
