"""Door of a class: decides which tuples of a batch come in.

A door takes only the tuples of its own shard, and sheds the fraction that the load manager has decided on. A door rejects
tuples if the queue has no room. A door may run in another thread than its class, so it shares no state with the class.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from engine.data.shards import key_codes, shard_places
from engine.data.train import Places, Train
from loadshed.shedder import Shedder

NOTHING = Train((), np.empty(0))


@dataclass(frozen=True, slots=True)
class Piece:
    """Tuples of one batch that a door let in, and the numbers of tuples that the door shed or rejected."""

    stream: str
    batch: int
    offered: int
    shed: int = 0
    rejected: int = 0
    train: Train = field(default_factory=lambda: NOTHING)
    mask: bytes | None = None  # One bit per tuple of the batch; None if all tuples were let in
    evict: int = 0  # Number of the oldest queued tuples that are dropped to make room
    failed: int = 0  # Number of offered tuples that were lost before they reached the door


def turned_away(stream: str, batch: int, rejected: int = 0, failed: int = 0) -> Piece:
    """Return the counts of a batch from which the door lets no tuple in."""
    return Piece(stream, batch, rejected + failed, rejected=rejected, failed=failed)


@dataclass
class Door:
    """Door of one stream: decides which tuples a class, or one shard of the class, accepts."""

    stream: str
    shedder: Shedder
    queue_max: int
    key: int | None = None
    shard: tuple[int, int] = (0, 1)  # Number of the door's shard, and the total number of shards of the class
    lossless: bool = False
    """True if no tuple may be shed."""
    holds_back: bool = False
    """True if no tuple may be rejected: batches are read only while the queue has room."""
    let_in: int = field(init=False, default=0)  # Number of tuples that were let in

    def set_keep(self, keep: float) -> None:
        self.shedder.keep = keep
        self.shedder.end_cycle()

    def admit(self, batch: int, train: Train, queued: int) -> Piece:
        """Decide which tuples of a batch come in; `queued` is the present length of the queue."""
        size, mine = len(train), self._own(train)
        offered = size if mine is None else len(mine)
        chosen, evict = mine, 0
        if not self.lossless:
            admission = self.shedder.admit(offered, self._keys(train, mine))
            evict = admission.evict_oldest
            chosen = both(mine, admission.kept)
        kept = offered if chosen is None else len(chosen)
        room = max(0, self.queue_max - queued)
        rejected = 0 if self.holds_back else max(0, kept - room)
        if rejected:
            chosen = np.arange(room) if chosen is None else chosen[:room]
        inside = train if chosen is None else train.take(chosen)
        if offered and inside.kept == 1.0:
            inside.kept = self._fraction(offered, kept) * (len(inside) / kept if kept else 1.0)
        self.let_in += len(inside)
        mask = None if chosen is None else packed(chosen, size)
        return Piece(
            stream=self.stream,
            batch=batch,
            offered=offered,
            shed=offered - kept,
            rejected=rejected,
            train=inside,
            mask=mask,
            evict=evict,
        )

    def _own(self, train: Train) -> Places | None:
        shard, shards = self.shard
        if shards == 1 or self.key is None:
            return None
        return shard_places(train, self.key, shard, shards)

    def _keys(self, train: Train, mine: Places | None) -> np.ndarray | None:
        if self.shedder.victim != "fair" or self.key is None:
            return None
        codes = key_codes(train.columns[self.key])
        return codes if mine is None else codes.take(mine)

    def _fraction(self, offered: int, kept: int) -> float:
        """Return the kept fraction of the tuples: as decided if tuples are dropped at random, otherwise as counted in this batch."""
        if self.shedder.victim == "random":
            return min(1.0, self.shedder.keep)
        return kept / offered if kept else 1.0


def both(first: Places | None, second: Places | None) -> Places | None:
    """Apply two selections of positions, one after the other: `second` selects among the positions in `first`. None selects all."""
    if first is None or second is None:
        return second if first is None else first
    return first.take(second)


def packed(places: Places, size: int) -> bytes:
    """Return a mask with one bit for each of `size` tuples, in which the bits at the given positions are set."""
    mask = np.zeros(size, np.bool_)
    mask[places] = True
    return np.packbits(mask).tobytes()


def unpacked(mask: bytes | None, size: int) -> Places | None:
    if mask is None:
        return None
    return np.flatnonzero(np.unpackbits(np.frombuffer(mask, np.uint8), count=size))
