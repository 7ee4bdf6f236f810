"""A stream's way into a class: the batches that are queued, and the account of every tuple that was offered.

A batch is *begun* when the first of its tuples is taken or dropped. What is begun is among the steps that were written
down; what is not will be read again by whoever goes on from here, so a state leaves it out of the account.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from engine.class_.door import Piece
from engine.class_.steps import Opened
from engine.data.train import LateRows
from loadshed.ledger import TupleLedger

# The next batch of a stream that has not been read yet: with what comes from now on it begins.
FROM_NOW = -1


class StreamPosition(NamedTuple):
    """Where a stream is to be read on: at this batch, and so many rows has the stream had before."""

    batch: int = FROM_NOW
    rows: int | None = None


@dataclass(frozen=True)
class Position:
    """Where a state goes on: this batch first, of which so many of the admitted tuples are done."""

    batch: int
    rows: int | None = None  # that the stream has had before
    opened: Opened | None = None
    done: int = 0
    missing: LateRows | None = None
    """Tuples dropped before what follows, which windows are to count as missing."""


@dataclass(slots=True)
class Entrance:
    """One stream's queue as the ledger sees it: batches of which tuples are still to be taken."""

    ledger: TupleLedger = field(default_factory=TupleLedger)
    # Of batches not begun yet; of the first one, tuples left after what was taken.
    queued: deque[tuple[Opened, int]] = field(default_factory=deque)
    begun: bool = False  # whether the first one's opening has been written down
    tuples: int = 0  # queued
    next_batch: int = FROM_NOW  # after the last batch that came in
    rows: int | None = None  # that the stream has had before the first one; None if that is not known
    cycle_offered: int = 0
    cycle_batches: int = 0
    cycle_delivered: int = 0  # up to the last cycle's end

    def enter(self, opened: Opened) -> None:
        """Count a batch at the door."""
        enter(self.ledger, opened)

    def let_in(self, piece: Piece, upto: int) -> None:
        """Queue what a door let in; `upto` is how many rows the stream has had with it."""
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
        self.enter(opened)
        self.queue(opened, len(piece.train))

    def queue(self, opened: Opened, left: int) -> None:
        self.queued.append((opened, left))
        self.tuples += left
        self.next_batch = opened.batch + 1

    def count_late(self, tuples: int) -> None:
        """Account for tuples that were late by themselves: what counted them is about to go."""
        self.ledger.delivered -= tuples
        self.ledger.late += tuples
        self.cycle_delivered -= tuples

    def lose_last(self) -> None:
        """The tuples of the batch that was queued last are not there."""
        opened, left = self.queued.pop()
        self.tuples -= left
        self.ledger.failed += left
        self.leave(opened)

    def consume(self, tuples: int) -> list[Opened]:
        """The oldest tuples are taken, or gone; with 0, batches of which nothing was let in. Which batches that begins."""
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
        """All of the batch is done."""
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
        """The account without the batches that would be read again."""
        ledger = replace(self.ledger)
        for place, (opened, _) in enumerate(self.queued):
            if place or not self.begun:
                enter(ledger, opened, -1)
        return ledger


def enter(ledger: TupleLedger, opened: Opened, sign: int = 1) -> None:
    """Count a batch at the door, or take that back."""
    ledger.offered += sign * opened.offered
    ledger.shed += sign * opened.shed
    ledger.rejected += sign * opened.rejected
    ledger.failed += sign * opened.failed
