"""Join with a static table: emits each tuple with every row of the table that has an equal key.

An outer join also emits the tuples without a matching row.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from engine.data.keys import KeyIndex
from engine.data.train import Places, Train, progress, taken
from engine.expressions.compiler import Condition
from engine.operators.join import key_mask, key_types, satisfying, without_mask, without_null_keys
from engine.operators.join_state import TOO_MANY_PAIRS, CodeOrder
from engine.operators.outer_join import UnmatchedRows
from engine.operators.protocol import Stateless
from engine.plan.plan import TableJoin


class TableJoinOperator(Stateless):
    """Join of a stream with a table that is indexed once, when the operator is built."""

    def __init__(self, plan: TableJoin, table: Train, residual: Condition | None) -> None:
        self._keys, self._residual = plan.keys, residual
        self._table = without_null_keys(table, plan.table_keys)
        self._index = KeyIndex(key_types(plan.table.schema, plan.table_keys))
        codes = self._index.codes([without_mask(self._table.columns[key]) for key in plan.table_keys])
        self._order = CodeOrder(codes, len(self._index))
        self.failed: Counter[str] = Counter()
        self._unmatched = UnmatchedRows(plan.table.schema, plan.schema) if plan.outer else None

    def process(self, train: Train) -> Train | None:
        late = train.late
        if late is not None:
            late = late.became(*self._joined(late.as_train(), Counter()))
        if not len(train):
            return progress(train.watermark, train.causes, late)
        out, _ = self._joined(train, self.failed)
        out.watermark, out.causes, out.late = train.watermark, train.causes, late
        return out

    def _joined(self, train: Train, failed: Counter[str]) -> tuple[Train, Places]:
        """Return the joined rows, and for each joined row the position of its tuple in the train."""
        present = key_mask(train, self._keys)
        chosen = np.arange(len(train)) if present is None else np.flatnonzero(present)
        probing = train.take(chosen)
        codes = self._index.known([without_mask(probing.columns[key]) for key in self._keys])
        before = self._order.refused
        mine, stored = self._order.pairs(codes)
        if self._order.refused > before:
            failed[TOO_MANY_PAIRS] += self._order.refused - before
        columns = [column.take(mine) for column in probing.columns]
        columns += [column.take(stored) for column in self._table.columns]
        pairs = Train(tuple(columns), taken(probing.arrival, mine), train.kept)
        if self._residual is not None:
            holds = satisfying(pairs, self._residual, failed)
            pairs, mine = pairs.take(holds), mine[holds]
        sources = chosen[mine]
        return (pairs, sources) if self._unmatched is None else self._unmatched.added(train, pairs, sources)
