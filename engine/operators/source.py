"""Sources, through which a stream's tuples enter the network: they drop late tuples and set the watermark.

A tuple is late if its event time lies before the watermark that earlier tuples have set. So which tuples are late depends
only on the order of arrival, never on how the input was divided into trains. A tuple without an event time counts as late. The gateway
writes each batch in the order of event time (`engine.data.batch_order`), so only earlier batches can make a tuple late.

    in: tuples in the order of arrival      out: the tuples that are not late; watermark = largest event time − lateness
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from engine.data.train import LateRows, Mask, Train, is_same, late_together
from engine.data.watermark_causes import NO_PROGRESS, Causes, Moment, Tuples


class SourceOperator:
    """Operator that takes the tuples of one stream: it drops late tuples and sets the watermark."""

    def __init__(self, time: int | None, lateness: int) -> None:
        self._time, self._lateness = time, lateness
        self._latest = NO_PROGRESS
        self.late = 0

    def process(self, train: Train) -> Train | None:
        if self._time is None or not len(train):
            return train
        dropped = None if train.late is None else self.missing(train.late)
        train = self._timed(train, train.columns[self._time].valid)
        times = train.columns[self._time].data
        if not len(times):
            train.late = dropped
            return train
        before, late = self._latest, None
        in_order = bool((times[1:] >= times[:-1]).all()) and int(times[0]) >= self._latest - self._lateness
        if in_order:
            self._latest = max(self._latest, int(times[-1]))
        else:
            reached = np.maximum.accumulate(np.concatenate([[self._latest], times[:-1]]))
            behind = np.where(reached == NO_PROGRESS, reached, reached - self._lateness)
            is_late = times < behind
            self._latest = max(self._latest, int(times.max()))
            if is_late.any():
                missed = np.flatnonzero(is_late)
                self.late += len(missed)
                offered = np.full(len(times), 1 / train.kept if train.kept > 0 else 1.0)
                nothing = np.zeros(len(times), dtype=np.bool_)
                late = LateRows(train.columns, behind, offered, nothing).take(missed)
                train = train.take(np.flatnonzero(~is_late))
        causes = self._caused_by(train) if self._latest > before else ()
        late = late_together(dropped, late)
        return Train(
            train.columns, train.arrival, train.kept, self._latest - self._lateness, causes, late=late
        )

    def missing(self, dropped: LateRows) -> LateRows:
        """Return the dropped rows that have an event time, as late rows.

        Each row carries the current watermark, from which windows see whether they still count the row.
        """
        if self._time is None:
            return dropped
        valid = dropped.columns[self._time].valid
        if valid is not None and not valid.all():
            dropped = dropped.take(np.flatnonzero(valid))
        mark = self._latest if self._latest == NO_PROGRESS else self._latest - self._lateness
        return replace(dropped, behind=np.full(len(dropped), mark))

    def _caused_by(self, train: Train) -> Causes:
        upto = self._latest - self._lateness
        if is_same(train.arrival):
            return (Moment(upto, float(train.arrival[0])),)
        return (Tuples(upto, train.columns[self._time or 0].data, train.arrival, self._lateness),)

    def _timed(self, train: Train, valid: Mask | None) -> Train:
        """Return the tuples that have an event time; tuples without event time count as late, because no window or join can use them."""
        if valid is None or valid.all():
            return train
        self.late += len(train) - int(valid.sum())
        return train.take(np.flatnonzero(valid))

    def wants(self, time: int) -> bool:
        return False

    @property
    def latest(self) -> int | None:
        """Largest event time seen; None before the first tuple, or if the stream has no event time."""
        return None if self._time is None or self._latest == NO_PROGRESS else self._latest

    @property
    def watermark(self) -> int | None:
        """Event time up to which the stream is complete; None before the first tuple, or if the stream has no event time."""
        return None if self.latest is None else self._latest - self._lateness

    def advance(self, time: int) -> int:
        """Move the event time of an idle stream to `time`, taken from the clock; return the new watermark."""
        self._latest = max(self._latest, time)
        return self._latest - self._lateness

    def snapshot(self) -> Any:
        return self._latest, self.late

    def restore(self, state: Any) -> None:
        self._latest, self.late = state
