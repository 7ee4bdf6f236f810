"""Input of one stream of a class: the queued batches, and the account of every tuple that was offered.

A batch is *begun* when the first of its tuples is taken or dropped; this event is recorded as a step. After a recovery,
batches that were not begun are read again from the stream, so a saved state leaves them out of the account.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from engine.class_.door import Piece
from engine.class_.steps import Opened
from engine.data.train import LateRows
from loadshed.ledger import TupleLedger

# Batch number for a stream that has not been read yet: reading begins with the next batch that arrives.
FROM_NOW = -1


class StreamPosition(NamedTuple):
    """Position at which a stream is read next: a batch, and the number of rows in the stream before that batch."""

    batch: int = FROM_NOW
    rows: int | None = None


@dataclass(frozen=True)
class Position:
    """Position of a stream in a saved state: the batch to read next, and how many of its admitted tuples were taken or dropped."""

    batch: int
    rows: int | None = None  # Number of rows in the stream before this batch
    opened: Opened | None = None
    done: int = 0
    missing: LateRows | None = None
    """Tuples dropped before this position, which windows have to count as missing."""


@dataclass(slots=True)
class Entrance:
    """Queue and account of one stream in a class."""

    ledger: TupleLedger = field(default_factory=TupleLedger)
    # Queued batches, each with the number of its tuples that are still to be taken.
    queued: deque[tuple[Opened, int]] = field(default_factory=deque)
    begun: bool = False  # True if the first queued batch has been recorded as begun
    tuples: int = 0  # Number of queued tuples
    next_batch: int = FROM_NOW  # Number of the batch that comes after the last arrived batch
    rows: int | None = None  # Number of rows in the stream before the first queued batch; None if unknown
    cycle_offered: int = 0
    cycle_batches: int = 0
    cycle_delivered: int = 0  # Value of `ledger.delivered` at the end of the last load cycle

    def let_in(self, piece: Piece, upto: int) -> None:
        """Queue the tuples that a door let in; `upto` is the number of rows in the stream up to the end of the batch."""
        opened = Opened(
            stream=piece.stream,
            batch=piece.batch,
            offered=piece.offered,
            shed=piece.shed,
            rejected=piece.rejected,
            kept=piece.train.kept,
            mask=piece.mask,
            failed=piece.failed,
            upto=upto,
        )
        enter(self.ledger, opened)
        self.queue(opened, len(piece.train))

    def queue(self, opened: Opened, left: int) -> None:
        self.queued.append((opened, left))
        self.tuples += left
        self.next_batch = opened.batch + 1

    def count_late(self, tuples: int) -> None:
        """Move tuples from delivered to late in the account, before the source operator that counted them is removed."""
        self.ledger.delivered -= tuples
        self.ledger.late += tuples
        self.cycle_delivered -= tuples

    def lose_last(self) -> None:
        """Count the last queued batch as failed, because its tuples cannot be fetched."""
        opened, left = self.queued.pop()
        self.tuples -= left
        self.ledger.failed += left
        self.leave(opened)

    def consume(self, tuples: int) -> list[Opened]:
        """Remove the oldest tuples from the queue, and return each batch that loses its first tuple now.

        Batches at the front without admitted tuples are removed and returned as well, even if `tuples` is 0.
        """
        queued, begun = self.queued, []
        while queued and (tuples or not queued[0][1]):
            opened, left = queued[0]
            if not self.begun:
                begun.append(opened)
                self.begun = True
            gone = min(tuples, left)
            tuples -= gone
            self.tuples -= gone
            if gone < left:
                queued[0] = (opened, left - gone)
            else:
                queued.popleft()
                self.begun = False
                self.leave(opened)
        return begun

    def leave(self, opened: Opened) -> None:
        """Set the stream's position to the end of this batch, because all tuples of the batch were taken or dropped."""
        self.rows = max(opened.upto, self.rows or 0)

    @property
    def following(self) -> StreamPosition:
        return StreamPosition(self.next_batch, self.queued[-1][0].upto if self.queued else self.rows)

    @property
    def position(self) -> Position:
        if not self.queued:
            return Position(self.next_batch, self.rows)
        opened, left = self.queued[0]
        if not self.begun:
            return Position(opened.batch, self.rows)
        return Position(opened.batch, self.rows, opened, opened.inside - left)

    @property
    def begun_ledger(self) -> TupleLedger:
        """Account without the batches that would be read again after a recovery."""
        ledger = replace(self.ledger)
        for place, (opened, _) in enumerate(self.queued):
            if place or not self.begun:
                enter(ledger, opened, -1)
        return ledger


def enter(ledger: TupleLedger, opened: Opened, sign: int = 1) -> None:
    """Add a batch to the account, or subtract the batch if `sign` is -1."""
    ledger.offered += sign * opened.offered
    ledger.shed += sign * opened.shed
    ledger.rejected += sign * opened.rejected
    ledger.failed += sign * opened.failed
