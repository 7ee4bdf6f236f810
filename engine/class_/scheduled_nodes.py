"""The nodes of a class's network as the operators of its level-2 scheduler.

The scheduler numbers operators and learns their costs; the network adds and removes nodes. `current` brings the scheduler up
to date: it extends it when there are more nodes, and makes another one when some have gone or what it knows of them has changed.
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

# What is believed of an operator before it has run.
FIRST_ESTIMATE = Estimate(cost_s=1e-6, selectivity=0.5)
# The same of panes: or each tuple would seem to cost half a call of all the windows behind.
FIRST_ESTIMATE_OF_PANES = Estimate(cost_s=1e-6, selectivity=1e-9)
# The scheduler has not looked at the network yet.
NEVER = -1


class ScheduledNodes:
    """Scheduler, nodes in the order of its operators, and what each of them has taken.

    Of sources whose tuples meet in a join or a union, the one with the oldest tuple goes first, whichever the policy has
    picked: with a backlog one of them would run ahead of the other, and all it brings in would have to be held.
    """

    def __init__(self, network: ClassNetwork, values: AnswerValues, policy: PolicySettings) -> None:
        self.policy = policy
        self.nodes: list[QueuedOperator] = []
        self.tuples: list[int] = []
        """Tuples that each operator has taken so far."""
        self.calls: list[int] = []
        """Trains that each operator has taken so far."""
        self._network, self._values = network, values
        self._places: dict[int, int] = {}
        self._removals = NEVER
        self._meeting: dict[int, tuple[int, ...]] = {}  # of sources, by their places: those that they meet
        self._scheduler: OperatorScheduler | None = None

    def current(self) -> OperatorScheduler:
        """Return the scheduler over the nodes that there are now."""
        scheduler = self._scheduler
        if scheduler is None or self._removals != self._network.removals:
            return self._rebuilt()
        if len(self.nodes) < len(self._network.nodes):
            if self._reads_root(scheduler):
                return self._rebuilt()
            self._extend(scheduler)
        return scheduler

    def rebuild(self) -> None:
        """Make another scheduler next time: what this one knows of its operators is not so any more."""
        self._removals = NEVER

    def __contains__(self, node: QueuedOperator) -> bool:
        return id(node) in self._places

    def place(self, node: QueuedOperator) -> int:
        return self._places[id(node)]

    def queued(self, node: QueuedOperator, was_empty: bool, head: float) -> None:
        """A node has more input; one that has no place yet is reported when it gets one."""
        place = self._places.get(id(node))
        scheduler = self._scheduler
        if place is None or scheduler is None:
            return
        if scheduler.counted[place]:
            scheduler.pending(place, node.tuples)
        if was_empty:
            scheduler.ready(place, queue_head(node, head))

    def dropped(self, node: QueuedOperator) -> None:
        """A source has less input, none of which was run."""
        if self._scheduler is None or node not in self:
            return
        if not node.queue:
            self._scheduler.idle(self.place(node))
        elif self._scheduler.counts:
            self._scheduler.pending(self.place(node), node.tuples)

    def oldest(self, number: int) -> int:
        """Return which of a source and those it meets has the oldest tuple."""
        places = self._meeting.get(number)
        if places is None:
            return number
        nodes = self.nodes
        ready = [place for place in places if nodes[place].queue]
        return min(ready, key=lambda place: (queue_head(nodes[place], 0.0), place != number))

    def upto(self, number: int, tuples: int) -> float:
        """Return the arrival up to which a source may run: less than this many tuples ahead of the sources that it meets."""
        places = self._meeting.get(number)
        if places is None:
            return math.inf
        return min(self.nodes[place].arrived_within(tuples) for place in places if place != number)

    def switch(self, policy: PolicySettings) -> None:
        """Run by another policy from the next operator on, also within a slice; what is queued stays where it is."""
        self.policy = policy
        # A scheduler that does not know all nodes of the network yet gets the rest when it is brought up to date.
        if self._scheduler is not None:
            self._scheduler.switch(policy, self._heads(0))

    def believed(self) -> NetworkEstimates:
        """Let changed statistics change priorities; return what is believed of each operator, in the order of `network.nodes`."""
        return self.current().refresh()

    def alone(self) -> dict[str, Alone]:
        """Return what each query's answers cost if nothing else is in their way."""
        scheduler = self.current()
        estimates = scheduler.statistics.estimates
        passed_on = [
            tuples * estimate.selectivity for tuples, estimate in zip(self.tuples, estimates, strict=True)
        ]
        return alone_of(self.nodes, scheduler.network, [mean_cost(node) for node in self.nodes], passed_on)

    def taken(self) -> Iterator[tuple[QueuedOperator, int]]:
        """Yield each node and the tuples that it has taken."""
        return zip(self.nodes, self.tuples, strict=True)

    def _reads_root(self, scheduler: OperatorScheduler) -> bool:
        """Return True if something new reads the output of a root, which from then on is no root but still gives answers."""
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
        """Number further nodes as the scheduler's operators."""
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
        """Yield nodes from this place on that have input, with the arrival of their oldest tuple and how many there are."""
        for place, node in enumerate(self.nodes[start:], start):
            if node.queue:
                yield place, queue_head(node, moved_at(node.queue[0])), node.tuples


def first_estimate(node: QueuedOperator) -> Estimate:
    return FIRST_ESTIMATE_OF_PANES if node.tells else FIRST_ESTIMATE


def mean_cost(node: QueuedOperator) -> Estimate:
    """Return the cost that was measured so far; the first estimate if the node has not run."""
    cost_s = node.mean_cost_s
    return FIRST_ESTIMATE if cost_s is None else Estimate(cost_s, FIRST_ESTIMATE.selectivity)


def queue_head(node: QueuedOperator, otherwise: float) -> float:
    """Return the arrival of the oldest queued tuple."""
    arrival = node.queue[0].arrival
    return float(arrival[0]) if len(arrival) else otherwise


def waiting_s(source: QueuedOperator | None, now: float) -> float:
    """Return the age of the oldest tuple that waits at a source; 0 without one."""
    return max(0.0, now - queue_head(source, now)) if source is not None and source.queue else 0.0


def moved_at(train: Train) -> float:
    """Return when the first input arrived that brought event time forward."""
    return train.causes[0].arrival(train.causes[0].upto) if train.causes else 0.0


def meeting(nodes: Sequence[QueuedOperator]) -> list[list[QueuedOperator]]:
    """Return groups of several sources whose tuples meet in one node."""
    group: dict[int, int] = {id(node): number for number, node in enumerate(nodes)}
    changed = True
    while changed:  # few passes: nodes stand behind those that feed them
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
