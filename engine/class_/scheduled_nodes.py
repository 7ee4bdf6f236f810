"""Operators of a class's network with their numbers in the level-2 scheduler, which picks the operator that runs next.

The scheduler learns the costs of operators, while the network adds and removes operators. `current` extends the scheduler after
operators were added, and builds a new scheduler after operators were removed or have changed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from configs.classes.policies import PolicySettings
from engine.data.train import Train
from engine.measure.answer_values import AnswerValues
from engine.measure.ideal_cost import Alone, alone_of
from engine.network.network import ClassNetwork
from engine.network.node import QueuedOperator, slack_of
from scheduler.operators.network import Estimate, Network, NetworkEstimates
from scheduler.operators.network import ScheduledOperator as Box
from scheduler.operators.scheduler import OperatorScheduler

# Cost and selectivity assumed for an operator before it has run.
FIRST_ESTIMATE = Estimate(cost_s=1e-6, selectivity=0.5)
# Cost and selectivity assumed for panes before they have run.
# With selectivity 0.5, the scheduler would expect half a call of every window for each tuple, which is far too much.
FIRST_ESTIMATE_OF_PANES = Estimate(cost_s=1e-6, selectivity=1e-9)
# Value of `_removals` that makes `current` build a new scheduler.
NEVER = -1


class ScheduledNodes:
    """Scheduler of a class, and its operators in the order of their numbers, each with the number of tuples that it has taken.

    If several sources meet in a join or a union, the source with the oldest tuple runs first, even if the policy
    picks another of these sources. Otherwise one source could run ahead during a backlog, and all its tuples would have to be stored.
    """

    def __init__(self, network: ClassNetwork, values: AnswerValues, policy: PolicySettings) -> None:
        self.policy = policy
        self.nodes: list[QueuedOperator] = []
        self.tuples: list[int] = []
        """Number of tuples that each operator has taken."""
        self.calls: list[int] = []
        """Number of trains that each operator has taken."""
        self._network, self._values = network, values
        self._places: dict[int, int] = {}
        self._removals = NEVER
        # For each source that meets other sources in a join or a union: its own number, and the numbers of these other sources.
        self._meeting: dict[int, tuple[int, ...]] = {}
        self._scheduler: OperatorScheduler | None = None

    def current(self) -> OperatorScheduler:
        """Return the scheduler, updated to the present operators of the network."""
        scheduler = self._scheduler
        if scheduler is None or self._removals != self._network.removals:
            return self._rebuilt()
        if len(self.nodes) < len(self._network.nodes):
            if self._reads_root(scheduler):
                return self._rebuilt()
            self._extend(scheduler)
        return scheduler

    def rebuild(self) -> None:
        """Mark the scheduler as outdated, so that `current` builds a new one."""
        self._removals = NEVER

    def __contains__(self, node: QueuedOperator) -> bool:
        return id(node) in self._places

    def place(self, node: QueuedOperator) -> int:
        return self._places[id(node)]

    def queued(self, node: QueuedOperator, was_empty: bool, head: float) -> None:
        """Report an operator's new input to the scheduler.

        If the scheduler does not have the operator yet, the input is reported when `current` adds the operator.
        """
        place = self._places.get(id(node))
        scheduler = self._scheduler
        if place is None or scheduler is None:
            return
        if scheduler.counted[place]:
            scheduler.pending(place, node.tuples)
        if was_empty:
            scheduler.ready(place, queue_head(node, head))

    def dropped(self, node: QueuedOperator) -> None:
        """Report to the scheduler that tuples were dropped from a source's queue."""
        if self._scheduler is None or node not in self:
            return
        if not node.queue:
            self._scheduler.idle(self.place(node))
        elif self._scheduler.counts:
            self._scheduler.pending(self.place(node), node.tuples)

    def oldest(self, number: int) -> int:
        """Return the number of the source with the oldest tuple, among this source and the sources that it meets in a join or union."""
        places = self._meeting.get(number)
        if places is None:
            return number
        nodes = self.nodes
        ready = [place for place in places if nodes[place].queue]
        return min(ready, key=lambda place: (queue_head(nodes[place], 0.0), place != number))

    def upto(self, number: int, tuples: int) -> float:
        """Return the arrival time up to which a source may run now.

        The source then gets at most `tuples` tuples ahead of each source that it meets in a join or a union.
        """
        places = self._meeting.get(number)
        if places is None:
            return math.inf
        return min(self.nodes[place].arrived_within(tuples) for place in places if place != number)

    def switch(self, policy: PolicySettings) -> None:
        """Change the policy from the next pick on, even within a slice; queues stay as they are."""
        self.policy = policy
        # Operators that the scheduler does not have yet are added by `current`.
        if self._scheduler is not None:
            self._scheduler.switch(policy, self._heads(0))

    def believed(self) -> NetworkEstimates:
        """Update priorities from new statistics; return the estimates of all operators, in the order of `network.nodes`."""
        return self.current().refresh()

    def alone(self) -> dict[str, Alone]:
        """Return the ideal cost of each query's answers: the cost of an answer that waits for nothing."""
        scheduler = self.current()
        estimates = scheduler.statistics.estimates
        passed_on = [
            tuples * estimate.selectivity for tuples, estimate in zip(self.tuples, estimates, strict=True)
        ]
        return alone_of(self.nodes, scheduler.network, [mean_cost(node) for node in self.nodes], passed_on)

    def taken(self) -> Iterator[tuple[QueuedOperator, int]]:
        """Yield each operator with the number of tuples that it has taken."""
        return zip(self.nodes, self.tuples, strict=True)

    def _reads_root(self, scheduler: OperatorScheduler) -> bool:
        """Return True if a new operator reads the output of a root that had no reader in the scheduler."""
        boxes, above = scheduler.network.operators, set[int]()
        for node in self._network.nodes[len(self.nodes) :]:
            above.update(id(feeder) for feeder in node.upstream if feeder.outputs)
        return any(not boxes[self._places[feeder]].answers for feeder in above & self._places.keys())

    def _extend(self, scheduler: OperatorScheduler) -> None:
        start = len(self.nodes)
        more = self._network.nodes[start:]
        self._number(more)
        edges = [
            (above, self.place(node))
            for node in more
            for feeder in node.upstream
            if (above := self.place(feeder)) < start
        ]
        scheduler.extend([self._box(node) for node in more], edges, [first_estimate(node) for node in more])
        self.tuples += [0 for _ in more]
        self.calls += [0 for _ in more]
        self._report_queued(scheduler, start)

    def _rebuilt(self) -> OperatorScheduler:
        measured: dict[int, tuple[Estimate, int, int]] = {}
        if self._scheduler is not None:
            estimates = self._scheduler.statistics.estimates
            measured = {
                id(node): (estimates[place], self.tuples[place], self.calls[place])
                for place, node in enumerate(self.nodes)
            }
        before = [measured.get(id(node), (first_estimate(node), 0, 0)) for node in self._network.nodes]
        self.nodes, self._places = [], {}
        self._number(self._network.nodes)
        initial = [estimate for estimate, _, _ in before]
        self.tuples, self.calls = [tuples for _, tuples, _ in before], [calls for _, _, calls in before]
        boxes = tuple(self._box(node) for node in self.nodes)
        self._scheduler = OperatorScheduler(Network(boxes), self.policy, initial)
        self._removals = self._network.removals
        self._report_queued(self._scheduler, 0)
        return self._scheduler

    def _number(self, nodes: Sequence[QueuedOperator]) -> None:
        """Add each operator without a number to the scheduler, which gives it the next number."""
        self._places.update((id(node), place) for place, node in enumerate(nodes, len(self.nodes)))
        self.nodes += nodes
        self._meeting = {}
        for group in meeting(self.nodes):
            places = tuple(self.place(source) for source in group)
            self._meeting.update((place, places) for place in places)

    def _box(self, node: QueuedOperator) -> Box:
        below = tuple([self.place(reader) for reader in node.downstream])
        slack = None if below else slack_of(node)
        return Box(
            node.name,
            below,
            node.source,
            partner=None if node.partner is None else self.place(node.partner),
            utility=None if below else self._values.graph_of(node),
            slack_s=None if slack is None else slack(),
            weight=self._values.weight_of(node),
            answers=bool(node.outputs and below),
        )

    def _report_queued(self, scheduler: OperatorScheduler, start: int) -> None:
        for place, head, tuples in self._heads(start):
            if scheduler.counts:
                scheduler.pending(place, tuples)
            scheduler.ready(place, head)

    def _heads(self, start: int) -> Iterator[tuple[int, float, int]]:
        """Yield three values for each operator with input, from number `start` on.

        The values are the operator's number, the arrival time of its oldest tuple, and the number of its queued tuples.
        """
        for place, node in enumerate(self.nodes[start:], start):
            if node.queue:
                yield place, queue_head(node, moved_at(node.queue[0])), node.tuples


