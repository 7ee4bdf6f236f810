"""The nodes of an operator network: operators with their queues."""

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
from engine.operators.protocol import Operator
from engine.operators.rows import NumberOperator
from engine.operators.windows import PaneOperator, WindowOperator
from engine.plan.plan import EventTime, Plan, WindowAggregate, event_time

# Rows dropped from one queue that are held until the next train: they take room and work, of which shedding is to save both.
MISSING_MAX = 4096


@dataclass(eq=False)
class QueuedOperator:
    """One box with its queue."""

    key: Hashable
    name: str
    operator: Operator
    downstream: list[QueuedOperator] = field(default_factory=list)
    upstream: list[QueuedOperator] = field(default_factory=list)
    queue: deque[Train] = field(default_factory=deque)
    lots: deque[Lot | None] = field(default_factory=deque)  # of the trains in the queue; none at a source
    tuples: int = 0  # queued
    missing: LateRows | None = None
    """Tuples dropped before the first train of a source's queue."""
    width: int | None = None  # bytes of a tuple that it gives; 0 if there are texts among them, which differ
    users: set[str] = field(default_factory=set)  # queries that need it
    outputs: set[str] = field(default_factory=set)  # queries whose answers it gives
    partner: QueuedOperator | None = None
    source: bool = False
    stream: str = ""  # that a source takes in, in small letters
    progressive: bool = False  # whether progress without tuples matters to it
    holding: Holding = field(default_factory=Holding)  # what the operator holds
    worked: int = 0  # tuples that it took in slices; a call without any counts for one
    worked_s: float = 0.0  # processor time of that
    given: int = 0  # tuples that it passed on or answered

    @property
    def tells(self) -> bool:
        """True if it passes on progress of event time only."""
        return isinstance(self.operator, PaneOperator)

    @property
    def timed(self) -> bool:
        """True if it takes progress of event time only, and no tuples."""
        return isinstance(self.operator, WindowOperator)

    @property
    def mean_cost_s(self) -> float | None:
        """Processor time of a tuple on the mean; None before it has run."""
        return self.worked_s / self.worked if self.worked else None

    @property
    def failed(self) -> Counter[str]:
        """Tuples that failed in the operator or found no room, by reason."""
        inside: Counter[str] | None = getattr(self.operator, "failed", None)
        return self.holding.refused if inside is None else inside + self.holding.refused

    def enqueue(self, train: Train, lot: Lot | None = None) -> bool:
        """Queue a train; whether the node had nothing before."""
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
        """Return the arrival of the train at which this many tuples are queued."""
        for train in self.queue:
            tuples -= len(train)
            if tuples <= 0:
                return float(train.arrival[0])
        return math.inf

    def leave_lots(self) -> None:
        """Let go of what is queued, since no operator will take it."""
        for lot in self.lots:
            if lot is not None:
                lot.leave()
        self.lots.clear()

    def wants(self, time: int) -> bool:
        """Return True if event time that comes to `time` without tuples changes something here or behind this node."""
        if self.progressive and self.operator.wants(time):
            return True
        return not isinstance(self.operator, NumberOperator) and any(
            below.wants(time) for below in self.downstream
        )

    def dequeue(self, most: int, upto: float = math.inf) -> Train:
        """The next train, cut to `most` tuples; at a source, with those behind it that fit whole and arrived by then."""
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
        """Return the tuples that were dropped since this was asked for last."""
        missing, self.missing = self.missing, None
        return missing

    def drop(self, most: int) -> int:
        """Drop the oldest tuples of a source's queue; return how many there were. They are missing from the next train."""
        left, missing = most, self.take_missing()
        parts = [] if missing is None else [missing]
        while left and self.queue:
            train = self.dequeue(left)
            left -= len(train)
            # A copy: a slice would hold the whole batch.
            parts.append(dropped_rows(train).take(np.arange(len(train))))
        self.missing = thinned(all_late(parts), MISSING_MAX) if parts else None
        return most - left

    def older(self, before: float) -> int:
        """Return how many of the oldest tuples in the queue arrived earlier than this."""
        count = 0
        for train in self.queue:
            early = int((train.arrival < before).sum())
            count += early
            if early < len(train):
                break
        return count

    def _gathered(self, first: Train, most: int, upto: float) -> Train:
        """A call costs the same for few tuples as for many, and a shed stream comes in small trains."""
        parts, tuples = [first], len(first)
        while self.queue and goes_with(first, self.queue[0]) and tuples + len(self.queue[0]) <= most:
            if self.queue[0].arrival[0] > upto:
                break
            parts.append(self.queue.popleft())
            tuples += len(parts[-1])
        return merged(parts)


def goes_with(train: Train, other: Train) -> bool:
    """Return True if the tuples of both may be joined to one train without loss."""
    return train.kept == other.kept and train.watermark == other.watermark == NO_PROGRESS


def slack_of(node: QueuedOperator) -> Callable[[], float] | None:
    """Return a function for the seconds an answer may take from falling due; None if no window of time leads to it."""
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
    """The query needs the node and all that feeds it."""
    stack = [node]
    while stack:
        above = stack.pop()
        if user not in above.users:
            above.users.add(user)
            stack.extend(above.upstream)


def time_of(plan: Plan) -> EventTime:
    """The event time of a plan that the planner has seen to have one."""
    time = event_time(plan)
    assert time is not None, f"{type(plan).__name__} has no event time"
    return time
