"""The ingest thread of a host: reads new frames of the streams that its units need, and lets them in at the door.

All units share one connection to the gateway. Each stream of a unit is subscribed under the unit's name and read from its
log up to the end; then the thread waits for news from the gateway. Nothing is polled.

Limits keep the input of one unit from taking the processor time or memory that other units need:

    turns        Streams with input are read in turn, a few batches at a time.
    time         All units of the host share INGEST_PART of a processor, in equal parts. Reading a batch and letting it in
                 takes 50–100 µs, so this is enough for some thousand batches per second. A batch beyond a unit's part is
                 rejected whole; only its header is read, to count its rows. A unit that holds back waits instead.
    pauses       After letting batches in, the thread waits until a slice has ended, at most SLICE_S. Otherwise it would
                 wake up during slices and take the interpreter from them again and again.
    room         A unit that holds back is not read while its queue has no room. It releases nothing, so the logs of its
                 streams fill up, and their gateway refuses producers. No unit is read while PIECES_MAX of its batches
                 wait; rows that the gateway deletes meanwhile are counted as failed.

If the gateway is gone, existing frames are still read. Everything is subscribed again when the gateway is back.
"""

from __future__ import annotations

import select
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path

from actors.host.inbox import BACKOFF_LEAST_S, BACKOFF_MOST_S, Feed, Intake
from actors.log.segment import LogMissing
from actors.log.segment_log import Reader
from actors.messages.gateway_messages import (
    FROM_NOW,
    CaughtUp,
    Denied,
    Heard,
    LogIsFull,
    Message,
    News,
    Reads,
    Subscribe,
    Subscribed,
    Unsubscribe,
    decode,
    encode,
)
from actors.runtime.backoff import Backoff
from actors.runtime.eventfd import WakeUp
from actors.runtime.run_dirs import RunDirs
from actors.runtime.unix_channel import Channel, connect

INGEST_PART = 0.5
# Number of batches of a stream that are read in one turn. With shorter turns, the ingest thread would interrupt slices more often.
BATCHES_A_TURN = 4
SLICE_S = 5e-3
# Number of segments of a stream's log that stay mapped: as many as can be filled between two snapshots of a class.
KEPT_MAPPED = 64
NEVER = float("inf")


class GatewayLine:
    """Connection of a host to its gateway. One thread opens and closes it; any thread may send messages."""

    def __init__(self, path: Path) -> None:
        self.channel: Channel | None = None
        self.connect_at = 0.0
        """Time of the next attempt to connect."""
        self._path = path
        self._backoff = Backoff(BACKOFF_LEAST_S, BACKOFF_MOST_S)
        self._lock = threading.Lock()  # Lock that is held while `channel` is used

    def say(self, message: Message) -> None:
        """Send a message; do nothing if there is no connection."""
        with self._lock:
            if self.channel is not None:
                try:
                    self.channel.send(encode(message))
                except OSError:
                    # The gateway does not respond or has ended. The next attempt to connect shows which of these is true.
                    self.channel.end()

    def open(self, now: float) -> Channel | None:
        """Open a connection and return it. Return None if the gateway refuses the connection, or the next attempt is not due yet."""
        if now < self.connect_at:
            return None
        try:
            channel = connect(self._path)
        except OSError:
            self.connect_at = now + self._backoff.failed()
            return None
        self._backoff.succeeded()
        with self._lock:
            self.channel = channel
        return channel

    def receive(self) -> bytes | None:
        assert self.channel is not None
        return self.channel.receive()

    def end(self) -> Channel | None:
        """Stop using the connection, and return it."""
        with self._lock:
            channel, self.channel = self.channel, None
        self.connect_at = time.monotonic() + self._backoff.failed()
        return channel


class FeedTurns:
    """Streams of units: streams that are read in turn, and streams that wait for room in their queues."""

    def __init__(self) -> None:
        self.lively: dict[Feed, None] = {}
        """Streams that have input, in the order in which they are read."""
        self._blocked: set[Feed] = set()

    def enliven(self, feed: Feed) -> None:
        """Read the stream of a unit in turn from now on."""
        if feed.log is not None:
            self.lively.setdefault(feed)

    def rest(self, feed: Feed) -> None:
        """Stop reading the stream of a unit until `enliven` is called for the stream."""
        self.lively.pop(feed, None)
        self._blocked.discard(feed)

    def is_blocked(self, feed: Feed) -> bool:
        """Return True if the stream of a unit has to wait for room until `unblock` is called."""
        if not feed.is_full():
            return False
        inbox = feed.intake.inbox
        self._blocked.add(feed)
        inbox.held_back = True
        # Check again: if the class thread made room just before `held_back` was set, the class thread does not call `unblock`.
        if feed.is_full():
            return True
        self._blocked.discard(feed)
        return False

    def unblock(self) -> None:
        """Read the streams that waited for room in their queues, since there may be room now."""
        blocked, self._blocked = self._blocked, set()
        for feed in blocked:
            self.enliven(feed)