def first_estimate(node: QueuedOperator) -> Estimate:
    return FIRST_ESTIMATE_OF_PANES if node.tells else FIRST_ESTIMATE


def mean_cost(node: QueuedOperator) -> Estimate:
    """Return the measured mean cost, or the first estimate if the operator has not run."""
    cost_s = node.mean_cost_s
    return FIRST_ESTIMATE if cost_s is None else Estimate(cost_s, FIRST_ESTIMATE.selectivity)


def queue_head(node: QueuedOperator, otherwise: float) -> float:
    """Return the arrival time of the oldest queued tuple, or `otherwise` if the train has no tuples."""
    arrival = node.queue[0].arrival
    return float(arrival[0]) if len(arrival) else otherwise


def waiting_s(source: QueuedOperator | None, now: float) -> float:
    """Return the age in seconds of the oldest tuple queued at a source; 0 if no tuple is queued."""
    return max(0.0, now - queue_head(source, now)) if source is not None and source.queue else 0.0


def moved_at(train: Train) -> float:
    """Return the arrival time of the first input that moved the train's watermark."""
    return train.causes[0].arrival(train.causes[0].upto) if train.causes else 0.0


def meeting(nodes: Sequence[QueuedOperator]) -> list[list[QueuedOperator]]:
    """Return groups of sources that meet in a join or a union; each group has at least two sources."""
    group: dict[int, int] = {id(node): number for number, node in enumerate(nodes)}
    changed = True
    while changed:  # The loop ends soon, because each operator comes after the operators that feed it
        changed = False
        for node in nodes:
            together = [node, *node.downstream, *([node.partner] if node.partner else [])]
            least = min(group[id(member)] for member in together)
            for member in together:
                changed |= group[id(member)] != least
                group[id(member)] = least
    groups: dict[int, list[QueuedOperator]] = {}
    for node in nodes:
        if node.source:
            groups.setdefault(group[id(node)], []).append(node)
    return [sources for sources in groups.values() if len(sources) > 1]
