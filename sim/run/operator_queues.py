"""Queues of a simulated class's operators: arrival times of tuples, with the oldest first.

1. The scheduler is notified of each change: which operators have input, since when, and (if a policy needs it) how many tuples.
2. `memory` counts the size of all queued tuples and of the train in progress. The train is subtracted when its call ends.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from scheduler.operators.network import NetworkEstimates
from scheduler.operators.scheduler import OperatorScheduler
from sim.run.networks import BoxPlan
from sim.run.queue_memory import QueueMemory

# When this many tuples at the front of a queue have been taken, these tuples are deleted from the list.
CUT_AT = 4096


class OperatorQueues:
    """Queues of all operators, by the operator's number."""

    def __init__(self, plan: BoxPlan, scheduler: OperatorScheduler) -> None:
        size = len(plan.boxes)
        self.memory = QueueMemory()
        self.sources = frozenset(number for numbers in plan.entries.values() for number in numbers)
        self.busy_inside = 0
        """Number of operators behind the sources that have input."""
        self._scheduler = scheduler
        self._queues: list[list[float]] = [[] for _ in range(size)]
        self._heads = [0] * size
        self._downstream = [tuple(below) for below in plan.downstream]
        self._size_in = [1.0] * size  # Size of one tuple in the operator's queue
        for above, below in enumerate(self._downstream):
            for number in below:
                self._size_in[number] = plan.boxes[above].size_out

    # --- state of the queues -------------------------------------------------------------------------------

    def pending(self, operator: int) -> int:
        return len(self._queues[operator]) - self._heads[operator]

    def tuples(self) -> int:
        """Number of tuples in all queues."""
        return sum(map(len, self._queues)) - sum(self._heads)

    def is_empty(self) -> bool:
        return not any(map(self.pending, range(len(self._queues))))

    def has_inside(self, operators: Iterable[int] | None = None) -> bool:
        """Return True if any of the operators (default: all operators) has input; source operators do not count."""
        numbers = range(len(self._queues)) if operators is None else operators
        return any(self.pending(number) for number in numbers if number not in self.sources)

    def heads(self, operators: Iterable[int] | None = None) -> list[tuple[int, float, int]]:
        """Return the operators that have input, each with the arrival time of the oldest tuple and the number of queued tuples."""
        numbers = range(len(self._queues)) if operators is None else operators
        return [
            (number, self._queues[number][self._heads[number]], pending)
            for number in numbers
            if (pending := self.pending(number))
        ]

    def older(self, operator: int, before: float) -> int:
        """Return the number of the operator's queued tuples that arrived before a time."""
        head = self._heads[operator]
        return bisect_left(self._queues[operator], before, lo=head) - head

    def work_s(self, believed: NetworkEstimates) -> float:
        """Return the processor-seconds that all tuples queued in the class will take."""
        return sum(
            pending * believed.segments[number].cost_s
            for number in range(len(self._queues))
            if (pending := self.pending(number))
        )

    # --- changes of the queues -------------------------------------------------------------------------------------

    def extend(self, operators: Sequence[int], batch: Sequence[float], stamp: float, now: float) -> None:
        """Queue a batch of a stream at each of its source operators. Call `announce` for each operator afterwards."""
        for number in operators:
            self._queues[number].extend(batch)
        copies = len(operators)
        self.memory.has_come(copies * len(batch), copies * (len(batch) * stamp - sum(batch)), now)

    def evict(self, operators: Sequence[int], tuples: int) -> int:
        """Drop up to `tuples` of the oldest tuples that no source operator has taken; return the number dropped."""
        untouched = min(map(self.pending, operators))
        gone = min(tuples, untouched)
        for number in operators:
            queue = self._queues[number]
            place = len(queue) - untouched
            if place == self._heads[number]:
                self._heads[number] += gone
            else:
                del queue[place : place + gone]
            self.memory.held -= gone * self._size_in[number]
        return gone

    def take(self, operator: int, most: int) -> list[float]:
        """Dequeue a train of at most `most` tuples."""
        queue, head = self._queues[operator], self._heads[operator]
        tuples = len(queue) - head
        if tuples <= most:
            self._queues[operator], self._heads[operator] = [], 0
            self.busy_inside -= operator not in self.sources
            return queue[head:] if head else queue
        end = head + most
        train = queue[head:end]
        if end > CUT_AT:
            del queue[:end]
            end = 0
        self._heads[operator] = end
        return train

    def pass_on(self, operator: int, tuples: int, out: list[float], now: float) -> None:
        """End an operator's call: queue its results at the next operators, and free the memory of its train."""
        growth = -tuples * self._size_in[operator]
        if out:
            for number in self._downstream[operator]:
                self._feed(number, out)
                growth += len(out) * self._size_in[number]
        self.announce(operator)
        self.memory.change(growth, now)

    def _feed(self, number: int, out: list[float]) -> None:
        queue = self._queues[number]
        is_new = not queue
        self.busy_inside += is_new
        queue.extend(out)
        if self._scheduler.counted[number]:
            self._scheduler.pending(number, len(queue) - self._heads[number])
        if is_new:
            self._scheduler.ready(number, out[0])

    def announce(self, number: int) -> None:
        """Notify the scheduler whether the operator has input, and when its oldest tuple arrived."""
        queue, head = self._queues[number], self._heads[number]
        if head < len(queue):
            if self._scheduler.counted[number]:
                self._scheduler.pending(number, len(queue) - head)
            self._scheduler.ready(number, queue[head])
        else:
            self._scheduler.idle(number)

    def announce_all(self) -> None:
        for number in range(len(self._queues)):
            self.announce(number)

    def clear(self) -> None:
        """Drop all queued tuples. Call `announce_all` afterwards."""
        self._queues = [[] for _ in self._queues]
        self._heads = [0] * len(self._heads)
        self.busy_inside = 0
        self.memory.held = 0.0
