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
# Of a stream at a time: each time costs looks at the gateway and at the class thread, which take the interpreter from slices.
BATCHES_A_TURN = 4
SLICE_S = 5e-3
# Segments of a stream: as many as its log may fill from one snapshot of a class to the next.
KEPT_MAPPED = 64
NEVER = float("inf")


class GatewayLine:
    """The connection of a host to its gateway. One thread keeps it; any thread may say something on it."""

    def __init__(self, path: Path) -> None:
        self.channel: Channel | None = None
        self.connect_at = 0.0
        """When the next try is due."""
        self._path = path
        self._backoff = Backoff(BACKOFF_LEAST_S, BACKOFF_MOST_S)
        self._lock = threading.Lock()  # over the channel

    def say(self, message: Message) -> None:
        """Send a message, if there is a gateway."""
        with self._lock:
            if self.channel is not None:
                try:
                    self.channel.send(encode(message))
                except OSError:
                    # It hangs or is gone; the next try to connect shows which.
                    self.channel.end()

    def connected(self, now: float) -> Channel | None:
        """Return a new connection; None if the gateway is not there, or a try is not due yet."""
        if now < self.connect_at:
            return None
        try:
            channel = connect(self._path)
        except OSError:
            self.connect_at = now + self._backoff.failed()
            return None
        self._backoff.succeeded()
        return channel

    def begin(self, channel: Channel) -> None:
        """Use a connection from now on."""
        with self._lock:
            self.channel = channel

    def receive(self) -> bytes | None:
        assert self.channel is not None
        return self.channel.receive()

    def end(self) -> Channel | None:
        """Return the connection, which is not used any more."""
        with self._lock:
            channel, self.channel = self.channel, None
        self.connect_at = time.monotonic() + self._backoff.failed()
        return channel


class FeedTurns:
    """The feeds that are read in turn, and those that wait for room in their queues."""

    def __init__(self) -> None:
        self._lively: deque[Feed] = deque()
        self._blocked: set[Feed] = set()

    def __bool__(self) -> bool:
        return bool(self._lively)

    def enliven(self, feed: Feed) -> None:
        """Read a feed in turn from now on."""
        if not feed.lively and feed.log is not None:
            feed.lively = True
            self._lively.append(feed)

    def rest(self, feed: Feed) -> None:
        """Stop reading a feed until it is enlivened."""
        if feed.lively:
            self._lively.remove(feed)
            feed.lively = False
        self._blocked.discard(feed)

    def round(self) -> Iterator[Feed]:
        """Yield each feed once; `end` its turn before the next."""
        lively, self._lively = self._lively, deque()
        while lively:
            yield lively.popleft()

    def end(self, feed: Feed, has_more: bool) -> None:
        if has_more:
            self._lively.append(feed)
        else:
            feed.lively = False

    def is_blocked(self, feed: Feed) -> bool:
        """Return True if a feed has to wait until `unblock`."""
        if not feed.is_full():
            return False
        inbox = feed.intake.inbox
        self._blocked.add(feed)
        inbox.held_back = True
        # Room that there is since is not reported: the class thread may have looked before.
        if feed.is_full():
            return True
        self._blocked.discard(feed)
        return False

    def unblock(self) -> None:
        """There may be room again."""
        blocked, self._blocked = self._blocked, set()
        for feed in blocked:
            self.enliven(feed)


class Ingest:
    """Made and stopped by its host; `run` is the thread."""

    def __init__(
        self,
        dirs: RunDirs,
        has_input: Callable[[str], None],
        failed: Callable[[str, Exception], None],
    ) -> None:
        """Call `has_input` with each unit that has some, and `failed` with each unit of which the input cannot be let in."""
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
        self._later: dict[Feed, float] = {}  # to be tried again, and when
        self._asks = 0
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
        self._ask(intake.rest)

    def go_on(self) -> None:
        """There may be room again."""
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

    # -- the thread ---------------------------------------------------------------------------------

    def run(self) -> None:
        try:
            while not self._stopping:
                now = time.monotonic()
                if self.gateway.channel is None and (channel := self.gateway.connected(now)) is not None:
                    self._poll.register(channel, select.POLLIN)
                    self._greet(channel)
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
                try:
                    packet = self.gateway.receive()
                except BlockingIOError:
                    continue
                if packet is None:
                    self._hang_up()
                else:
                    self._hear_message(decode(packet))

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
        if self.gateway.channel is None:
            due = min(due, self.gateway.connect_at)
        return None if due == NEVER else 1e3 * max(due - time.monotonic(), 0.0) + 1.0

    # -- the gateway --------------------------------------------------------------------------------

    def _greet(self, channel: Channel) -> None:
        """Subscribe all feeds on a new connection."""
        self.gateway.begin(channel)
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
            # Dropped since; the gateway says so, too.
            return
        self._turns.enliven(feed)

    def _retry(self, now: float) -> None:
        for feed in [feed for feed, at in self._later.items() if at <= now]:
            del self._later[feed]
            if feed.subscribed:
                self._turns.enliven(feed)
            elif self.gateway.channel is not None:
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
            if self.gateway.channel is not None:
                self._subscribe(feed)

    def _say_reads(self, intake: Intake) -> None:
        """Let the gateway forget the streams that only an earlier life of the unit has read."""
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

    # -- reading ------------------------------------------------------------------------------------

    def _read_round(self, now: float) -> bool:
        """Read a few batches of each feed that has some; return True if there may be more."""
        for feed in self._turns.round():
            try:
                has_more = all(self._read(feed, now) for _ in range(BATCHES_A_TURN))
            except Exception as problem:
                # The unit is made again; no other unit is to suffer from its input.
                has_more = False
                self._failed(feed.intake.unit, problem)
            self._turns.end(feed, has_more)
        return bool(self._turns)

    def _read(self, feed: Feed, now: float) -> bool:
        """Read one batch; return False if none can be read at the moment."""
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
