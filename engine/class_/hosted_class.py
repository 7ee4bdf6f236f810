"""A class in its host: queries running, input accounted, answers settled, steps written down.

    take(piece)          queue what a door let in
    run(quota, …)        a slice: repeat what has to be repeated, then run operators until the quota is used up
    end_cycle(now, …)    measurements of a load cycle for the load manager
    committed()          steps and answers that have settled since it was last called
    state(), recover()   everything at a settle point; the continuation from there by repeating commits

Its parts: `ClassQueries` plans, adds and removes queries, `QueryExchanges` exchanges running queries for other plans, `ClassInput`
keeps queues and accounts of streams, `CommitBuffer` collects steps and answers for commits, `CommitReplay` repeats commits,
`AnswerTimes` measures response times, `ClassRunner` runs operators.

A *settle point* is a moment when nothing is queued inside the network: whenever a source operator is about to take
tuples, since sources run last, and when the class has run dry. What has come out up to then is a function of the
steps so far, so answers are handed out at settle points, together with the steps that led to them. A class that
repeats the steps of its commits comes to the same state and the same count of answers (`tests/property/test_hosted.py`).
Where a slice ends between two of them, queries that have nothing left inside have theirs handed out, with a step that says so.
Who repeats that goes on to the settle point; what others give on the way is known already from a later commit, or new.

All calls but those of a door come from one thread.
"""

from __future__ import annotations

import math
import pickle
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Any

from configs.classes.limits import ClassLimits
from configs.classes.live_class import LiveClass
from configs.classes.plans import PlanSettings
from configs.classes.window_settings import WindowSettings
from configs.errors import InvalidInput
from engine.class_.answer_times import AnswerTimes
from engine.class_.class_input import ClassInput
from engine.class_.class_queries import ClassQueries, reads_as_declared, schemas_of
from engine.class_.commit_buffer import CommitBuffer
from engine.class_.commit_replay import CommitReplay, Fetch
from engine.class_.door import Piece
from engine.class_.input_account import StreamPosition
from engine.class_.load_cycle import LoadCycle
from engine.class_.query_exchanges import QueryExchanges
from engine.class_.repetition import Repetition
from engine.class_.runner import ClassRunner, Clock, RunListener
from engine.class_.steps import (
    Advanced,
    Answer,
    Commit,
    Interrupted,
    LimitsSet,
    LookupsReleased,
    PlanSet,
    QueryAdded,
    WindowsSet,
)
from engine.data.samples import Samples
from engine.data.train import Train
from engine.plan.plan import Query
from engine.plan.plan_references import dependents, reads
from engine.sql import SqlCatalog
from loadshed.cycle import CycleEnded

STATE_VERSION = 6


