"""Supervisor that decides when the Spark query of each feed is started and stopped. No feed waits for another feed.

`Supervisor.handle(event, now)` returns commands. A shell enacts each command on a thread of its own and reports the outcome as
an event: a start ends in Started or FeedFailed, a stop in FeedStopped, and a running query that ends by itself in FeedFailed.

Guarantees:
1. An event about one feed leads to commands for this feed only. DeclaredFeeds leads to commands for the feeds that it changes.
2. A feed has one query at a time. Its next query is started only after the previous query has ended, because both use one checkpoint.
3. A feed that failed is started again after a pause. The pause doubles with each failure, from 0.5 s to 30 s, and is 0.5 s
   again after a completed batch. A feed with a changed declaration is started without a pause.
4. A feed that is no longer declared is stopped. The supervisor forgets the feed when its query has ended.
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
    """Event: exactly these feeds are declared now, so these feeds must run and all other feeds must stop."""

    feeds: Mapping[str, Spec]


@dataclass(frozen=True, slots=True)
class Started:
    """Event: the query of a feed has started."""

    feed: str


@dataclass(frozen=True, slots=True)
class FeedFailed:
    """Event: the query of a feed could not be started, or has ended by itself."""

    feed: str
    why: str


@dataclass(frozen=True, slots=True)
class FeedStopped:
    """Event: the query of a feed has ended after a command to stop."""

    feed: str


@dataclass(frozen=True, slots=True)
class BatchDone:
    """Event: the query of a feed has published a micro-batch."""

    feed: str


@dataclass(frozen=True, slots=True)
class Tick:
    """Event: time has passed. If the pause after a failure of a feed is over, the feed must be started again."""


Event = DeclaredFeeds[Spec] | Started | FeedFailed | FeedStopped | BatchDone | Tick


@dataclass(frozen=True, slots=True)
class Start(Generic[Spec]):
    """Command to start the query of a feed with the settings in `spec`."""

    feed: str
    spec: Spec


@dataclass(frozen=True, slots=True)
class Stop:
    """Command to stop a feed's query."""

    feed: str


Command = Start[Spec] | Stop


@dataclass
class Supervised(Generic[Spec]):
    """State of one feed: its declared specification, the state of its query, and the time of the next start."""

    declared: Spec | None
    """Specification of the query that must run; None if the feed must stop."""
    due: float
    """Time at which the query is started next; used only while no query runs."""
    run: Run = "none"
    started_as: Spec | None = None
    restarts: int = 0
    """Number of times that the query was started after a failure."""
    last_error: str | None = None
    failed: bool = False
    """True from a failure of the query until the feed's next query runs."""
    backoff: Backoff = field(default_factory=Backoff)


class Supervisor(Generic[Spec]):
    """State of all feeds of one Spark session."""

    def __init__(self) -> None:
        self.feeds: dict[str, Supervised[Spec]] = {}
        """Feeds that are declared or still have a query, in the order of their declaration."""

    def handle(self, event: Event[Spec], now: float) -> list[Command[Spec]]:
        match event:
            case DeclaredFeeds(feeds):
                return self._declare(feeds, now)
            case Tick():
                return self._settle_all(now)
        feed = self.feeds.get(event.feed)
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
        for name in [*self.feeds, *wanted]:
            spec = wanted.get(name)
            feed = self.feeds.setdefault(name, Supervised(spec, now))
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
        return [command for name in list(self.feeds) for command in self._settle(name, now)]

    def _settle(self, name: str, now: float) -> list[Command[Spec]]:
        """Return the commands that start or stop the feed's query, so that the query follows the feed's declaration."""
        feed = self.feeds[name]
        if feed.run == "running" and feed.declared != feed.started_as:
            feed.run = "stopping"
            return [Stop(name)]
        if feed.run != "none":
            return []
        if feed.declared is None:
            del self.feeds[name]
            return []
        if now < feed.due:
            return []
        feed.restarts += feed.failed
        feed.run, feed.started_as = "starting", feed.declared
        return [Start(name, feed.declared)]
