"""A producer that replays tables at rates that follow a plan: a process of its own, told what to do through a pipe.

    feeder = Feeder(door, inputs, "ts", period_ms)
    feeder.offer({"class1": StepArrivals(…), …})      tuples a second from now on; without a plan, all that is taken
    feeder.offered()                                  counts since its making
    feeder.stop()

Input of a class is some streams, whose tables go on in event time where their last lap ended; event time runs as fast
as the rate demands. What costs time is done once: a batch of a lap is a message of which each lap only changes the
times. That and three copies are all, so one core offers what several could work on (bench/RESULTS.md).

A feeder that falls behind its plan makes up for `CATCH_UP_S` of it; what is more is missed, and counted.
"""

from __future__ import annotations

import signal
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from actors.gateway.producer import Producer
from actors.messages.gateway_messages import Accepted, RefusedBatch
from configs.scenario.arrivals import StepArrivals

# Between two batches of a class; at high rates there are several at a time.
TICK_S = 0.01
# Of one batch: a train of an operator is not longer, and a message stays below a megabyte.
ROWS_MAX = 10_000
CATCH_UP_S = 0.1
STOP_S = 5.0

Inputs = Mapping[str, Mapping[str, pa.Table]]
"""By class and stream, what is replayed; event times in milliseconds from one beginning on, in order."""


@dataclass(frozen=True, slots=True)
class OfferedTuples:
    """Tuples by class."""

    at: float
    """By the clock of the feeder, which is that of all processes of the node."""
    accepted: Mapping[str, int]
    missed: Mapping[str, int]
    """Tuples that the plan would have had, and that came too late to be offered."""
    cpu_s: float
    """Processor time of the feeder."""


