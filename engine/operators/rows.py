"""Windows of a number of tuples.

in: tuples                              out: (keys…, aggregates…) over the last `rows`, after every `slide` tuples
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from engine.aggregates import combined, measures_of
from engine.keys import KeyIndex
from engine.operators.protocol import Stateless
from engine.operators.windows import summed_rows
from engine.panes import Measure, Pane, accumulate
from engine.plan import Aggregate, RowWindow
from engine.schema import Schema
from engine.train import Train, concatenated, same_arrival


class RowWindowOperator(Stateless):
    """One query's windows by count, in the order of arrival."""

    def __init__(
        self,
        window: RowWindow,
        keys: Sequence[int],
        aggregates: Sequence[Aggregate],
        input_schema: Schema,
        schema: Schema,
        time: int | None,
    ) -> None:
        self._window, self._keys, self._time = window, tuple(keys), time
        self._aggregates, self._schema, self._input = tuple(aggregates), schema, input_schema
        self._index = KeyIndex([input_schema.fields[key].type for key in keys])
        measures: set[Measure] = {("rows", None)}
        self._measures = measures.union(*(measures_of(one) for one in aggregates))
        self._recent: Train | None = None
        self._count = 0  # tuples since the last window

    def process(self, train: Train) -> Train | None:
        if not len(train):
            return train
        before = 0 if self._recent is None else len(self._recent)
        all_ = train if self._recent is None else concatenated([self._recent, train], self._input)
        ends = range(before + self._window.slide - self._count, len(all_) + 1, self._window.slide)
        closed = [self._closed(all_.slice(max(0, end - self._window.rows), end)) for end in ends]
        self._count = (self._count + len(train)) % self._window.slide
        self._recent = all_.slice(max(0, len(all_) - self._window.rows), len(all_))
        if not closed:
            return None
        out = concatenated(closed, self._schema)
        out.watermark = train.watermark
        return out

    def snapshot(self) -> Any:
        return copy.deepcopy((self._recent, self._count, self._index))

    def restore(self, state: Any) -> None:
        self._recent, self._count, self._index = copy.deepcopy(state)

    def _closed(self, members: Train) -> Train:
        codes = self._index.codes([members.columns[key] for key in self._keys] or list(members.columns[:1]))
        pane = Pane()
        accumulate(pane, self._measures, len(self._index), codes, members.columns, self._time, members.kept)
        rows = summed_rows([pane], len(self._index))
        groups = np.flatnonzero(rows)
        keys = self._index.decoded(groups) if self._keys else ()
        results = [combined(one, [pane], groups, rows, members.kept) for one in self._aggregates]
        arrival = same_arrival(float(members.arrival[-1]), len(groups))
        return Train((*keys, *results), arrival, members.kept)
