"""Recovery of a class: repeats the steps of its commits in their order, so that the class reaches the same state again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from engine.class_ import steps
from engine.class_.class_input import ClassInput
from engine.class_.class_queries import ClassQueries
from engine.class_.commit_buffer import CommitBuffer
from engine.class_.door import Piece, unpacked
from engine.class_.input_account import Entrance, StreamPosition, enter
from engine.class_.query_exchanges import QueryExchanges
from engine.class_.runner import ClassRunner, Clock
from engine.class_.steps import Commit, Interrupted, Opened, Step
from engine.data.train import Train

# Function that returns the tuples of a batch by stream and batch number; None if the batch is not stored any more.
Fetch = Callable[[str, int], Train | None]


# Maximum number of differences that are kept as text: a defect may cause a difference in every commit.
MISMATCHES_KEPT = 100


@dataclass
class Mismatches:
    """Differences between the repetition and the first run.

    The first MISMATCHES_KEPT differences are kept as texts; all further differences are only counted.
    """

    _first: list[str] = field(init=False, default_factory=list)
    _more: int = field(init=False, default=0)

    def add(self, what: str) -> None:
        if len(self._first) < MISMATCHES_KEPT:
            self._first.append(what)
        else:
            self._more += 1

    def __bool__(self) -> bool:
        return bool(self._first)

    def __iter__(self) -> Iterator[str]:
        yield from self._first
        if self._more:
            yield f"and {self._more:,} more"


class CommitReplay:
    """Repeats the steps of commits, and holds input that arrives meanwhile.

    The truth value of a replay is False once all commits are repeated and no input is held.
    """

    def __init__(
        self,
        *,
        runner: ClassRunner,
        queries: ClassQueries,
        exchanges: QueryExchanges,
        input_: ClassInput,
        buffer: CommitBuffer,
    ) -> None:
        self.mismatches = Mismatches()
        self._runner, self._buffer = runner, buffer
        self._queries, self._exchanges, self._input = queries, exchanges, input_
        self.fetch: Fetch = lambda stream, batch: None
        self._commits: deque[Commit] = deque()
        # Steps of the first commit in `_commits` that are still to be repeated.
        self._steps: deque[Step] = deque()
        # Queries that one change added together, collected until all steps of that change are repeated.
        self._to_add: dict[str, str] = {}
        self._held: deque[tuple[Piece, int]] = deque()
        self._following: dict[str, StreamPosition] = {}  # Position of each stream after the repetition

    def __bool__(self) -> bool:
        return self._buffer.is_repeating or bool(self._held)

    def begin(self, commits: Sequence[Commit]) -> None:
        """Set the commits that the following slices repeat."""
        self._commits, self._steps = deque(commits), deque()
        self._buffer.is_repeating = bool(commits)
        self._runner.answers.measures = not commits
        self._following = {}
        for step in (step for commit in commits for step in commit.steps):
            match step:
                case Opened(stream, batch):
                    self._following[stream] = StreamPosition(batch + 1, step.upto)
                case steps.StreamLeft(stream):
                    self._following[stream] = StreamPosition()

    def run(self, quota_s: float, now: Clock, cpu: Clock) -> float:
        """Repeat steps until the slice's processor time is used or no step is left; return the processor time used."""
        used_s = self._repeat_for(quota_s, now, cpu) if self._commits else 0.0
        self._runner.answers.measures = not self._commits
        if not self._commits and self._following:
            self._continue_streams()
        return used_s

    def _repeat_for(self, quota_s: float, now: Clock, cpu: Clock) -> float:
        """Repeat steps for `quota_s` seconds of processor time, and check each commit after its last step; return the time used."""
        began = cpu()
        while self._commits and cpu() - began < quota_s:
            if not self._steps:
                self._steps.extend(self._commits[0].steps)
            if self._steps:
                self._repeat(self._steps.popleft(), now)
            if not self._steps:
                commit = self._commits.popleft()
                self._buffer.is_repeating = bool(self._commits)
                self._check(commit)
        return cpu() - began

    def following(self) -> dict[str, StreamPosition]:
        """Return, by stream, the position at which reading continues after the repetition; empty if no commits are being repeated."""
        return self._following if self._commits else {}

    def stream_begins(self, stream: str, following: StreamPosition) -> None:
        """Set the position at which a query that is added later begins to read the stream.

        The position matters only for a stream that no query reads after the repetition.
        """
        if self._commits and self._following.get(stream) == StreamPosition():
            self._following[stream] = following

    def hold(self, piece: Piece, upto: int) -> None:
        """Hold the tuples of a batch that a door let in, and queue the tuples once all steps are repeated."""
        self._held.append((piece, upto))
        self._following[piece.stream] = StreamPosition(piece.batch + 1, upto)

    def queue_held(self) -> None:
        while self._held:
            self._input.queue(*self._held.popleft())

    def held(self, stream: str) -> int:
        """Return the number of the stream's held tuples, which the ledger does not count yet."""
        return sum(len(piece.train) for piece, _ in self._held if piece.stream == stream)

    def _continue_streams(self) -> None:
        """Set the position at which each stream is read after the repetition.

        Streams with held batches are left out: they continue with the held batches.
        """
        held = {piece.stream for piece, _ in self._held}
        for stream, following in self._following.items():
            if stream not in held:
                self._input.set_next(stream, following)
        self._following.clear()

    def reopen(self, entrance: Entrance, opened: Opened, done: int) -> None:
        """Queue the tuples of a batch that the door let in during the first run.

        The first `done` of these tuples are left out, because they were already taken or dropped.
        """
        entrance.next_batch = opened.batch + 1
        left = opened.inside - done
        if not left:
            entrance.leave(opened)
            return
        entrance.queue(opened, left)
        if self._runner.network.source(opened.stream) is None:
            return  # No query reads the stream, so a later step drops the batch
        train = self.fetch(opened.stream, opened.batch)
        types = tuple(field.type for field in self._queries.schemas[opened.stream].schema.fields)
        if train is None or tuple(column.type for column in train.columns) != types:
            self.mismatches.add(f"batch {opened.batch} of stream {opened.stream} is not kept any more")
            entrance.lose_last()
            return
        places = unpacked(opened.mask, len(train))
        train = train if places is None else train.take(places)
        train.kept = opened.kept
        self._runner.offer(opened.stream, train.slice(done, len(train)))

    def _repeat(self, step: Step, now: Clock) -> None:
        runner = self._runner
        match step:
            case Opened(stream):
                entrance = self._input.open(stream)
                enter(entrance.ledger, step)
                self.reopen(entrance, step, 0)
            case steps.Took(stream, tuples):
                runner.take_next(stream, tuples, now)
            case steps.Evicted(stream, tuples):
                self._input.evict(stream, tuples)
            case steps.Advanced(stream, time, at):
                runner.advance(stream, time, at)
                runner.drain(now)
            case steps.LookupsReleased(query, upto_us, at):
                runner.release(query, upto_us, at)
                runner.drain(now)
            case steps.QueryAdded(name, sql, with_next):
                self._to_add[name] = sql
                if not with_next:
                    self._add()
            case steps.QueryRemoved(name):
                if name in self._queries.by_name:
                    with self._exchanges.restarted():
                        self._queries.remove(name)
            case steps.StreamLeft(stream):
                self._input.forget_position(stream)
            case steps.StreamsSet(statements):
                self._queries.set_streams(statements)
            case steps.LimitsSet(limits):
                runner.network.account.set_limits(limits)
            case steps.WindowsSet(windows):
                runner.network.windows = windows
            case steps.PlanSet(plan):
                self._exchanges.set_plan(plan)
            case steps.Exchanged(name):
                self._exchanges.exchange(name)
            case steps.ExchangeGivenUp():
                self._exchanges.give_up()

    def _add(self) -> None:
        running = self._queries.by_name
        added = {name: sql for name, sql in self._to_add.items() if name not in running}
        with self._exchanges.restarted():
            self._queries.plan_and_add(added)
        self._to_add = {}

    def _check(self, commit: Commit) -> None:
        """Compare the numbers of answers with the committed numbers of the first run, and record each difference.

        The counts then continue from the committed numbers, because readers of the answers rely on these numbers.
        """
        interrupted = commit.steps[-1:] == (Interrupted(),)
        counts = self._runner.answers.counts
        for query, committed in commit.answered.items():
            count = counts.get(query)
            if count is None or count == committed or (interrupted and count > committed):
                continue
            self.mismatches.add(
                f"query {query}: {count} answers after repeating its steps, but {committed} were committed"
            )
            counts[query] = committed
        self._buffer.check(commit)
