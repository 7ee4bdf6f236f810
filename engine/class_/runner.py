"""The runner of a class: its network, its level-2 scheduler, and the measuring around every step.

The main loop is `ClassRunner.run`: pick an operator, take a train, run it, measure, deliver. It runs for a slice of
processor time, which the caller grants and measures with the clocks it hands in: `now` for arrival and response
times, `cpu` for the processor time of this thread.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from configs.classes.limits import ClassLimits
from configs.classes.policies import HighestRate, PolicySettings
from configs.classes.utility import UtilityGraph
from configs.classes.window_settings import WindowSettings
from engine.class_.class_answers import ClassAnswers, Sink
from engine.class_.class_snapshot import ClassSnapshot
from engine.class_.scheduled_nodes import ScheduledNodes, queue_head
from engine.data.held_state import Lot, beginning, train_bytes, tuple_bytes
from engine.data.train import LateRows, Train, counting_dropped, progress
from engine.data.watermark_causes import Moment
from engine.measure.answer_quality import AnswerQuality
from engine.measure.answer_values import AnswerValues
from engine.network.network import ClassNetwork
from engine.network.node import QueuedOperator, slack_of
from engine.network.waiting_lookups import WaitingLookups, state_of
from engine.operators.source import SourceOperator
from engine.plan.plan import Query
from scheduler.operators.policies import NONE
from scheduler.operators.scheduler import OperatorScheduler

Clock = Callable[[], float]

TRAIN_MAX = 10_000
# After any event time there can be, in any unit.
END_OF_TIME = 2**62


class RunListener:
    """Hears what a runner does; this one ignores it."""

    def took(self, stream: str, tuples: int) -> None:
        """A source operator has taken tuples of its stream's queue."""

    def settled(self) -> bool:
        """A settle point, after its answers; return True if the slice continues."""
        return True

    def interrupted(self) -> None:
        """Answers were handed out between settle points."""


IGNORED = RunListener()


