"""What all routes are given: the catalog, what is known of it in memory, and who answers for what runs.

The rest is there only where something runs; a route that needs it asks by `running`, which is a problem of its own to the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from configs.declarations import Document
from configs.service import ServiceSettings
from services.api.limits import Limits
from services.api.problems import NotRunning
from services.api.sessions import Sessions
from services.api.snapshot import Snapshot
from services.catalog.catalog import Catalog
from services.ingest.progress import ToldFeeds

if TYPE_CHECKING:
    from services.metrics.collector import SystemCollector
    from services.mirror.polling import MirrorProgress
    from services.results.results import Results
    from services.results.rows import Rows
    from services.watch.watch import Watch

Part = TypeVar("Part")


class Plan(Protocol):
    """What would become of the delay targets."""

    @property
    def holds(self) -> bool: ...

    @property
    def warnings(self) -> Sequence[str]:
        """Who would miss what; empty if all targets hold."""

    def as_json(self) -> dict[str, Any]: ...


class Planner(Protocol):
    """Predicts."""

    def plan(
        self,
        documents: Sequence[Document],
        rates: Mapping[str, float] = ...,
        tenants: Collection[str] | None = None,
    ) -> Plan:
        """As if these were declared; of other tenants than these, if any are named, nothing is told by name."""


@dataclass
class Service:
    """One of them, with everything it needs."""

    catalog: Catalog
    settings: ServiceSettings
    snapshot: Snapshot
    results: Results | None = None
    rows: Rows | None = None
    watch: Watch | None = None
    planner: Planner | None = None
    metrics: SystemCollector | None = None
    mirrors: Callable[[], Sequence[MirrorProgress]] | None = None
    """How those fare that are polled here."""
    waits_for: Callable[[], str] = lambda: ""
    """What is missing until everything that is declared runs; empty when nothing is."""
    told_feeds: ToldFeeds = field(default_factory=ToldFeeds)
    """Of a process that brings them elsewhere."""
    limits: Limits = field(init=False)
    sessions: Sessions = field(init=False)
    """Of consoles."""

    def __post_init__(self) -> None:
        self.limits = Limits(self.settings)
        self.sessions = Sessions()


def service_of(catalog: Catalog, settings: ServiceSettings | None = None) -> Service:
    """Of declarations alone: nothing runs here."""
    return Service(catalog, settings or ServiceSettings(), Snapshot(catalog))


def running(part: Part | None) -> Part:
    """What answers for a part of the running system."""
    if part is None:
        raise NotRunning("nothing runs here", hint="ask the service that `weir up` has started")
    return part
