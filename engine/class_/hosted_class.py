"""A class in its host: queries running, input accounted, answers settled, steps written down.

    take(piece)          what a door let in joins its stream's queue
    run(quota, …)        a slice: repeat what has to be repeated, then run operators until the quota is used up
    end_cycle(now, …)    what the load manager is shown of the cycle
    committed()          steps and answers that have settled since it was last called
    state(), recover()   everything at a settle point; going on from there by repeating commits

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import groupby
from operator import itemgetter

from configs.classes.limits import ClassLimits
from configs.classes.live_class import LiveClass
from configs.classes.plans import PlanSettings
from configs.classes.policies import PolicySettings
from configs.classes.policy_and_plan import Choice
from configs.classes.utility import UtilityGraph
from configs.classes.window_settings import WindowSettings
from configs.errors import InvalidInput, sentence
from engine.class_.commit_replay import Mismatches, Repetition
from engine.class_.door import Piece, unpacked
from engine.class_.input_account import FROM_NOW, Entrance, Following
from engine.class_.load_cycle import LoadCycle
from engine.class_.runner import ClassRunner, Clock, RunListener
from engine.class_.steps import (
    Advanced,
    Answer,
    Commit,
    Evicted,
    Exchanged,
    ExchangeGivenUp,
    Interrupted,
    LimitsSet,
    Opened,
    PlanSet,
    QueryAdded,
    QueryRemoved,
    Released,
    Step,
    StreamLeft,
    StreamsSet,
    Took,
    WindowsSet,
)
from engine.data.held_state import train_bytes, tuple_bytes
from engine.data.samples import Samples
from engine.data.schema import StreamSchema
from engine.data.train import LateRows, Train, is_same
from engine.measure.ideal_cost import Alone
from engine.network.network import walk
from engine.network.plan_alignment import Running
from engine.operators.source import SourceOperator
from engine.plan.plan import Query, Scan
from engine.plan.plan_exchange import Unbounded, wait_us
from engine.plan.plan_references import dependents, reads, sources, streams
from engine.sql import Catalog, parse_create_stream, plan_query
from loadshed.cycle import CycleEnded
from loadshed.ledger import TupleLedger
from loadshed.responses import ResponseStatistics

STATE_VERSION = 6
# Number of accounts of streams that are not read any more.
ENDED_MAX = 100
# What an answer costs alone, where nobody has said.
UNKNOWN = Alone(0.0)
# Why an exchange was given up.
NO_ROOM = "the class's limits leave no room for its old and its new operators together"
# Gives a batch's tuples back by stream and number; None if they are not kept any more.
Fetch = Callable[[str, int], Train | None]


class HostedClass(RunListener):
    """One class, or one shard of it."""

    def __init__(self, settings: LiveClass, train_max: int, answers_max: float = math.inf) -> None:
        """A slice ends early with more bytes of answers than `answers_max`, for them to be committed."""
        self.settings = settings
        self.answers_max = answers_max
        self.name = settings.name
        self.target_s = settings.delay_target_ms / 1e3
        self._statements = settings.streams
        self.schemas = schemas_of(settings.streams)
        self.runner = ClassRunner(
            self._answer,
            settings.first_policy,
            train_max,
            limits=settings.limits,
            windows=settings.windows,
            listener=self,
        )
        self.runner.network.plan = settings.plan
        self.responses = ResponseStatistics(self.target_s)
        self.recent = ResponseStatistics(self.target_s)  # for the owner to replace now and then
        self.seen: ResponseStatistics | None = None  # with slowdowns, since `notice`
        self._alone: dict[str, Alone] = {}  # of an answer, by query; as of the last `notice`
        self._samples = Samples()  # of what has come in since then
        self.mismatches = Mismatches()
        self._catalog = Catalog.of(streams=self.schemas.values())
        self._queries: dict[str, Query] = {}
        self.refused: dict[str, str] = {}  # declared queries that cannot run, and why
        self._worth(settings)
        self._weights = settings.weights
        self._entrances: dict[str, Entrance] = {}
        self._ended: dict[str, TupleLedger] = {}  # of streams that the class has left, the oldest first
        self._answered_before = 0  # answers of queries that were removed
        self._cycle = LoadCycle()
        self._steps: list[Step] = []  # since the last settle point
        self._settled_steps: list[Step] = []
        self._settled_answers: list[Answer] = []
        self._settled_bytes = 0
        self._again: list[Answer] = []  # repeated, and not known to have been committed
        self._widths: dict[str, int] = {}  # of a query's answers; 0 where texts make them differ
        self._same: dict[
            float, int
        ] = {}  # response times since the last settle point, where trains had one for all
        self._changes: deque[Callable[[], None]] = deque()
        self._repeating = Repetition(self._repeat, self._check)
        self._to_add: dict[str, str] = {}  # of queries that are added together, those that have been repeated
        self._fetch: Fetch | None = None  # for what is repeated
        # Queued trains of streams that queries have just stopped reading, for the queries that are about to read them.
        self._unread: dict[str, Sequence[Train]] = {}
        self._waiting: dict[
            str, int
        ] = {}  # queries with a twin: the event time, in µs, that all its streams have to pass
        self._others: dict[str, None] = {}  # queries that run by another plan than the class's
        self.plan_kept: dict[str, str] = {}  # why a query that ran goes on by another plan than its class's
        self._held: deque[tuple[Piece, int]] = deque()  # until everything is repeated
        self._following: dict[str, Following] = {}  # by stream, where to read on after that
        self._add_all(self._planned_all(settings.queries, self._catalog))

    # --- queries ---------------------------------------------------------------------------------------

    @property
    def queries(self) -> Mapping[str, Query]:
        return dict(self._queries)

    def streams(self) -> Sequence[StreamSchema]:
        """The streams that some query reads."""
        return [
            schema for name, schema in self.schemas.items() if self.runner.network.source(name) is not None
        ]

    def add_query(self, name: str, sql: str) -> Query:
        """Plan now, or say why not; answer from the next settle point on."""
        query = self._planned(name, sql)

        def change() -> None:
            with self._other_queries():
                self._add(query)
            self._settled_steps.append(QueryAdded(name, sql))

        self._change(change)
        return query

    def remove_query(self, name: str) -> None:
        if name not in self._queries:
            raise InvalidInput(
                "the class has no query of this name", "query", name, "see the list of queries"
            )
        readers = [other.name for other in self._queries.values() if name.lower() in reads(other)]
        if readers:
            hint = f"remove {', '.join(readers)} first"
            raise InvalidInput("other queries read the output of this one", "query", name, hint)

        def change() -> None:
            with self._other_queries():
                self._remove_all([name])
            self._leave_unread()

        self._change(change)

    def set_queries(
        self,
        queries: Mapping[str, str],
        statements: Sequence[str] | None = None,
        limits: ClassLimits | None = None,
    ) -> None:
        """Run these queries and no others from the next settle point on, over these streams and within these limits.

        Streams and limits that are None do not change. A query that cannot be planned is left out; `refused` says why.
        """

        def change() -> None:
            wanted = self._statements if statements is None else tuple(statements)
            schemas = schemas_of(wanted)
            changed = {
                name
                for name, query in self._queries.items()
                if queries.get(name) != query.sql or not reads_as_declared(query, schemas)
            }
            gone = dependents(self._queries, changed)
            left = {name: query for name, query in self._queries.items() if name not in gone}
            added = {name: sql for name, sql in queries.items() if name not in left}
            self.refused = {}
            catalog = Catalog.of(streams=schemas.values()).with_queries(left.values())
            planned = self._planned_all(added, catalog)
            # Exchanges that wait begin again with other queries, and with these alone: so do they when this is repeated.
            with self._other_queries() if gone or planned else nullcontext():
                self._remove_all(gone)
                if schemas != self.schemas:
                    for stream in others(self.schemas, schemas):
                        self._leave(stream)
                    self._set_streams(wanted)
                    self._settled_steps.append(StreamsSet(wanted))
                if limits is not None and limits != self.runner.network.account.limits:
                    self.runner.network.account.set_limits(limits)
                    self._settled_steps.append(LimitsSet(limits))
                names = self._add_all(planned)
            last = names[-1:]
            self._settled_steps += [QueryAdded(name, added[name], [name] != last) for name in names]
            self._leave_unread()

        self._change(change)

    def set_windows(self, windows: WindowSettings) -> None:
        """Answer windows with SLIDE AT MOST so from the next settle point on."""

        def change() -> None:
            if windows != self.runner.network.windows:
                self.runner.network.windows = windows
                self._settled_steps.append(WindowsSet(windows))

        self._change(change)

    def set_plan(self, plan: PlanSettings) -> None:
        """Queries run by this plan: those that are added from the next settle point on; those that run once they can.

        They are planned anew beside themselves, and exchanged at the settle point where the new operators know all that the
        old ones know. `plan_kept` says which queries cannot, and why.
        """

        def change() -> None:
            if plan != self.runner.network.plan:
                self._plan_anew(plan)
                self._settled_steps.append(PlanSet(plan))

        self._change(change)

    def _plan_anew(self, plan: PlanSettings) -> None:
        with self._other_queries():
            self.runner.network.plan = plan
            self._find_others()

    def _find_others(self) -> None:
        network = self.runner.network
        self._others = {name: None for name in self._queries if network.planned_as(name) != network.plan}

    @contextmanager
    def _other_queries(self) -> Iterator[None]:
        """Whatever waits for its exchange waits anew, among the queries that there are then."""
        self._drop_twins()
        try:
            yield
        finally:
            self._twin_others()

    def _twin_others(self) -> None:
        network, waits = self.runner.network, dict[str, int]()
        self.plan_kept.clear()
        for name in self._others:
            before, after = (network.arranged(name, one) for one in (network.planned_as(name), network.plan))
            try:
                waits[name] = wait_us(after, set(walk(before)))
            except Unbounded as why:
                self.plan_kept[name] = str(why)
        network.add_twins(*waits)
        for name, wait in waits.items():
            begun = [
                reached for stream in self._timed(name) if (reached := self._reached_us(stream)) is not None
            ]
            self._waiting[name] = max(begun) + wait if begun else 0
            if not wait or not begun:
                self._exchange(name)  # there is nothing that it does not know

    @property
    def is_exchanging(self) -> bool:
        """Whether queries run by two plans at a time, or are about to."""
        return bool(self._waiting or self._changes)

    @property
    def has_given_up(self) -> bool:
        """Whether queries go on by another plan than the class's because there was no room."""
        return NO_ROOM in self.plan_kept.values()

    def running(self) -> Running:
        """What runs, for other plans to be made from it."""
        network = self.runner.network
        return Running(
            queries=tuple(self._queries.values()),
            planned_as={name: network.planned_as(name) for name in self._queries},
            choice=Choice(self.runner.scheduled.policy, network.plan),
            keys=tuple([node.key for node in network.nodes]),
            pane_lengths=network.pane_lengths,
            graphs=dict(self.runner.values.graphs),
            weights=dict(self.runner.values.weights),
            samples=self._samples.by_stream(),
        )

    def _drop_twins(self) -> None:
        self._waiting.clear()
        self.runner.network.drop_twins()

    def _timed(self, name: str) -> list[StreamSchema]:
        """The streams a query reads that have event time."""
        known = {one.lower(): query for one, query in self._queries.items()}
        read = (self.schemas[stream.lower()] for stream in streams(self._queries[name].plan, known))
        return [schema for schema in read if schema.time is not None]

    def _reached_us(self, stream: StreamSchema) -> int | None:
        """The largest event time of a stream so far."""
        latest = self.event_time(stream.name)
        return None if latest is None else latest * stream.time_unit_us

    def _exchange_ready(self) -> None:
        """At a settle point, when nothing is queued: old and new operators have taken the same."""
        network = self.runner.network
        marks = {
            stream.name: reached - stream.lateness_us
            for stream in self.streams()
            if (reached := self._reached_us(stream)) is not None
        }
        ready = [
            name
            for name, until in self._waiting.items()
            if any(mark > until for mark in marks.values())
            and all(stream.name in marks and marks[stream.name] > until for stream in self._timed(name))
        ]
        if network.is_nearly_full() or (ready and network.have_twins_refused()):
            self._give_up()
            self._settled_steps.append(ExchangeGivenUp())
            return
        for name in ready:
            self._exchange(name)
            self._settled_steps.append(Exchanged(name))

    def _exchange(self, name: str) -> None:
        del self._waiting[name], self._others[name]
        self.runner.exchange(name)

    def _give_up(self) -> None:
        self.plan_kept.update(dict.fromkeys(self._waiting, NO_ROOM))
        self._drop_twins()

    def value(self, settings: LiveClass) -> None:
        """What answers are worth from now on, by the class's graph and its queries' own."""
        self._worth(settings)
        self.runner.value({name: self._graph(name) for name in self._queries})

    def weigh(self, settings: LiveClass) -> None:
        """How much the freshness of its queries counts from now on, also of those that are still to come."""
        self._weights = settings.weights
        self.runner.weigh({name: one for name, one in self._weights.items() if name in self._queries})

    def _worth(self, settings: LiveClass) -> None:
        self._class_graph = settings.graph
        self._graphs = {name: UtilityGraph(points=points) for name, points in settings.utilities.items()}

    def _graph(self, name: str) -> UtilityGraph:
        return self._graphs.get(name, self._class_graph)

    def _leave_unread(self) -> None:
        """Leave the streams that no query reads any more."""
        for stream in self._entrances:
            if self.runner.network.source(stream) is None:
                self._leave(stream)

    def _leave(self, stream: str) -> None:
        """Drop by decision what is queued of a stream that no query reads; a later query begins with what comes then."""
        entrance = self._entrances.get(stream)
        if entrance is None or entrance.following == Following():
            return
        self._evict(stream, entrance.tuples)
        self._consume(entrance, 0)
        self._settled_steps += [*self._steps, StreamLeft(stream)]
        self._steps = []
        self._forget_position(stream)

    def _forget_position(self, stream: str) -> None:
        entrance = self._entrances.get(stream)
        if entrance is not None:
            entrance.next_batch, entrance.rows = Following()
        self._unread.pop(stream, None)

    def _set_streams(self, statements: Sequence[str]) -> None:
        """Let queries read these streams and no others; no query reads one that changes."""
        schemas = schemas_of(statements)
        for stream in others(self.schemas, schemas):
            self._end_account(stream)
        self._statements, self.schemas = tuple(statements), schemas
        self._catalog = Catalog.of(streams=schemas.values()).with_queries(self._queries.values())

    def _end_account(self, stream: str) -> None:
        """Keep the account of a stream that the class leaves; only the last ENDED_MAX are kept."""
        entrance = self._entrances.pop(stream, None)
        if entrance is not None:
            self._ended[stream] = entrance.ledger
        while len(self._ended) > ENDED_MAX:
            del self._ended[next(iter(self._ended))]

    def _entrance(self, stream: str) -> Entrance:
        """Return the entrance of a stream; a stream that is read again continues its account."""
        if stream not in self._entrances:
            ledger = self._ended.pop(stream, TupleLedger())
            self._entrances[stream] = Entrance(ledger=ledger, cycle_delivered=ledger.delivered)
        return self._entrances[stream]

    def _change(self, change: Callable[[], None]) -> None:
        self._changes.append(change)
        if self.runner.is_settled():
            self.runner.settle(0.0)

    def _planned(self, name: str, sql: str) -> Query:
        if name in self._queries:
            raise InvalidInput("the class has a query of this name", "query", name, "choose another name")
        return plan_query(name, sql, self._catalog)

    def _planned_all(self, queries: Mapping[str, str], catalog: Catalog) -> list[Query]:
        """Return the plans of the queries that can be planned; a query may read the output of an earlier one."""
        planned = []
        for name, sql in queries.items():
            try:
                planned.append(plan_query(name, sql, catalog))
            except Exception as problem:  # also a mistake of the planner's harms no other query
                self.refused[name] = sentence(problem)
            else:
                catalog = catalog.with_query(planned[-1])
        return planned

    def _add_all(self, planned: Sequence[Query]) -> list[str]:
        """Add queries together, so that their windows share panes; return the names of those that run."""
        if not planned:
            return []
        try:
            self._add(*planned)
        except InvalidInput as problem:
            if len(planned) == 1:
                self.refused[planned[0].name] = sentence(problem)
                return []
            return [name for query in planned for name in self._add_all([query])]
        return [query.name for query in planned]

    def _add(self, *queries: Query) -> None:
        names = [query.name for query in queries]
        self.runner.add(
            *queries,
            graphs={name: self._graph(name) for name in names},
            weights={name: self._weights[name] for name in names if name in self._weights},
        )
        for query in queries:
            self._queries[query.name] = query
            self._catalog = self._catalog.with_query(query)
            self._cycle.add_query(query.name)
        for schema in self.streams():
            stream = schema.name.lower()
            self._entrance(stream)
            for train in self._unread.pop(stream, ()):
                self.runner.offer(stream, train)

    def _remove_all(self, names: Sequence[str]) -> None:
        for name in names:
            self._remove(name)
            self._settled_steps.append(QueryRemoved(name))

    def _remove(self, name: str) -> None:
        for stream, entrance in self._entrances.items():
            node = self.runner.network.source(stream)
            if node is not None and node.users <= {name}:
                assert isinstance(node.operator, SourceOperator)
                entrance.count_late(node.operator.late)
                if node.queue:
                    self._unread[stream] = tuple(node.queue)
        self._answered_before += self.runner.answers.counts[name]
        self.runner.remove(name)
        del self._queries[name]
        self._again = [one for one in self._again if one.query != name]
        self._others.pop(name, None)
        self._widths.pop(name, None)
        self._cycle.remove_query(name)
        self._catalog = Catalog.of(streams=self.schemas.values()).with_queries(self._queries.values())

    def switch(self, policy: PolicySettings) -> None:
        """Run by another policy from the next operator on. No step: what comes out at settle points is the same."""
        self.runner.scheduled.switch(policy)

    # --- input and slices ------------------------------------------------------------------------------

    def begin(self, stream: str, batch: int, rows: int | None = None) -> None:
        """A stream that has not been read yet begins with this batch, and so many rows came before."""
        if self._repeating and self._following.get(stream) == Following():
            self._following[stream] = Following(batch, rows)
        entrance = self._entrances.get(stream)
        if entrance is not None and entrance.next_batch == FROM_NOW:
            entrance.next_batch, entrance.rows = batch, rows

    def take(self, piece: Piece, upto: int = 0) -> None:
        """Queue what a door let in; behind what has to be repeated first. What no query reads is no input.

        `upto` is how many rows the stream has had with it.
        """
        if self.runner.network.source(piece.stream) is not None:
            entrance = self._entrances[piece.stream]
            entrance.cycle_offered += piece.offered
            entrance.cycle_batches += piece.offered > 0
            if self.seen is not None:
                self._samples.add(piece.stream, piece.train)
        if self._repeating:
            self._held.append((piece, upto))
            self._following[piece.stream] = Following(piece.batch + 1, upto)
        else:
            self._queue(piece, upto)

    def _queue(self, piece: Piece, upto: int) -> None:
        if self.runner.network.source(piece.stream) is None:
            return
        self._entrances[piece.stream].let_in(piece, upto)
        self.runner.offer(piece.stream, piece.train)
        if piece.evict:
            self._evict(piece.stream, piece.evict)

    def run(self, quota_s: float, now: Clock, cpu: Clock) -> float:
        """A slice; the processor time used."""
        used = self._repeating.run(quota_s, now, cpu) if self._repeating else 0.0
        self.runner.answers.measures = not self._repeating
        if not self._repeating:
            if self._following:
                self._follow_on()
            self._give_rest(now())
        while self._held and not self._repeating:
            self._queue(*self._held.popleft())
        if used < quota_s and not self._repeating:
            used += self.runner.run(quota_s - used, now, cpu)
        if self._changes and not self._repeating and self.runner.is_settled():
            self.runner.settle(now())  # what was asked for while steps were repeated
        return used

    def _follow_on(self) -> None:
        """Continue streams where repetition has ended; streams with held pieces continue with these."""
        held = {piece.stream for piece, _ in self._held}
        for stream, following in self._following.items():
            entrance = self._entrances.get(stream)
            if entrance is not None and entrance.next_batch == FROM_NOW and stream not in held:
                entrance.next_batch, entrance.rows = following
        self._following.clear()

    def advance(self, stream: str, time: int, now: float) -> None:
        """The clock tells how far event time of an idle stream has come; only where nothing is queued."""
        self._write(Advanced(stream, time, now))
        self.runner.advance(stream, time, now)

    def overdue(self, before: float) -> bool:
        """Return True if tuples that arrived before wait for their lookups."""
        return not self._repeating and bool(self.runner.lookups.overdue(before))

    def release(self, before: float, now: float) -> None:
        """Answer the lookups of tuples that arrived before with the rows there are; only where nothing is queued."""
        for query, upto_us in sorted(self.runner.lookups.overdue(before).items()):
            self._write(Released(query, upto_us, now))
            self.runner.release(query, upto_us, now)

    def event_time(self, stream: str) -> int | None:
        """The largest event time that the stream has come to."""
        node = self.runner.network.source(stream)
        if node is None:
            return None
        assert isinstance(node.operator, SourceOperator)
        return node.operator.latest

    def rest(self, now: Clock) -> None:
        """Come to a settle point now: until nothing is queued inside, which takes a train's work at most."""
        if not self._repeating:
            self.runner.drain(now)

    @property
    def repeating(self) -> bool:
        """Whether something that was committed is still to be repeated."""
        return bool(self._repeating)

    def has_input(self) -> bool:
        return bool(self._repeating or self._held) or self.runner.has_input()

    def queued(self, stream: str) -> int:
        """Tuples of the stream that no operator has taken."""
        return self._entrances[stream].tuples if stream in self._entrances else 0

    def held(self, stream: str) -> int:
        """Tuples that wait until everything is repeated; the ledger does not know them yet."""
        return sum(len(piece.train) for piece, _ in self._held if piece.stream == stream)

    def committed(self) -> Commit | None:
        """What has settled since it was last asked for, with the number of answers there are now."""
        if not self._settled_steps and not self._settled_answers:
            return None
        commit = Commit(
            tuple(self._settled_steps), tuple(self._settled_answers), dict(self.runner.answers.counts)
        )
        self._settled_steps, self._settled_answers, self._settled_bytes = [], [], 0
        return commit

    # --- the load cycle --------------------------------------------------------------------------------

    def end_cycle(self, now: float, used_s: float, ran_dry: bool = False) -> CycleEnded:
        """What the load manager is shown, and a new cycle begun; `used_s` is what its slices have taken in this one."""
        # What repeating costs is not observed by operator.
        observed = not self._repeating
        cycle = self._cycle.end(now, used_s, self.target_s, self.runner, self._entrances, observed)
        return replace(cycle, ran_dry=ran_dry)

    def notice(self) -> None:
        """Begin to look at answers and input anew, with slowdowns by what an answer costs now."""
        self._samples = Samples()
        self.seen = ResponseStatistics(self.target_s)
        self._alone = self.runner.scheduled.alone()

    def trim(self, part: float) -> None:
        """Drop this part of what no operator has taken, the oldest first."""
        if not self._repeating:
            for stream, entrance in self._entrances.items():
                self._evict(stream, int(part * entrance.tuples))

    def drop_older(self, age_s: float, now: float) -> int:
        """Drop what has waited for longer than this without being taken by an operator; return how many tuples."""
        if self._repeating:
            return 0
        return sum(self._evict(stream, self._older(stream, now - age_s)) for stream in list(self._entrances))

    def _older(self, stream: str, before: float) -> int:
        node = self.runner.network.source(stream)
        return 0 if node is None else node.older(before)

    def _missing(self, stream: str) -> LateRows | None:
        node = self.runner.network.source(stream)
        return None if node is None else node.missing

    def _set_missing(self, stream: str, rows: LateRows | None) -> None:
        node = self.runner.network.source(stream)
        if node is not None:
            node.missing = rows

    def wake(self, now: float) -> None:
        """The first cycle after sleep begins."""
        self._cycle.begin(now)

    def ledger(self, stream: str) -> TupleLedger:
        """The account of one stream; it closes with `queued`."""
        account, node = self._entrances[stream].ledger, self.runner.network.source(stream)
        if node is None:
            return replace(account)
        assert isinstance(node.operator, SourceOperator)
        late = node.operator.late
        return replace(account, delivered=account.delivered - late, late=account.late + late)

    def accounts(self) -> dict[str, tuple[TupleLedger, int]]:
        """Return by stream the account and the tuples that are queued, also of streams that the class has left."""
        ended = {stream: (replace(ledger), 0) for stream, ledger in self._ended.items()}
        return {stream: (self.ledger(stream), self.queued(stream)) for stream in self._entrances} | ended

    @property
    def answers(self) -> int:
        """Number of answers since the class began, also of queries that were removed."""
        return self._answered_before + sum(self.runner.answers.counts.values())

    # --- recovery --------------------------------------------------------------------------------------

    def state(self) -> bytes | None:
        """Everything at a settle point; None between two of them, or with a commit that nobody has asked for."""
        open_ends = self._steps or self._settled_steps or self._settled_answers or self._held
        if self._repeating or open_ends or not self.runner.is_settled():
            return None
        streams = {
            stream: (entrance.begun_ledger, replace(entrance.position, missing=self._missing(stream)))
            for stream, entrance in self._entrances.items()
        }
        network = self.runner.network
        queries = [
            (name, query.sql, network.planned_as(name).model_dump()) for name, query in self._queries.items()
        ]
        settings = network.windows.model_dump(), network.plan.model_dump(), self._waiting, self.plan_kept
        reads_from = self._statements, network.account.limits.model_dump()
        ended = dict(self._ended), self._answered_before
        state = STATE_VERSION, reads_from, queries, settings, self.runner.settled_state(), streams, ended
        return pickle.dumps(state, protocol=5)

    def recover(self, state: bytes | None, commits: Sequence[Commit], fetch: Fetch) -> None:
        """Go on from a state by repeating what was committed after it, within the slices to come."""
        self._fetch = fetch
        if state is not None:
            version, *held = pickle.loads(state)
            if version != STATE_VERSION:
                raise InvalidInput(
                    "the state is of another version", "state", version, "let its host finish first"
                )
            (statements, limits), queries, (windows, plan, waiting, kept), runner_state, streams, *more = held
            self._drop_twins()
            for name in dependents(self._queries, set(self._queries)):
                self._remove(name)
            self._unread.clear()
            self._set_streams(statements)
            self.runner.network.account.set_limits(ClassLimits.model_validate(limits))
            self.runner.network.windows = WindowSettings.model_validate(windows)
            self.runner.network.expect(runner_state.pane_lengths)
            for planned_as, some in groupby(queries, itemgetter(2)):
                self.runner.network.plan = PlanSettings.model_validate(planned_as)
                self._add_all(self._planned_all({name: sql for name, sql, _ in some}, self._catalog))
            self.runner.network.plan = PlanSettings.model_validate(plan)
            self._find_others()
            self._waiting = {name: until for name, until in waiting.items() if name in self._queries}
            self.runner.network.add_twins(*self._waiting)
            self.plan_kept = kept
            self.runner.restore(runner_state)
            for stream, (ledger, position) in streams.items():
                entrance = self._entrances[stream] = Entrance(
                    ledger=ledger, next_batch=position.batch, rows=position.rows
                )
                self._set_missing(stream, position.missing)
                if position.opened is not None:
                    self._reopen(entrance, position.opened, position.done)
                    entrance.begun = bool(entrance.queued)
            # States of older versions have no ended accounts.
            self._ended, self._answered_before = more[0] if more else ({}, 0)
        self._repeating = Repetition(self._repeat, self._check, commits)
        self.runner.answers.measures = not self._repeating
        self._following = {}
        for step in (step for commit in commits for step in commit.steps):
            match step:
                case Opened(stream, batch):
                    self._following[stream] = Following(batch + 1, step.upto)
                case StreamLeft(stream):
                    self._following[stream] = Following()

    def positions(self) -> Mapping[str, int]:
        """By stream, the first batch that a state made now would not do without."""
        return {stream: entrance.position.batch for stream, entrance in self._entrances.items()}

    def following(self) -> Mapping[str, Following]:
        """By stream, where to read on."""
        following = self._following if self._repeating else {}
        return {
            stream: following.get(stream, entrance.following) for stream, entrance in self._entrances.items()
        }

    def _reopen(self, entrance: Entrance, opened: Opened, done: int) -> None:
        """Queue a batch's tuples as its door let them in the first time."""
        entrance.next_batch = opened.batch + 1
        left = opened.inside - done
        if not left:
            entrance.leave(opened)
            return
        entrance.queue(opened, left)
        if self.runner.network.source(opened.stream) is None:
            return  # nothing reads it: it is about to be dropped
        assert self._fetch is not None
        train = self._fetch(opened.stream, opened.batch)
        types = tuple(field.type for field in self.schemas[opened.stream].schema.fields)
        if train is None or tuple(column.type for column in train.columns) != types:
            self.mismatches.add(f"batch {opened.batch} of {opened.stream} is not kept any more")
            entrance.lose_last()
            return
        places = unpacked(opened.mask, len(train))
        train = train if places is None else train.take(places)
        train.kept = opened.kept
        self.runner.offer(opened.stream, train.slice(done, len(train)))

    def _repeat(self, step: Step, now: Clock) -> None:
        match step:
            case Opened(stream):
                entrance = self._entrance(stream)
                entrance.enter(step)
                self._reopen(entrance, step, 0)
            case Took(stream, tuples):
                self.runner.take_next(stream, tuples, now)
            case Evicted(stream, tuples):
                self._evict(stream, tuples)
            case Advanced(stream, time, at):
                self.runner.advance(stream, time, at)
                self.runner.drain(now)
            case Released(query, upto_us, at):
                self.runner.release(query, upto_us, at)
                self.runner.drain(now)
            case QueryAdded(name, sql, with_next):
                self._to_add[name] = sql
                if not with_next:
                    added = {one: sql for one, sql in self._to_add.items() if one not in self._queries}
                    with self._other_queries():
                        self._add_all(self._planned_all(added, self._catalog))
                    self._to_add = {}
            case QueryRemoved(name):
                if name in self._queries:
                    with self._other_queries():
                        self._remove(name)
            case StreamLeft(stream):
                self._forget_position(stream)
            case StreamsSet(statements):
                self._set_streams(statements)
            case LimitsSet(limits):
                self.runner.network.account.set_limits(limits)
            case WindowsSet(windows):
                self.runner.network.windows = windows
            case PlanSet(plan):
                self._plan_anew(plan)
            case Exchanged(name):
                if name in self._waiting:
                    self._exchange(name)
            case ExchangeGivenUp():
                self._give_up()

    def _check(self, commit: Commit) -> None:
        """Whether the answers are as many as the first time; theirs are the numbers that readers know."""
        interrupted = commit.steps[-1:] == (Interrupted(),)
        for query, count in commit.answered.items():
            found = self.runner.answers.counts.get(query)
            if found is None or found == count or (interrupted and found > count):
                continue
            self.mismatches.add(f"{query}: {found} answers after repeating, {count} were committed")
            self.runner.answers.counts[query] = count
        known = commit.answered
        self._again = [one for one in self._again if interrupted and one.first >= known.get(one.query, 0)]

    def _give_rest(self, now: float) -> None:
        """What was repeated led to answers that had not come when the class ended."""
        rest, self._again = self._again, []
        for answer in rest:
            self.runner.answers.quality[answer.query].answered(answer.train.arrival, now)
            self._give(answer, now)

    # --- what the runner tells -------------------------------------------------------------------------

    def took(self, stream: str, tuples: int) -> None:
        """A source operator has taken tuples: write down which batches were begun."""
        entrance = self._entrances[stream]
        entrance.ledger.delivered += tuples
        self._consume(entrance, tuples)
        self._write(Took(stream, tuples))

    def _consume(self, entrance: Entrance, tuples: int) -> None:
        for opened in entrance.consume(tuples):
            self._write(opened)

    def _write(self, step: Step) -> None:
        if not self._repeating:  # what is repeated is written down already
            self._steps.append(step)

    def _evict(self, stream: str, tuples: int) -> int:
        entrance = self._entrances[stream]
        is_read = self.runner.network.source(stream) is not None
        gone = self.runner.evict(stream, tuples) if is_read else min(tuples, entrance.tuples)
        if gone:
            entrance.ledger.shed += gone
            self._consume(entrance, gone)
            self._write(Evicted(stream, gone))
        return gone

    def _answer(self, query: str, train: Train) -> None:
        answer = Answer(query, self.runner.answers.counts[query], train)
        if self._repeating:
            self._again.append(answer)
        else:
            self._give(answer, self.runner.answers.handed_out_at)

    def _give(self, answer: Answer, now: float) -> None:
        query, train = answer.query, answer.train
        results, arrival = len(train), train.arrival
        if is_same(arrival):
            response_s = now - arrival.item(0)
            self._cycle.answered(query, results, response_s * results)
            # The answers of a train came at one time, and mostly of one arrival.
            self._same[response_s] = self._same.get(response_s, 0) + results
        else:
            self._cycle.answered(query, results, now * results - float(arrival.sum()))
            self.responses.add_array(now - arrival, 0.0)
            self.recent.add_array(now - arrival, 0.0)
        if self.seen is not None:
            alone = self._alone.get(query, UNKNOWN)
            self.seen.add_array(now - arrival, alone.ideal_s, alone.apart_s)
        self._settled_answers.append(answer)
        width = self._widths.get(query)
        if width is None:
            width = self._widths[query] = tuple_bytes(train)
        self._settled_bytes += results * width or train_bytes(train)

    def settled(self) -> bool:
        """Nothing is queued inside: what has been done is complete. Whether more may be done before it is committed."""
        self._measure_same()
        for entrance in self._entrances.values():
            if entrance.queued and not entrance.queued[0][1]:
                self._consume(entrance, 0)  # batches of which nothing was let in
        self._settled_steps += self._steps
        self._steps = []
        while self._changes and not self._repeating:
            self._changes.popleft()()
        if self._waiting and not self._repeating:
            self._exchange_ready()
        return self._settled_bytes <= self.answers_max

    def interrupted(self) -> None:
        """Some of what the steps so far lead to has been handed out."""
        self._measure_same()
        self._settled_steps += [*self._steps, Interrupted()]
        self._steps = []

    def _measure_same(self) -> None:
        for response_s, results in self._same.items():
            self.responses.add_same(response_s, results)
            self.recent.add_same(response_s, results)
        self._same.clear()


def schemas_of(statements: Sequence[str]) -> dict[str, StreamSchema]:
    """Return the streams that CREATE STREAM statements declare, by name in small letters."""
    return {one.name.lower(): one for one in map(parse_create_stream, statements)}


def others(before: Mapping[str, StreamSchema], after: Mapping[str, StreamSchema]) -> list[str]:
    """Return names of streams that are gone or have changed."""
    return [name for name, schema in before.items() if after.get(name) != schema]


def reads_as_declared(query: Query, schemas: Mapping[str, StreamSchema]) -> bool:
    """Return True if all streams that a query reads itself are declared with the columns it was planned with."""
    scans = (source.stream for source in sources(query.plan) if isinstance(source, Scan))
    return all(schemas.get(stream.name.lower()) == stream for stream in scans)
