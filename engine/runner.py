"""The runner of a class: its network, its level-2 scheduler, and the measuring around every step.

The main loop is `ClassRunner.run`: pick an operator, take a train, run it, measure, deliver. It runs for a slice of
processor time, which the caller grants and measures with the clocks it hands in: `now` for arrival and response
times, `cpu` for the processor time of this thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from configs.policies import HighestRate, PolicySettings
from configs.problems import InvalidInput
from engine.network import ClassNetwork, Node
from engine.operators.source import SourceOperator
from engine.plan import Query
from engine.train import Train, is_same, progress
from loadshed.responses import ResponseStatistics
from scheduler.network import Estimate, Network, NetworkEstimates
from scheduler.network import Operator as Box
from scheduler.operators import OperatorScheduler
from scheduler.policies import NONE

Clock = Callable[[], float]
Sink = Callable[[str, Train], None]

# What is believed of an operator before it has run.
FIRST_ESTIMATE = Estimate(cost_s=1e-6, selectivity=0.5)
TRAIN_MAX = 10_000
# After any event time there can be, in any unit.
END_OF_TIME = 2**62


@dataclass(frozen=True)
class ClassSnapshot:
    """A class at one moment, by what each operator computes."""

    states: Mapping[Hashable, Any]
    queues: Mapping[Hashable, tuple[Train, ...]]
    answered: Mapping[str, int]


@dataclass
class ClassRunner:
    """Runs a class's queries; answers go to `sink(query, train)`."""

    sink: Sink
    policy: PolicySettings = field(default_factory=HighestRate)
    train_max: int = TRAIN_MAX
    tables: Mapping[str, Train] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.network = ClassNetwork(self.tables)
        self.responses: dict[str, ResponseStatistics] = {}
        self.answered: dict[str, int] = {}  # rows so far; for the sink, the sequence number of the first row
        self.steps = 0
        self._nodes: list[Node] = []
        self._place: dict[int, int] = {}
        self._version = -1
        self._taken: list[int] = []
        self._scheduler: OperatorScheduler | None = None

    def add(self, *queries: Query) -> None:
        self.network.add(*queries)
        for query in queries:
            self.responses[query.name] = ResponseStatistics()
            self.answered[query.name] = 0

    def remove(self, name: str) -> None:
        self.network.remove(name)
        del self.responses[name], self.answered[name]

    def offer(self, stream: str, train: Train) -> None:
        """Queue a train that has arrived on a stream."""
        node = self.network.source(stream)
        if node is not None and len(train):
            self._enqueue(node, train, float(train.arrival[0]))

    def advance(self, stream: str, time: int, now: float) -> None:
        """Tell an idle stream how far event time has come by the clock."""
        node = self.network.source(stream)
        if node is not None:
            assert isinstance(node.operator, SourceOperator)
            self._deliver(node, progress(node.operator.advance(time)), now, now)

    def run(self, quota_s: float, now: Clock, cpu: Clock) -> float:
        """The main loop: run operators until the slice or the input is used up; the processor time used."""
        scheduler, nodes = self._current(), self._nodes
        began = at = cpu()
        while at - began < quota_s:
            number = scheduler.pick(now())
            if number == NONE:
                break
            node = nodes[number]
            train = node.dequeue(self.train_max)
            tuples = len(train)
            head = float(train.arrival[0]) if tuples else now()
            out = node.operator.process(train)
            self._taken[number] += tuples
            if node.queue:
                scheduler.ready(number, queue_head(node, head))
            else:
                scheduler.idle(number)
            if out is not None:
                self._deliver(node, out, head, now())
            # One reading ends this step and begins the next: what lies between belongs to somebody.
            done = cpu()
            scheduler.statistics.observe(number, max(1, tuples), 0 if out is None else len(out), done - at)
            at = done
            self.steps += 1
        return at - began

    def refresh(self) -> None:
        """Let changed statistics change priorities; once a load cycle."""
        self._current().refresh()

    def finish(self, now: float) -> None:
        """All input has come: every window that is still open may close."""
        for node in list(self.network.nodes):
            if isinstance(node.operator, SourceOperator):
                self._deliver(node, progress(END_OF_TIME), now, now)

    def believed(self) -> NetworkEstimates:
        """What is known of every operator; the order is that of `network.nodes`."""
        return self._current().refresh()

    def taken(self, number: int) -> int:
        """Tuples an operator has taken so far."""
        return self._taken[number]

    def has_input(self) -> bool:
        return any(node.queue for node in self.network.nodes)

    def late(self) -> Mapping[str, int]:
        """Late tuples by source."""
        return {
            node.name: node.operator.late
            for node in self.network.nodes
            if isinstance(node.operator, SourceOperator)
        }

    def snapshot(self) -> ClassSnapshot:
        """The state of the whole class: every operator's and every queue's."""
        return ClassSnapshot(
            states={node.key: node.operator.snapshot() for node in self.network.nodes},
            queues={node.key: tuple(node.queue) for node in self.network.nodes},
            answered=dict(self.answered),
        )

    def restore(self, snapshot: ClassSnapshot) -> None:
        """Go on from a snapshot of a class with the same queries."""
        missing = [node.name for node in self.network.nodes if node.key not in snapshot.states]
        if missing:
            hint = "add the queries that the class had when the snapshot was taken, and no others"
            raise InvalidInput("the snapshot is of other queries", "snapshot", missing, hint)
        for node in self.network.nodes:
            node.operator.restore(snapshot.states[node.key])
            node.queue = deque(snapshot.queues[node.key])
            node.tuples = sum(map(len, node.queue))
        self.answered = dict(snapshot.answered)
        self._version = -1  # the scheduler is to hear of what is queued

    # --- inside --------------------------------------------------------------------------------------

    def _deliver(self, node: Node, out: Train, head: float, now: float) -> None:
        if len(out):
            for below in node.downstream:
                self._enqueue(below, out, head)
            for query in node.outputs:
                if is_same(out.arrival):
                    self.responses[query].add_same(now - float(out.arrival[0]), len(out))
                else:
                    self.responses[query].add_array(now - out.arrival, 0.0)
                self.sink(query, out)
                self.answered[query] += len(out)
            return
        for below in node.downstream:
            if below.wants(out.watermark):
                self._enqueue(below, out, head)

    def _enqueue(self, node: Node, train: Train, head: float) -> None:
        if node.enqueue(train) and self._version == self.network.version and self._scheduler is not None:
            self._scheduler.ready(self._place[id(node)], queue_head(node, head))

    def _current(self) -> OperatorScheduler:
        """The scheduler over the nodes there are now, made anew when queries have come or gone."""
        if self._scheduler is not None and self._version == self.network.version:
            return self._scheduler
        known: dict[int, tuple[Estimate, int]] = {}
        if self._scheduler is not None:
            estimates = self._scheduler.statistics.estimates
            known = {
                id(node): (estimates[place], self._taken[place]) for place, node in enumerate(self._nodes)
            }
        self._nodes = list(self.network.nodes)
        self._place = {id(node): place for place, node in enumerate(self._nodes)}
        boxes = tuple(
            Box(
                node.name,
                tuple(self._place[id(below)] for below in node.downstream),
                node.source,
                partner=None if node.partner is None else self._place[id(node.partner)],
            )
            for node in self._nodes
        )
        before = [known.get(id(node), (FIRST_ESTIMATE, 0)) for node in self._nodes]
        initial = [estimate for estimate, _ in before]
        self._taken = [taken for _, taken in before]
        self._scheduler = OperatorScheduler(Network(boxes), self.policy, initial)
        self._version = self.network.version
        for place, node in enumerate(self._nodes):
            if node.queue:
                self._scheduler.ready(place, queue_head(node, 0.0))
        return self._scheduler


def queue_head(node: Node, otherwise: float) -> float:
    """The arrival of the oldest queued tuple."""
    arrival = node.queue[0].arrival
    return float(arrival[0]) if len(arrival) else otherwise
