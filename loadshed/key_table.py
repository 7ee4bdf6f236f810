"""A bounded set of int64 keys, each with a place of its own, so that what is kept of a key can be arrays.

Open addressing, a whole batch of keys at a time: every key looks at its place, those that find it free go in, those
that find another key there go on to the next place. Two keys that go for one free place write one after the other;
all look again who is in it. Keys that have found no place after some looks (chosen so as to collide, say) get none.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.int64]
Places = npt.NDArray[np.intp]

# Places for each key: with a third of them taken, nearly every key is found at once.
ROOM = 3
# How many places a key looks at. With a third of them taken, not one key in a million needs more.
LOOKS = 32
# 2⁶⁴ over the golden ratio (Knuth, multiplicative hashing): spreads dense codes as well as hashes.
SPREAD = np.uint64(0x9E37_79B9_7F4A_7C15)


class KeyTable:
    """Up to `most` keys at places below `places`."""

    def __init__(self, most: int) -> None:
        bits = (ROOM * most).bit_length()
        self.places = 1 << bits
        self.keys = np.zeros(self.places, np.int64)
        self._shift = np.uint64(64 - bits)
        self._most, self._used = most, 0
        self._taken = np.zeros(self.places, np.bool_)

    def clear(self) -> None:
        self._taken[:] = False
        self._used = 0

    def place(self, keys: Keys) -> Places:
        """The place of each key, given one if there is room; `places` for those without."""
        answer = ((keys.view(np.uint64) * SPREAD) >> self._shift).astype(np.intp)
        looking = np.flatnonzero(~self._held(answer, keys))
        for _ in range(LOOKS):
            if not len(looking):
                return answer
            self._fill(answer, keys, looking)
            at = answer[looking]
            held, taken = self._held(at, keys[looking]), self._taken[at]
            if self._used == self._most:
                answer[looking[~taken]] = self.places
                held |= ~taken
            answer[looking[taken & ~held]] = (at[taken & ~held] + 1) & (self.places - 1)
            looking = looking[~held]
        answer[looking] = self.places
        return answer

    def _held(self, at: Places, keys: Keys) -> npt.NDArray[np.bool_]:
        held: npt.NDArray[np.bool_] = self._taken[at] & (self.keys[at] == keys)
        return held

    def _fill(self, answer: Places, keys: Keys, looking: Places) -> None:
        """Put keys that look at a free place into it, as far as there is room."""
        free = looking[~self._taken[answer[looking]]][: self._most - self._used]
        if len(free):
            self.keys[answer[free]] = keys[free]
            self._taken[answer[free]] = True
            self._used = int(np.count_nonzero(self._taken))
