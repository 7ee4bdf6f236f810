"""The shedder at a class's door: chooses the tuples to drop when a fraction of the input must be dropped.

    random   drops each arriving tuple with the same probability; unbiased, so counts and sums can be scaled up
    newest   drops arriving tuples, evenly spread; older tuples, which are queued, are kept
    oldest   admits every arriving tuple and drops the oldest queued tuples instead, so that the freshest data remain
    fair     divides the kept tuples equally between keys, so that one frequent key cannot push out the others

Properties (`tests/property/test_shedder.py`): a keep of 1 drops nothing; over many tuples the kept fraction is the
configured fraction; every offered tuple is either admitted or counted as shed; `fair` drops no tuple of a key that
stays under the fair number of tuples per key, even if the key is new in this cycle.

A batch is decided on as a whole, in a few calls of numpy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from configs.classes.priority_class import Victim
from loadshed.key_table import Keys, KeyTable, Places

# Number of keys that `fair` counts individually, including keys of the last cycle. For other keys, the kept fraction applies.
KEYS_COUNTED = 10_000
# Binary digits after the point in fixed-point numbers of tuples to drop. Fixed point keeps rounding independent of batch sizes.
PART_BITS = 32


@dataclass(frozen=True, slots=True, eq=False)
class Admission:
    """Decision on one batch at the door."""

    kept: Places | None  # Indices of the admitted tuples, ascending; None if all are admitted
    # Number of tuples to drop from the head of the queue, after the batch has joined it.
    evict_oldest: int = 0


EVERYTHING = Admission(None)


@dataclass
class Shedder:
    """Shedder of one input of one class."""

    victim: Victim
    rng: np.random.Generator
    keep: float = 1.0
    # Number of tuples that `newest` or `oldest` still has to drop, as a fixed-point number.
    _owed: int = field(init=False, default=0)
    _keys: KeyCounts | None = field(init=False)

    def __post_init__(self) -> None:
        self._keys = KeyCounts(KEYS_COUNTED) if self.victim == "fair" else None

    def admit(self, tuples: int, keys: Keys | None = None) -> Admission:
        """Decide which tuples of an arriving batch to admit; `keys`, for the method `fair`, has the key of each tuple as a number."""
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
        """End a load cycle, after `keep` was set for the next cycle. `fair` computes each key's probability from the key's count."""
        if self._keys is not None:
            self._keys.end_cycle(self.keep)

    def _admit_evenly(self, tuples: int) -> Admission:
        step = round((1 - self.keep) * (1 << PART_BITS))
        due = self._owed + tuples * step
        drops = due >> PART_BITS
        if self.victim == "oldest" or not drops:
            self._owed = due - (drops << PART_BITS)
            return Admission(None, drops)
        # Each arriving tuple adds `step` to the sum of due drops. The n-th dropped tuple is the tuple at which this sum reaches n.
        wholes = np.arange(1, drops + 1, dtype=np.int64) << PART_BITS
        dropped = (wholes - self._owed + (step - 1)) // step - 1
        self._owed = due - (drops << PART_BITS)
        stays = np.ones(tuples, np.bool_)
        stays[dropped] = False
        return Admission(np.flatnonzero(stays))


class KeyCounts:
    """Number of tuples of each key in this cycle, and the probability with which a tuple of the key is admitted."""

    def __init__(self, most: int) -> None:
        self._table = KeyTable(most)
        assert self._table.places < 1 << 16, "ranks() takes places for 16 bits"
        # The last slot stands for all keys that are not counted individually.
        self._counts = np.zeros(self._table.places + 1, np.int64)
        self._chances = np.full(self._table.places + 1, np.nan)
        self._level: float | None = None

    def count(self, keys: Keys) -> tuple[Places, npt.NDArray[np.int64]]:
        """Count a batch; return for each tuple the slot of its key and the key's count before the batch."""
        places = self._table.place(keys)
        earlier = self._counts[places]
        np.add.at(self._counts, places, 1)
        return places, earlier

    def chances(self, places: Places, earlier: npt.NDArray[np.int64], keep: float) -> npt.NDArray[np.float64]:
        """Return the probability of admission for each tuple of a counted batch."""
        self._chances[-1] = keep
        chances = self._chances[places]
        new = np.flatnonzero(np.isnan(chances))
        if self._level is None:
            chances[new] = keep
        elif len(new):
            # If a key is new in this cycle, its first tuples are admitted, up to the fair number of tuples per key.
            chances[new] = self._level - (earlier[new] + ranks(places[new]))
        return chances

    def end_cycle(self, keep: float) -> None:
        """Compute the probabilities of the counted keys for the next cycle's kept fraction, and remove all other keys."""
        occupied = np.flatnonzero(self._counts[:-1])
        counts, keys = self._counts[occupied], self._table.keys[occupied]
        self._level = fair_level(counts, keep) if len(occupied) else None
        self._table.clear()
        self._counts[:] = 0
        self._chances[:] = np.nan
        if self._level is not None:
            self._chances[self._table.place(keys)] = np.minimum(1.0, self._level / counts)


def ranks(places: Places) -> npt.NDArray[np.int64]:
    """Return for each tuple the number of earlier tuples in the same slot."""
    # Slot numbers fit into 16 bits, which numpy sorts in linear time.
    order = np.argsort(places.astype(np.uint16), kind="stable")
    ordered = places[order]
    first = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    lengths = np.diff(first, append=len(places))
    answer = np.empty(len(places), np.int64)
    answer[order] = np.arange(len(places)) - np.repeat(first, lengths)
    return answer


def fair_level(counts: npt.NDArray[np.int64], keep: float) -> float:
    """Return the number of tuples per key that may be kept so that a fraction `keep` of all tuples is kept; infinite if all tuples fit.

    The result solves Σ min(count, result) = keep·Σ count, summed over the counts of all keys.
    """
    ordered = np.sort(counts)
    left = np.arange(len(ordered), 0, -1)
    below = np.cumsum(ordered) - ordered
    budget = keep * ordered.sum() - below
    reached = np.flatnonzero(ordered * left >= budget)
    return float(budget[reached[0]] / left[reached[0]]) if len(reached) else math.inf
