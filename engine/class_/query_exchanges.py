"""The exchange of running queries for the same queries by another plan.

A query that runs by another plan than its class's gets a *twin*: the operators of the class's plan beside its own, without answers.
At the settle point where the twin knows all that the query's operators know, it takes the query's place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from configs.classes.plans import PlanSettings
from engine.class_.class_queries import ClassQueries
from engine.class_.commit_buffer import CommitBuffer
from engine.class_.runner import ClassRunner
from engine.class_.steps import Exchanged, ExchangeGivenUp
from engine.network.network import walk
from engine.plan.plan_exchange import Unbounded, wait_us

# Why an exchange was given up.
NO_ROOM = "the class's limits leave no room for its old and its new operators together"


class QueryExchanges:
    """Queries that run by another plan than the class's: those that wait for their exchange, and those that stay as they are."""

    def __init__(self, runner: ClassRunner, queries: ClassQueries, buffer: CommitBuffer) -> None:
        self.kept: dict[str, str] = {}
        """Why a query still runs by another plan than its class's."""
        self.waiting: dict[str, int] = {}
        """Queries with a twin: the event time, in µs, that all its streams have to pass."""
        self._runner, self._queries, self._buffer = runner, queries, buffer
        self._others: dict[str, None] = {}  # queries that run by another plan than the class's

    @property
    def has_given_up(self) -> bool:
        """Return True if queries still run by another plan than the class's because there was no room."""
        return NO_ROOM in self.kept.values()

    def set_plan(self, plan: PlanSettings) -> None:
        """Run queries by this plan: those that are added from now on, and those that run once they can."""
        with self.restarted():
            self._runner.network.plan = plan
            self._find_others()

    @contextmanager
    def restarted(self) -> Iterator[None]:
        """Change queries or plan; whatever waits for its exchange waits again, among the queries that there are then."""
        self.drop()
        try:
            yield
        finally:
            self._add_twins()

    def drop(self) -> None:
        """Drop all twins."""
        self.waiting.clear()
        self._runner.network.drop_twins()

    def restore(self, waiting: Mapping[str, int], kept: dict[str, str]) -> None:
        """Continue as a state has it."""
        self._find_others()
        self.waiting = {name: until for name, until in waiting.items() if name in self._queries.by_name}
        self._runner.network.add_twins(*self.waiting)
        self.kept = kept

    def settle(self) -> None:
        """Exchange queries that can be; at a settle point, when nothing is queued, old and new operators have taken the same."""
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
        """Let a query's twin take its place, if it still waits for that."""
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
        # A query that was removed, and perhaps added again, runs by the class's plan.
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
                self.exchange(name)  # there is nothing that it does not know
