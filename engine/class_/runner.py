"""The runner of a class: its network, its level-2 scheduler, and the measuring around every step.

The main loop is `ClassRunner.run`: pick an operator, take a train, run it, measure, deliver. It runs for a slice of
processor time, which the caller grants and measures with the clocks it hands in: `now` for arrival and response
times, `cpu` for the processor time of this thread.
"""

from __future__ import annotations

import copy
import math
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from configs.classes.limits import ClassLimits
from configs.classes.policies import HighestRate, PolicySettings
from configs.classes.utility import UtilityGraph
from configs.classes.window_settings import WindowSettings
from configs.errors import InvalidInput
from engine.data.held_state import Lot, beginning, train_bytes, tuple_bytes
from engine.data.train import LateRows, Train, counting_dropped, progress
from engine.data.watermark_causes import Moment
from engine.measure.answer_quality import QueryQuality
from engine.measure.ideal_cost import Alone, alone_of
from engine.network.network import TWIN, ClassNetwork, Node, slack_of
from engine.operators.last import LookUp, LookUpOperator
from engine.operators.source import SourceOperator
from engine.plan.plan import Query
from scheduler.operators.network import Estimate, Network, NetworkEstimates
from scheduler.operators.network import Operator as Box
from scheduler.operators.policies import NONE
from scheduler.operators.scheduler import OperatorScheduler

Clock = Callable[[], float]
Sink = Callable[[str, Train], None]
Entered = Callable[[str, int], None]

# What is believed of an operator before it has run.
FIRST_ESTIMATE = Estimate(cost_s=1e-6, selectivity=0.5)
# The same of panes: or each tuple would seem to cost half a call of all the windows behind.
FIRST_ESTIMATE_OF_PANES = Estimate(cost_s=1e-6, selectivity=1e-9)
TRAIN_MAX = 10_000
# The scheduler has not looked at the network yet.
NEVER = -1
# After any event time there can be, in any unit.
END_OF_TIME = 2**62


