"""Output of an outer join for tuples without a match: the tuple, with NULL in the columns of the other side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from engine.data.schema import Schema
from engine.data.train import Places, Train, Values, concatenated, empty_values


class UnmatchedRows:
    """Appends the unmatched tuples of a train to its matched pairs."""

    def __init__(self, other_side: Schema, schema: Schema) -> None:
        self._columns: Sequence[Values] = [empty_values(field) for field in other_side.fields]
        self._schema = schema

    def added(self, train: Train, pairs: Train, sources: Places) -> tuple[Train, Places]:
        """Return the pairs followed by the unmatched tuples, and for each of these rows the position of its tuple in `train`."""
        is_alone = np.ones(len(train), bool)
        is_alone[sources] = False
        alone = np.flatnonzero(is_alone)
        if not len(alone):
            return pairs, sources
        rest = train.take(alone)
        padding = [nulls(column, len(rest)) for column in self._columns]
        padded = Train((*rest.columns, *padding), rest.arrival, train.kept)
        return concatenated([pairs, padded], self._schema), np.concatenate([sources, alone])


def nulls(like: Values, count: int) -> Values:
    """Return a column of `count` NULLs, with the type of the column `like`."""
    valid = np.zeros(count, bool)
    if isinstance(like.data, pa.Array):
        return Values(like.type, pa.array([""] * count, pa.string()), valid)
    return Values(like.type, np.zeros(count, like.type.numpy), valid)
