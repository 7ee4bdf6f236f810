"""Slope-slack by buckets (Carney §4.4.2): operators with nearly the same gradient and slack are treated as equal.

The range of gradients is divided into g parts and the range of slacks into s parts; a bucket is a combination of both. Buckets
are searched by falling gradient, and then by rising slack. For every QoS graph, the latencies at which it moves to another bucket
are computed in advance. A latency grows with the clock, so an operator's next move is a time in a calendar (`calendar.py`). The
cost of a decision therefore depends only on the number of operators that have moved, not on the number of ready operators.

1. An operator is in the bucket of its gradient and slack at its eol (`outlook.py`). So the gradient and slack of the picked
   operator differ by at most one part from those that slope-slack would pick.
2. Within a bucket the operator with the oldest tuple goes first; among equals, the lower number.
3. After its last critical point, an operator has no utility to lose. It is then in a separate bucket behind all others.

All graphs of a class share the same ranges, so a graph that falls very steeply makes the parts of the gradients wide.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import pairwise

from configs.classes.utility import UtilityGraph
from scheduler.operators.network import NetworkEstimates
from scheduler.operators.policies.calendar import Calendar
from scheduler.operators.policies.outlook import outlooks
from scheduler.operators.policies.protocol import NONE

# Days of the calendar queue: the slack of an operator passes through one part of the range of slacks in DAYS_A_PART days.
# Each operator moves to another bucket in less than DAYS_A_YEAR days, so a page of the calendar never has entries of two years.
DAYS_A_PART, DAYS_A_YEAR = 32, 64
NEVER = math.inf
# A bucket's heap is rebuilt when it has at least this many invalid entries, and more invalid than valid entries.
GONE_MAX = 16


@dataclass(frozen=True, slots=True)
class Grid:
    """Division of the gradients and slacks of QoS graphs into parts."""

    gradients: int
    slacks: int
    gradient_part: float
    slack_part_s: float

    @classmethod
    def over(cls, graphs: Iterable[UtilityGraph], gradients: int, slacks: int) -> Grid:
        every = list(graphs)
        steepest = max(lost for graph in every for lost in graph.gradients)
        longest_s = max(end - start for graph in every for start, end in pairwise((0.0, *graph.latencies_s)))
        # If the range of gradients or slacks is 0, all values are in one part. Any width of the parts is then correct.
        return cls(gradients, slacks, steepest / gradients or 1.0, longest_s / slacks or 1.0)

    def gradient_bucket(self, gradient: float) -> int:
        return min(int(gradient / self.gradient_part), self.gradients - 1)

    def slack_bucket(self, slack_s: float) -> int:
        return min(max(math.ceil(slack_s / self.slack_part_s) - 1, 0), self.slacks - 1)

    def order(self, gradient: float, slack_bucket: int) -> int:
        """Return the position of a bucket in the order of search."""
        return (self.gradients - 1 - self.gradient_bucket(gradient)) * self.slacks + slack_bucket

    @property
    def last(self) -> int:
        return self.gradients * self.slacks

    def moves(self, graph: UtilityGraph) -> tuple[list[float], list[int]]:
        """Return the latencies at which operators with this QoS graph move to another bucket, and their buckets in this order."""
        places: list[tuple[float, int]] = []
        start = -NEVER
        for end, gradient in zip(graph.latencies_s, graph.gradients, strict=False):
            top = self.slacks - 1 if start == -NEVER else self.slack_bucket(end - start)
            for part in range(top, -1, -1):
                at = start if part == top else end - (part + 1) * self.slack_part_s
                places.append((at, self.order(gradient, part)))
            start = end
        places.append((start, self.last))
        changes = [places[0], *(place for before, place in pairwise(places) if place[1] != before[1])]
        return [at for at, _ in changes[1:]], [bucket for _, bucket in changes]


class BucketPolicy:
    """Policy that runs the operator with the oldest tuple in the first non-empty bucket."""

    def __init__(self, gradients: int, slacks: int, believed: NetworkEstimates) -> None:
        self._gradients, self._slacks = gradients, slacks
        self._graphs: dict[int, UtilityGraph] = {}
        self._is_ready: list[bool] = []
        self._ready_count = 0
        self._head: list[float] = []
        self._train: list[int] = []
        self._grow(len(believed.estimates))
        self.rank(believed)

    def _grow(self, more: int) -> None:
        self._is_ready += [False] * more
        self._head += [0.0] * more
        self._train += [1] * more

    def rank(self, believed: NetworkEstimates) -> None:
        every = outlooks(believed)
        self._output_cost = [outlook.output_cost_s for outlook in every]
        # Graphs are identified by id(), since comparing two graphs compares all their points.
        graphs = {id(outlook.graph): outlook.graph for outlook in every}
        if graphs.keys() != self._graphs.keys():
            self._graphs = graphs
            self.grid = Grid.over(graphs.values(), self._gradients, self._slacks)
            self._moves_of = {number: self.grid.moves(graph) for number, graph in graphs.items()}
        self._moves = [self._moves_of[id(outlook.graph)] for outlook in every]
        # `_heaps` has a heap of (head, operator) for each bucket. Entries of operators that have moved to another bucket are invalid.
        # `_inside` has the number of valid entries of each heap.
        self._heaps: list[list[tuple[float, int]]] = [[] for _ in range(self.grid.last + 1)]
        self._inside = [0] * len(self._heaps)
        self._bits = [1 << bucket for bucket in range(len(self._heaps))]
        self._filled = 0  # One bit for each bucket, set if the bucket is not empty
        self._bucket = [NONE] * len(every)
        # Arrival time of the operator's oldest tuple, as it was when the operator was put into its bucket.
        self._put_with = [0.0] * len(every)
        part_s = self.grid.slack_part_s
        self._calendar = Calendar(part_s / DAYS_A_PART, DAYS_A_YEAR)
        self._due = [NEVER] * len(every)  # Time of the earliest calendar entry of each operator
        # Operators that the next `pick` puts into their buckets, because `pick` is called with the time.
        self._told = [operator for operator, is_ready in enumerate(self._is_ready) if is_ready]

    def extend(self, believed: NetworkEstimates, changed: Collection[int]) -> None:
        self._grow(len(believed.estimates) - len(self._is_ready))
        self.rank(believed)

    def pending(self, operator: int, tuples: int) -> None:
        if self._train[operator] != tuples:
            self._train[operator] = tuples
            if self._is_ready[operator]:
                self._told.append(operator)

    def ready(self, operator: int, head: float) -> None:
        if not self._is_ready[operator]:
            self._is_ready[operator] = True
            self._ready_count += 1
        elif self._head[operator] == head:
            return
        self._head[operator] = head
        self._told.append(operator)

    def idle(self, operator: int) -> None:
        if self._is_ready[operator]:
            self._is_ready[operator] = False
            self._ready_count -= 1
        if self._bucket[operator] != NONE:
            self._leave(operator)

    def pick(self, now: float) -> int:
        if not self._ready_count:
            return NONE
        announced = self._told
        if announced:
            is_ready = self._is_ready
            if self._ready_count == 1 and is_ready[announced[-1]]:
                # Only one operator is ready, so it needs no bucket yet.
                del announced[:-1]
                return announced[0]
            for operator in announced:
                if is_ready[operator]:
                    self._put(operator, now)
            announced.clear()
        for at, operator in self._calendar.due(now):
            if at == self._due[operator]:
                self._due[operator] = NEVER
            if self._is_ready[operator]:
                self._put(operator, now)
        filled = self._filled
        bucket = (filled & -filled).bit_length() - 1
        heap, buckets, put_with = self._heaps[bucket], self._bucket, self._put_with
        while True:
            head, operator = heap[0]
            if buckets[operator] == bucket and put_with[operator] == head:
                return operator
            heappop(heap)

    def _put(self, operator: int, now: float) -> None:
        head = self._head[operator]
        # Time at which the operator's expected output latency (eol) was 0.
        born = head - self._train[operator] * self._output_cost[operator]
        latencies, buckets = self._moves[operator]
        place = bisect_right(latencies, now - born)
        bucket = buckets[place]
        if self._bucket[operator] != bucket or self._put_with[operator] != head:
            if self._bucket[operator] != NONE:
                self._leave(operator)
            self._enter(operator, bucket, head)
        if place < len(latencies):
            at = born + latencies[place]
            # If the calendar has an earlier entry of this operator, the next entry is added when the earlier entry is due.
            if at < self._due[operator]:
                self._due[operator] = at
                self._calendar.put(at, operator)

    def _enter(self, operator: int, bucket: int, head: float) -> None:
        self._bucket[operator], self._put_with[operator] = bucket, head
        self._inside[bucket] += 1
        self._filled |= self._bits[bucket]
        heap = self._heaps[bucket]
        heappush(heap, (head, operator))
        if len(heap) > 2 * self._inside[bucket] + GONE_MAX:
            heap[:] = {
                (head, operator)
                for head, operator in heap
                if self._bucket[operator] == bucket and self._put_with[operator] == head
            }
            heapify(heap)

    def _leave(self, operator: int) -> None:
        bucket, self._bucket[operator] = self._bucket[operator], NONE
        self._inside[bucket] -= 1
        if not self._inside[bucket]:
            self._heaps[bucket].clear()
            self._filled &= ~self._bits[bucket]
