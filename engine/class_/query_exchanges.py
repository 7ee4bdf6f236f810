"""Exchange of running plans for equivalent plans of the same queries.

A query that does not run by its class's plan settings gets a *twin*: a second plan with new operators, which reads the
same input. The answers of this second plan are not used at first. Once the new operators hold all the state that the old
operators hold, the second plan replaces the first plan at a settle point.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from configs.classes.plans import PlanSettings
from engine.class_.class_queries import ClassQueries
from engine.class_.commit_buffer import CommitBuffer
from engine.class_.runner import ClassRunner
from engine.class_.steps import Exchanged, ExchangeGivenUp
from engine.plan.plan import walk
from engine.plan.plan_exchange import Unbounded, wait_us

# Reason why an exchange was abandoned.
NO_ROOM = "the class's limits leave no room for the old and the new operators of its queries together"


class QueryExchanges:
    """Queries that do not run by the plan settings of their class.

    Each of these queries waits for the exchange of its plan, or keeps its plan for the reason in `kept`.
    """

    def __init__(self, runner: ClassRunner, queries: ClassQueries, buffer: CommitBuffer) -> None:
        self.kept: dict[str, str] = {}
        """Reason why a query keeps its plan, by query."""
        self.waiting: dict[str, int] = {}
        """Event time in µs by query: once all streams of the query have passed it, the second plan can replace the query's plan."""
        self._runner, self._queries, self._buffer = runner, queries, buffer
        self._others: dict[str, None] = {}  # Queries that do not run by the class's plan settings

    @property
    def has_given_up(self) -> bool:
        """True if queries keep their plans because there was no room for an exchange."""
        return NO_ROOM in self.kept.values()

    def set_plan(self, plan: PlanSettings) -> None:
        """Set the plan settings of the class.

        Queries that are added later use these settings at once. Running queries use them as soon as their plans can be exchanged.
        """
        with self.restarted():
            self._runner.network.plan = plan
            self._find_others()

    @contextmanager
    def restarted(self) -> Iterator[None]:
        """Drop the second plans of all queries before the caller's change of queries or settings, and build them again after the change."""
        self.drop()
        try:
            yield
        finally:
            self._add_twins()

    def drop(self) -> None:
        """Drop the second plans of all queries; the queries keep their running plans."""
        self.waiting.clear()
        self._runner.network.drop_twins()

    def restore(self, waiting: Mapping[str, int], kept: dict[str, str]) -> None:
        """Restore the waiting exchanges and the kept plans from a saved state."""
        self._find_others()
        self.waiting = {name: until for name, until in waiting.items() if name in self._queries.by_name}
        self._runner.network.add_twins(*self.waiting)
        self.kept = kept

    def settle(self) -> None:
        """Exchange the plans of queries with second plans that are ready.

        Call this at a settle point, when no tuple is queued inside the network, so that both plans have taken equal input.
        """
        network, queries = self._runner.network, self._queries
        marks = {
            stream.name: reached - stream.lateness_us
            for stream in queries.streams()
            if (reached := queries.reached_us(stream)) is not None
        }
        ready = [
            name
            for name, until in self.waiting.items()
            if any(mark > until for mark in marks.values())
            and all(stream.name in marks and marks[stream.name] > until for stream in queries.timed(name))
        ]
        if network.account.is_nearly_full or (ready and network.have_twins_refused()):
            self.give_up()
            self._buffer.settle(ExchangeGivenUp())
            return
        for name in ready:
            self.exchange(name)
            self._buffer.settle(Exchanged(name))

    def exchange(self, name: str) -> None:
        """Replace a query's plan by its second plan, if the query still waits for this exchange."""
        if self.waiting.pop(name, None) is not None:
            del self._others[name]
            self._runner.exchange(name)

    def give_up(self) -> None:
        self.kept.update(dict.fromkeys(self.waiting, NO_ROOM))
        self.drop()

    def _find_others(self) -> None:
        network = self._runner.network
        self._others = {
            name: None for name in self._queries.by_name if network.planned_as(name) != network.plan
        }

    def _add_twins(self) -> None:
        network, waits = self._runner.network, dict[str, int]()
        running = self._queries.by_name
        # A query that was removed and added again already runs by the class's plan settings.
        self._others = {
            name: None
            for name in self._others
            if name in running and network.planned_as(name) != network.plan
        }
        self.kept.clear()
        for name in self._others:
            before = network.arranged(name, network.planned_as(name))
            after = network.arranged(name, network.plan)
            try:
                waits[name] = wait_us(after, set(walk(before)))
            except Unbounded as why:
                self.kept[name] = str(why)
        network.add_twins(*waits)
        for name, wait in waits.items():
            reached = [self._queries.reached_us(stream) for stream in self._queries.timed(name)]
            begun = [time_us for time_us in reached if time_us is not None]
            self.waiting[name] = max(begun) + wait if begun else 0
            if not wait or not begun:
                # The plan is replaced at once if the second plan needs no state, or if no stream of the query has an event time yet.
                self.exchange(name)
