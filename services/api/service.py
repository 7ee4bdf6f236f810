"""`Service`: everything that routes need, namely the catalog, its snapshot in memory, and the parts of the running system.

The parts of the system are None while no system runs. Routes read each part with `running`, which then raises NotRunning.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from configs.documents.declarations import Document, FeedDeclaration, StreamDeclaration
from configs.service.service_settings import ServiceSettings
from services.api.catalog_snapshot import CatalogSnapshot
from services.api.problems import NotRunning
from services.api.rate_limits import RateLimits
from services.api.sessions import Sessions
from services.catalog.catalog import Catalog
from services.ingest.progress import FeedProgress, ToldFeeds

if TYPE_CHECKING:
    from services.metrics.collector import SystemCollector
    from services.metrics.nodes import Nodes
    from services.mirror.poll_loop import MirrorProgress
    from services.results.results import Results
    from services.results.rows import RowDelivery
    from services.watch.losses import StreamIntake
    from services.watch.watch import Watch

ASK_AGAIN = "try again in a few seconds"
Part = TypeVar("Part")
NO_PROCESS = "no process that runs feeds reports to this service; start one with `weir ingest --from-service`"


class TargetForecast(Protocol):
    """Result of a forecast of delay targets: `holds` is True if all targets would be met; `warnings` names the affected classes."""

    @property
    def holds(self) -> bool: ...

    @property
    def warnings(self) -> Sequence[str]:
        """Texts that each name a class that would miss its delay target or lose input; empty if there is no such class."""

    def as_json(self) -> dict[str, Any]: ...


class TargetPlanner(Protocol):
    """Forecaster of delay targets for documents that are not declared yet."""

    def plan(
        self,
        documents: Sequence[Document],
        rates: Mapping[str, float] = ...,
        tenants: Collection[str] | None = None,
    ) -> TargetForecast:
        """Forecast the delay targets as if `documents` were declared. If `tenants` are given, the result names only these tenants."""


@dataclass(frozen=True)
class FeedDeclared:
    """Declared feed: a document of kind Feed, or a stream with a source."""

    format: str
    streams: Sequence[str]


@dataclass
class Service:
    """Catalog, settings, sessions and rate limits of the service, and the parts of the system that runs behind it."""

    catalog: Catalog
    settings: ServiceSettings
    snapshot: CatalogSnapshot
    results: Results | None = None
    rows: RowDelivery | None = None
    watch: Watch | None = None
    planner: TargetPlanner | None = None
    metrics: SystemCollector | None = None
    mirrors: Callable[[], Sequence[MirrorProgress]] | None = None
    """Function that returns the progress of the mirrors that this process polls."""
    waits_for: Callable[[], str] = lambda: ""
    """Function that returns a text naming the parts that have not started yet; the text is empty once everything declared runs."""
    enact: Callable[[], bool] = lambda: True
    """Function that waits until all declarations run. It returns False after its time limit, and True if no system runs."""
    brought: Callable[[], Sequence[FeedProgress]] | None = None
    """Function that returns the progress of the feeds; None unless a child of this process runs the feeds."""
    told_feeds: ToldFeeds = field(default_factory=ToldFeeds)
    """Last report of another process about the feeds that it runs."""
    nodes: Nodes | None = None
    """Figures of all nodes, with the rows that their gateways have accepted and rejected."""
    limits: RateLimits = field(init=False)
    sessions: Sessions = field(init=False)
    """Sessions of signed-in consoles."""

    def __post_init__(self) -> None:
        self.limits = RateLimits(self.settings)
        self.sessions = Sessions()

    def feeds_declared(self) -> dict[str, FeedDeclared]:
        """Return all declared feeds by name, in the order in which they were declared."""
        state, feeds = self.snapshot.now.state, {}
        for stream in state.of_kind(StreamDeclaration):
            if stream.source is not None:
                feeds[stream.name] = FeedDeclared(stream.source.format, (stream.name,))
        for feed in state.of_kind(FeedDeclaration):
            feeds[feed.name] = FeedDeclared(feed.source.format, tuple(feed.streams))
        return feeds

    def feeds(self) -> list[FeedProgress]:
        """Return the progress of each declared feed. A feed without a report is starting, or stopped if no process runs feeds."""
        now = time.monotonic()
        reported = self.told_feeds.seen(now) if self.brought is None else self.brought()
        progress = {feed.feed: feed for feed in reported}
        is_served = self.brought is not None or self.told_feeds.is_heard(now)
        unknown = (
            FeedProgress("", "starting") if is_served else FeedProgress("", "stopped", last_error=NO_PROCESS)
        )
        return [progress.get(name) or replace(unknown, feed=name) for name in self.feeds_declared()]

    def intakes(self) -> Mapping[str, StreamIntake]:
        """Return the rows that gateways have accepted and rejected, by lower-case name of the stream."""
        return {} if self.nodes is None else self.nodes.intakes.by_stream


def service_of(catalog: Catalog, settings: ServiceSettings | None = None) -> Service:
    """Return a service without a running system, which only manages declarations."""
    return Service(catalog, settings or ServiceSettings(), CatalogSnapshot(catalog))


def running(part: Part | None, service: Service) -> Part:
    """Return `part`, a part of the running system; raise NotRunning if the part is missing (None)."""
    if part is not None:
        return part
    missing = service.waits_for()
    if missing:
        raise NotRunning(missing, hint=ASK_AGAIN)
    raise NotRunning("this service has no running system", hint="use the service that `weir up` has started")