class HostedClass(RunListener):
    """One class, or one shard of it."""

    def __init__(self, settings: LiveClass, train_max: int, answers_max: float = math.inf) -> None:
        """A slice ends early with more bytes of answers than `answers_max`, for them to be committed."""
        self.runner = ClassRunner(
            self._answer,
            settings.first_policy,
            train_max,
            limits=settings.limits,
            windows=settings.windows,
            listener=self,
        )
        self.runner.network.plan = settings.plan
        self.times = AnswerTimes(settings.delay_target_ms / 1e3)
        self.cycle = LoadCycle()
        self._repetition = Repetition()
        self._buffer = CommitBuffer(self._repetition, answers_max)
        self.input = ClassInput(self.runner, self._buffer)
        self.queries = ClassQueries(
            settings, runner=self.runner, input_=self.input, cycle=self.cycle, buffer=self._buffer
        )
        self.exchanges = QueryExchanges(self.runner, self.queries, self._buffer)
        self.replay = CommitReplay(
            self._repetition,
            runner=self.runner,
            queries=self.queries,
            exchanges=self.exchanges,
            input_=self.input,
            buffer=self._buffer,
        )
        self._changes: deque[Callable[[], None]] = deque()  # for the next settle point
        self.queries.plan_and_add(settings.queries)

    # --- queries ---------------------------------------------------------------------------------------

    def add_query(self, name: str, sql: str) -> Query:
        """Plan now, or say why not; answer from the next settle point on."""
        query = self.queries.planned(name, sql)

        def change() -> None:
            with self.exchanges.restarted():
                self.queries.add(query)
            self._buffer.settle(QueryAdded(name, sql))

        self._change(change)
        return query

    def remove_query(self, name: str) -> None:
        queries = self.queries.by_name
        if name not in queries:
            raise InvalidInput(
                "the class has no query of this name", "query", name, "see the list of queries"
            )
        readers = [reader.name for reader in queries.values() if name.lower() in reads(reader)]
        if readers:
            hint = f"remove {', '.join(readers)} first"
            raise InvalidInput("other queries read the output of this one", "query", name, hint)

        def change() -> None:
            with self.exchanges.restarted():
                self.queries.remove_all([name])
            self.input.leave_unread()

        self._change(change)

    def set_queries(
        self,
        queries: Mapping[str, str],
        statements: Sequence[str] | None = None,
        limits: ClassLimits | None = None,
    ) -> None:
        """Run these queries and no others from the next settle point on, over these streams and within these limits.

        Streams and limits that are None do not change. A query that cannot be planned is left out; `queries.refused` says why.
        """

        def change() -> None:
            running, account = self.queries.by_name, self.runner.network.account
            declared = self.queries.statements if statements is None else tuple(statements)
            schemas = schemas_of(declared)
            changed = {
                name
                for name, query in running.items()
                if queries.get(name) != query.sql or not reads_as_declared(query, schemas)
            }
            gone = dependents(running, changed)
            left = {name: query for name, query in running.items() if name not in gone}
            added = {name: sql for name, sql in queries.items() if name not in left}
            self.queries.refused = {}
            catalog = SqlCatalog.of(streams=schemas.values()).with_queries(left.values())
            planned = self.queries.planned_all(added, catalog)
            # Exchanges that wait begin again with other queries, and with these alone: so do they when this is repeated.
            with self.exchanges.restarted() if gone or planned else nullcontext():
                self.queries.remove_all(gone)
                self.queries.change_streams(declared, schemas)
                if limits is not None and limits != account.limits:
                    account.set_limits(limits)
                    self._buffer.settle(LimitsSet(limits))
                names = self.queries.add_all(planned)
            last = names[-1:]
            self._buffer.settle(*(QueryAdded(name, added[name], [name] != last) for name in names))
            self.input.leave_unread()

        self._change(change)

    def set_windows(self, windows: WindowSettings) -> None:
        """Answer windows with SLIDE AT MOST so from the next settle point on."""

        def change() -> None:
            if windows != self.runner.network.windows:
                self.runner.network.windows = windows
                self._buffer.settle(WindowsSet(windows))

        self._change(change)

    def set_plan(self, plan: PlanSettings) -> None:
        """Run queries by this plan: those that are added from the next settle point on; those that run once they can.

        They are planned again beside themselves, and exchanged at the settle point where the new operators know all that the
        old ones know. `exchanges.kept` says which queries cannot, and why.
        """

        def change() -> None:
            if plan != self.runner.network.plan:
                self.exchanges.set_plan(plan)
                self._buffer.settle(PlanSet(plan))

        self._change(change)

    @property
    def is_exchanging(self) -> bool:
        """Whether queries run by two plans at a time, or are about to."""
        return bool(self.exchanges.waiting or self._changes)

    def _change(self, change: Callable[[], None]) -> None:
        self._changes.append(change)
        if self.runner.is_settled():
            self.runner.settle(0.0)

    # --- input and slices ------------------------------------------------------------------------------

    def begin(self, stream: str, batch: int, rows: int | None = None) -> None:
        """Begin a stream that has not been read yet with this batch; `rows` came before it."""
        following = StreamPosition(batch, rows)
        self.replay.stream_begins(stream, following)
        self.input.set_next(stream, following)

    def take(self, piece: Piece, upto: int = 0) -> None:
        """Queue what a door let in; behind what has to be repeated first. What no query reads is no input.

        `upto` is how many rows the stream has had with it.
        """
        self.input.count(piece, is_sampled=self.times.noticed is not None)
        if self.repeating:
            self.replay.hold(piece, upto)
        else:
            self.input.queue(piece, upto)

    def run(self, quota_s: float, now: Clock, cpu: Clock) -> float:
        """Run for a slice; return the processor time used."""
        used_s = self.replay.run(quota_s, now, cpu)
        if self.repeating:
            return used_s
        self._give_repeated(now())
        self.replay.queue_held()
        if used_s < quota_s:
            used_s += self.runner.run(quota_s - used_s, now, cpu)
        if self._changes and self.runner.is_settled():
            self.runner.settle(now())  # what was asked for while steps were repeated
        return used_s

    def advance(self, stream: str, time: int, now: float) -> None:
        """Let event time of an idle stream advance by the clock; only where nothing is queued."""
        self._buffer.write(Advanced(stream, time, now))
        self.runner.advance(stream, time, now)

    def overdue(self, before: float) -> bool:
        """Return True if tuples that arrived before wait for their lookups."""
        return not self.repeating and bool(self.runner.lookups.overdue(before))

    def release(self, before: float, now: float) -> None:
        """Answer the lookups of tuples that arrived before with the rows there are; only where nothing is queued."""
        for query, upto_us in sorted(self.runner.lookups.overdue(before).items()):
            self._buffer.write(LookupsReleased(query, upto_us, now))
            self.runner.release(query, upto_us, now)

    def rest(self, now: Clock) -> None:
        """Run until nothing is queued inside, which takes a train's work at most: that is a settle point."""
        if not self.repeating:
            self.runner.drain(now)

    @property
    def repeating(self) -> bool:
        """Whether something that was committed is still to be repeated."""
        return bool(self._repetition)

    def has_input(self) -> bool:
        return bool(self.replay) or self.runner.has_input()

    def committed(self) -> Commit | None:
        """Return what has settled since the last call, with the number of answers there are now."""
        return self._buffer.take(self.runner.answers.counts)

    # --- the load cycle --------------------------------------------------------------------------------

    def end_cycle(self, now: float, used_s: float, ran_dry: bool = False) -> CycleEnded:
        """Return what the load manager is shown, and begin a new cycle; slices have used `used_s` in this one."""
        cycle = self.cycle.end(
            now,
            used_s,
            target_s=self.times.target_s,
            runner=self.runner,
            entrances=self.input.entrances,
            # What repeating costs is not observed by operator.
            observed=not self.repeating,
        )
        return replace(cycle, ran_dry=ran_dry)

    def notice(self) -> None:
        """Restart the observation of answers and input, with slowdowns by what an answer costs now."""
        self.input.samples = Samples()
        self.times.notice(self.runner.scheduled.alone())

    # --- recovery --------------------------------------------------------------------------------------

    def following(self) -> Mapping[str, StreamPosition]:
        """Return by stream where to read on."""
        following = self.replay.following()
        return {
            stream: following.get(stream, entrance.following)
            for stream, entrance in self.input.entrances.items()
        }

    def state(self) -> bytes | None:
        """Return everything at a settle point; None between two of them, or before everything is committed."""
        if self.replay or not self._buffer.is_empty or not self.runner.is_settled():
            return None
        network, queries, exchanges = self.runner.network, self.queries, self.exchanges
        plans = [
            (name, query.sql, network.planned_as(name).model_dump())
            for name, query in queries.by_name.items()
        ]
        settings = network.windows.model_dump(), network.plan.model_dump(), exchanges.waiting, exchanges.kept
        reads_from = queries.statements, network.account.limits.model_dump()
        ended = dict(self.input.ended), queries.answered_before
        runner_state = self.runner.settled_state()
        state = STATE_VERSION, reads_from, plans, settings, runner_state, self.input.state(), ended
        return pickle.dumps(state, protocol=5)

    def recover(self, state: bytes | None, commits: Sequence[Commit], fetch: Fetch) -> None:
        """Continue from a state by repeating what was committed after it, within the slices to come."""
        self.replay.fetch = fetch
        if state is not None:
            version, *held = pickle.loads(state)
            if version != STATE_VERSION:
                raise InvalidInput(
                    "the state is of another version", "state", version, "let its host finish first"
                )
            self._restore(*held)
        self.replay.begin(commits)

    def _restore(
        self,
        reads_from: tuple[Sequence[str], Any],
        plans: Sequence[tuple[str, str, Any]],
        settings: tuple[Any, Any, Mapping[str, int], dict[str, str]],
        runner_state: Any,
        streams: Mapping[str, Any],
        *ended: Any,
    ) -> None:
        (statements, limits), (windows, plan, waiting, kept) = reads_from, settings
        network, queries = self.runner.network, self.queries
        self.exchanges.drop()
        for name in dependents(queries.by_name, set(queries.by_name)):
            queries.remove(name)
        self.input.forget_unread()
        queries.set_streams(statements)
        network.account.set_limits(ClassLimits.model_validate(limits))
        network.windows = WindowSettings.model_validate(windows)
        network.expect(runner_state.pane_lengths)
        for planned_as, group in groupby(plans, itemgetter(2)):
            network.plan = PlanSettings.model_validate(planned_as)
            queries.plan_and_add({name: sql for name, sql, _ in group})
        network.plan = PlanSettings.model_validate(plan)
        self.exchanges.restore(waiting, kept)
        self.runner.restore(runner_state)
        for stream, (ledger, position) in streams.items():
            entrance = self.input.restore(stream, ledger, position)
            if position.opened is not None:
                self.replay.reopen(entrance, position.opened, position.done)
                entrance.begun = bool(entrance.queued)
        # States of older versions have no ended accounts.
        self.input.ended, queries.answered_before = ended[0] if ended else ({}, 0)

    # --- what the runner reports -----------------------------------------------------------------------

    def took(self, stream: str, tuples: int) -> None:
        self.input.took(stream, tuples)

    def settled(self) -> bool:
        """Nothing is queued inside: what has been done is complete. Return True if more may be done before it is committed."""
        self.times.settle()
        self.input.settle()
        self._buffer.settle()
        while self._changes and not self.repeating:
            self._changes.popleft()()
        if self.exchanges.waiting and not self.repeating:
            self.exchanges.settle()
        return self._buffer.has_room

    def interrupted(self) -> None:
        """Some answers of the unsettled steps have been handed out."""
        self.times.settle()
        self._buffer.settle(Interrupted())

    def _answer(self, query: str, train: Train) -> None:
        answers = self.runner.answers
        answer = Answer(query, answers.counts[query], train)
        if self.repeating:
            self._buffer.repeated.append(answer)
        else:
            self._give(answer, answers.handed_out_at)

    def _give(self, answer: Answer, now: float) -> None:
        total_s = self.times.add(answer.query, answer.train, now)
        self.cycle.answered(answer.query, len(answer.train), total_s)
        self._buffer.add(answer)

    def _give_repeated(self, now: float) -> None:
        """Give answers of repeated steps that had not been given when the class ended."""
        repeated, self._buffer.repeated = self._buffer.repeated, []
        for answer in repeated:
            self.runner.answers.quality[answer.query].answered(answer.train.arrival, now)
            self._give(answer, now)
