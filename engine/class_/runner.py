"""Runner of a class: its network, its level-2 scheduler (which picks operators), and the measurement of every call.

The main loop is `ClassRunner.run`: pick an operator, take a train, run the operator, measure, deliver. The loop runs for a
slice of processor time that the caller grants. The caller also passes two clocks: `now` for arrival and response times, `cpu`
for the processor time of this thread.
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
from engine.operators.last import LookUp, LookUpOperator
from engine.operators.source import SourceOperator
from engine.plan.plan import Query
from scheduler.operators.policies import NONE
from scheduler.operators.scheduler import OperatorScheduler

Clock = Callable[[], float]

TRAIN_MAX = 10_000
# Time later than any event time in any unit.
END_OF_TIME = 2**62


class RunListener:
    """Receives the events of a runner; this base class ignores all events."""

    def took(self, stream: str, tuples: int) -> None:
        """React when a source operator has taken tuples from its stream's queue."""

    def settled(self) -> bool:
        """React when answers were delivered at a settle point; return True if the slice continues."""
        return True

    def interrupted(self) -> None:
        """React when answers were delivered between two settle points."""


IGNORED = RunListener()


class ClassRunner:
    """Runs a class's queries and passes answers to `sink(query, train)`.

    Answers are delivered at *settle points*, when nothing is queued inside the network. There is a settle point before each
    call of a source operator, since sources run last. All answers up to a settle point are a function of the tuples taken
    before it. If a slice ends between settle points, only queries without queued input get their answers delivered. So the
    policy decides which query's answers come first when the work takes several slices.
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
        self.steps = 0
        self._inside = 0  # Number of operators with queued input, not counting sources

    # --- adding, removing and changing queries ---------------------------------------------------------

    def add(
        self,
        *queries: Query,
        graphs: Mapping[str, UtilityGraph] | None = None,
        weights: Mapping[str, float] | None = None,
    ) -> None:
        """Add queries, with the utility graphs of their answers and the weights of their freshness."""
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
                self.scheduled.rebuild()  # The scheduler must learn that this operator answers one more query
        if any(slacks.values()) and self.network.has_bounded_windows():
            # New windows may change the slides of existing windows, and so their slacks.
            self.scheduled.rebuild()

    def remove(self, name: str) -> None:
        self.network.remove(name)
        self.values.remove(name)
        self.values.value_all(self.network.nodes)
        self.answers.remove_query(name)
        self._inside = self._count_inside()

    def exchange(self, name: str) -> None:
        """Replace the query's plan by its second plan; the counts and measurements of its answers continue."""
        nodes = self.network.exchange(name)
        self.answers.quality[name].slack_s = next((slack_of(node) for node in nodes), None)
        self.values.value_all(self.network.nodes)

    def value(self, graphs: Mapping[str, UtilityGraph]) -> None:
        """Set the utility graphs for later answers of these queries."""
        changed = self.values.changed(graphs)
        for name, graph in changed.items():
            self.answers.quality[name].value(graph)
        if changed:
            self.values.value_all(self.network.nodes)
            self.scheduled.rebuild()

    def weigh(self, weights: Mapping[str, float]) -> None:
        """Set the freshness weight of each query; queries without a declared weight get 1."""
        self.values.weights = dict(weights)
        for name, quality in self.answers.quality.items():
            quality.weight = self.values.weight(name)
        self.scheduled.rebuild()

    # --- input from streams and the clock --------------------------------------------------------------

    def offer(self, stream: str, train: Train) -> None:
        """Queue a train that has arrived on a stream."""
        node = self.network.source(stream)
        if node is not None and len(train):
            # The queue needs no check of its length, because the door limits the length of a source's queue.
            self._enqueue(node, train, float(train.arrival[0]))

    def advance(self, stream: str, time: int, now: float) -> None:
        """Advance the event time of an idle stream to `time`, at clock time `now`."""
        node = self.network.source(stream)
        if node is not None:
            assert isinstance(node.operator, SourceOperator)
            late = missing_rows(node)
            self._pass_time(node, node.operator.advance(time), now, late)

    def overdue(self, before: float) -> dict[str, int]:
        """Return, by query, the event time in µs up to which `release` must answer lookups: tuples that arrived by `before` still wait."""
        times_us: dict[str, int] = {}
        for node in self.network.lookups:
            upto_us = state_of(node).overdue(before)
            if upto_us is not None:
                query = min(node.users)
                times_us[query] = max(upto_us, times_us.get(query, upto_us))
        return times_us

    def release(self, query: str, upto_us: int, now: float) -> None:
        """Answer the waiting lookups of a query up to an event time, with the rows that have arrived until now."""
        for node in self.network.lookups:
            if query in node.users:
                self._deliver(node, state_of(node).release(upto_us, now), now)

    def evict(self, stream: str, tuples: int) -> int:
        """Drop up to this number of the oldest queued tuples of a stream; return how many were dropped."""
        node = self.network.source(stream)
        dropped = 0 if node is None else node.drop(tuples)
        if node is not None and dropped:
            self.scheduled.dropped(node)
        return dropped

    def finish(self, now: float) -> None:
        """Close all open windows, after all input has arrived."""
        for node in list(self.network.nodes):
            if isinstance(node.operator, SourceOperator):
                self._pass_time(node, END_OF_TIME, now, missing_rows(node))

    def has_input(self) -> bool:
        return any(node.queue for node in self.network.nodes)

    # --- running operators -----------------------------------------------------------------------------

    def run(self, quota_s: float, now: Clock, cpu: Clock) -> float:
        """Run the main loop until the quota or the input is used up; return the processor time used."""
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
                    # The settle point may have added or removed queries, so the queues and the operators are read again.
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
            # One reading of the clock ends the measurement of a call and begins that of the next call, so that all time is counted.
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
        """Call an operator once; return the numbers of tuples that the operator took and emitted."""
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
        # Panes emit watermarks, but no tuples.
        # If a quarter of the windows behind the panes take a watermark, the watermark counts as a quarter of an output tuple.
        return tuples, readers / len(node.downstream) if node.tells else len(out)

    def take_next(self, stream: str, tuples: int, now: Clock) -> None:
        """Let a source operator take its next `tuples` tuples, and run the operators behind the source until none has queued input."""
        node = self.network.source(stream)
        if node is None:
            return
        scheduler = self.scheduled.current()
        while tuples > 0 and node.queue:
            number = self.scheduled.place(node)
            tuples -= self._step(scheduler, number, node, min(tuples, self.train_max), now)[0]
            self.drain(now)

    def drain(self, now: Clock) -> None:
        """Run operators until only sources have queued input."""
        scheduler = self.scheduled.current()
        while self._inside:
            number = scheduler.pick(now())
            self._step(scheduler, number, self.scheduled.nodes[number], self.train_max, now)
        self.settle(now())

    def is_settled(self) -> bool:
        """Return True if all queued input is at sources."""
        return not self._inside

    def settle(self, now: float) -> bool:
        """Deliver the answers since the last settle point; return True if the slice may continue."""
        self.answers.hand_out(now)
        return self.listener.settled()

    # --- saving and restoring the state ----------------------------------------------------------------

    def snapshot(self) -> ClassSnapshot:
        """Return a copy of the class's state: all operators, queues and answers."""
        return copy.deepcopy(ClassSnapshot.of(self.network, self.answers))

    def settled_state(self) -> ClassSnapshot:
        """Return the state at a settle point, without queued input and without copying; save this state before any operator runs again."""
        assert self.is_settled()
        return replace(ClassSnapshot.of(self.network, self.answers), queues={})

    def restore(self, snapshot: ClassSnapshot) -> None:
        """Continue from a snapshot of a class with the same queries."""
        snapshot.restore(self.network, self.answers)
        self._inside = self._count_inside()
        self.scheduled.rebuild()

    # --- passing trains between operators --------------------------------------------------------------

    def _count_inside(self) -> int:
        return sum(bool(node.queue) and not node.source for node in self.network.nodes)

    def _pass_time(self, node: QueuedOperator, watermark: int, now: float, late: LateRows | None) -> None:
        """Pass a source's watermark, which the clock has advanced, to the operators behind the source."""
        self._deliver(node, progress(watermark, (Moment(watermark, now),), late), now)

    def _deliver(self, node: QueuedOperator, out: Train, head: float) -> int:
        """Pass the output of an operator to the operators that read it; return how many of these readers got a watermark without tuples."""
        if len(out):
            node.given += len(out)
            if node.downstream:
                self._pass_on(node, out, head)
            for query in node.outputs:
                self.answers.unsettled.append((query, counting_dropped(out)))
            return 0
        if not out.causes:
            # The ends of windows may have changed since the last watermark, so a window may react although event time has not advanced.
            out.causes = (Moment(out.watermark, head),)
        readers = 0
        for below in node.downstream:
            if below.wants(out.watermark):
                self._enqueue(below, out, head)
                readers += 1
        return readers

    def _pass_on(self, node: QueuedOperator, out: Train, head: float) -> None:
        """Queue a train at all operators that read this operator's output; tuples for which there is no room are refused."""
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


def state_of(lookup: QueuedOperator) -> LookUp:
    """Return the state that both operators of a lookup share."""
    assert isinstance(lookup.operator, LookUpOperator)
    return lookup.operator.state


def missing_rows(source: QueuedOperator) -> LateRows | None:
    """Return the tuples that were dropped from a source's queue, so that windows count them even if no further train arrives."""
    missing = source.take_missing()
    assert isinstance(source.operator, SourceOperator)
    return None if missing is None else source.operator.missing(missing)