class Ingest:
    """Ingest thread of a host. `run` is the body of the thread; the host starts and stops it."""

    def __init__(
        self,
        dirs: RunDirs,
        has_input: Callable[[str], None],
        failed: Callable[[str, Exception], None],
    ) -> None:
        """Call `has_input` with the name of each unit that gets input, and `failed` with each unit that cannot let its input in."""
        self._has_input, self._failed = has_input, failed
        self._wake_up = WakeUp()
        self._asked: deque[Callable[[], None]] = deque()
        self.gateway = GatewayLine(dirs.gateway_socket)
        self._poll = select.poll()
        self._poll.register(self._wake_up, select.POLLIN)
        self._woken = select.poll()
        self._woken.register(self._wake_up, select.POLLIN)
        self._awaits_slice = False
        self._intakes: dict[str, Intake] = {}
        self._turns = FeedTurns()
        # Streams to subscribe or read again, each with the time of the next attempt.
        self._later: dict[Feed, float] = {}
        self._asks = 0
        self._stopping = False

    # The class thread calls the following methods.

    def open(self, intake: Intake) -> None:
        """Start to read the unit's streams."""
        self._ask(lambda: self._open(intake))

    def close(self, intake: Intake, for_good: bool) -> None:
        """Stop reading the unit's streams; with `for_good`, the gateway keeps no more input for the unit."""
        self._ask(lambda: self._close(intake, list(intake.feeds), for_good))

    def change(self, intake: Intake, more: Iterable[Feed], less: Iterable[str]) -> None:
        """Start to read the streams in `more`, and stop reading the streams in `less`, for one unit."""
        more, less = list(more), list(less)
        self._ask(lambda: self._change(intake, more, less))

    def rest(self, intake: Intake) -> None:
        """Unmap the streams' logs of a unit that falls asleep, so that the memory of deleted segments is freed."""
        self._ask(intake.rest)

    def go_on(self) -> None:
        """Read the streams that waited for room in their queues, since there may be room now."""
        self._ask(self._turns.unblock)

    def slice_ended(self) -> None:
        if self._awaits_slice:
            self._awaits_slice = False
            self._wake_up.set()

    def stop(self) -> None:
        self._stopping = True
        self._wake_up.set()

    def _ask(self, work: Callable[[], None]) -> None:
        self._asked.append(work)
        self._wake_up.set()

    # Only the ingest thread calls the following methods.

    def run(self) -> None:
        try:
            while not self._stopping:
                now = time.monotonic()
                if self.gateway.channel is None and (channel := self.gateway.open(now)) is not None:
                    self._poll.register(channel, select.POLLIN)
                    self._greet()
                self._retry(now)
                more = self._read_round(now)
                if self._awaits_slice and not more:
                    self._await_slice()
                else:
                    self._await_news(0 if more else self._wait_ms())
                self._work()
            # The last requests of the class thread may still send messages to the gateway.
            self._work()
        finally:
            self._hang_up()

    def _await_news(self, wait_ms: float | None) -> None:
        for number, _ in self._poll.poll(wait_ms):
            if number == self._wake_up.fileno():
                self._wake_up.clear()
            else:
                try:
                    packet = self.gateway.receive()
                except BlockingIOError:
                    continue
                if packet is None:
                    self._hang_up()
                else:
                    self._hear_message(decode(packet))

    def _await_slice(self) -> None:
        """Wait until a slice has ended or the class thread has a request, at most SLICE_S seconds."""
        if self._woken.poll(1e3 * SLICE_S):
            self._wake_up.clear()
        self._awaits_slice = False

    def _work(self) -> None:
        while self._asked:
            self._asked.popleft()()

    def _wait_ms(self) -> float | None:
        due = min(self._later.values(), default=NEVER)
        if self.gateway.channel is None:
            due = min(due, self.gateway.connect_at)
        return None if due == NEVER else 1e3 * max(due - time.monotonic(), 0.0) + 1.0

    def _greet(self) -> None:
        """Subscribe all streams of all units on a new connection."""
        for intake in self._intakes.values():
            self._say_reads(intake)
            for feed in intake.feeds.values():
                self._subscribe(feed)

    def _hang_up(self) -> None:
        channel = self.gateway.end()
        if channel is not None:
            self._poll.unregister(channel)
            channel.close()
        for intake in self._intakes.values():
            for feed in intake.feeds.values():
                feed.subscribed = False

    def _subscribe(self, feed: Feed) -> None:
        self._asks += 1
        feed.ask = self._asks
        self.gateway.say(Subscribe(feed.intake.unit, feed.name, feed.next, feed.intake.holds_back, feed.ask))

    def _hear_message(self, message: Message) -> None:
        assert isinstance(message, Subscribed | News | CaughtUp | LogIsFull | Denied), message
        intake = self._intakes.get(message.reader)
        # The gateway sends the stream's name as declared, which may have capital letters.
        feed = intake.feeds.get(message.stream.lower()) if intake is not None else None
        if feed is not None:
            self._hear_of(feed, message)

    def _hear_of(self, feed: Feed, message: Subscribed | News | CaughtUp | LogIsFull | Denied) -> None:
        match message:
            case Subscribed(ask=ask):
                # A confirmation with another number belongs to an earlier subscription of the stream.
                if ask == feed.ask:
                    self._begin(feed, message)
            case News():
                self._turns.enliven(feed)
            case CaughtUp(_, _, at):
                caught_up = feed.intake.inbox.caught_up
                caught_up[feed.name] = max(at, caught_up.get(feed.name, at))
            case LogIsFull():
                feed.intake.inbox.held_back = True
            case Denied(_, _, reason):
                feed.subscribed, feed.denied = False, True
                feed.intake.inbox.problems[feed.name] = reason
                self._later[feed] = time.monotonic() + feed.backoff.failed()

    def _begin(self, feed: Feed, found: Subscribed) -> None:
        feed.subscribed = True
        feed.backoff.succeeded()
        feed.intake.inbox.problems.pop(feed.name, None)
        if feed.next == FROM_NOW:
            feed.next, feed.upto = found.next, found.rows
            feed.intake.inbox.begun.append((feed.name, found.next, found.rows, feed))
        if feed.denied:
            self._turns.rest(feed)
            feed.log, feed.frames, feed.denied = None, None, False
        try:
            feed.log = feed.log or Reader(feed.folder, KEPT_MAPPED)
        except LogMissing:
            # The stream has been dropped, and the gateway will send Denied.
            return
        self._turns.enliven(feed)

    def _retry(self, now: float) -> None:
        for feed in [feed for feed, at in self._later.items() if at <= now]:
            del self._later[feed]
            if feed.subscribed:
                self._turns.enliven(feed)
            elif self.gateway.channel is not None:
                self._subscribe(feed)

    def _open(self, intake: Intake) -> None:
        self._intakes[intake.unit] = intake
        self._change(intake, list(intake.feeds.values()), ())

    def _close(self, intake: Intake, streams: Iterable[str], for_good: bool) -> None:
        self._drop(intake, streams, for_good)
        if self._intakes.get(intake.unit) is intake:
            del self._intakes[intake.unit]

    def _change(self, intake: Intake, more: Iterable[Feed], less: Iterable[str]) -> None:
        self._drop(intake, less, for_good=True)
        for feed in more:
            intake.feeds[feed.name] = feed
        self._say_reads(intake)
        for feed in more:
            if self.gateway.channel is not None:
                self._subscribe(feed)

    def _say_reads(self, intake: Intake) -> None:
        """Send the gateway the streams that the unit reads. The gateway then ends subscriptions of other streams from before a restart."""
        if intake.is_whole:
            self.gateway.say(Reads(intake.unit, tuple(intake.feeds)))

    def _drop(self, intake: Intake, streams: Iterable[str], for_good: bool) -> None:
        for stream in streams:
            feed = intake.feeds.pop(stream, None)
            if feed is None:
                continue
            self._turns.rest(feed)
            self._later.pop(feed, None)
            if for_good:
                intake.inbox.problems.pop(stream, None)
                self.gateway.say(Unsubscribe(intake.unit, stream))

    def _read_round(self, now: float) -> bool:
        """Read a few batches of each stream with input; return True if there may be more batches."""
        for feed in tuple(self._turns.lively):
            try:
                has_more = all(self._read(feed, now) for _ in range(BATCHES_A_TURN))
            except Exception as problem:
                # The failed unit will be opened again. Meanwhile, the streams of other units are still read.
                has_more = False
                self._failed(feed.intake.unit, problem)
            if not has_more:
                self._turns.lively.pop(feed, None)
        return bool(self._turns.lively)

    def _read(self, feed: Feed, now: float) -> bool:
        """Read one batch; return False if no batch can be read at the moment."""
        intake = feed.intake
        if self._turns.is_blocked(feed):
            return False
        began = time.thread_time()
        part = INGEST_PART / max(1, len(self._intakes))
        in_time = intake.has_time(now, part)
        if intake.holds_back and not in_time:
            intake.inbox.held_back = True
            self._later[feed] = now - intake.budget_s / part
            return False
        frame = feed.frame()
        if frame is None:
            if feed.subscribed:
                self.gateway.say(Heard(intake.unit, feed.name, feed.next))
            return False
        feed.let_in(*frame, in_time)
        used_s = time.thread_time() - began
        intake.inbox.used_s += used_s
        intake.budget_s -= used_s
        self._awaits_slice = True
        self._has_input(intake.unit)
        return True
