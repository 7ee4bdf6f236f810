"""Join with a static table.

in: tuples                              out: each with the table's rows of equal key; outer: also those without
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from engine.expressions import Condition, Failures
from engine.keys import KeyIndex
from engine.operators.join import key_mask, without_mask, without_null_keys
from engine.operators.protocol import Stateless
from engine.operators.stored import TOO_MANY_PAIRS, KeyOrder
from engine.schema import Schema
from engine.train import Places, Train, Values, concatenated, empty_values, taken


class TableJoinOperator(Stateless):
    """The table is indexed once; a tuple finds its rows by key."""

    def __init__(
        self,
        table: Train,
        table_schema: Schema,
        keys: Sequence[int],
        table_keys: Sequence[int],
        residual: Condition | None,
        outer: bool,
        schema: Schema,
    ) -> None:
        self._keys, self._residual, self._outer, self._schema = tuple(keys), residual, outer, schema
        self._table = without_null_keys(table, table_keys)
        self._index = KeyIndex([table_schema.fields[key].type for key in table_keys])
        codes = self._index.codes([without_mask(self._table.columns[key]) for key in table_keys])
        self._order = KeyOrder(codes, len(self._index))
        self.failed: Counter[str] = Counter()
        self._nulls = [empty_values(field) for field in table_schema.fields]

    def process(self, train: Train) -> Train | None:
        if not len(train):
            return train
        present = key_mask(train, self._keys)
        chosen = np.arange(len(train)) if present is None else np.flatnonzero(present)
        probing = train.take(chosen)
        codes = self._index.known([without_mask(probing.columns[key]) for key in self._keys])
        before = self._order.refused
        mine, stored = self._order.pairs(codes)
        if self._order.refused > before:
            self.failed[TOO_MANY_PAIRS] += self._order.refused - before
        columns = [one.take(mine) for one in probing.columns]
        columns += [one.take(stored) for one in self._table.columns]
        pairs = Train(tuple(columns), taken(probing.arrival, mine))
        if self._residual is not None:
            failures = Failures()
            holds = np.flatnonzero(self._residual(pairs, failures))
            self.failed.update(failures.counts())
            pairs, mine = pairs.take(holds), mine[holds]
        pairs.kept = train.kept
        if self._outer:
            pairs = self._with_others(train, chosen[mine], pairs)
        pairs.watermark, pairs.causes = train.watermark, train.causes
        return pairs

    def _with_others(self, train: Train, met: Places, pairs: Train) -> Train:
        """The pairs, and after them the tuples that have met nobody."""
        alone = np.ones(len(train), bool)
        alone[met] = False
        rest = train.take(np.flatnonzero(alone))
        padded = Train((*rest.columns, *(nulls(one, len(rest)) for one in self._nulls)), rest.arrival)
        return concatenated([pairs, padded], self._schema) if len(rest) else pairs


def nulls(like: Values, count: int) -> Values:
    """So many NULLs of the type."""
    valid = np.zeros(count, bool)
    if isinstance(like.data, pa.Array):
        return Values(like.type, pa.array([""] * count, pa.string()), valid)
    return Values(like.type, np.zeros(count, like.type.numpy), valid)
