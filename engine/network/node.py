"""Operators of a class's network, each with its queue and with the queries that use it."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace

import numpy as np

from engine.data.held_state import Holding, Lot
from engine.data.train import (
    LateRows,
    Train,
    all_late,
    dropped_rows,
    late_together,
    merged,
    progress,
    thinned,
)
from engine.data.watermark_causes import NO_PROGRESS, followed
from engine.operators.protocol import Operator, Stateless
from engine.operators.rows import NumberOperator
from engine.operators.source import SourceOperator
from engine.operators.windows import PaneOperator, WindowOperator
from engine.plan.plan import WindowAggregate, time_of

# Maximum number of dropped rows that a queue keeps until the next train; more rows would use the memory that dropping has freed.
MISSING_MAX = 4096


@dataclass(eq=False)
class QueuedOperator:
    """Operator of a network with its queue, the queries that use it, and counts of its tuples and processor time."""

    key: Hashable
    name: str
    operator: Operator
    downstream: list[QueuedOperator] = field(default_factory=list)
    upstream: list[QueuedOperator] = field(default_factory=list)
    queue: deque[Train] = field(default_factory=deque)
    lots: deque[Lot | None] = field(default_factory=deque)  # Memory accounts of the queued trains
    tuples: int = 0  # Number of queued tuples
    missing: LateRows | None = None
    """Tuples that were dropped from a source's queue, before its first train."""
    width: int | None = None  # Bytes of each emitted tuple; 0 if tuples have texts, which differ in length
    users: set[str] = field(default_factory=set)  # Queries that need this operator
    outputs: set[str] = field(default_factory=set)  # Queries for which this operator emits the answers
    partner: QueuedOperator | None = None  # Operator of the other side of a join or lookup
    source: bool = False
    stream: str = ""  # Name of the stream that a source reads, in small letters
    progressive: bool = field(init=False)
    """True if the operator may have to run for a watermark that comes without tuples."""
    holding: Holding = field(init=False)
    """Account of the memory that the operator holds."""
    worked: int = 0  # Number of tuples processed in slices; a call without tuples counts as one tuple
    worked_s: float = 0.0  # Processor seconds that the operator used for the tuples counted in `worked`
    given: int = 0  # Number of tuples passed on or emitted as answers

    def __post_init__(self) -> None:
        self.progressive = not isinstance(self.operator, Stateless | NumberOperator | SourceOperator)
        self.holding = getattr(self.operator, "holding", None) or Holding()

    @property
    def tells(self) -> bool:
        """True if the operator passes on watermarks but no tuples."""
        return isinstance(self.operator, PaneOperator)

    @property
    def timed(self) -> bool:
        """True if the operator reads watermarks but no tuples."""
        return isinstance(self.operator, WindowOperator)

    @property
    def mean_cost_s(self) -> float | None:
        """Mean processor time per tuple; None before the operator has run."""
        return self.worked_s / self.worked if self.worked else None

    @property
    def failed(self) -> Counter[str]:
        """Tuples that failed in the operator or found no room, by reason."""
        inside: Counter[str] | None = getattr(self.operator, "failed", None)
        return self.holding.refused if inside is None else inside + self.holding.refused

    def enqueue(self, train: Train, lot: Lot | None = None) -> bool:
        """Queue a train; return True if the queue was empty before."""
        was_empty = not self.queue
        if not len(train) and self.queue and not len(self.queue[-1]):
            before = self.queue[-1]
            self.queue[-1] = progress(
                max(before.watermark, train.watermark),
                followed(before.causes, train.causes),
                late_together(before.late, train.late),
            )
        else:
            self.queue.append(train)
            self.tuples += len(train)
            if not self.source:
                self.lots.append(lot)
        return was_empty

    def arrived_within(self, tuples: int) -> float:
        """Return the arrival time of the queued train that contains tuple number `tuples`; infinite if fewer tuples are queued.

        Tuples are counted from 1, beginning with the oldest.
        """
        for train in self.queue:
            tuples -= len(train)
            if tuples <= 0:
                return float(train.arrival[0])
        return math.inf

    def leave_lots(self) -> None:
        """Remove the queued trains from the memory account, because no operator will take these trains."""
        for lot in self.lots:
            if lot is not None:
                lot.leave()
        self.lots.clear()

    def wants(self, time: int) -> bool:
        """Return True if a watermark of `time` without tuples changes anything in this operator or in an operator behind it."""
        if self.progressive and self.operator.wants(time):
            return True
        return not isinstance(self.operator, NumberOperator) and any(
            below.wants(time) for below in self.downstream
        )

    def dequeue(self, most: int, upto: float = math.inf) -> Train:
        """Remove and return the next train; a train with more than `most` tuples is cut, and its rest stays in the queue.

        At a source, the next trains in the queue are merged into the returned train, as long as these trains arrived by `upto`
        and the merged train has at most `most` tuples.
        """
        train = self.queue.popleft()
        if len(train) > most:
            self.queue.appendleft(train.slice(most, len(train)))
            train = train.slice(0, most)
        elif self.source and self.queue and self.missing is None:
            train = self._gathered(train, most, upto)
        elif self.lots and (lot := self.lots.popleft()) is not None:
            lot.leave()
        self.tuples -= len(train)
        if self.missing is not None and len(train):
            train = replace(train, late=self.take_missing())
        return train

    def take_missing(self) -> LateRows | None:
        """Remove and return the tuples that were dropped from the queue since the last call."""
        missing, self.missing = self.missing, None
        return missing

    def drop(self, most: int) -> int:
        """Drop the oldest tuples of a source's queue, at most `most`, and return how many were dropped.

        The next train carries the dropped tuples as missing rows.
        """
        left, missing = most, self.take_missing()
        parts = [] if missing is None else [missing]
        while left and self.queue:
            train = self.dequeue(left)
            left -= len(train)
            # The dropped rows are copied, because a numpy view would keep the whole batch in memory.
            parts.append(dropped_rows(train).take(np.arange(len(train))))
        self.missing = thinned(all_late(parts), MISSING_MAX) if parts else None
        return most - left

    def older(self, before: float) -> int:
        """Return how many of the oldest tuples in the queue arrived before the time `before`."""
        count = 0
        for train in self.queue:
            early = int((train.arrival < before).sum())
            count += early
            if early < len(train):
                break
        return count

    def _gathered(self, first: Train, most: int, upto: float) -> Train:
        """Merge small trains, which are common in shed streams, because each call of an operator has a fixed cost."""
        parts, tuples = [first], len(first)
        while self.queue and goes_with(first, self.queue[0]) and tuples + len(self.queue[0]) <= most:
            if self.queue[0].arrival[0] > upto:
                break
            parts.append(self.queue.popleft())
            tuples += len(parts[-1])
        return merged(parts)


def goes_with(train: Train, other: Train) -> bool:
    """Return True if both trains can be merged into one without losing a watermark or a kept fraction."""
    return train.kept == other.kept and train.watermark == other.watermark == NO_PROGRESS


def slack_of(node: QueuedOperator) -> Callable[[], float] | None:
    """Return a function that returns the seconds from an answer's due time until the answer counts as late.

    Return None if no time window feeds the operator.
    """
    reached, stack = {id(node)}, [node]
    while stack:
        above = stack.pop()
        if isinstance(above.operator, WindowOperator):
            assert isinstance(above.key, WindowAggregate)
            unit_s, operator = time_of(above.key.input).unit_us / 1e6, above.operator
            return lambda: operator.slack * unit_s
        stack += [feeder for feeder in above.upstream if id(feeder) not in reached]
        reached.update(map(id, above.upstream))
    return None


def join_up(above: QueuedOperator, below: QueuedOperator) -> None:
    above.downstream.append(below)
    below.upstream.append(above)


def used_by(node: QueuedOperator, user: str) -> None:
    """Add the query to the users of the operator and of all operators that feed it."""
    stack = [node]
    while stack:
        above = stack.pop()
        if user not in above.users:
            above.users.add(user)
            stack.extend(above.upstream)