class ClassRunner:
    """Runs a class's queries; answers go to `sink(query, train)`.

    Answers are handed out at *settle points*: when nothing is queued inside, which is so whenever a source operator
    is about to run, since sources run last. What has been handed out by then is a function of what has been taken in.
    Where a slice ends amid the work on what came in, those of queries are handed out that have none of it left: so the policy
    says whose answers come first where that work takes several slices, and of each query the same holds as at settle points.
    """

    def __init__(
        self,
        sink: Sink,
        policy: PolicySettings | None = None,
        train_max: int = TRAIN_MAX,
        *,
        tables: Mapping[str, Train] | None = None,
        limits: ClassLimits | None = None,
        windows: WindowSettings | None = None,
        listener: RunListener = IGNORED,
    ) -> None:
        self.train_max = train_max
        self.listener = listener
        self.network = ClassNetwork(tables, limits)
        self.network.windows = windows or WindowSettings()
        self.values = AnswerValues()
        self.answers = ClassAnswers(sink)
        self.scheduled = ScheduledNodes(self.network, self.values, policy or HighestRate())
        self.lookups = WaitingLookups(self.network)
        self.steps = 0
        self._inside = 0  # nodes behind the sources that have input

    # --- queries ---------------------------------------------------------------------------------------

    def add(
        self,
        *queries: Query,
        graphs: Mapping[str, UtilityGraph] | None = None,
        weights: Mapping[str, float] | None = None,
    ) -> None:
        """Add queries; `graphs` say what their answers are worth, and `weights` how much it counts that they are fresh."""
        outputs = self.network.add(*queries)
        values = self.values
        values.graphs.update(graphs or {})
        values.weights.update(weights or {})
        slacks = {name: slack_of(node) for name, node in outputs}
        for query in queries:
            name = query.name
            quality = AnswerQuality(values.graphs.get(name), slacks.get(name), values.weight(name))
            self.answers.add_query(name, quality)
        for name, node in outputs:
            values.value(name, node)
            if node in self.scheduled:
                self.scheduled.rebuild()  # the scheduler knows it as the output of fewer queries
        if any(slacks.values()) and self.network.has_bounded_windows():
            self.scheduled.rebuild()  # the slide of windows beside the new ones may have changed, and with it their slack

    def remove(self, name: str) -> None:
        self.network.remove(name)
        self.values.remove(name)
        self.values.value_all(self.network.nodes)
        self.answers.remove_query(name)
        self._inside = self._count_inside()

    def exchange(self, name: str) -> None:
        """Let the query's twin take its place; its answers are still counted and measured as the same query's."""
        nodes = self.network.exchange(name)
        self.answers.quality[name].fall_due(next((slack_of(node) for node in nodes), None))
        self.values.value_all(self.network.nodes)

    def value(self, graphs: Mapping[str, UtilityGraph]) -> None:
        """Set what the answers of these queries are worth from now on."""
        changed = self.values.changed(graphs)
        for name, graph in changed.items():
            self.answers.quality[name].value(graph)
        if changed:
            self.values.value_all(self.network.nodes)
            self.scheduled.rebuild()

    def weigh(self, weights: Mapping[str, float]) -> None:
        """Set how much the freshness of each query counts from now on; 1 where nothing is declared."""
        self.values.weights = dict(weights)
        for name, quality in self.answers.quality.items():
            quality.weight = self.values.weight(name)
        self.scheduled.rebuild()

    # --- input -----------------------------------------------------------------------------------------

    def offer(self, stream: str, train: Train) -> None:
        """Queue a train that has arrived on a stream."""
        node = self.network.source(stream)
        if node is not None and len(train):
            self._enqueue(node, train, float(train.arrival[0]))  # the door bounds what waits there

    def advance(self, stream: str, time: int, now: float) -> None:
        """Let event time of an idle stream advance by the clock."""
        node = self.network.source(stream)
        if node is not None:
            assert isinstance(node.operator, SourceOperator)
            late = missing_rows(node)
            self._pass_time(node, node.operator.advance(time), now, late)

    def release(self, query: str, upto_us: int, now: float) -> None:
        """Answer the lookups of a query up to an event time with the rows there are."""
        for node in self.lookups.nodes():
            if query in node.users:
                self._deliver(node, state_of(node).release(upto_us, now), now)

    def evict(self, stream: str, tuples: int) -> int:
        """Drop the oldest tuples that no operator has taken; return how many there were."""
        node = self.network.source(stream)
        dropped = 0 if node is None else node.drop(tuples)
        if node is not None and dropped:
            self.scheduled.dropped(node)
        return dropped

    def finish(self, now: float) -> None:
        """All input has come: every window that is still open may close."""
        for node in list(self.network.nodes):
            if isinstance(node.operator, SourceOperator):
                self._pass_time(node, END_OF_TIME, now, missing_rows(node))

    def has_input(self) -> bool:
        return any(node.queue for node in self.network.nodes)

    # --- slices ----------------------------------------------------------------------------------------

    def run(self, quota_s: float, now: Clock, cpu: Clock) -> float:
        """Run operators until the slice or the input is used up; return the processor time used. This is the main loop."""
        scheduled = self.scheduled
        scheduler = scheduled.current()
        nodes, count = scheduled.nodes, len(scheduled.nodes)
        began = at = cpu()
        while at - began < quota_s:
            number = scheduler.pick(now())
            if number == NONE:
                break
            node = nodes[number]
            if node.source:
                if not self.settle(now()):
                    break
                if scheduled.current() is not scheduler or len(scheduled.nodes) != count or not node.queue:
                    # Queries have come or gone at the settle point, and with them what was queued.
                    scheduler = scheduled.current()
                    nodes, count = scheduled.nodes, len(scheduled.nodes)
                    continue
                number = scheduled.oldest(number)
                node = nodes[number]
                upto = scheduled.upto(number, self.train_max)
            else:
                upto = math.inf
            tuples, answers = self._step(
                scheduler, number, node=node, most=self.train_max, now=now, upto=upto
            )
            # One reading ends this step and begins the next: what lies between belongs to one of them.
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
        elif self.answers.unsettled and self.answers.hand_out_finished(scheduled.nodes, now()):
            self.listener.interrupted()
        return at - began

    def _step(
        self,
        scheduler: OperatorScheduler,
        number: int,
        node: QueuedOperator,
        most: int,
        now: Clock,
        upto: float = math.inf,
    ) -> tuple[int, float]:
        """Call an operator once; return how many tuples it took and gave."""
        train = node.dequeue(most, upto)
        tuples = len(train)
        head = float(train.arrival[0]) if tuples else now()
        out = node.operator.process(train)
        scheduled = self.scheduled
        scheduled.tuples[number] += tuples
        scheduled.calls[number] += 1
        if node.source:
            self.listener.took(node.stream, tuples)
        if node.queue:
            if scheduler.counted[number]:
                scheduler.pending(number, node.tuples)
            scheduler.ready(number, queue_head(node, head))
        else:
            scheduler.idle(number)
            self._inside -= not node.source
        if out is None:
            return tuples, 0
        readers = self._deliver(node, out, head)
        # What panes give is news of event time: a part of a tuple where only some of their windows want it.
        return tuples, readers / len(node.downstream) if node.tells else len(out)

    def take_next(self, stream: str, tuples: int, now: Clock) -> None:
        """Let a source operator take the next tuples of its queue, and all that follows happen."""
        node = self.network.source(stream)
        if node is None:
            return
        scheduler = self.scheduled.current()
        while tuples > 0 and node.queue:
            number = self.scheduled.place(node)
            tuples -= self._step(scheduler, number, node, min(tuples, self.train_max), now)[0]
            self.drain(now)

    def drain(self, now: Clock) -> None:
        """Run until nothing is queued inside."""
        scheduler = self.scheduled.current()
        while self._inside:
            number = scheduler.pick(now())
            self._step(scheduler, number, self.scheduled.nodes[number], self.train_max, now)
        self.settle(now())

    def is_settled(self) -> bool:
        """Return True if nothing is queued inside."""
        return not self._inside

    def settle(self, now: float) -> bool:
        """Hand out the answers since the last settle point; return True if a slice continues after it."""
        self.answers.hand_out(now)
        return self.listener.settled()

    # --- snapshots -------------------------------------------------------------------------------------

    def snapshot(self) -> ClassSnapshot:
        """Return the state of the whole class: every operator's and every queue's."""
        return copy.deepcopy(ClassSnapshot.of(self.network, self.answers))

    def settled_state(self) -> ClassSnapshot:
        """Return the state at a settle point, without input that waits at the sources; write it down before anything runs."""
        assert self.is_settled()
        return replace(ClassSnapshot.of(self.network, self.answers), queues={})

    def restore(self, snapshot: ClassSnapshot) -> None:
        """Continue from a snapshot of a class with the same queries."""
        snapshot.restore(self.network, self.answers)
        self._inside = self._count_inside()
        self.scheduled.rebuild()

    # --- inside ----------------------------------------------------------------------------------------

    def _count_inside(self) -> int:
        return sum(bool(node.queue) and not node.source for node in self.network.nodes)

    def _pass_time(self, node: QueuedOperator, watermark: int, now: float, late: LateRows | None) -> None:
        """Deliver progress of event time that is caused by the clock."""
        self._deliver(node, progress(watermark, (Moment(watermark, now),), late), now)

    def _deliver(self, node: QueuedOperator, out: Train, head: float) -> int:
        """Pass on the output of a node; return how many readers got progress of event time alone."""
        if len(out):
            node.given += len(out)
            if node.downstream:
                self._pass_on(node, out, head)
            for query in node.outputs:
                self.answers.unsettled.append((query, counting_dropped(out)))
            return 0
        if not out.causes:
            # Windows may have been given other ends, before event time has advanced.
            out.causes = (Moment(out.watermark, head),)
        readers = 0
        for below in node.downstream:
            if below.wants(out.watermark):
                self._enqueue(below, out, head)
                readers += 1
        return readers

    def _pass_on(self, node: QueuedOperator, out: Train, head: float) -> None:
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

    def _enqueue(self, node: QueuedOperator, train: Train, head: float, lot: Lot | None = None) -> None:
        was_empty = node.enqueue(train, lot)
        self._inside += was_empty and not node.source
        self.scheduled.queued(node, was_empty, head)


def missing_rows(source: QueuedOperator) -> LateRows | None:
    """Return the tuples that were dropped from a source's queue, for windows that close before it has a train."""
    missing = source.take_missing()
    assert isinstance(source.operator, SourceOperator)
    return None if missing is None else source.operator.missing(missing)
