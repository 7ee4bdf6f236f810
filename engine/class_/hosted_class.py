"""Class in its host process: runs queries, accounts for input, delivers answers and records steps.

    take(piece): queues the tuples of one batch that a door let in.
    run(quota, …): runs a slice: first repeats committed steps if needed, then runs operators until the quota is used.
    end_cycle(now, …): returns the measurements of a load cycle for the load manager.
    committed(): returns steps and answers that have become final since the last call.
    state(), recover(): save everything at a settle point, and continue from there by repeating commits.

| part | task |
|---|---|
| `ClassQueries` | plans, adds and removes queries |
| `QueryExchanges` | replaces running plans by equivalent plans |
| `ClassInput` | keeps queues and accounts of streams |
| `CommitBuffer` | collects steps and answers for commits |
| `CommitReplay` | repeats commits |
| `AnswerTimes` | measures response times |
| `ClassRunner` | runs operators |

At a *settle point*, nothing is queued inside the network. That is so when the class has no input left, and whenever a
source operator is about to take tuples, since sources run last. All answers up to a settle point are a function of all
steps before it. So answers are delivered at settle points, together with the steps that led to them. A class that repeats
the steps of its commits reaches the same state and the same number of answers (`tests/property/test_hosted.py`).

If a slice ends between two settle points, only queries without queued input get their answers delivered, and an
`Interrupted` step records that. A repetition continues from there to the next settle point. Answers of other queries
on the way are either part of a later commit or new.

All calls except those of a door come from one thread.
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
from engine.class_ import steps
from engine.class_.answer_times import AnswerTimes
from engine.class_.class_input import ClassInput
from engine.class_.class_queries import ClassQueries, reads_as_declared, schemas_of
from engine.class_.commit_buffer import CommitBuffer
from engine.class_.commit_replay import CommitReplay, Fetch
from engine.class_.door import Piece
from engine.class_.input_account import StreamPosition
from engine.class_.load_cycle import LoadCycle
from engine.class_.query_exchanges import QueryExchanges
from engine.class_.runner import ClassRunner, Clock, RunListener
from engine.class_.steps import Answer, Commit
from engine.data.samples import Samples
from engine.data.train import Train
from engine.plan.plan import Query
from engine.plan.plan_references import dependents, reads
from engine.sql import SqlCatalog
from loadshed.cycle import CycleEnded

STATE_VERSION = 6


class HostedClass(RunListener):
    """One class, or one shard of a class."""

    def __init__(self, settings: LiveClass, train_max: int, answers_max: float = math.inf) -> None:
        """Create a class without queries; a slice with more than `answers_max` bytes of answers ends early, to commit the answers."""
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
        self._buffer = CommitBuffer(answers_max)
        self.input = ClassInput(self.runner, self._buffer)
        self.queries = ClassQueries(
            settings, runner=self.runner, input_=self.input, cycle=self.cycle, buffer=self._buffer
        )
        self.exchanges = QueryExchanges(self.runner, self.queries, self._buffer)
        self.replay = CommitReplay(
            runner=self.runner,
            queries=self.queries,
            exchanges=self.exchanges,
            input_=self.input,
            buffer=self._buffer,
        )
        # Functions that make the requested changes; `settled` calls them at the next settle point.
        self._changes: deque[Callable[[], None]] = deque()
        self.queries.plan_and_add(settings.queries)

    # --- changes of queries and settings ---------------------------------------------------------------

    def add_query(self, name: str, sql: str) -> Query:
        """Plan the query now, or raise InvalidInput; the query runs from the next settle point on."""
        query = self.queries.planned(name, sql)

        def change() -> None:
            with self.exchanges.restarted():
                self.queries.add(query)
            self._buffer.settle(steps.QueryAdded(name, sql))

        self._change(change)
        return query

    def remove_query(self, name: str) -> None:
        queries = self.queries.by_name
        if name not in queries:
            raise InvalidInput(
                "the class has no query of this name", "query", name, "list the queries with `weir query ls`"
            )
        readers = [reader.name for reader in queries.values() if name.lower() in reads(reader)]
        if readers:
            hint = f"remove {', '.join(readers)} first"
            raise InvalidInput(
                "the query cannot be removed, because other queries read its output", "query", name, hint
            )

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
        """Replace all queries from the next settle point on, and set streams and limits unless they are None.

        A query that cannot be planned is left out; `queries.refused` has the reason.
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
            # A waiting exchange of plans restarts only if queries change; a recovery follows the same rule.
            with self.exchanges.restarted() if gone or planned else nullcontext():
                self.queries.remove_all(gone)
                self.queries.change_streams(declared, schemas)
                if limits is not None and limits != account.limits:
                    account.set_limits(limits)
                    self._buffer.settle(steps.LimitsSet(limits))
                names = self.queries.add_all(planned)
            last = names[-1:]
            self._buffer.settle(*(steps.QueryAdded(name, added[name], [name] != last) for name in names))
            self.input.leave_unread()

        self._change(change)

    def set_windows(self, windows: WindowSettings) -> None:
        """Set how windows with SLIDE AT MOST are scheduled, from the next settle point on."""

        def change() -> None:
            if windows != self.runner.network.windows:
                self.runner.network.windows = windows
                self._buffer.settle(steps.WindowsSet(windows))

        self._change(change)

    def set_plan(self, plan: PlanSettings) -> None:
        """Set the plan settings of the class from the next settle point on.

        Queries that are added later use these settings at once. A running query gets a second plan, which replaces the running
        plan once the second plan has all the state that answers need. `exchanges.kept` has the reasons why queries keep their
        plans.
        """

        def change() -> None:
            if plan != self.runner.network.plan:
                self.exchanges.set_plan(plan)
                self._buffer.settle(steps.PlanSet(plan))

        self._change(change)

    @property
    def is_exchanging(self) -> bool:
        """True if a query runs by two plans at a time, or a change waits for a settle point."""
        return bool(self.exchanges.waiting or self._changes)

    def _change(self, change: Callable[[], None]) -> None:
        self._changes.append(change)
        if self.runner.is_settled():
            self.runner.settle(0.0)

    # --- input and slices ------------------------------------------------------------------------------

    def begin(self, stream: str, batch: int, rows: int | None = None) -> None:
        """Begin to read the stream at this batch, unless the class has read the stream before.

        `rows` is the number of rows in the stream before the batch.
        """
        following = StreamPosition(batch, rows)
        self.replay.stream_begins(stream, following)
        self.input.set_next(stream, following)

    def take(self, piece: Piece, upto: int = 0) -> None:
        """Queue the tuples that a door let in, or hold them until all commits are repeated.

        Tuples of a stream that no query reads are ignored. `upto` is the number of rows in the stream up to the end of the batch.
        """
        self.input.count(piece, is_sampled=self.times.noticed is not None)
        if self.repeating:
            self.replay.hold(piece, upto)
        else:
            self.input.queue(piece, upto)

    def run(self, quota_s: float, now: Clock, cpu: Clock) -> float:
        """Run until `quota_s` seconds of processor time are used or no work is left; return the processor time used."""
        used_s = self.replay.run(quota_s, now, cpu)
        if self.repeating:
            return used_s
        self._give_repeated(now())
        self.replay.queue_held()
        if used_s < quota_s:
            used_s += self.runner.run(quota_s - used_s, now, cpu)
        if self._changes and self.runner.is_settled():
            # `settle` makes the changes that were requested while steps were repeated.
            self.runner.settle(now())
        return used_s

    def advance(self, stream: str, time: int, now: float) -> None:
        """Advance the event time of an idle stream to `time`; call it only if no tuple is queued in the class."""
        self._buffer.write(steps.Advanced(stream, time, now))
        self.runner.advance(stream, time, now)

    def overdue(self, before: float) -> bool:
        """Return True if tuples that arrived by `before` still wait for their lookups."""
        return not self.repeating and bool(self.runner.overdue(before))

    def release(self, before: float, now: float) -> None:
        """Answer the lookups of tuples that arrived by `before` with the rows that have arrived until now.

        Call this only if no tuple is queued in the class.
        """
        for query, upto_us in sorted(self.runner.overdue(before).items()):
            self._buffer.write(steps.LookupsReleased(query, upto_us, now))
            self.runner.release(query, upto_us, now)

    def rest(self, now: Clock) -> None:
        """Run to a settle point, where nothing is queued inside the network; this takes at most the work of one train."""
        if not self.repeating:
            self.runner.drain(now)

    @property
    def repeating(self) -> bool:
        """True if committed steps are still to be repeated."""
        return self._buffer.is_repeating

    def has_input(self) -> bool:
        return bool(self.replay) or self.runner.has_input()

    def committed(self) -> Commit | None:
        """Return a commit of the steps and answers settled since the last call; None if there are none."""
        return self._buffer.take(self.runner.answers.counts)

    # --- measurements for the load manager -------------------------------------------------------------

    def end_cycle(self, now: float, used_s: float, ran_dry: bool = False) -> CycleEnded:
        """Return the measurements of the load cycle that ends now, in which slices used `used_s` seconds, and begin a new cycle."""
        cycle = self.cycle.end(
            now,
            used_s,
            target_s=self.times.target_s,
            runner=self.runner,
            entrances=self.input.entrances,
            # Costs of single operators are not measured while steps are repeated.
            observed=not self.repeating,
        )
        return replace(cycle, ran_dry=ran_dry)

    def notice(self) -> None:
        """Begin new statistics of answers and new samples of input; slowdowns are computed with the ideal costs that are known now."""
        self.input.samples = Samples()
        self.times.notice(self.runner.scheduled.alone())

    # --- saving and restoring the state ----------------------------------------------------------------

    def following(self) -> Mapping[str, StreamPosition]:
        """Return the position from which each stream is to be read next."""
        following = self.replay.following()
        return {
            stream: following.get(stream, entrance.following)
            for stream, entrance in self.input.entrances.items()
        }

    def state(self) -> bytes | None:
        """Return the whole state; None between settle points, or while a step or an answer is not committed yet."""
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
        """Restore a saved state; the following slices repeat the commits that were made after that state."""
        self.replay.fetch = fetch
        if state is not None:
            version, *held = pickle.loads(state)
            if version != STATE_VERSION:
                raise InvalidInput(
                    f"the state was saved by another version of Weir; this version reads only state format {STATE_VERSION}",
                    "state",
                    version,
                    "stop the system with the Weir version that saved the state, then start it with this version",
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
        # States saved by older versions lack the accounts of streams that the class does not read any more.
        self.input.ended, queries.answered_before = ended[0] if ended else ({}, 0)

    # --- events that the runner reports ----------------------------------------------------------------

    def took(self, stream: str, tuples: int) -> None:
        self.input.took(stream, tuples)

    def settled(self) -> bool:
        """Make all recorded steps final, and make the requested changes of queries and settings.

        Return True if the slice may continue before the next commit.
        """
        self.times.settle()
        self.input.settle()
        self._buffer.settle()
        while self._changes and not self.repeating:
            self._changes.popleft()()
        if self.exchanges.waiting and not self.repeating:
            self.exchanges.settle()
        return self._buffer.has_room

    def interrupted(self) -> None:
        """Record that answers of some queries were delivered before a settle point was reached."""
        self.times.settle()
        self._buffer.settle(steps.Interrupted())

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
        """Deliver those answers of repeated steps that are in no commit, because the first run did not deliver these answers."""
        repeated, self._buffer.repeated = self._buffer.repeated, []
        for answer in repeated:
            self.runner.answers.quality[answer.query].answered(answer.train.arrival, now)
            self._give(answer, now)
