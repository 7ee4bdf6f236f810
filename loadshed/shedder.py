"""Which tuples go when a part of the input has to: the shedder at a class's door.

    random   each arriving tuple by its own coin; unbiased, so counts and sums can be scaled up
    newest   arriving tuples, evenly spread: what is queued is older and is served first
    oldest   an arriving tuple is let in at the price of the oldest queued one: the freshest data survive
    fair     per key: what is kept is shared equally between keys, so one busy key cannot push out the others

Properties (`tests/property/test_shedder.py`): a keep of 1 drops nothing; over many tuples the kept fraction is the
one that was set; every tuple offered is either admitted or counted as shed; `fair` drops nothing of a key that
stays under the level, also if the last cycle did not see the key.

A batch is decided on as a whole, in a few calls of numpy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from loadshed.key_table import Keys, KeyTable, Places

Victim = Literal["random", "oldest", "newest", "fair"]

# `fair` counts this many keys by name, those of the last cycle included; of the rest it keeps as much as of all.
KEYS_COUNTED = 10_000
# Drops due are counted in parts of a tuple of this size, as integers, so that batching cannot shift them by
# rounding. What is to be kept is rounded to it too.
PART_BITS = 32


@dataclass(frozen=True, slots=True, eq=False)
class Admission:
    """The fate of one batch at the door."""

    kept: Places | None  # places of the batch that are let in, ascending; None: all
    evict_oldest: int = 0  # tuples to drop from the head of the queue, after the batch has joined it


EVERYTHING = Admission(None)


@dataclass
class Shedder:
    """One input of one class."""

    victim: Victim
    rng: np.random.Generator
    keep: float = 1.0
    _owed: int = field(init=False, default=0)  # drops due under `newest` and `oldest`, in parts
    _keys: KeyCounts | None = field(init=False)

    def __post_init__(self) -> None:
        self._keys = KeyCounts(KEYS_COUNTED) if self.victim == "fair" else None

    def admit(self, tuples: int, keys: Keys | None = None) -> Admission:
        """Decide on a batch of arrivals; `fair` goes by the keys (codes or hashes), one a tuple."""
        chances: float | npt.NDArray[np.float64] = self.keep
        if self._keys is not None and keys is not None:
            places, earlier = self._keys.count(keys)
            if self.keep < 1:
                chances = self._keys.chances(places, earlier, self.keep)
        if self.keep >= 1:
            return EVERYTHING
        if self.victim in ("random", "fair"):
            return Admission(np.flatnonzero(self.rng.random(tuples, dtype=np.float32) < chances))
        return self._admit_evenly(tuples)

    def end_cycle(self) -> None:
        """A load cycle is over and `keep` set for the next: `fair` sets each key's chance from its counts."""
        if self._keys is not None:
            self._keys.end_cycle(self.keep)

    def _admit_evenly(self, tuples: int) -> Admission:
        step = round((1 - self.keep) * (1 << PART_BITS))
        due = self._owed + tuples * step
        drops = due >> PART_BITS
        if self.victim == "oldest" or not drops:
            self._owed = due - (drops << PART_BITS)
            return Admission(None, drops)
        # The nth drop is the tuple with which n whole ones have come due.
        wholes = np.arange(1, drops + 1, dtype=np.int64) << PART_BITS
        dropped = (wholes - self._owed + (step - 1)) // step - 1
        self._owed = due - (drops << PART_BITS)
        stays = np.ones(tuples, np.bool_)
        stays[dropped] = False
        return Admission(np.flatnonzero(stays))


class KeyCounts:
    """How often each key came this cycle, and what part of it may come in after how often it came in the last."""

    def __init__(self, most: int) -> None:
        self._table = KeyTable(most)
        assert self._table.places < 1 << 16, "ranks() takes places for 16 bits"
        # The last place stands for all keys that are not counted.
        self._counts = np.zeros(self._table.places + 1, np.int64)
        self._chances = np.full(self._table.places + 1, np.nan)
        self._level: float | None = None

    def count(self, keys: Keys) -> tuple[Places, npt.NDArray[np.int64]]:
        """Count a batch; for each tuple its key's place, and how often the key had come before the batch."""
        places = self._table.place(keys)
        earlier = self._counts[places]
        np.add.at(self._counts, places, 1)
        return places, earlier

    def chances(self, places: Places, earlier: npt.NDArray[np.int64], keep: float) -> npt.NDArray[np.float64]:
        """The chance of each tuple of a batch that has been counted."""
        self._chances[-1] = keep
        chances = self._chances[places]
        new = np.flatnonzero(np.isnan(chances))
        if self._level is None:
            chances[new] = keep
        elif len(new):
            # Of a key that the last cycle did not see, the first ones up to the level.
            chances[new] = self._level - (earlier[new] + ranks(places[new]))
        return chances

    def end_cycle(self, keep: float) -> None:
        """Chances for the keys that were counted, at what is to be kept in the next cycle; the others are forgotten."""
        occupied = np.flatnonzero(self._counts[:-1])
        counts, keys = self._counts[occupied], self._table.keys[occupied]
        self._level = fair_level(counts, keep) if len(occupied) else None
        self._table.clear()
        self._counts[:] = 0
        self._chances[:] = np.nan
        if self._level is not None:
            self._chances[self._table.place(keys)] = np.minimum(1.0, self._level / counts)


def ranks(places: Places) -> npt.NDArray[np.int64]:
    """For each tuple how many of the same place come before it."""
    # Places fit 16 bits, which numpy sorts in linear time.
    order = np.argsort(places.astype(np.uint16), kind="stable")
    ordered = places[order]
    first = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    lengths = np.diff(first, append=len(places))
    answer = np.empty(len(places), np.int64)
    answer[order] = np.arange(len(places)) - np.repeat(first, lengths)
    return answer


def fair_level(counts: npt.NDArray[np.int64], keep: float) -> float:
    """The level with Σ min(count, level) = keep·Σ count (max-min fairness); infinite if there is nothing."""
    ordered = np.sort(counts)
    left = np.arange(len(ordered), 0, -1)
    below = np.cumsum(ordered) - ordered
    budget = keep * ordered.sum() - below
    reached = np.flatnonzero(ordered * left >= budget)
    return float(budget[reached[0]] / left[reached[0]]) if len(reached) else math.inf
