"""The ingest thread of a host: reads new frames of the streams that its units read, and lets them in at the door.

One connection to the gateway for all units. A unit's stream is subscribed under the unit's name, read from its log
until there is no more, and then waited for; nothing here polls.

Bounds, so that one unit's input cannot take the processor or the memory that others need:

    turns        a few batches of each stream that has some, in turn
    time         INGEST_PART of a processor for all units of the host, in equal parts. It takes 50–100 µs to read a
                 batch and let it in, so this is some thousand batches a second. What a unit gets beyond that is
                 rejected whole and counted, for which nothing is read but its header; a unit that holds back waits.
    moment       what has been let in has its slice before the next is looked for, for which SLICE_S are waited at most:
                 a thread that wakes up beside a slice takes the interpreter from it, again and again
    room         A unit that holds back is not read while its queue has no room: it releases nothing, the logs of its
                 streams fill up, and their gateway refuses producers. No unit is read while PIECES_MAX of its batches
                 wait; what the gateway forgets meanwhile is counted as failed.

The gateway may go: frames that are there are read, and everything is subscribed again when it comes back.
"""

from __future__ import annotations

import select
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from actors.host.inbox import Arrived, Inbox
from actors.log.segment import LogMissing
from actors.log.segment_log import FrameForgotten, Reader
from actors.log.train_format import batch_head, batch_of
from actors.messages.gateway_messages import (
    FROM_NOW,
    CaughtUp,
    Denied,
    Heard,
    LogIsFull,
    Message,
    News,
    Reads,
    Released,
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
from engine.class_.door import Door, Piece, turned_away

INGEST_PART = 0.5
# A unit may save up for a burst.
BURST_S = 0.25
PIECES_MAX = 10_000
# Of a stream at a time: each time costs looks at the gateway and at the class thread, which take the interpreter from slices.
BATCHES_A_TURN = 4
SLICE_S = 5e-3
# Segments of a stream: as many as its log may fill from one snapshot of a class to the next.
KEPT_MAPPED = 64
# Between two tries to reach the gateway, or to subscribe where it has not heard of the stream yet.
BACKOFF_LEAST_S, BACKOFF_MOST_S = 0.01, 1.0
NEVER = float("inf")


@dataclass(eq=False, slots=True)
class Feed:
    """One stream of one unit."""

    intake: Intake
    door: Door
    folder: Path
    next: int
    upto: int | None = None
    """Rows of the stream up to there; None if that is not known."""
    frames: Iterator[tuple[int, memoryview]] | None = None
    log: Reader | None = None
    ask: int = 0
    """The number of the last Subscribe."""
    subscribed: bool = False
    denied: bool = False
    """Refused since the last Subscribed: the stream may have been dropped, and a new log may be there instead."""
    lively: bool = False
    """Among those that are read in turn."""
    backoff: Backoff = field(default_factory=lambda: Backoff(BACKOFF_LEAST_S, BACKOFF_MOST_S))
    cycle: int = 0

    @property
    def name(self) -> str:
        return self.door.stream

    def frame(self) -> tuple[int, memoryview] | None:
        """The next one that is there; None if it is yet to come."""
        assert self.log is not None
        while True:
            if self.frames is None:
                self.frames = self.log.frames(self.next)
            try:
                found = next(self.frames, None)
            except FrameForgotten as lost:
                self.frames = self.log.frames(lost.next)
                continue
            if found is None:
                self.frames = None
            return found


@dataclass(eq=False, slots=True)
class Intake:
    """What of a unit is the ingest thread's."""

    unit: str
    inbox: Inbox
    holds_back: bool
    """True if input waits in the log while the queue has no room. The log forgets nothing that has not been read."""
    shard: tuple[int, int] = (0, 1)
    is_whole: bool = True
    """True if `feeds` are all streams that are needed. A unit that repeats its steps may need frames of others."""
    feeds: dict[str, Feed] = field(default_factory=dict)
    budget_s: float = BURST_S
    since: float = field(default_factory=time.monotonic)

    def part_of(self, rows: int) -> int:
        """What is counted as the unit's of rows that nobody looks at; of all shards together, all."""
        shard, shards = self.shard
        return (rows + shard) // shards


class Ingest:
    """Made and stopped by its host; `run` is the thread."""

    def __init__(
        self,
        dirs: RunDirs,
        has_input: Callable[[str], None],
        failed: Callable[[str, Exception], None],
    ) -> None:
        """Call `has_input` with each unit that has some, and `failed` with each unit of which the input cannot be let in."""
        self._dirs, self._has_input, self._failed = dirs, has_input, failed
        self._wake_up = WakeUp()
        self._asked: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()  # over the channel, which others may say something on
        self._channel: Channel | None = None
        self._poll = select.poll()
        self._poll.register(self._wake_up, select.POLLIN)
        self._woken = select.poll()
        self._woken.register(self._wake_up, select.POLLIN)
        self._awaits_slice = False
        self._intakes: dict[str, Intake] = {}
        self._lively: deque[Feed] = deque()
        self._blocked: set[Feed] = set()
        self._later: dict[Feed, float] = {}  # to be tried again, and when
        self._asks = 0
        self._connect_at, self._backoff = 0.0, Backoff(BACKOFF_LEAST_S, BACKOFF_MOST_S)
        self._stopping = False

    # -- for the class thread -----------------------------------------------------------------------

    def open(self, intake: Intake) -> None:
        """Read the unit's streams from now on."""
        self._ask(lambda: self._open(intake))

    def close(self, intake: Intake, for_good: bool) -> None:
        """Read them no more, and if it is for good, let the gateway keep nothing for them."""
        self._ask(lambda: self._close(intake, list(intake.feeds), for_good))

    def change(self, intake: Intake, more: Iterable[Feed], less: Iterable[str]) -> None:
        """The unit's queries read other streams than before."""
        more, less = list(more), list(less)
        self._ask(lambda: self._change(intake, more, less))

    def rest(self, intake: Intake) -> None:
        """The unit sleeps: what its streams' logs forget is to be free."""
        self._ask(lambda: self._rest(intake))

    def go_on(self) -> None:
        """There may be room again."""
        self._ask(self._unblock)

    def slice_ended(self) -> None:
        if self._awaits_slice:
            self._awaits_slice = False
            self._wake_up.set()

    def say(self, message: Message) -> None:
        """To the gateway, if it is there."""
        with self._lock:
            if self._channel is not None:
                try:
                    self._channel.send(encode(message))
                except OSError:
                    # It hangs or is gone; who connects again finds out.
                    self._channel.end()

    def stop(self) -> None:
        self._stopping = True
        self._wake_up.set()

    def _ask(self, work: Callable[[], None]) -> None:
        self._asked.append(work)
        self._wake_up.set()

    # -- the thread ---------------------------------------------------------------------------------

    def run(self) -> None:
        try:
            while not self._stopping:
                now = time.monotonic()
                if self._channel is None and now >= self._connect_at:
                    self._connect(now)
                self._retry(now)
                more = self._read_round(now)
                if self._awaits_slice and not more:
                    self._await_slice()
                else:
                    self._await_news(0 if more else self._wait_ms())
                self._work()
            self._work()  # the gateway is to hear of units that have gone
        finally:
            self._hang_up()

    def _await_news(self, wait_ms: float | None) -> None:
        for number, _ in self._poll.poll(wait_ms):
            if number == self._wake_up.fileno():
                self._wake_up.clear()
            else:
                self._hear()

    def _await_slice(self) -> None:
        """Or for the class thread to ask for something."""
        if self._woken.poll(1e3 * SLICE_S):
            self._wake_up.clear()
        self._awaits_slice = False

    def _work(self) -> None:
        while self._asked:
            self._asked.popleft()()

    def _wait_ms(self) -> float | None:
        due = min(self._later.values(), default=NEVER)
        if self._channel is None:
            due = min(due, self._connect_at)
        return None if due == NEVER else 1e3 * max(due - time.monotonic(), 0.0) + 1.0

    # -- the gateway --------------------------------------------------------------------------------

    def _connect(self, now: float) -> None:
        try:
            channel = connect(self._dirs.gateway_socket)
        except OSError:
            self._connect_at = now + self._backoff.failed()
            return
        self._backoff.succeeded()
        self._poll.register(channel, select.POLLIN)
        self._greet(channel)

    def _greet(self, channel: Channel) -> None:
        """Subscribe all feeds on a new connection."""
        with self._lock:
            self._channel = channel
        for intake in self._intakes.values():
            self._say_reads(intake)
            for feed in intake.feeds.values():
                self._subscribe(feed)

    def _hang_up(self) -> None:
        with self._lock:
            channel, self._channel = self._channel, None
        if channel is not None:
            self._poll.unregister(channel)
            channel.close()
        self._connect_at = time.monotonic() + self._backoff.failed()
        for intake in self._intakes.values():
            for feed in intake.feeds.values():
                feed.subscribed = False

    def _subscribe(self, feed: Feed) -> None:
        self._asks += 1
        feed.ask = self._asks
        self.say(Subscribe(feed.intake.unit, feed.name, feed.next, feed.intake.holds_back, feed.ask))

    def _hear(self) -> None:
        assert self._channel is not None
        try:
            packet = self._channel.receive()
        except BlockingIOError:
            return
        if packet is None:
            self._hang_up()
            return
        self._hear_message(decode(packet))

    def _hear_message(self, message: Message) -> None:
        assert isinstance(message, Subscribed | News | CaughtUp | LogIsFull | Denied), message
        intake = self._intakes.get(message.reader)
        # The gateway says the name as it was declared.
        feed = intake.feeds.get(message.stream.lower()) if intake is not None else None
        if feed is not None:
            self._hear_of(feed, message)

    def _hear_of(self, feed: Feed, message: Subscribed | News | CaughtUp | LogIsFull | Denied) -> None:
        match message:
            case Subscribed(ask=ask):
                # Another number answers the feed that read the stream before this one.
                if ask == feed.ask:
                    self._begin(feed, message)
            case News():
                self._enliven(feed)
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
            self._rest_feed(feed)
            feed.log, feed.frames, feed.denied = None, None, False
        try:
            feed.log = feed.log or Reader(feed.folder, KEPT_MAPPED)
        except LogMissing:
            # Dropped since; the gateway says so, too.
            return
        self._enliven(feed)

    def _retry(self, now: float) -> None:
        for feed in [feed for feed, at in self._later.items() if at <= now]:
            del self._later[feed]
            if feed.subscribed:
                self._enliven(feed)
            elif self._channel is not None:
                self._subscribe(feed)

    # -- units --------------------------------------------------------------------------------------

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
            if self._channel is not None:
                self._subscribe(feed)

    def _say_reads(self, intake: Intake) -> None:
        """Let the gateway forget the streams that only an earlier life of the unit has read."""
        if intake.is_whole:
            self.say(Reads(intake.unit, tuple(intake.feeds)))

    def _rest(self, intake: Intake) -> None:
        for feed in intake.feeds.values():
            if feed.log is not None:
                feed.log.let_go()

    def _drop(self, intake: Intake, streams: Iterable[str], for_good: bool) -> None:
        for stream in streams:
            feed = intake.feeds.pop(stream, None)
            if feed is None:
                continue
            self._rest_feed(feed)
            self._later.pop(feed, None)
            if for_good:
                intake.inbox.problems.pop(stream, None)
                self.say(Unsubscribe(intake.unit, stream))

    def _rest_feed(self, feed: Feed) -> None:
        """Stop reading a feed until it is enlivened."""
        if feed.lively:
            self._lively.remove(feed)
            feed.lively = False
        self._blocked.discard(feed)

    # -- reading ------------------------------------------------------------------------------------

    def _enliven(self, feed: Feed) -> None:
        if not feed.lively and feed.log is not None:
            feed.lively = True
            self._lively.append(feed)

    def _read_round(self, now: float) -> bool:
        """A few batches of each that has some; whether there may be more."""
        lively, self._lively = self._lively, deque()
        while lively:
            feed = lively.popleft()
            try:
                has_more = all(self._read(feed, now) for _ in range(BATCHES_A_TURN))
            except Exception as problem:
                # The unit is made again; no other unit is to suffer from its input.
                has_more = False
                self._failed(feed.intake.unit, problem)
            if has_more:
                self._lively.append(feed)
            else:
                feed.lively = False
        return bool(self._lively)

    def _read(self, feed: Feed, now: float) -> bool:
        """One batch; False if none can be read at the moment."""
        intake = feed.intake
        if self._is_blocked(feed):
            return False
        began = time.thread_time()
        in_time = self._has_time(intake, now)
        if intake.holds_back and not in_time:
            intake.inbox.held_back = True
            self._later[feed] = now - intake.budget_s / self._part
            return False
        found = feed.frame()
        if found is None:
            if feed.subscribed:
                self.say(Heard(intake.unit, feed.name, feed.next))
            return False
        self._let_in(feed, *found, in_time)
        used_s = time.thread_time() - began
        intake.inbox.used_s += used_s
        intake.budget_s -= used_s
        self._awaits_slice = True
        self._has_input(intake.unit)
        return True

    @property
    def _part(self) -> float:
        return INGEST_PART / max(1, len(self._intakes))

    def _has_time(self, intake: Intake, now: float) -> bool:
        intake.budget_s = min(BURST_S, intake.budget_s + self._part * (now - intake.since))
        intake.since = now
        return intake.budget_s > 0

    def _is_blocked(self, feed: Feed) -> bool:
        if not is_full(feed):
            return False
        inbox = feed.intake.inbox
        self._blocked.add(feed)
        inbox.held_back = True
        # Room that there is since is not told of: the class thread may have looked before.
        if is_full(feed):
            return True
        self._blocked.discard(feed)
        return False

    def _unblock(self) -> None:
        blocked, self._blocked = self._blocked, set()
        for feed in blocked:
            self._enliven(feed)

    def _let_in(self, feed: Feed, number: int, payload: memoryview, in_time: bool) -> None:
        intake, inbox = feed.intake, feed.intake.inbox
        rows, _, before = batch_head(payload)
        if number > feed.next and feed.upto is not None:
            lost = turned_away(feed.name, number - 1, failed=intake.part_of(before - feed.upto))
            self._put(inbox, Arrived(lost, before, feed))
        if in_time:
            cycle, keep = inbox.keep
            if cycle != feed.cycle:
                feed.cycle = cycle
                feed.door.set_keep(keep)
            piece = feed.door.admit(number, batch_of(payload), inbox.queued(feed.name))
        else:
            piece = turned_away(feed.name, number, rejected=intake.part_of(rows))
        feed.next, feed.upto = number + 1, before + rows
        inbox.bytes_in += len(payload)
        self._put(inbox, Arrived(piece, feed.upto, feed))

    def _put(self, inbox: Inbox, one: Arrived) -> None:
        piece: Piece = one.piece
        inbox.let_in[piece.stream] += len(piece.train)
        inbox.pieces_in += 1
        inbox.arrived.append(one)


def is_full(feed: Feed) -> bool:
    inbox = feed.intake.inbox
    if inbox.pieces >= PIECES_MAX:
        return True
    room = min(inbox.rooms.get(feed.name, feed.door.queue_max), feed.door.queue_max)
    return feed.intake.holds_back and inbox.queued(feed.name) >= room


__all__ = ["Feed", "Ingest", "Intake", "Released"]
