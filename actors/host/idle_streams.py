"""Event time of idle streams: it advances with the clock, so that windows close although the stream has no input."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass

from actors.host.inbox import Inbox
from engine.class_.hosted_class import HostedClass

# Factor by which the pause between two advances of an idle stream grows each time.
ADVANCE_GROWTH = 1.5
NEVER = float("inf")


@dataclass(slots=True)
class Idle:
    """State of a stream since its last input."""

    since: float
    pause_s: float
    due: float
    base: int | None = None
    """Event time of the stream when it became idle."""


class IdleStreams:
    """The streams of a unit that have had no input since the last load cycle."""

    def __init__(self, hosted: HostedClass, inbox: Inbox, after_s: float | None) -> None:
        """Advance the event time of streams that had no input for `after_s` seconds; with None, never advance it."""
        self.next_advance = NEVER
        self.is_asked = False
        self._hosted, self._inbox, self._after_s = hosted, inbox, after_s
        self._idle: dict[str, Idle] = {}

    def forget(self, stream: str) -> None:
        """Treat the stream as no longer idle, because it has input or is no longer read."""
        self._idle.pop(stream, None)

    def find(self, reading: Collection[str], now: float) -> None:
        """Find the idle streams among the streams that are read, and the time at which the next idle stream should advance."""
        self.next_advance = NEVER
        holdings = self._hosted.runner.network.account.holdings.values()
        if self._after_s is None or not any(holding.state for holding in holdings):
            return
        for stream in reading:
            if self._hosted.queries.event_time(stream) is None:
                continue
            if stream not in self._idle:
                self._idle[stream] = Idle(now, self._after_s, now + self._after_s)
            self.next_advance = min(self.next_advance, self._idle[stream].due)

    def ask(self) -> None:
        """Let the next slice advance the event time of idle streams that are due."""
        self.is_asked = True
        self.next_advance = NEVER

    def advance(self, reading: Collection[str], fed: Collection[str], now: float) -> None:
        """Advance the streams that are due.

        A stream in `fed` (brought by a feed) advances only up to the last time at which its feed had nothing left to publish.
        """
        self.is_asked = False
        hosted, after_s = self._hosted, self._after_s or 0.0
        for stream, idle in self._idle.items():
            latest = hosted.queries.event_time(stream)
            if now < idle.due or latest is None or hosted.input.queued(stream) or hosted.repeating:
                continue
            if idle.base is None:
                idle.base = latest
            # Event time stays `after_s` behind the clock, so that rows after a shorter pause are not late.
            gone_us = 1e6 * (self._empty_until(stream, fed, now) - idle.since - after_s)
            if gone_us <= 0:
                # The feed is down, starting, or in the middle of a batch. The next rows of the feed must not be late.
                idle.due = now + idle.pause_s
                continue
            hosted.rest(time.monotonic)
            unit_us = hosted.queries.schemas[stream].time_unit_us
            hosted.advance(stream, idle.base + int(gone_us / unit_us), now)
            idle.pause_s *= ADVANCE_GROWTH
            idle.due = now + idle.pause_s
        self.find(reading, now)

    def _empty_until(self, stream: str, fed: Collection[str], now: float) -> float:
        """Return the time up to which no row can be missing. For a stream with a feed: when the feed last had nothing left to publish."""
        if stream not in map(str.lower, fed):
            return now
        return min(now, self._inbox.caught_up.get(stream, -NEVER))
