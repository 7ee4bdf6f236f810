"""Data that the ingest thread and the class thread exchange for one unit, and the streams that this unit reads.

The length of a queue is `let_in` minus `gone`. The ingest thread counts `let_in`, and the class thread counts `gone`. The
length may be outdated for a moment, but is never wrong permanently.
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

# Maximum processor seconds that a unit can save up for reading a burst.
BURST_S = 0.25
PIECES_MAX = 10_000
# Seconds between two attempts to reach the gateway, or to subscribe to a stream that the gateway does not know yet.
BACKOFF_LEAST_S, BACKOFF_MOST_S = 0.01, 1.0


class ArrivedPiece(NamedTuple):
    """A batch that has passed a door, and the number of rows of the stream up to the end of this batch."""

    piece: Piece
    upto: int
    feed: Feed | None = None
    """Feed that read the batch; None if the feed cannot have been replaced since."""


@dataclass(slots=True)
class Inbox:
    """Fields that ingest thread and class thread share."""

    # The ingest thread writes the fields from `arrived` to `caught_up`; the class thread also resets `held_back`.
    arrived: deque[ArrivedPiece] = field(default_factory=deque)
    # Streams that the class thread has to begin: name, first batch, number of rows before the first batch (None if unknown), Feed.
    begun: deque[tuple[str, int, int | None, Feed | None]] = field(default_factory=deque)
    let_in: Counter[str] = field(default_factory=Counter)  # Number of tuples that were let in, by stream
    pieces_in: int = 0
    bytes_in: int = 0
    used_s: float = 0.0  # Processor-seconds used for reading input
    held_back: bool = False  # True while input waits for room in a queue, or producers are refused
    problems: dict[str, str] = field(default_factory=dict)  # Reasons why streams cannot be read, by stream
    # Last time at which the Spark query (feed) that brings a stream had nothing left to publish, by stream.
    caught_up: dict[str, float] = field(default_factory=dict)

    # The class thread writes the fields from `gone` to `asleep`; the ingest thread also resets `asleep`.
    gone: Counter[str] = field(default_factory=Counter)  # Number of tuples that left the queue, by stream
    pieces_gone: int = 0
    # Number of the last decision about the kept fraction, and the fraction of the input to keep since this decision.
    keep: tuple[int, float] = (0, 1.0)
    # Maximum queue of each stream of a lossless class, in tuples. The mapping is replaced, never changed.
    rooms: Mapping[str, int] = field(default_factory=dict)
    asleep: bool = False

    def put(self, arrived: ArrivedPiece) -> None:
        """Add a batch that a door has let in; called by the ingest thread."""
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
    """Stream of one unit: its position in the log of the stream, its door and its subscription."""

    intake: Intake
    door: Door
    folder: Path
    next: int
    upto: int | None = None
    """Number of rows of the stream before batch `next`; None if unknown."""
    frames: Iterator[tuple[int, memoryview]] | None = None
    log: Reader | None = None
    ask: int = 0
    """Number of the last Subscribe message."""
    subscribed: bool = False
    denied: bool = False
    """True after the gateway has denied the stream, until the next Subscribed: the stream's log may have been replaced."""
    backoff: Backoff = field(default_factory=lambda: Backoff(BACKOFF_LEAST_S, BACKOFF_MOST_S))
    cycle: int = 0

    @property
    def name(self) -> str:
        return self.door.stream

    def frame(self) -> tuple[int, memoryview] | None:
        """Return the next frame of the log; None if the next frame has not been written yet."""
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
        """Return True if the stream must not be read for this unit until its queue has room."""
        inbox = self.intake.inbox
        if inbox.pieces >= PIECES_MAX:
            return True
        room = min(inbox.rooms.get(self.name, self.door.queue_max), self.door.queue_max)
        return self.intake.holds_back and inbox.queued(self.name) >= room

    def let_in(self, number: int, payload: memoryview, in_time: bool) -> None:
        """Let a batch in at the door. If `in_time` is False, the unit has no time left for reading: reject the whole batch."""
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
    """Part of a unit that the ingest thread uses."""

    unit: str
    inbox: Inbox
    holds_back: bool
    """True if input waits in the stream's log while the queue has no room; the log then keeps all unread frames."""
    shard: tuple[int, int] = (0, 1)
    is_whole: bool = True
    """True if `feeds` has all streams that the unit needs. A unit that repeats steps after a crash may need frames of other streams."""
    feeds: dict[str, Feed] = field(default_factory=dict)
    budget_s: float = BURST_S
    since: float = field(default_factory=time.monotonic)

    def part_of(self, rows: int) -> int:
        """Return this shard's part of a number of unread rows. The parts of all shards add up to this number."""
        shard, shards = self.shard
        return (rows + shard) // shards

    def has_time(self, now: float, part: float) -> bool:
        """Return True if the unit has processor time left for reading. The unit gains `part` seconds of processor time per second."""
        self.budget_s = min(BURST_S, self.budget_s + part * (now - self.since))
        self.since = now
        return self.budget_s > 0

    def rest(self) -> None:
        """Unmap segments of the streams' logs, so that the memory of deleted segments is freed."""
        for feed in self.feeds.values():
            if feed.log is not None:
                feed.log.let_go()
