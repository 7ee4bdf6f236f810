"""A bounded hash table of int64 keys that assigns each key a slot, so that data of keys can be stored in arrays.

It uses open addressing and handles a whole batch of keys at a time with numpy. In each pass every key checks a slot: if the slot
is free, the key is written there; if another key is there, the key moves to the next slot. Several keys may write to the same
free slot, and the last one wins; so all keys check their slot again. A key that has found no slot after LOOKS passes, for
instance because keys were chosen to collide, gets no slot.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.int64]
Places = npt.NDArray[np.intp]

# Number of slots per key. With a third of the slots taken, nearly every key is found in the first slot.
ROOM = 3
# Maximum number of slots that a key checks. With a third of the slots taken, fewer than one key in a million needs more.
LOOKS = 32
# Factor of the multiplicative hash (Knuth): 2⁶⁴ divided by the golden ratio, which spreads consecutive keys evenly over the slots.
SPREAD = np.uint64(0x9E37_79B9_7F4A_7C15)


class KeyTable:
    """Table of up to `most` keys. The slot of a key is a number below `places`."""

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
        """Return the slot of each key, adding new keys while there is room. A key without a slot gets the number `places`."""
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
        """Write each key that checks a free slot into that slot, while the table has room."""
        free = looking[~self._taken[answer[looking]]][: self._most - self._used]
        if len(free):
            self.keys[answer[free]] = keys[free]
            self._taken[answer[free]] = True
            self._used = int(np.count_nonzero(self._taken))