class Feeder:
    """The process that feeds, as its starter sees it."""

    def __init__(self, door: Path, inputs: Inputs, time_column: str, period_ms: int) -> None:
        # Not a fork: this process has threads.
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        arguments = (theirs, door, inputs, time_column, period_ms)
        self._process = context.Process(target=feed, args=arguments, name="feeder", daemon=True)
        self._process.start()
        theirs.close()

    def offer(self, plan: Mapping[str, StepArrivals] | None) -> OfferedTuples:
        """Begin the plan; what was offered before. EOFError or OSError if the feeder has ended, here and below."""
        return self._asked(("offer", plan))

    def offered(self) -> OfferedTuples:
        return self._asked(("offered", None))

    def stop(self) -> None:
        """Idempotent."""
        self._pipe.close()
        self._process.join(STOP_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def _asked(self, what: tuple[str, Any]) -> OfferedTuples:
        self._pipe.send(what)
        answer: OfferedTuples = self._pipe.recv()
        return answer


def feed(pipe: Connection, door: Path, inputs: Inputs, time_column: str, period_ms: int) -> None:
    """Until the other end of the pipe is closed."""
    # Ctrl-C is for the starter, who ends this process in its turn.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Producer(door) as producer:
        sources = {}
        for name, tables in inputs.items():
            begin = min(table.column(time_column)[0].as_py() for table in tables.values())
            replays = {
                stream: StreamReplay(
                    table.select(agreed(producer, stream, table).names), time_column, begin, period_ms
                )
                for stream, table in tables.items()
            }
            sources[name] = ReplaySource(replays, period_ms)
        try:
            serve(pipe, producer, sources)
        except (EOFError, BrokenPipeError):
            return


def agreed(producer: Producer, stream: str, table: pa.Table) -> pa.Schema:
    columns = producer.columns(stream, table.schema)
    if isinstance(columns, RefusedBatch):
        raise ValueError(f"stream {stream}: {columns.reason}")
    return columns


def serve(pipe: Connection, producer: Producer, sources: Mapping[str, ReplaySource]) -> None:
    """The feeder's loop: what is asked first, then the source whose turn it is."""
    idle = True
    while True:
        turn = min(sources.values(), key=lambda source: source.next_at)
        wait_s = None if idle else max(0.0, turn.next_at - time.monotonic())
        if pipe.poll(wait_s):
            request, plan = pipe.recv()
            now = time.monotonic()
            if request == "offer":
                idle = False
                for place, (name, source) in enumerate(sources.items()):
                    # Classes take turns within a tick, so that batches do not come in bursts of all.
                    source.begin(plan[name] if plan is not None else None, now, TICK_S * place / len(sources))
            pipe.send(counted(sources, now))
        elif not idle:
            turn.go_on(producer, time.monotonic())


def counted(sources: Mapping[str, ReplaySource], now: float) -> OfferedTuples:
    return OfferedTuples(
        now,
        {name: source.accepted for name, source in sources.items()},
        {name: round(source.missed) for name, source in sources.items()},
        time.process_time(),
    )


@dataclass
class ReplaySource:
    """One class: its streams side by side in event time, and what it owes by the plan."""

    replays: Mapping[str, StreamReplay]
    period_ms: int
    next_at: float = field(init=False, default=0.0)
    accepted: int = field(init=False, default=0)
    missed: float = field(init=False, default=0.0)
    _pace: Pace | None = field(init=False, default=None)
    _position_ms: int = field(init=False, default=0)
    _pending: deque[tuple[str, ReplayBatch]] = field(init=False, default_factory=deque)
    _pending_ms: int = field(init=False, default=0)

    def begin(self, plan: StepArrivals | None, now: float, after_s: float) -> None:
        self._pace = None if plan is None else Pace(plan, now, self.tuples_per_ms)
        self.next_at = now + after_s

    @property
    def tuples_per_ms(self) -> float:
        return sum(replay.rows for replay in self.replays.values()) / self.period_ms

    def go_on(self, producer: Producer, now: float) -> None:
        """Offer what is due."""
        self.next_at = now + TICK_S
        span_ms = max(1, int(ROWS_MAX / self.tuples_per_ms))
        if self._pace is None:
            self.next_at = now
            self._send(producer, span_ms, now)
            return
        self.missed += self._pace.owe(now)
        # As seldom as batches of a tick's length ask for, as often as those of most rows do.
        span_ms = max(1, min(span_ms, round(self._pace.speed * TICK_S)))
        while self._pace.owed_ms >= span_ms:
            sent_ms = self._send(producer, span_ms, now)
            if not sent_ms:
                return
            self._pace.owed_ms -= sent_ms

    def _send(self, producer: Producer, span_ms: int, now: float) -> int:
        """The next span of event time; 0 if it is not wholly taken yet, and will be tried again."""
        if not self._pending:
            self._pending_ms = self._cut(span_ms)
        while self._pending:
            stream, message = self._pending[0]
            answer = producer.publish_message(stream, message.rows, message.stamped)
            if not isinstance(answer, Accepted):
                if answer.retry_after_s is None:
                    raise ValueError(f"stream {stream}: {answer.reason}")
                self.next_at = now + answer.retry_after_s
                return 0
            self.accepted += message.rows
            self._pending.popleft()
        return self._pending_ms

    def _cut(self, span_ms: int) -> int:
        """Cuts are at multiples of the span in each lap, so that every lap has the same messages."""
        lap, begin = divmod(self._position_ms, self.period_ms)
        end = min((begin // span_ms + 1) * span_ms, self.period_ms)
        for stream, replay in self.replays.items():
            message = replay.message(lap, begin, end, span_ms)
            if message.rows:
                self._pending.append((stream, message))
        self._position_ms += end - begin
        return end - begin


@dataclass
class Pace:
    """How much event time a plan asks for."""

    plan: StepArrivals
    began: float
    tuples_per_ms: float
    owed_ms: float = field(init=False, default=0.0)
    _last: float = field(init=False)

    def __post_init__(self) -> None:
        self._last = self.began

    @property
    def speed(self) -> float:
        """Event milliseconds a second, of late."""
        return self._rate(self._last) / self.tuples_per_ms

    def owe(self, now: float) -> float:
        """Count the time up to now; tuples that are given up because too much is owed."""
        most_ms = 1.0
        for begin, end in self._parts(self._last, now):
            speed = self._rate(begin) / self.tuples_per_ms
            self.owed_ms += (end - begin) * speed
            most_ms = max(most_ms, speed * CATCH_UP_S)
        self._last = now
        missed_ms = max(0.0, self.owed_ms - most_ms)
        self.owed_ms -= missed_ms
        return missed_ms * self.tuples_per_ms

    def _rate(self, at: float) -> float:
        """Tuples a second."""
        return next(step.rate for step in reversed(self.plan.steps) if self.began + step.at_s <= at)

    def _parts(self, begin: float, end: float) -> Sequence[tuple[float, float]]:
        """The time between, cut where the rate changes."""
        changes = [at for step in self.plan.steps if begin < (at := self.began + step.at_s) < end]
        return list(zip([begin, *changes], [*changes, end], strict=True))


class StreamReplay:
    """The messages of one stream."""

    def __init__(self, table: pa.Table, time_column: str, begin_ms: int, period_ms: int) -> None:
        (self._batch,) = table.combine_chunks().to_batches()
        self._time_column, self._period_ms = time_column, period_ms
        self._since = self._batch.column(time_column).to_numpy() - begin_ms
        self.rows: int = table.num_rows
        self._messages: dict[tuple[int, int], ReplayBatch] = {}
        self._span_ms = 0

    def message(self, lap: int, begin_ms: int, end_ms: int, span_ms: int) -> ReplayBatch:
        """The rows of an interval of the lap; good until the same interval is asked for again."""
        if span_ms != self._span_ms:
            self._messages.clear()
            self._span_ms = span_ms
        message = self._messages.get((begin_ms, end_ms))
        if message is None:
            first, last = np.searchsorted(self._since, (begin_ms, end_ms))
            message = ReplayBatch(self._batch.slice(first, last - first), self._time_column)
            self._messages[begin_ms, end_ms] = message
        message.stamp(lap * self._period_ms)
        return message


class ReplayBatch:
    """A batch as it is sent, of which the times can be moved."""

    def __init__(self, batch: pa.RecordBatch, time_column: str) -> None:
        self.rows = batch.num_rows
        self.stamped = bytearray(batch.serialize())
        whole = pa.py_buffer(self.stamped)
        column = pa.ipc.read_record_batch(whole, batch.schema).column(time_column)
        place = column.buffers()[1].address - whole.address if self.rows else 0
        self._times: npt.NDArray[np.int64] = np.frombuffer(self.stamped, np.int64, self.rows, place)
        self._by_ms = 0

    def stamp(self, by_ms: int) -> None:
        """Move the times so far from where they were at first."""
        self._times += by_ms - self._by_ms
        self._by_ms = by_ms
