"""Event time of idle streams, which advances with the clock: windows of a stream without input close nevertheless."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass

from actors.host.inbox import Inbox
from engine.class_.hosted_class import HostedClass

# Idle streams are advanced less and less often.
ADVANCE_GROWTH = 1.5
NEVER = float("inf")


@dataclass(slots=True)
class Idle:
    """A stream since its last input."""

    since: float
    pause_s: float
    due: float
    base: int | None = None
    """Its event time when it fell idle."""


class IdleStreams:
    """The streams of a unit that have had no input since the last load cycle."""

    def __init__(self, hosted: HostedClass, inbox: Inbox, after_s: float | None) -> None:
        """The event time of a stream without input for `after_s` advances; if `after_s` is None, it does not."""
        self.next_advance = NEVER
        self.is_asked = False
        self._hosted, self._inbox, self._after_s = hosted, inbox, after_s
        self._idle: dict[str, Idle] = {}

    def forget(self, stream: str) -> None:
        """The stream has input, or is not read any more."""
        self._idle.pop(stream, None)

    def find(self, reading: Collection[str], now: float) -> None:
        """Find idle streams among those that are read, and when one of them is to advance next."""
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
        """Advance in the next slice."""
        self.is_asked = True
        self.next_advance = NEVER

    def advance(self, reading: Collection[str], fed: Collection[str], now: float) -> None:
        """Advance the streams that are due; of those that are `fed`, up to where their feeds had nothing left."""
        self.is_asked = False
        hosted, after_s = self._hosted, self._after_s or 0.0
        for stream, idle in self._idle.items():
            latest = hosted.queries.event_time(stream)
            if now < idle.due or latest is None or hosted.input.queued(stream) or hosted.repeating:
                continue
            if idle.base is None:
                idle.base = latest
            # Behind the clock by what a pause may last: rows that come after a shorter one are not late.
            gone_us = 1e6 * (self._empty_until(stream, fed, now) - idle.since - after_s)
            if gone_us <= 0:
                # Its feed is down, starting, or in the middle of a batch: what it brings then is not late.
                idle.due = now + idle.pause_s
                continue
            hosted.rest(time.monotonic)
            unit_us = hosted.queries.schemas[stream].time_unit_us
            hosted.advance(stream, idle.base + int(gone_us / unit_us), now)
            idle.pause_s *= ADVANCE_GROWTH
            idle.due = now + idle.pause_s
        self.find(reading, now)

    def _empty_until(self, stream: str, fed: Collection[str], now: float) -> float:
        """Return the moment up to which it is known that the stream had no more rows."""
        if stream not in map(str.lower, fed):
            return now
        return min(now, self._inbox.caught_up.get(stream, -NEVER))
