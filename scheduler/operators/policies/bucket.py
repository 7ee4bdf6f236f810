"""Slope-slack by buckets (Carney §4.4.2): operators whose gradient and slack are nearly the same count as the same.

The range of gradients is cut into g parts and that of slacks into s. A bucket is a part of each; buckets are gone through
by falling gradient, and of one gradient by rising slack. For every graph it is computed beforehand at which latency it
moves from which bucket to which. A latency grows with the clock, so an operator's next move is a time in a calendar
(`calendar.py`): what a decision costs does not depend on how many operators are ready, only on how many have moved.

1. An operator is in the bucket that its gradient and slack at its eol fall into: what is picked has a gradient and a slack
   that are at most a part away from those of slope-slack's pick.
2. Within a bucket the oldest tuple goes first, of several that came at the same time the lower number.
3. After the last critical point there is nothing more to lose: a bucket of its own, behind all others.

All graphs of a class share its ranges: one that falls within a moment makes the parts of the gradients wide.
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

# A page of the calendar is this part of the time in which an operator passes through a part of the slacks. The next move
# is within that time, so a year of more than these looks at no page for an entry of another year.
DAYS_A_PART, DAYS_A_YEAR = 32, 64
NEVER = math.inf
# A bucket's heap is made anew when most of it has left.
GONE_MAX = 16


@dataclass(frozen=True, slots=True)
class Grid:
    """Parts of the gradients and slacks that graphs have."""

    gradients: int
    slacks: int
    gradient_part: float
    slack_part_s: float

    @classmethod
    def over(cls, graphs: Iterable[UtilityGraph], gradients: int, slacks: int) -> Grid:
        every = list(graphs)
        steepest = max(lost for graph in every for lost in graph.gradients)
        longest_s = max(end - start for graph in every for start, end in pairwise((0.0, *graph.latencies_s)))
        # If no graph falls, or none lasts, there is one part, of any width.
        return cls(gradients, slacks, steepest / gradients or 1.0, longest_s / slacks or 1.0)

    def gradient_bucket(self, gradient: float) -> int:
        return min(int(gradient / self.gradient_part), self.gradients - 1)

    def slack_bucket(self, slack_s: float) -> int:
        return min(max(math.ceil(slack_s / self.slack_part_s) - 1, 0), self.slacks - 1)

    def order(self, gradient: float, slack_bucket: int) -> int:
        """A bucket's place among all, in the order in which they are gone through."""
        return (self.gradients - 1 - self.gradient_bucket(gradient)) * self.slacks + slack_bucket

    @property
    def last(self) -> int:
        return self.gradients * self.slacks

    def moves(self, graph: UtilityGraph) -> tuple[list[float], list[int]]:
        """Latencies from which on a graph is in another bucket; and its buckets, from before the first of them."""
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
    """The oldest of the first bucket that is not empty."""

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
        # By identity: a graph is compared corner by corner.
        graphs = {id(outlook.graph): outlook.graph for outlook in every}
        if graphs.keys() != self._graphs.keys():
            self._graphs = graphs
            self.grid = Grid.over(graphs.values(), self._gradients, self._slacks)
            self._moves_of = {number: self.grid.moves(graph) for number, graph in graphs.items()}
        self._moves = [self._moves_of[id(outlook.graph)] for outlook in every]
        # Of each bucket a heap of (head, operator), of which those count that are in it, and how many do.
        self._heaps: list[list[tuple[float, int]]] = [[] for _ in range(self.grid.last + 1)]
        self._inside = [0] * len(self._heaps)
        self._bits = [1 << bucket for bucket in range(len(self._heaps))]
        self._filled = 0  # the bits of buckets that are not empty
        self._bucket = [NONE] * len(every)
        self._put_with = [0.0] * len(every)  # the head it was put into its bucket with
        part_s = self.grid.slack_part_s
        self._calendar = Calendar(part_s / DAYS_A_PART, DAYS_A_YEAR)
        self._due = [NEVER] * len(every)  # its earliest time in the calendar
        # To be put where they belong as soon as it is known what time it is.
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
                # There is nothing to decide: who is alone needs no bucket yet.
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
        """Where it belongs at this moment, and when that will change."""
        head = self._head[operator]
        born = head - self._train[operator] * self._output_cost[operator]  # when its eol was nothing
        latencies, buckets = self._moves[operator]
        place = bisect_right(latencies, now - born)
        bucket = buckets[place]
        if self._bucket[operator] != bucket or self._put_with[operator] != head:
            if self._bucket[operator] != NONE:
                self._leave(operator)
            self._enter(operator, bucket, head)
        if place < len(latencies):
            at = born + latencies[place]
            # What is due earlier will see to it.
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
