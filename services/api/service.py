"""What all routes are given: the catalog, what is known of it in memory, and who answers for what runs.

The rest is there only where something runs; a route that needs it asks by `running`, which is a problem of its own to the caller.
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

ASK_AGAIN = "ask again in a few seconds"
Part = TypeVar("Part")
NO_PROCESS = "no process that runs feeds reports to this service; start one with `weir ingest --from-service`"


class TargetForecast(Protocol):
    """What would become of the delay targets."""

    @property
    def holds(self) -> bool: ...

    @property
    def warnings(self) -> Sequence[str]:
        """Who would miss what; empty if all targets hold."""

    def as_json(self) -> dict[str, Any]: ...


class TargetPlanner(Protocol):
    """Predicts."""

    def plan(
        self,
        documents: Sequence[Document],
        rates: Mapping[str, float] = ...,
        tenants: Collection[str] | None = None,
    ) -> TargetForecast:
        """As if these were declared; of other tenants than these, if any are named, nothing is told by name."""


@dataclass(frozen=True)
class FeedDeclared:
    """A feed as it is declared: a document of its own, or a stream with a source."""

    format: str
    streams: Sequence[str]


@dataclass
class Service:
    """One of them, with everything it needs."""

    catalog: Catalog
    settings: ServiceSettings
    snapshot: CatalogSnapshot
    results: Results | None = None
    rows: RowDelivery | None = None
    watch: Watch | None = None
    planner: TargetPlanner | None = None
    metrics: SystemCollector | None = None
    mirrors: Callable[[], Sequence[MirrorProgress]] | None = None
    """How those fare that are polled here."""
    waits_for: Callable[[], str] = lambda: ""
    """What is missing until everything that is declared runs; empty when nothing is."""
    enact: Callable[[], bool] = lambda: True
    """Lets what is declared run; returns False if that takes too long to wait for. Where nothing runs there is nothing to wait for."""
    brought: Callable[[], Sequence[FeedProgress]] | None = None
    """Progress of the feeds, if a child of this process runs them."""
    told_feeds: ToldFeeds = field(default_factory=ToldFeeds)
    """Progress that a process elsewhere reports."""
    nodes: Nodes | None = None
    """What gateways have accepted."""
    limits: RateLimits = field(init=False)
    sessions: Sessions = field(init=False)
    """Of consoles."""

    def __post_init__(self) -> None:
        self.limits = RateLimits(self.settings)
        self.sessions = Sessions()

    def feeds_declared(self) -> dict[str, FeedDeclared]:
        """All feeds by name, in the order in which they were declared."""
        feeds = {}
        for kind in ("Stream", "Feed"):
            for entry in self.snapshot.now.of_kind.get(kind, ()):
                match entry.stored.declaration:
                    case StreamDeclaration(name=name, source=source) if source is not None:
                        feeds[name] = FeedDeclared(source.format, (name,))
                    case FeedDeclaration(name=name, source=source, streams=streams):
                        feeds[name] = FeedDeclared(source.format, tuple(streams))
        return feeds

    def feeds(self) -> list[FeedProgress]:
        """The progress of each declared feed; feeds of which no process reports are stopped."""
        now = time.monotonic()
        reported = self.told_feeds.seen(now) if self.brought is None else self.brought()
        progress = {feed.feed: feed for feed in reported}
        is_served = self.brought is not None or self.told_feeds.is_heard(now)
        unknown = (
            FeedProgress("", "starting") if is_served else FeedProgress("", "stopped", last_error=NO_PROCESS)
        )
        return [progress.get(name) or replace(unknown, feed=name) for name in self.feeds_declared()]

    def intakes(self) -> Mapping[str, StreamIntake]:
        """Return the rows that gateways have accepted and rejected, by stream in small letters."""
        return {} if self.nodes is None else self.nodes.intakes.by_stream


def service_of(catalog: Catalog, settings: ServiceSettings | None = None) -> Service:
    """Of declarations alone: nothing runs here."""
    return Service(catalog, settings or ServiceSettings(), CatalogSnapshot(catalog))


def running(part: Part | None, service: Service) -> Part:
    """Return a part of the running system; raise NotRunning while there is none."""
    if part is not None:
        return part
    missing = service.waits_for()
    if missing:
        raise NotRunning(missing, hint=ASK_AGAIN)
    raise NotRunning("nothing runs here", hint="ask the service that `weir up` has started")