@dataclass(frozen=True)
class ClassSnapshot:
    """A class at one moment, by what each operator computes."""

    states: Mapping[Hashable, Any]
    queues: Mapping[Hashable, tuple[Train, ...]]
    answered: Mapping[str, int]
    unsettled: tuple[tuple[str, Train], ...] = ()
    pane_lengths: Mapping[Hashable, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FailingOperator:
    """An operator in which tuples failed or found no room."""

    node: int
    """Identity of its node, which a later operator may have again."""
    name: str
    queries: tuple[str, ...]
    taken: int
    """Tuples that it has taken."""
    reasons: Mapping[str, int]
    """Tuples that failed, by reason."""


def go_on() -> bool:
    return True


def nobody_listens() -> None:
    pass


def nobody_asks(stream: str, tuples: int) -> None:
    pass


@dataclass
class ClassRunner:
    """Runs a class's queries; answers go to `sink(query, train)`.

    Of sources whose tuples meet in a join or a union, the one with the oldest tuple goes first, whichever the policy has
    picked: with a backlog one of them would run ahead of the other, and all it brings in would have to be held.

    Answers are handed out at *settle points*: when nothing is queued inside, which is so whenever a source operator
    is about to run, since sources run last. What has been handed out by then is a function of what has been taken in.
    Where a slice ends amid the work on what came in, those of queries are handed out that have none of it left: so the policy
    says whose answers come first where that work takes several slices, and of each query the same holds as at settle points.
    """

    sink: Sink
    policy: PolicySettings = field(default_factory=HighestRate)
    train_max: int = TRAIN_MAX
    tables: Mapping[str, Train] = field(default_factory=dict)
    limits: ClassLimits = field(default_factory=ClassLimits)
    windows: WindowSettings = field(default_factory=WindowSettings)  # to begin with
    settled: Callable[[], bool] = go_on  # told at settle points, after the answers; whether the slice goes on
    interrupted: Callable[[], None] = (
        nobody_listens  # told after answers that were handed out between settle points
    )
    entered: Entered = nobody_asks  # told how many tuples a source operator has taken of its stream

    def __post_init__(self) -> None:
        self.network = ClassNetwork(self.tables, self.limits)
        self.network.windows = self.windows
        self.quality: dict[str, QueryQuality] = {}
        self.measures = True  # not while what was done before is done again: its answers have been handed out
        self.answered: dict[str, int] = {}  # rows so far; for the sink, the sequence number of the first row
        self.steps = 0
        self.handed_out_at = 0.0
        self._graphs: dict[str, UtilityGraph] = {}
        self._worth: dict[int, UtilityGraph] = {}  # of nodes that give answers
        self._weights: dict[str, float] = {}  # of queries whose weight is not 1
        self._unsettled: list[tuple[str, Train]] = []
        self._inside = 0  # nodes behind the sources that have input
        self._nodes: list[Node] = []
        self._place: dict[int, int] = {}
        self._removals = NEVER
        self._taken: list[int] = []
        self._calls: list[int] = []
        self._meeting: dict[int, tuple[int, ...]] = {}  # of sources, by their places: whom they meet
        self._scheduler: OperatorScheduler | None = None
        self._lookup_nodes: list[Node] = []
        self._lookups_among = (0, 0)  # how many nodes there were, and how often nodes had gone

    def add(
        self,
        *queries: Query,
        graphs: Mapping[str, UtilityGraph] | None = None,
        weights: Mapping[str, float] | None = None,
    ) -> None:
        """`graphs` say what the answers of a query are worth, and `weights` how much it counts that they are fresh, if anybody
        has said so."""
        outputs = self.network.add(*queries)
        self._graphs.update(graphs or {})
        self._weights.update(weights or {})
        slacks = {name: slack_of(node) for name, node in outputs}
        for query in queries:
            name = query.name
            self.quality[name] = QueryQuality(self._graphs.get(name), slacks.get(name), self._weight(name))
            self.answered[name] = 0
        for name, node in outputs:
            self._value(name, node)
            if id(node) in self._place:
                self._removals = NEVER  # the scheduler knows it as the output of fewer queries
        if any(slacks.values()) and self.network.has_bounded_windows():
            self._removals = NEVER  # windows beside the new ones may slide otherwise, and have other slacks

    def remove(self, name: str) -> None:
        self.network.remove(name)
        del self.quality[name], self.answered[name]
        self._graphs.pop(name, None)
        self._weights.pop(name, None)
        self._value_all()
        self._unsettled = [one for one in self._unsettled if one[0] != name]
        self._inside = self._count_inside()

    def exchange(self, name: str) -> None:
        """The query's twin takes its place; its answers are counted and measured on."""
        nodes = self.network.exchange(name)
        self.quality[name].fall_due(next((slack_of(node) for node in nodes), None))
        self._value_all()

    @property
    def graphs(self) -> Mapping[str, UtilityGraph]:
        """What the answers of each query are worth, as far as anybody has said so."""
        return dict(self._graphs)

    @property
    def weights(self) -> Mapping[str, float]:
        """How much the freshness of each query counts, where that is not 1."""
        return dict(self._weights)

    def value(self, graphs: Mapping[str, UtilityGraph]) -> None:
        """What the answers of these queries are worth from now on."""
        changed = {name: graph for name, graph in graphs.items() if graph != self._graphs.get(name)}
        for name, graph in changed.items():
            self.quality[name].value(graph)
        self._graphs.update(changed)
        if changed:
            self._value_all()
            self._removals = NEVER  # the scheduler is to hear of it

    def weigh(self, weights: Mapping[str, float]) -> None:
        """How much the freshness of each query counts from now on; 1 where nothing is said."""
        for name, quality in self.quality.items():
            quality.weight = weights.get(name, 1.0)
        self._weights = dict(weights)
        self._removals = NEVER  # the scheduler is to hear of it

    def offer(self, stream: str, train: Train) -> None:
        """Queue a train that has arrived on a stream."""
        node = self.network.source(stream)
        if node is not None and len(train):
            self._enqueue(node, train, float(train.arrival[0]))  # the door bounds what waits there

    def advance(self, stream: str, time: int, now: float) -> None:
        """Tell an idle stream how far event time has come by the clock."""
        node = self.network.source(stream)
        if node is not None:
            assert isinstance(node.operator, SourceOperator)
            late = self._missing(node)
            self._tell(node, node.operator.advance(time), now, late)

    def overdue(self, before: float) -> dict[str, int]:
        """Return, by query, the event time in microseconds up to which tuples that arrived before wait for their lookups."""
        found: dict[str, int] = {}
        for node in self._lookups():
            upto_us = state_of(node).overdue(before)
            if upto_us is not None:
                query = min(node.users)
                found[query] = max(upto_us, found.get(query, upto_us))
        return found

    def release(self, query: str, upto_us: int, now: float) -> None:
        """Answer the lookups of a query up to an event time with the rows there are."""
        for node in self._lookups():
            if query in node.users:
                self._deliver(node, state_of(node).release(upto_us, now), now)

    def run(self, quota_s: float, now: Clock, cpu: Clock) -> float:
        """The main loop: run operators until the slice or the input is used up; the processor time used."""
        scheduler, nodes, known = self._scheduled()
        began = at = cpu()
        while at - began < quota_s:
            number = scheduler.pick(now())
            if number == NONE:
                break
            node = nodes[number]
            if node.source:
                if not self.settle(now()):
                    break
                if self._current() is not scheduler or len(self._nodes) != known or not node.queue:
                    # Queries have come or gone at the settle point, and with them what was queued.
                    scheduler, nodes, known = self._scheduled()
                    continue
                number = self._oldest(number)
                node = nodes[number]
            tuples, answers = self._step(
                scheduler, number, node=node, most=self.train_max, now=now, upto=self._upto(number)
            )
            # One reading ends this step and begins the next: what lies between belongs to somebody.
            done = cpu()
            worked = max(1, tuples)
            if node.timed:
                scheduler.statistics.observe_call(number, answers, done - at)
            else:
                scheduler.statistics.observe(number, worked, answers, done - at)
            node.worked += worked
            node.worked_s += done - at
            at = done
            self.steps += 1
        if self.is_settled():
            self.settle(now())
        elif self._unsettled:
            self._hand_out_finished(now())
        return at - began

    def _oldest(self, number: int) -> int:
        """Of the source and those it meets, the one with the oldest tuple."""
        places = self._meeting.get(number)
        if places is None:
            return number
        nodes = self._nodes
        ready = [place for place in places if nodes[place].queue]
        return min(ready, key=lambda place: (queue_head(nodes[place], 0.0), place != number))

    def _upto(self, number: int) -> float:
        """A source that meets others goes ahead of them by less than a full train."""
        others = self._meeting.get(number)
        if others is None:
            return math.inf
        return min(self._nodes[other].arrived_within(self.train_max) for other in others if other != number)

    def _step(
        self,
        scheduler: OperatorScheduler,
        number: int,
        node: Node,
        most: int,
        now: Clock,
        upto: float = math.inf,
    ) -> tuple[int, float]:
        """One call of an operator; how many tuples it took and gave."""
        train = node.dequeue(most, upto)
        tuples = len(train)
        head = float(train.arrival[0]) if tuples else now()
        out = node.operator.process(train)
        self._taken[number] += tuples
        self._calls[number] += 1
        if node.source:
            self.entered(node.stream, tuples)
        if node.queue:
            if scheduler.counted[number]:
                scheduler.pending(number, node.tuples)
            scheduler.ready(number, queue_head(node, head))
        else:
            scheduler.idle(number)
            self._inside -= not node.source
        if out is None:
            return tuples, 0
        told = self._deliver(node, out, head)
        # What panes give is news of event time: a part of a tuple where only some of their windows want it.
        return tuples, told / len(node.downstream) if node.tells else len(out)

    def take_next(self, stream: str, tuples: int, now: Clock) -> None:
        """Let a source operator take the next tuples of its queue, and all that follows happen."""
        node = self.network.source(stream)
        if node is None:
            return
        scheduler = self._current()
        while tuples > 0 and node.queue:
            tuples -= self._step(scheduler, self._place[id(node)], node, min(tuples, self.train_max), now)[0]
            self.drain(now)

    def drain(self, now: Clock) -> None:
        """Run until nothing is queued inside."""
        scheduler = self._current()
        while self._inside:
            number = scheduler.pick(now())
            self._step(scheduler, number, self._nodes[number], self.train_max, now)
        self.settle(now())

    def evict(self, stream: str, tuples: int) -> int:
        """Drop the oldest tuples that no operator has taken; how many there were."""
        node = self.network.source(stream)
        gone = 0 if node is None else node.drop(tuples)
        if node is not None and gone and self._scheduler is not None and id(node) in self._place:
            if not node.queue:
                self._scheduler.idle(self._place[id(node)])
            elif self._scheduler.counts:
                self._scheduler.pending(self._place[id(node)], node.tuples)
        return gone

    def older(self, stream: str, before: float) -> int:
        """Return how many tuples that no operator has taken arrived earlier than this."""
        node = self.network.source(stream)
        return 0 if node is None else node.older(before)

    def missing(self, stream: str) -> LateRows | None:
        """Return the dropped tuples that the stream's next train will count as missing."""
        node = self.network.source(stream)
        return None if node is None else node.missing

    def set_missing(self, stream: str, rows: LateRows | None) -> None:
        node = self.network.source(stream)
        if node is not None:
            node.missing = rows

    def is_settled(self) -> bool:
        """Whether nothing is queued inside."""
        return not self._inside

    def settle(self, now: float) -> bool:
        """Hand out the answers since the last settle point; whether a slice goes on after it."""
        self.handed_out_at = now
        if self._unsettled:
            answers, self._unsettled = self._unsettled, []
            self._hand_out(answers, now)
        return self.settled()

    def _hand_out_finished(self, now: float) -> None:
        """The answers of those queries to which nothing that is queued inside can lead."""
        finished = {query for query, _ in self._unsettled}
        for node in self._nodes:
            if node.queue and not node.source:
                finished = finished - node.users
                if not finished:
                    return
        answers = [one for one in self._unsettled if one[0] in finished]
        self._unsettled = [one for one in self._unsettled if one[0] not in finished]
        self._hand_out(answers, now)
        self.interrupted()

    def _hand_out(self, answers: Sequence[tuple[str, Train]], now: float) -> None:
        self.handed_out_at = now
        for query, out in answers:
            if self.measures:
                self.quality[query].answered(out.arrival, now)
            self.sink(query, out)
            self.answered[query] += len(out)

    def waiting_s(self, stream: str, now: float) -> float:
        """The age of the oldest tuple that no operator has taken."""
        node = self.network.source(stream)
        return max(0.0, now - queue_head(node, now)) if node is not None and node.queue else 0.0

    def switch(self, policy: PolicySettings) -> None:
        """Run by another policy from the next operator on, also within a slice; what is queued stays where it is."""
        self.policy = policy
        # One that is behind the network's nodes is told of the rest when it is brought up to date.
        if self._scheduler is not None:
            self._scheduler.switch(policy, self._heads(0))

    def refresh(self) -> None:
        """Let changed statistics change priorities; once a load cycle."""
        self._current().refresh()

    def finish(self, now: float) -> None:
        """All input has come: every window that is still open may close."""
        for node in list(self.network.nodes):
            if isinstance(node.operator, SourceOperator):
                self._tell(node, END_OF_TIME, now, self._missing(node))

    def believed(self) -> NetworkEstimates:
        """What is known of every operator; the order is that of `network.nodes`."""
        return self._current().refresh()

    def alone(self) -> dict[str, Alone]:
        """What each query's answers cost if nothing else is in their way."""
        scheduler = self._current()
        estimates = scheduler.statistics.estimates
        given = [taken * one.selectivity for taken, one in zip(self._taken, estimates, strict=True)]
        return alone_of(self._nodes, scheduler.network, [mean_cost(node) for node in self._nodes], given)

    def taken(self, number: int) -> int:
        """Tuples an operator has taken so far."""
        return self._taken[number]

    def calls(self, number: int) -> int:
        """Trains an operator has taken so far."""
        return self._calls[number]

    def has_input(self) -> bool:
        return any(node.queue for node in self.network.nodes)

    def late(self) -> Mapping[str, int]:
        """Late tuples by source."""
        return {
            node.name: node.operator.late
            for node in self.network.nodes
            if isinstance(node.operator, SourceOperator)
        }

    def failures(self) -> Counter[str]:
        """Tuples that failed in an expression, or found no room in an operator, by reason."""
        found: Counter[str] = Counter()
        for node in self.network.nodes:
            found.update(node.failed)
        return found

    def failing(self) -> list[FailingOperator]:
        """Return the operators of queries in which tuples failed or found no room."""
        found = []
        for node, taken in zip(self._nodes, self._taken, strict=True):
            # Most operators have none, and there may be 10,000 of them.
            if node.holding.refused or getattr(node.operator, "failed", None):
                queries = tuple(sorted(name for name in node.users if not name.startswith(TWIN)))
                # An operator of a plan that does not answer yet counts once it does.
                if queries:
                    found.append(FailingOperator(id(node), node.name, queries, taken, node.failed))
        return found

    def taken_by_operator(self) -> dict[int, int]:
        """Return how many tuples each operator has taken, by the identity of its node."""
        return {id(node): taken for node, taken in zip(self._nodes, self._taken, strict=True)}

    def snapshot(self) -> ClassSnapshot:
        """The state of the whole class: every operator's and every queue's."""
        return copy.deepcopy(self._state())

    def settled_state(self) -> ClassSnapshot:
        """The state at a settle point, without what waits at the sources; it is to be written down before anything goes on."""
        assert self.is_settled()
        return replace(self._state(), queues={})

    def _state(self) -> ClassSnapshot:
        return ClassSnapshot(
            states={node.key: node.operator.snapshot() for node in self.network.nodes},
            queues={node.key: tuple(node.queue) for node in self.network.nodes},
            answered=dict(self.answered),
            unsettled=tuple(self._unsettled),
            pane_lengths=self.network.pane_lengths,
        )

    def restore(self, snapshot: ClassSnapshot) -> None:
        """Go on from a snapshot of a class with the same queries."""
        missing = [node.name for node in self.network.nodes if node.key not in snapshot.states]
        if missing:
            hint = "add the queries that the class had when the snapshot was taken, and no others"
            raise InvalidInput("the snapshot is of other queries", "snapshot", missing, hint)
        for node in self.network.nodes:
            node.operator.restore(snapshot.states[node.key])
            node.queue = deque(snapshot.queues.get(node.key, ()))
            node.tuples = sum(map(len, node.queue))
            node.leave_lots()
            node.lots = self._lots(node)
        self.answered = dict(snapshot.answered)
        self._unsettled = list(snapshot.unsettled)
        self._inside = self._count_inside()
        self._removals = NEVER  # the scheduler is to hear of what is queued

    # --- inside --------------------------------------------------------------------------------------

    def _tell(self, node: Node, watermark: int, now: float, late: LateRows | None = None) -> None:
        """What follows is caused by the clock."""
        self._deliver(node, progress(watermark, (Moment(watermark, now),), late), now)

    def _missing(self, node: Node) -> LateRows | None:
        """Return the tuples that were dropped from a source's queue, for windows that close before it has a train."""
        missing = node.take_missing()
        assert isinstance(node.operator, SourceOperator)
        return None if missing is None else node.operator.missing(missing)

    def _lookups(self) -> list[Node]:
        """Return the nodes that look up, which are searched for only when nodes have come or gone."""
        nodes = self.network.removals, len(self.network.nodes)
        if nodes != self._lookups_among:
            self._lookups_among = nodes
            self._lookup_nodes = [
                node for node in self.network.nodes if isinstance(node.operator, LookUpOperator)
            ]
        return self._lookup_nodes

    def _count_inside(self) -> int:
        return sum(bool(node.queue) and not node.source for node in self.network.nodes)

    def _deliver(self, node: Node, out: Train, head: float) -> int:
        """How many were told of event time alone."""
        if len(out):
            node.given += len(out)
            if node.downstream:
                self._pass_on(node, out, head)
            for query in node.outputs:
                self._unsettled.append((query, counting_dropped(out)))
            return 0
        if not out.causes:
            # Windows may have been given other ends, before event time has gone on.
            out.causes = (Moment(out.watermark, head),)
        told = 0
        for below in node.downstream:
            if below.wants(out.watermark):
                self._enqueue(below, out, head)
                told += 1
        return told

    def _pass_on(self, node: Node, out: Train, head: float) -> None:
        """Queue a train for all that take it, as far as there is room."""
        if node.width is None:
            node.width = tuple_bytes(out)
        account, size = self.network.account, len(out) * node.width or train_bytes(out)
        if size > account.queue_room:
            fitting = len(out) * account.queue_room // size
            node.holding.refuse_bytes(len(out) - fitting)
            out = beginning(out, fitting)
            size = train_bytes(out)
        lot = Lot(account, size, len(node.downstream)) if len(out) else None
        for below in node.downstream:
            self._enqueue(below, out, head, lot)

    def _lots(self, node: Node) -> deque[Lot | None]:
        """As if no other queue had the trains."""
        account = self.network.account
        trains = () if node.source else node.queue
        return deque([Lot(account, train_bytes(train), 1) if len(train) else None for train in trains])

    def _enqueue(self, node: Node, train: Train, head: float, lot: Lot | None = None) -> None:
        was_empty = node.enqueue(train, lot)
        self._inside += was_empty and not node.source
        # A node that has no place yet is told of when it gets one.
        place = self._place.get(id(node))
        if place is None or self._scheduler is None:
            return
        if self._scheduler.counted[place]:
            self._scheduler.pending(place, node.tuples)
        if was_empty:
            self._scheduler.ready(place, queue_head(node, head))

    def _value(self, name: str, node: Node) -> None:
        """Of queries whose answers are the same, the one that is in the greatest hurry counts."""
        graph, known = self._graphs.get(name), self._worth.get(id(node))
        if graph is None or graph is known:
            return
        if known is None or urgency(graph) < urgency(known):
            self._worth[id(node)] = graph
            if id(node) in self._place:
                self._removals = NEVER  # the scheduler knows it by another graph

    def _value_all(self) -> None:
        self._worth = {}
        for node in self.network.nodes:
            for name in node.outputs:
                self._value(name, node)

    def _current(self) -> OperatorScheduler:
        """The scheduler over the nodes there are now: extended when there are more, made anew when some have gone."""
        scheduler = self._scheduler
        if scheduler is None or self._removals != self.network.removals:
            return self._rebuilt()
        if len(self._nodes) < len(self.network.nodes):
            if self._reads_on(scheduler):
                return self._rebuilt()
            self._extend(scheduler)
        return scheduler

    def _reads_on(self, scheduler: OperatorScheduler) -> bool:
        """Whether something new reads the output of a root, which is one no more and gives answers all the same."""
        boxes, above = scheduler.network.operators, set[int]()
        for node in self.network.nodes[len(self._nodes) :]:
            above.update(id(one) for one in node.upstream if one.outputs)
        return any(not boxes[self._place[one]].answers for one in above & self._place.keys())

    def _scheduled(self) -> tuple[OperatorScheduler, list[Node], int]:
        return self._current(), self._nodes, len(self._nodes)

    def _extend(self, scheduler: OperatorScheduler) -> None:
        start = len(self._nodes)
        more = self.network.nodes[start:]
        self._number(more)
        edges = [
            (above, self._place[id(node)])
            for node in more
            for one in node.upstream
            if (above := self._place[id(one)]) < start
        ]
        scheduler.extend([self._box(node) for node in more], edges, [first_estimate(node) for node in more])
        self._taken += [0 for _ in more]
        self._calls += [0 for _ in more]
        self._tell_queued(scheduler, start)

    def _rebuilt(self) -> OperatorScheduler:
        known: dict[int, tuple[Estimate, int, int]] = {}
        if self._scheduler is not None:
            estimates = self._scheduler.statistics.estimates
            known = {
                id(node): (estimates[place], self._taken[place], self._calls[place])
                for place, node in enumerate(self._nodes)
            }
        before = [known.get(id(node), (first_estimate(node), 0, 0)) for node in self.network.nodes]
        self._nodes, self._place = [], {}
        self._number(self.network.nodes)
        initial = [estimate for estimate, _, _ in before]
        self._taken, self._calls = [taken for _, taken, _ in before], [calls for _, _, calls in before]
        boxes = tuple(self._box(node) for node in self._nodes)
        self._scheduler = OperatorScheduler(Network(boxes), self.policy, initial)
        self._removals = self.network.removals
        self._tell_queued(self._scheduler, 0)
        return self._scheduler

    def _number(self, nodes: Sequence[Node]) -> None:
        """Number nodes on as the scheduler's operators."""
        self._place.update((id(node), place) for place, node in enumerate(nodes, len(self._nodes)))
        self._nodes += nodes
        self._meeting = {}
        for group in meeting(self._nodes):
            places = tuple(self._place[id(one)] for one in group)
            self._meeting.update((place, places) for place in places)

    def _box(self, node: Node) -> Box:
        below = tuple([self._place[id(one)] for one in node.downstream])
        partner = None if node.partner is None else self._place[id(node.partner)]
        utility = None if below else self._worth.get(id(node))
        slack = None if below else slack_of(node)
        # Whoever keeps an output fresh does so for every query that has its answers of it; the sum is exact, since names of a
        # set come in any order.
        weight = math.fsum(map(self._weight, node.outputs)) if node.outputs else 1.0
        return Box(
            node.name,
            below,
            node.source,
            partner=partner,
            utility=utility,
            slack_s=None if slack is None else slack(),
            weight=weight,
            answers=bool(node.outputs and below),
        )

    def _weight(self, query: str) -> float:
        return self._weights.get(query, 1.0)

    def _tell_queued(self, scheduler: OperatorScheduler, start: int) -> None:
        for place, head, tuples in self._heads(start):
            if scheduler.counts:
                scheduler.pending(place, tuples)
            scheduler.ready(place, head)

    def _heads(self, start: int) -> Iterator[tuple[int, float, int]]:
        """From this place on, nodes that have input, with the arrival of their oldest tuple and how many there are."""
        for place, node in enumerate(self._nodes[start:], start):
            if node.queue:
                yield place, queue_head(node, moved_at(node.queue[0])), node.tuples


def state_of(lookup: Node) -> LookUp:
    """Return what the operators of a lookup share."""
    assert isinstance(lookup.operator, LookUpOperator)
    return lookup.operator.state


def first_estimate(node: Node) -> Estimate:
    return FIRST_ESTIMATE_OF_PANES if node.tells else FIRST_ESTIMATE


def mean_cost(node: Node) -> Estimate:
    """As it was measured so far; of one that has not run, the guess."""
    cost_s = node.mean_cost_s
    return FIRST_ESTIMATE if cost_s is None else Estimate(cost_s, FIRST_ESTIMATE.selectivity)


def queue_head(node: Node, otherwise: float) -> float:
    """The arrival of the oldest queued tuple."""
    arrival = node.queue[0].arrival
    return float(arrival[0]) if len(arrival) else otherwise


def moved_at(train: Train) -> float:
    """When the first of what brought event time forward arrived."""
    return train.causes[0].arrival(train.causes[0].upto) if train.causes else 0.0


def urgency(graph: UtilityGraph) -> tuple[float, tuple[float, ...], tuple[float, ...]]:
    """Graphs by their deadlines; the rest is for order to be the same everywhere."""
    return graph.deadline_s, graph.latencies_s, graph.utilities


def meeting(nodes: Sequence[Node]) -> list[list[Node]]:
    """Sources whose tuples come together somewhere, in groups of several."""
    group: dict[int, int] = {id(node): number for number, node in enumerate(nodes)}
    changed = True
    while changed:  # few passes: nodes stand behind those that feed them
        changed = False
        for node in nodes:
            together = [node, *node.downstream, *([node.partner] if node.partner else [])]
            least = min(group[id(one)] for one in together)
            for one in together:
                changed |= group[id(one)] != least
                group[id(one)] = least
    found: dict[int, list[Node]] = {}
    for node in nodes:
        if node.source:
            found.setdefault(group[id(node)], []).append(node)
    return [sources for sources in found.values() if len(sources) > 1]
