"""Sliding windows of event time: one operator adds trains to panes; each query has another operator, which closes its windows.

A window [end − range, end) closes when event time is complete up to `end`. It emits a row for every group that has a
tuple in it. Windows end at multiples of the slide, or with SLIDE AT MOST at times that a schedule chooses
(`engine.windows.window_schedule`).

    in: tuples, watermarks                  out: (window_start, window_end, keys…, aggregates…) at each window's end
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from engine.data.keys import Codes
from engine.data.train import Train, Values, concatenated, progress, same_arrival
from engine.data.watermark_causes import NO_PROGRESS, Causes, arrival_of
from engine.operators.protocol import Progressive
from engine.plan.plan import TimeWindow, WindowAggregate
from engine.windows.pane_aggregates import answered, measures_of
from engine.windows.panes import Measure, Pane, PaneStore
from engine.windows.window_schedule import WindowSchedule

NEVER_CLOSED = NO_PROGRESS


class PaneOperator(Progressive):
    """Adds trains to a pane store, and passes on watermarks but no tuples."""

    def __init__(self, store: PaneStore) -> None:
        self._store, self.holding = store, store.holding

    def process(self, train: Train) -> Train | None:
        if len(train):
            self._store.add(train)
        if train.late is not None:
            self._store.miss(train.late)
        return progress(train.watermark, train.causes)

    def snapshot(self) -> Any:
        return self._store.snapshot()

    def restore(self, state: Any) -> None:
        self._store.restore(state)


class WindowOperator:
    """Closes the windows of one query.

    If queries with SLIDE AT MOST read the same panes, one scan combines windows of several queries. If the pane store
    already holds tuples, the first window starts after them, because the existing panes may lack the measures of its aggregates.
    """

    at_most = False

    def __init__(
        self,
        store: PaneStore,
        schedule: WindowSchedule,
        plan: WindowAggregate,
        unit_us: int,
        begins: int = NO_PROGRESS,
    ) -> None:
        """Create the operator that closes the windows of `plan`, and register it as a reader of the pane store.

        `unit_us` is the unit of the event time of the plan's input, in microseconds. The class may have taken tuples before the
        event time `begins` already, so that the panes may lack these tuples.
        """
        assert isinstance(plan.window, TimeWindow)
        self._store, self._schedule = store, schedule
        self._aggregates, self._schema = plan.aggregates, plan.schema
        self._range, self._slide = plan.window.range_us // unit_us, plan.window.slide_us // unit_us
        self.window = self._range // store.pane
        """Number of panes of one window."""
        self.slide = self._slide // store.pane
        """Number of panes by which windows slide; for windows with SLIDE AT MOST, the largest such number."""
        # The reader has the name of the window, not of a query: a query may have several windows, and queries may share a window.
        self._reader = f"{plan.window} {plan.aggregates} {plan.schema}"
        self.measures: set[Measure] = {("rows", None)}.union(*map(measures_of, plan.aggregates))
        store.measures |= self.measures
        schedule.join(self._reader, self)
        fresh = store.fresh_from()
        self._next_end = (
            NEVER_CLOSED if fresh is None else -((-fresh - self._range) // self._slide) * self._slide
        )
        if self.at_most and fresh is not None:
            schedule.start_after(self._reader, (fresh + self._range) // store.pane - 1)
        # The pane store must hold the panes of the first window; otherwise they could be dropped once no shorter window needs them.
        store.needs_from(self._reader, NO_PROGRESS if fresh is None else fresh)
        store.begin(self._reader, begins if fresh is None else max(begins, fresh))

    def process(self, train: Train) -> Train | None:
        closed, time, pane = [], train.watermark, self._store.pane
        if self._next_end == NEVER_CLOSED:
            self._next_end = self._first_end(time)
        while self._next_end <= time:
            end = self._next_end
            whole = self._schedule.combined(end // pane, self, time // pane)
            # A window has no tuples if all of them were refused for lack of room.
            filled = whole.tuples > 0
            if filled:
                closed.append(self._closed(end, whole, train.causes))
            self._next_end = end + self._slide if filled else self._skip_to(end, time)
        self._store.needs_from(self._reader, self._next_end - self._range)
        return self._emitted(closed, train)

    def wants(self, time: int) -> bool:
        return time >= self._next_end

    @property
    def slack(self) -> int:
        """Event time that may pass after a window's end before its answer is late: the length of one pane."""
        return self._store.pane

    def is_due(self, end: int) -> bool:
        """Return True if the window that ends at the pane with number `end` is still to be closed."""
        behind = end * self._store.pane - self._next_end
        return self._next_end != NEVER_CLOSED and behind >= 0 and behind % self._slide == 0

    def close(self) -> None:
        """Stop reading the pane store after the query was removed, so that the store can drop the panes of this query."""
        self._store.forget(self._reader)
        self._schedule.leave(self._reader)

    def snapshot(self) -> Any:
        return self._next_end

    def restore(self, state: Any) -> None:
        self._next_end = state

    def _emitted(self, closed: Sequence[Train], progressed: Train) -> Train:
        """Return the answers of the closed windows as one train, with the watermark of the train that closed these windows."""
        if not closed:
            return progress(progressed.watermark, progressed.causes)
        out = concatenated(closed, self._schema)
        out.watermark, out.causes = progressed.watermark, progressed.causes
        return out

    def _first_end(self, time: int) -> int:
        """Return the end of the first window that has a tuple or can still get one."""
        first = min(self._store.panes, default=None)
        at = time if first is None else min(first * self._store.pane, time)
        return (at // self._slide + 1) * self._slide

    def _skip_to(self, end: int, time: int) -> int:
        """Return the end of the next window to close, and skip windows without tuples."""
        later = [number for number in self._store.panes if number * self._store.pane >= end]
        at = min(min(later) * self._store.pane, time) if later else time
        return max(end + self._slide, (at // self._slide + 1) * self._slide)

    def _closed(self, end: int, whole: Pane, causes: Causes) -> Train:
        rows = rows_of(whole, len(self._store.index))
        groups: Codes = np.flatnonzero(rows)
        start = end - self._range
        keys = self._store.index.decoded(groups) if self._store.has_keys else ()
        bounds = [
            Values(field.type, np.full(len(groups), bound, np.int64))
            for field, bound in zip(self._schema.fields, (start, end), strict=False)
        ]
        missing = self._store.missed(start, end)
        offered = whole.offered + missing.rows
        kept = whole.tuples / offered if offered else 1.0
        # SCALED aggregates count dropped rows: these rows are assumed to be like the kept rows.
        # SCALED aggregates do not count late rows.
        each = 1 + missing.dropped / whole.offered if whole.offered else 1.0
        results = [answered(aggregate, whole, groups, rows, each) for aggregate in self._aggregates]
        arrival = same_arrival(arrival_of(causes, end), len(groups))
        return Train((*bounds, *keys, *results), arrival, kept)


class PeriodicWindowOperator(WindowOperator):
    """Closes the windows of a query with SLIDE AT MOST, at the ends that a schedule chooses."""

    at_most = True

    def process(self, train: Train) -> Train | None:
        closed, time, pane = [], train.watermark, self._store.pane
        for end in self._schedule.ends(self._reader, time // pane):
            whole = self._schedule.combined(end, self, time // pane)
            if whole.tuples:
                closed.append(self._closed(end * pane, whole, train.causes))
        upto = self._schedule.settled_upto(self._reader)
        assert upto is not None
        self._store.needs_from(self._reader, (upto + 1) * pane - self._range)
        return self._emitted(closed, train)

    def wants(self, time: int) -> bool:
        end = self._schedule.next_end(self._reader)
        return end is None or time >= end * self._store.pane

    @property
    def slack(self) -> int:
        """Event time that may pass after a window's end before its answer is late.

        The slack is one pane, plus the difference between SLIDE AT MOST and the actual slide. A window with a shorter slide is
        answered earlier than required, so its answer may also come later.
        """
        return (self.slide - self._schedule.period(self._reader) + 1) * self._store.pane

    def is_due(self, end: int) -> bool:
        return self._schedule.is_due(self._reader, end)

    def snapshot(self) -> Any:
        return self._schedule.snapshot(self._reader)

    def restore(self, state: Any) -> None:
        self._schedule.restore(self._reader, state)


def rows_of(pane: Pane, size: int) -> Codes:
    """Return the number of tuples of each of the `size` groups."""
    rows = np.zeros(size, np.intp)
    state = pane.measures.get(("rows", None))
    if state is not None:
        rows[: len(state)] = state
    return rows
