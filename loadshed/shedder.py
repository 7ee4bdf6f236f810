"""Which tuples go when a part of the input has to: the shedder at a class's door.

    random   each arriving tuple by its own coin; unbiased, so counts and sums can be scaled up
    newest   arriving tuples, evenly spread: what is queued is older and is served first
    oldest   an arriving tuple is let in at the price of the oldest queued one: the freshest data survive
    fair     per key: what is kept is shared equally between keys, so one busy key cannot push out the others

Properties (`tests/property/test_shedder.py`): a keep of 1 drops nothing; over many tuples the kept fraction is the
one that was set; every tuple offered is either admitted or counted as shed; `fair` drops nothing of a key that
stays under the level, also if the last cycle did not see the key.
"""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Literal

Victim = Literal["random", "oldest", "newest", "fair"]

# `fair` counts this many keys a cycle by name; of the rest it keeps as much as of all.
KEYS_COUNTED = 10_000


@dataclass(frozen=True, slots=True)
class Admission:
    """The fate of one batch at the door."""

    kept: Sequence[int]  # positions of the batch that are let in, ascending
    evict_oldest: int = 0  # tuples to drop from the head of the queue, after the batch has joined it


@dataclass
class Shedder:
    """One input of one class."""

    victim: Victim
    rng: random.Random
    keep: float = 1.0
    _owed: float = field(init=False, default=0.0)  # drops due under `newest` and `oldest`
    _counts: dict[Hashable, int] = field(init=False, default_factory=dict)
    _chances: dict[Hashable, float] = field(init=False, default_factory=dict)
    _level: float | None = field(init=False, default=None)

    def admit(self, tuples: int, keys: Sequence[Hashable] | None = None) -> Admission:
        """Decide on a batch of arrivals."""
        if self.victim == "fair" and keys is not None:
            return self._admit_fairly(keys)
        if self.keep >= 1:
            return Admission(range(tuples))
        if self.victim in ("random", "fair"):
            coin, keep = self.rng.random, self.keep
            return Admission([position for position in range(tuples) if coin() < keep])
        return self._admit_evenly(tuples)

    def end_cycle(self) -> None:
        """A load cycle is over and `keep` set for the next: `fair` sets each key's chance from its counts."""
        if self.victim == "fair":
            level = self._level = fair_level(self._counts.values(), self.keep)
            self._chances = {key: min(1.0, level / count) for key, count in self._counts.items()}
            self._counts = {}

    def _admit_evenly(self, tuples: int) -> Admission:
        kept, evicted = [], 0
        for position in range(tuples):
            self._owed += 1 - self.keep
            if self._owed < 1:
                kept.append(position)
                continue
            self._owed -= 1
            if self.victim == "oldest":
                kept.append(position)
                evicted += 1
        return Admission(kept, evicted)

    def _admit_fairly(self, keys: Sequence[Hashable]) -> Admission:
        coin, counts = self.rng.random, self._counts
        kept = []
        for position, key in enumerate(keys):
            if key in counts or len(counts) < KEYS_COUNTED:
                counts[key] = counts.get(key, 0) + 1
            if self.keep >= 1 or coin() < self._chance(key):
                kept.append(position)
        return Admission(kept)

    def _chance(self, key: Hashable) -> float:
        chance = self._chances.get(key)
        if chance is not None:
            return chance
        nth = self._counts.get(key)
        if nth is None or self._level is None:
            return self.keep
        # Of a key that the last cycle did not see, the first ones up to the level.
        return self._level - (nth - 1)


def fair_level(counts: Collection[int], keep: float) -> float:
    """The level with Σ min(count, level) = keep·Σ count (max-min fairness); infinite if nothing has to go."""
    budget, left = keep * sum(counts), len(counts)
    for count in sorted(counts):
        if count * left >= budget:
            return budget / left
        budget -= count
        left -= 1
    return math.inf
