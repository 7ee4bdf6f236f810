"""What the ingest thread and the class thread exchange for one unit, and the feeds of this unit.

Each field has one writer. A queue's length is let in minus gone, each counted by the thread that knows; so it may be
behind for a moment, never wrong for good.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from actors.log.segment_log import FrameForgotten, Reader
from actors.log.train_format import batch_head, batch_of
from actors.runtime.backoff import Backoff
from engine.class_.door import Door, Piece, turned_away

# A unit may save up for a burst.
BURST_S = 0.25
PIECES_MAX = 10_000
# Between two tries to reach the gateway, or to subscribe where it has not heard of the stream yet.
BACKOFF_LEAST_S, BACKOFF_MOST_S = 0.01, 1.0


class ArrivedPiece(NamedTuple):
    """A piece of input; so many rows has its stream had with it."""

    piece: Piece
    upto: int
    feed: Feed | None = None
    """What brought it; None if nothing can have taken the feed's place."""


@dataclass(slots=True)
class Inbox:
    """Between the two threads."""

    # By the ingest thread.
    arrived: deque[ArrivedPiece] = field(default_factory=deque)
    # Streams, the batch they begin with, how many rows came before, if that is known, and the feed.
    begun: deque[tuple[str, int, int | None, Feed | None]] = field(default_factory=deque)
    let_in: Counter[str] = field(default_factory=Counter)  # tuples by stream
    pieces_in: int = 0
    bytes_in: int = 0
    used_s: float = 0.0  # processor time
    held_back: bool = (
        False  # input waits for room, or its producers are refused; the class thread tells when there is some
    )
    problems: dict[str, str] = field(default_factory=dict)  # by stream, why it cannot be read
    # By stream, the last moment at which its feed had nothing left to publish.
    caught_up: dict[str, float] = field(default_factory=dict)

    # By the class thread.
    gone: Counter[str] = field(default_factory=Counter)  # tuples by stream that do not wait any more
    pieces_gone: int = 0
    keep: tuple[int, float] = (0, 1.0)  # the load cycle, and what to keep from then on
    # Tuples by stream that may queue in a class that holds back; replaced, never changed.
    rooms: Mapping[str, int] = field(default_factory=dict)
    asleep: bool = False

    def put(self, arrived: ArrivedPiece) -> None:
        """By the ingest thread."""
        piece = arrived.piece
        self.let_in[piece.stream] += len(piece.train)
        self.pieces_in += 1
        self.arrived.append(arrived)

    def queued(self, stream: str) -> int:
        return self.let_in[stream] - self.gone[stream]

    @property
    def pieces(self) -> int:
        return self.pieces_in - self.pieces_gone


@dataclass(eq=False, slots=True)
class Feed:
    """One stream of one unit."""

    intake: Intake
    door: Door
    folder: Path
    next: int
    upto: int | None = None
    """Rows of the stream up to there; None if that is not known."""
    frames: Iterator[tuple[int, memoryview]] | None = None
    log: Reader | None = None
    ask: int = 0
    """The number of the last Subscribe."""
    subscribed: bool = False
    denied: bool = False
    """Refused since the last Subscribed: the stream may have been dropped, and a new log may be there instead."""
    lively: bool = False
    """Among those that are read in turn."""
    backoff: Backoff = field(default_factory=lambda: Backoff(BACKOFF_LEAST_S, BACKOFF_MOST_S))
    cycle: int = 0

    @property
    def name(self) -> str:
        return self.door.stream

    def frame(self) -> tuple[int, memoryview] | None:
        """The next one that is there; None if it is yet to come."""
        assert self.log is not None
        while True:
            if self.frames is None:
                self.frames = self.log.frames(self.next)
            try:
                frame = next(self.frames, None)
            except FrameForgotten as lost:
                self.frames = self.log.frames(lost.next)
                continue
            if frame is None:
                self.frames = None
            return frame

    def is_full(self) -> bool:
        """Return True if nothing more is to be read before there is room."""
        inbox = self.intake.inbox
        if inbox.pieces >= PIECES_MAX:
            return True
        room = min(inbox.rooms.get(self.name, self.door.queue_max), self.door.queue_max)
        return self.intake.holds_back and inbox.queued(self.name) >= room

    def let_in(self, number: int, payload: memoryview, in_time: bool) -> None:
        """Let a batch in at the door; reject it whole, and count that, if the unit has used up its time."""
        intake, inbox = self.intake, self.intake.inbox
        rows, _, before = batch_head(payload)
        if number > self.next and self.upto is not None:
            lost = turned_away(self.name, number - 1, failed=intake.part_of(before - self.upto))
            inbox.put(ArrivedPiece(lost, before, self))
        if in_time:
            cycle, keep = inbox.keep
            if cycle != self.cycle:
                self.cycle = cycle
                self.door.set_keep(keep)
            piece = self.door.admit(number, batch_of(payload), inbox.queued(self.name))
        else:
            piece = turned_away(self.name, number, rejected=intake.part_of(rows))
        self.next, self.upto = number + 1, before + rows
        inbox.bytes_in += len(payload)
        inbox.put(ArrivedPiece(piece, self.upto, self))


@dataclass(eq=False, slots=True)
class Intake:
    """The part of a unit that belongs to the ingest thread."""

    unit: str
    inbox: Inbox
    holds_back: bool
    """True if input waits in the log while the queue has no room. The log forgets nothing that has not been read."""
    shard: tuple[int, int] = (0, 1)
    is_whole: bool = True
    """True if `feeds` are all streams that are needed. A unit that repeats its steps may need frames of others."""
    feeds: dict[str, Feed] = field(default_factory=dict)
    budget_s: float = BURST_S
    since: float = field(default_factory=time.monotonic)

    def part_of(self, rows: int) -> int:
        """Return how many of the rows that are not read count as this unit's; those of all shards add up to all rows."""
        shard, shards = self.shard
        return (rows + shard) // shards

    def has_time(self, now: float, part: float) -> bool:
        """Return True if some of the unit's time is left, of which it gets this part of a processor."""
        self.budget_s = min(BURST_S, self.budget_s + part * (now - self.since))
        self.since = now
        return self.budget_s > 0

    def rest(self) -> None:
        """Let go of what the logs of its streams forget."""
        for feed in self.feeds.values():
            if feed.log is not None:
                feed.log.let_go()
