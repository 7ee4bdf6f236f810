"""Decide which feeds' queries are started and stopped. No feed waits for another.

`Supervisor.handle(event, now)` returns commands. A shell enacts each command on a thread of its own and reports the outcome as
an event: a start ends in Started or Failed, a stop in Stopped, and a running query that ends by itself in Failed.

Guarantees:
1. An event about one feed leads to commands for this feed only, and Declared to commands for the feeds that it changes.
2. A feed has one query at a time: Start is commanded only when the query before has ended, because both use one checkpoint.
3. A feed that failed is started again after 0.5 s to 30 s, each pause twice as long, until a batch is done. A changed
   declaration is tried at once.
4. A feed that is no longer declared is stopped, and forgotten when its query has ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from actors.runtime.backoff import Backoff

Spec = TypeVar("Spec")

Run = Literal["none", "starting", "running", "stopping"]


@dataclass(frozen=True, slots=True)
class DeclaredFeeds(Generic[Spec]):
    """All feeds that are to run, and no others."""

    feeds: Mapping[str, Spec]


@dataclass(frozen=True, slots=True)
class Started:
    """The query of a feed runs."""

    feed: str


@dataclass(frozen=True, slots=True)
class FeedFailed:
    """A query could not be started, or has ended by itself."""

    feed: str
    why: str


@dataclass(frozen=True, slots=True)
class FeedStopped:
    """A query that was to be stopped has ended."""

    feed: str


@dataclass(frozen=True, slots=True)
class BatchDone:
    """A query has published a micro-batch."""

    feed: str


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed: some feeds may be due."""


Event = DeclaredFeeds[Spec] | Started | FeedFailed | FeedStopped | BatchDone | Tick


@dataclass(frozen=True, slots=True)
class Start(Generic[Spec]):
    """Start a feed's query as `spec` says."""

    feed: str
    spec: Spec


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop a feed's query."""

    feed: str


Command = Start[Spec] | Stop


@dataclass
class Supervised(Generic[Spec]):
    """One feed."""

    declared: Spec | None
    """None when the feed is to end."""
    due: float
    """When the next start is, while nothing runs."""
    run: Run = "none"
    started_as: Spec | None = None
    restarts: int = 0
    """Starts after failures."""
    last_error: str | None = None
    failed: bool = False
    """True from a failure until the next query runs."""
    backoff: Backoff = field(default_factory=Backoff)


class Supervisor(Generic[Spec]):
    """All feeds of one Spark session."""

    def __init__(self) -> None:
        self._feeds: dict[str, Supervised[Spec]] = {}

    @property
    def feeds(self) -> Mapping[str, Supervised[Spec]]:
        """Feeds that are declared or still have a query, in the order of their declaration."""
        return self._feeds

    def next_due(self) -> float | None:
        """When the next start is; None if no feed waits for one."""
        return min((feed.due for feed in self._feeds.values() if feed.run == "none"), default=None)

    def handle(self, event: Event[Spec], now: float) -> list[Command[Spec]]:
        match event:
            case DeclaredFeeds(feeds):
                return self._declare(feeds, now)
            case Tick():
                return self._settle_all(now)
        feed = self._feeds.get(event.feed)
        if feed is None:
            return []
        match event:
            case Started():
                feed.run, feed.failed = "running", False
            case FeedFailed(why=why) if feed.run in ("starting", "running"):
                self._fail(feed, why, now)
            case FeedStopped():
                feed.run, feed.due, feed.failed = "none", now, False
            case BatchDone():
                feed.backoff.succeeded()
        return self._settle(event.feed, now)

    def _declare(self, wanted: Mapping[str, Spec], now: float) -> list[Command[Spec]]:
        for name in [*self._feeds, *wanted]:
            spec = wanted.get(name)
            feed = self._feeds.setdefault(name, Supervised(spec, now))
            if feed.declared != spec:
                feed.declared, feed.due, feed.failed = spec, now, False
                feed.backoff.succeeded()
        return self._settle_all(now)

    def _fail(self, feed: Supervised[Spec], why: str, now: float) -> None:
        feed.run, feed.due = "none", now
        if feed.declared == feed.started_as:
            feed.failed, feed.last_error = True, why
            feed.due = now + feed.backoff.failed()

    def _settle_all(self, now: float) -> list[Command[Spec]]:
        return [command for name in list(self._feeds) for command in self._settle(name, now)]

    def _settle(self, name: str, now: float) -> list[Command[Spec]]:
        """Return what leads from what runs to what is declared."""
        feed = self._feeds[name]
        if feed.run == "running" and feed.declared != feed.started_as:
            feed.run = "stopping"
            return [Stop(name)]
        if feed.run != "none":
            return []
        if feed.declared is None:
            del self._feeds[name]
            return []
        if now < feed.due:
            return []
        feed.restarts += feed.failed
        feed.run, feed.started_as = "starting", feed.declared
        return [Start(name, feed.declared)]
