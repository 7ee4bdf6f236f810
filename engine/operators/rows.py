"""Windows of a fixed number of tuples. One operator numbers a stream's tuples; each query has another operator, which closes its windows.

An operator between these two, such as a filter or a join with a table, does not change which numbers a window covers: tuples
that a filter drops still count towards the window's length. A window in which no tuple is left emits no row.

    NumberOperator      in: tuples                     out: tuples with numbers; the watermark is their count
    RowWindowOperator   in: numbered tuples            out: (keys…, aggregates…) of the last `rows` tuples, after every
                                                       `slide` tuples
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.data.held_state import FEW_KEYS, Holding, train_bytes
from engine.data.keys import KeyIndex
from engine.data.schema import INT64
from engine.data.train import (
    Train,
    Values,
    concatenated,
    counting_dropped,
    empty_train,
    same_arrival,
    stands_for,
)
from engine.data.watermark_causes import Causes, Tuples, arrival_of
from engine.operators.windows import rows_of
from engine.plan.plan import RowWindow, WindowAggregate, time_of
from engine.windows.pane_aggregates import answered, measures_of
from engine.windows.panes import Each, Measure, Pane, accumulate

Numbers = npt.NDArray[np.int64]


class NumberOperator:
    """Numbers the tuples of a stream in the order of arrival."""

    def __init__(self) -> None:
        self.total = 0

    def process(self, train: Train) -> Train | None:
        if not len(train):
            return None
        train = counting_dropped(train)
        numbers = np.arange(self.total, self.total + len(train))
        self.total += len(train)
        causes = (Tuples(self.total, numbers + 1, train.arrival, 0),)
        columns = (*train.columns, Values(INT64, numbers))
        return Train(columns, train.arrival, train.kept, self.total, causes)

    def wants(self, time: int) -> bool:
        return False

    def snapshot(self) -> Any:
        return self.total

    def restore(self, state: Any) -> None:
        self.total = state


class RowWindowOperator:
    """Closes one query's windows over numbered tuples, beginning with the tuple numbered `first`."""

    def __init__(self, plan: WindowAggregate, first: int) -> None:
        assert isinstance(plan.window, RowWindow)
        self._first, self._next_end = first, first + plan.window.slide
        self._window, self._number, self._clock = plan.window, time_of(plan.input).place, plan.clock
        self._aggregates, self._schema, self._input = plan.aggregates, plan.schema, plan.input.schema
        self._keys = plan.keys
        self._index = KeyIndex([self._input.fields[key].type for key in plan.keys])
        measures: set[Measure] = {("rows", None)}
        self._measures = measures.union(*map(measures_of, plan.aggregates))
        self._recent = empty_train(self._input)
        # Number of tuples before shedding that each recent tuple stands for.
        self._offered = np.empty(0)
        self.holding = Holding()

    def process(self, train: Train) -> Train | None:
        if len(train):
            self._add(self.holding.admitted(train, self._offered.itemsize))
        closed = []
        if self._next_end <= train.watermark:
            ends = np.arange(self._next_end, train.watermark + 1, self._window.slide)
            closed = list(self._closed(ends, train.causes))
            self._next_end = int(ends[-1]) + self._window.slide
        self._forget(self._next_end - self._window.rows)
        self._tell()
        return concatenated(closed, self._schema) if closed else None

    def wants(self, time: int) -> bool:
        return time >= self._next_end

    def snapshot(self) -> Any:
        return self._recent, self._offered, self._first, self._next_end, self._index

    def restore(self, state: Any) -> None:
        self._recent, self._offered, self._first, self._next_end, self._index = copy.deepcopy(state)
        self._tell()

    def _tell(self) -> None:
        # Keys count towards the limit of bytes, not of groups, because they belong to tuples of the window.
        self.holding.set_keys(0, self._index.bytes)
        self.holding.set_state(train_bytes(self._recent) + self._offered.nbytes)

    def _numbers(self) -> Numbers:
        numbers: Numbers = self._recent.columns[self._number].data
        return numbers

    def _add(self, train: Train) -> None:
        self._recent = concatenated([self._recent, train], self._input)
        self._offered = np.concatenate([self._offered, np.full(len(train), stands_for(train.kept))])
        numbers = self._numbers()
        if (numbers[1:] < numbers[:-1]).any():  # An outer join emits its unmatched tuples after all pairs
            order = np.argsort(numbers, kind="stable")
            self._recent, self._offered = self._recent.take(order), self._offered.take(order)

    def _forget(self, before: int) -> None:
        gone = int(np.searchsorted(self._numbers(), before))
        if gone:
            self._recent, self._offered = self._recent.slice(gone, len(self._recent)), self._offered[gone:]

    def _closed(self, ends: Numbers, causes: Causes) -> Iterator[Train]:
        """Yield the answers of the windows with these ends; windows without tuples have no answer."""
        starts, numbers = np.maximum(self._first, ends - self._window.rows), self._numbers()
        begins, stops = np.searchsorted(numbers, starts), np.searchsorted(numbers, ends)
        offered = np.concatenate([[0.0], np.cumsum(self._offered)])
        some = np.flatnonzero(begins < stops)
        ends, begins, stops = ends[some], begins[some], stops[some]
        kept = (stops - begins) / (offered[stops] - offered[begins])
        for end, begin, stop, part in zip(*(of.tolist() for of in (ends, begins, stops, kept)), strict=True):
            members = self._recent.slice(begin, stop)
            members.kept = part
            yield self._answer(members, self._offered[begin:stop], arrival_of(causes, end))

    def _answer(self, members: Train, each: Each, cause: float) -> Train:
        if not self._index.in_range and len(self._index) > max(FEW_KEYS, 2 * len(members)):
            # Forget all keys, because the code numbers of keys are valid within one window only.
            self._index.keep(np.empty(0, np.intp))
        codes = self._index.codes([members.columns[key] for key in self._keys] or list(members.columns[:1]))
        pane = Pane()
        accumulate(
            pane,
            self._measures,
            groups=len(self._index),
            codes=codes,
            columns=members.columns,
            time=self._clock,
            each=each,
        )
        rows = rows_of(pane, len(self._index))
        groups = np.flatnonzero(rows)
        keys = self._index.decoded(groups) if self._keys else ()
        results = [answered(aggregate, pane, groups, rows) for aggregate in self._aggregates]
        return Train((*keys, *results), same_arrival(cause, len(groups)), members.kept)
