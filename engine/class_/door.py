"""The door of a class: what of a batch comes in. Sheds by decision, bounds the queue, takes only its own shard.

A door belongs to whoever takes input in, which may be another thread than the one the class runs in: it shares
nothing with the class but the numbers it is given.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from engine.data.shards import key_codes, shard_places
from engine.data.train import Places, Train
from loadshed.shedder import Shedder


@dataclass(frozen=True, slots=True)
class Piece:
    """What a door let in of one batch, and the account of the rest."""

    stream: str
    batch: int
    offered: int
    shed: int
    rejected: int
    train: Train
    mask: bytes | None
    evict: int = 0  # oldest tuples of the queue that go in exchange
    failed: int = 0  # of those offered, lost on the way here


def turned_away(stream: str, batch: int, rejected: int = 0, failed: int = 0) -> Piece:
    """The account of a batch of which nothing comes in."""
    return Piece(
        stream=stream,
        batch=batch,
        offered=rejected + failed,
        shed=0,
        rejected=rejected,
        train=NOTHING,
        mask=None,
        failed=failed,
    )


NOTHING = Train((), np.empty(0))


@dataclass
class Door:
    """One stream's way into a class, or into one of its shards."""

    stream: str
    shedder: Shedder
    queue_max: int
    key: int | None = None
    shard: tuple[int, int] = (0, 1)  # which, of how many
    lossless: bool = False
    """Nothing is shed."""
    holds_back: bool = False
    """Nothing is rejected: input is only brought to the door while there is room."""
    let_in: int = field(init=False, default=0)  # tuples so far

    def set_keep(self, keep: float) -> None:
        self.shedder.keep = keep
        self.shedder.end_cycle()

    def admit(self, batch: int, train: Train, queued: int) -> Piece:
        """Decide on a batch when so many tuples are queued."""
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
        """The chance a tuple had: what was decided where it is by coin, else what came of it."""
        if self.shedder.victim == "random":
            return min(1.0, self.shedder.keep)
        return kept / offered if kept else 1.0


def both(first: Places | None, second: Places | None) -> Places | None:
    """Places among places; None stands for all."""
    if first is None or second is None:
        return second if first is None else first
    return first.take(second)


def packed(places: Places, size: int) -> bytes:
    """A bit a tuple."""
    mask = np.zeros(size, np.bool_)
    mask[places] = True
    return np.packbits(mask).tobytes()


def unpacked(mask: bytes | None, size: int) -> Places | None:
    if mask is None:
        return None
    return np.flatnonzero(np.unpackbits(np.frombuffer(mask, np.uint8), count=size))
