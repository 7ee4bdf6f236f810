"""Dense codes for group and join keys: 0, 1, 2 … in place of the keys' values, so that state can be arrays.

The code of a single integer key within a small range is the key minus a base, which costs one subtraction (range mode). All
other keys (text, several columns, NULL, wide ranges) are looked up once per distinct key and train. A code never changes
its meaning, except in `keep`, which forgets keys and assigns new codes. In range mode, some codes have no key yet.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engine.data.schema import DataType, TypeKind
from engine.data.train import Values

Codes = npt.NDArray[np.intp]

# Largest range of integer keys that get the key minus a base as code; arrays of this length are cheap to sum.
RANGE_MAX = 1 << 16
UNSIGNED = {4: np.uint32, 8: np.uint64}
# Code number of a new key for which there is no room.
NO_CODE = -1
# Bytes that Python uses for a looked-up key besides its text: an entry of a dictionary, a tuple, and its parts.
KEY_BYTES = 200


class KeyIndex:
    """Index that assigns a code to each key of some columns: a small whole number that stands for the key."""

    def __init__(self, types: Sequence[DataType]) -> None:
        self._types = tuple(types)
        self._base: int | None = 0 if len(types) == 1 and types[0].is_integer else None
        self._size = 0
        self._known: dict[Hashable, int] = {}
        self._keys: list[tuple[Any, ...]] = []
        self._texts = [place for place, one in enumerate(types) if one.kind is TypeKind.STRING]
        self.text_bytes = 0
        self.refused = False  # True if the last call of `codes` had no room for some keys

    def __len__(self) -> int:
        """Return the number of codes in use: the largest code plus 1."""
        return self._size

    @property
    def bytes(self) -> int:
        return KEY_BYTES * len(self._keys) + self.text_bytes

    @property
    def in_range(self) -> bool:
        """True if the code of each key is the key itself minus a base (range mode)."""
        return self._base is not None

    def keep(self, codes: Codes) -> None:
        """Keep only the keys with these codes; the first of these keys gets the new code 0, the second 1, and so on."""
        base, listed = self._base, codes.tolist()
        keys = [self._keys[code] if base is None else (base + code,) for code in listed]
        self._base = None
        self._known, self._keys, self.text_bytes = {}, [], 0
        for key in keys:
            self._new(key)
        self._size = len(self._keys)

    def codes(self, columns: Sequence[Values], most: int | None = None) -> Codes:
        """Return the code number of each tuple's key; a new key gets a new number.

        If there are `most` keys already, a new key gets NO_CODE.
        """
        self.refused = False
        if not self._types:
            self._size = 1
            return np.zeros(len(columns[0]) if columns else 0, np.intp)
        if self._base is not None:
            own = self._own_codes(columns[0], most)
            if own is not None:
                return own
        return self._looked_up(columns, most)

    def known(self, columns: Sequence[Values]) -> Codes:
        """Return the code number of each tuple's key; every unknown key gets the largest number in use plus 1."""
        if self._base is not None and columns[0].valid is None:
            codes = columns[0].data.astype(np.intp) - self._base
            return np.where((codes >= 0) & (codes < self._size), codes, self._size)
        codes = self.codes(columns, self._size)
        return np.where(codes >= 0, codes, self._size)

    def decoded(self, codes: Codes) -> tuple[Values, ...]:
        """Return the keys that these code numbers stand for, as columns."""
        if self._base is not None:
            return (Values(self._types[0], (codes + self._base).astype(self._types[0].numpy)),)
        rows = [self._keys[code] for code in codes.tolist()]
        return tuple(
            from_python([row[place] for row in rows], type_) for place, type_ in enumerate(self._types)
        )

    def _own_codes(self, column: Values, most: int | None) -> Codes | None:
        """Return the code number of each key, which is the key minus a base. Return None if the range of the keys is too wide for that."""
        data = column.data
        if not len(data):
            return np.empty(0, np.intp)
        if column.valid is None:
            span = RANGE_MAX if most is None else min(most, RANGE_MAX)
            # Negative numbers viewed as unsigned are the largest, so one maximum checks both ends of the range.
            if self._base == 0 and (highest := int(data.view(UNSIGNED[data.itemsize]).max())) < span:
                self._size = max(self._size, highest + 1)
                own: Codes = data.astype(np.intp)
                return own
            low, high = int(data.min()), int(data.max())
            if self._size == 0:
                self._base = 0 if low >= 0 and high < RANGE_MAX else low
            if self._base is not None and low >= self._base and high - self._base < span:
                self._size = max(self._size, high - self._base + 1)
                codes: Codes = data.astype(np.intp) if self._base == 0 else data.astype(np.intp) - self._base
                return codes
        base, self._base = self._base or 0, None
        self._keys = [(base + code,) for code in range(self._size)]
        self._known = {key: code for code, key in enumerate(self._keys)}
        return None

    def _looked_up(self, columns: Sequence[Values], most: int | None) -> Codes:
        parts = [distinct(column) for column in columns]
        combined = parts[0][0]
        for inverse, values in parts[1:]:
            combined = combined * len(values) + inverse
        _, first, inverse = np.unique(combined, return_index=True, return_inverse=True)
        codes = np.empty(len(first), np.intp)
        rows = first.tolist()
        scarce = most is not None and len(self._keys) + len(rows) > most
        for place in np.argsort(first).tolist() if scarce else range(len(rows)):
            row = rows[place]
            key = tuple(values[inverse_[row]] for inverse_, values in parts)
            code = self._known.get(key)
            if code is None and most is not None and len(self._keys) >= most:
                code, self.refused = NO_CODE, True
            elif code is None:
                code = self._new(key)
            codes[place] = code
        self._size = len(self._keys)
        return codes[inverse]

    def _new(self, key: tuple[Any, ...]) -> int:
        code = self._known[key] = len(self._keys)
        self._keys.append(key)
        for place in self._texts:
            self.text_bytes += len(key[place] or "")
        return code


def distinct(column: Values) -> tuple[Codes, list[Any]]:
    """Return the position of each tuple's value in a list of distinct values, and this list; all NULLs are equal."""
    if column.type.kind is TypeKind.STRING:
        array = column.data if column.valid is None else pc.if_else(pa.array(column.valid), column.data, None)
        encoded = array.dictionary_encode(null_encoding="encode")
        return np.asarray(encoded.indices, np.intp), encoded.dictionary.to_pylist()
    data = column.data
    if column.type.is_float:
        data = np.where(data == 0, data.dtype.type(0), data)  # As keys, −0.0 and 0.0 are equal
    values, inverse = np.unique(data, return_inverse=True)
    listed: list[Any] = [NAN if value != value else value for value in values.tolist()]
    inverse = inverse.astype(np.intp)
    if column.valid is not None:
        inverse = np.where(column.valid, inverse, len(listed))
        listed.append(None)
    return inverse, listed


# Shared NaN object, so that a dictionary finds it again: as a key, NaN equals itself.
NAN = float("nan")


def from_python(values: Sequence[Any], type_: DataType) -> Values:
    """Return a column of a type from Python objects; None becomes NULL."""
    valid = np.array([value is not None for value in values], bool)
    mask = None if valid.all() else valid
    if type_.kind is TypeKind.STRING:
        return Values(
            type_, pa.array(["" if value is None else value for value in values], pa.string()), mask
        )
    data = np.array([0 if value is None else value for value in values], type_.numpy)
    return Values(type_, data, mask)
