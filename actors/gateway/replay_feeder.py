"""Load generator: a producer process that replays tables at scheduled rates and is controlled through a pipe.

The input of a class is one table for each of its streams. The table is replayed endlessly. Each pass over the table, a *lap*,
continues in event time where the previous lap ended. The rate determines how fast event time advances. Each batch of a lap is
serialized once; later laps only change its event times. Thus one processor offers as much as several processors can process
(bench/RESULTS.md).

    feeder = Feeder(door, inputs, "ts", period_ms)
    feeder.offer({"class1": StepArrivals(…), …})      replay at these rates in tuples per second; with None, at full speed
    feeder.offered()                                  counts since the process started
    feeder.stop()

A feeder that is behind the scheduled rates catches up by at most the tuples of `CATCH_UP_S` seconds; it counts the others as missed.
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

# Seconds between two turns of a class; at high rates, several batches of the class are sent in one turn.
TICK_S = 0.01
# Maximum number of rows in a batch. Such a batch still fits into one train, and into a message of one megabyte.
ROWS_MAX = 10_000
CATCH_UP_S = 0.1
STOP_S = 5.0

Inputs = Mapping[str, Mapping[str, pa.Table]]
"""Tables to replay, by class and stream. Rows are in order of event time, which is in milliseconds on a common time scale."""


@dataclass(frozen=True, slots=True)
class OfferedTuples:
    """Counts of offered tuples, by class."""

    at: float
    """Time of the counts by the monotonic clock, which all processes of the node share."""
    accepted: Mapping[str, int]
    missed: Mapping[str, int]
    """Planned tuples that were not offered because the feeder was too far behind."""
    cpu_s: float
    """Processor time of the feeder."""


class Feeder:
    """Handle of a feeder process. Its methods raise EOFError or OSError if the process has ended."""

    def __init__(self, door: Path, inputs: Inputs, time_column: str, period_ms: int) -> None:
        # The feeder process is spawned and not forked, because the starting process has threads.
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        arguments = (theirs, door, inputs, time_column, period_ms)
        self._process = context.Process(target=feed, args=arguments, name="feeder", daemon=True)
        self._process.start()
        theirs.close()

    def offer(self, plan: Mapping[str, StepArrivals] | None) -> OfferedTuples:
        """Replay the files at the planned rates from now on, or at full speed without a plan. Return how many tuples were offered before."""
        return self._asked(("offer", plan))

    def offered(self) -> OfferedTuples:
        return self._asked(("offered", None))

    def stop(self) -> None:
        """End the process; kill it if it does not end within STOP_S. May be called again."""
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
    """Run the feeder process until the other end of the pipe is closed."""
    # Ctrl-C must only end the starting process, which then stops the feeder process.
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
    """Serve requests from the pipe. Between requests, offer the batches of the class that is due first."""
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
                    # The classes begin at different times within TICK_S; otherwise the batches of all classes would come in one burst.
                    source.begin(plan[name] if plan is not None else None, now, TICK_S * place / len(sources))
            accepted = {name: source.accepted for name, source in sources.items()}
            missed = {name: round(source.missed) for name, source in sources.items()}
            pipe.send(OfferedTuples(now, accepted, missed, time.process_time()))
        elif not idle:
            turn.go_on(producer, time.monotonic())


@dataclass
class ReplaySource:
    """Generator of the input of one class: replays all streams of the class up to the same event time, at the scheduled rate."""

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
        """Offer the batches that are due at the scheduled rate, or one batch if no rate is set."""
        self.next_at = now + TICK_S
        span_ms = max(1, int(ROWS_MAX / self.tuples_per_ms))
        if self._pace is None:
            self.next_at = now
            self._send(producer, span_ms, now)
            return
        self.missed += self._pace.owe(now)
        # A batch covers the event time of one tick, unless that would be more than ROWS_MAX rows.
        span_ms = max(1, min(span_ms, round(self._pace.speed * TICK_S)))
        while self._pace.owed_ms >= span_ms:
            sent_ms = self._send(producer, span_ms, now)
            if not sent_ms:
                return
            self._pace.owed_ms -= sent_ms

    def _send(self, producer: Producer, span_ms: int, now: float) -> int:
        """Send all batches of the next span of event time, and return the span in ms. Return 0 if a refused batch must be retried."""
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
        """Queue the batches of the next span. Spans end at multiples of `span_ms`, so that all laps have the same batches."""
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
    """Event time, in milliseconds, by which the offered rows are behind the scheduled rates."""

    plan: StepArrivals
    began: float
    tuples_per_ms: float
    owed_ms: float = field(init=False, default=0.0)
    _last: float = field(init=False)

    def __post_init__(self) -> None:
        self._last = self.began

    @property
    def speed(self) -> float:
        """Return the replay speed that was scheduled at the last call of `owe`, in milliseconds of event time per second."""
        return self._rate(self._last) / self.tuples_per_ms

    def owe(self, now: float) -> float:
        """Add the event time that has become due. Tuples more than CATCH_UP_S seconds overdue are skipped; return their number."""
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
        """Return the scheduled rate in tuples per second."""
        return next(step.rate for step in reversed(self.plan.steps) if self.began + step.at_s <= at)

    def _parts(self, begin: float, end: float) -> Sequence[tuple[float, float]]:
        """Split the interval from `begin` to `end` where the rate changes, and return the parts."""
        changes = [at for step in self.plan.steps if begin < (at := self.began + step.at_s) < end]
        return list(zip([begin, *changes], [*changes, end], strict=True))


class StreamReplay:
    """Table of one stream, and its batches that have been serialized."""

    def __init__(self, table: pa.Table, time_column: str, begin_ms: int, period_ms: int) -> None:
        (self._batch,) = table.combine_chunks().to_batches()
        self._time_column, self._period_ms = time_column, period_ms
        self._since = self._batch.column(time_column).to_numpy() - begin_ms
        self.rows: int = table.num_rows
        self._messages: dict[tuple[int, int], ReplayBatch] = {}
        self._span_ms = 0

    def message(self, lap: int, begin_ms: int, end_ms: int, span_ms: int) -> ReplayBatch:
        """Return the batch of an interval of event time in a lap. The batch is valid until the next call for this interval."""
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
    """Serialized record batch with event times that can be shifted in place."""

    def __init__(self, batch: pa.RecordBatch, time_column: str) -> None:
        self.rows = batch.num_rows
        self.stamped = bytearray(batch.serialize())
        whole = pa.py_buffer(self.stamped)
        column = pa.ipc.read_record_batch(whole, batch.schema).column(time_column)
        place = column.buffers()[1].address - whole.address if self.rows else 0
        self._times: npt.NDArray[np.int64] = np.frombuffer(self.stamped, np.int64, self.rows, place)
        self._by_ms = 0

    def stamp(self, by_ms: int) -> None:
        """Set the event times to their original values plus `by_ms`."""
        self._times += by_ms - self._by_ms
        self._by_ms = by_ms
