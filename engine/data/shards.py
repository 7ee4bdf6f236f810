"""Assigns tuples to the shards of a class by a hash of the key; equal keys have the same hash on all machines and in all runs."""

from __future__ import annotations

import zlib

import numpy as np
import numpy.typing as npt

from engine.data.schema import TypeKind
from engine.data.train import Places, Train, Values

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def key_codes(column: Values) -> npt.NDArray[np.int64]:
    """Return a number for each value; equal values have equal numbers, and all NULLs have the same number."""
    if column.type.kind is TypeKind.STRING:
        encoded = column.data.dictionary_encode()
        texts = [zlib.crc32(text.encode()) for text in encoded.dictionary.to_pylist()]
        codes = np.array(texts or [0], np.int64).take(encoded.indices.to_numpy(zero_copy_only=False))
    elif column.type.is_float:
        codes = (column.data + 0.0).astype(np.float64).view(np.int64)  # As keys, −0.0 and 0.0 are equal
    else:
        codes = column.data.astype(np.int64)
    return codes if column.valid is None else np.where(column.valid, codes, -1)


def shard_places(train: Train, key: int, shard: int, shards: int) -> Places:
    """Return the positions of the shard's tuples in the train."""
    with np.errstate(over="ignore"):
        state = key_codes(train.columns[key]).view(np.uint64) + GOLDEN
        state = (state ^ (state >> np.uint64(30))) * FIRST
        state = (state ^ (state >> np.uint64(27))) * SECOND
        state ^= state >> np.uint64(31)
    return np.flatnonzero(state % np.uint64(shards) == np.uint64(shard))
