"""The dispatcher's loop: hosts say which classes have input, one `TurnRoundRobin` decides, grants go back at once.

One thread owns everything here; others hand it work (`set_shares`, `status`, `stop`) and wake it. It sleeps until a host
or another thread has something to say, or until a slice has lasted too long: an idle node has no wake-ups.

    what happens                         what follows
    Hello(host, classes)                 the classes are this host's, also if another one held them
    Ready(name)                          ClassReady, or it is remembered until the class has a share
    Ended(name, lane, …)                 SliceEnded, and the next Granted
    Left(name), EOF of the host          ClassLeft; a slice under way goes on after Left, and ends with EOF
    a packet that is not understood      Refused(reason); what else the host says goes unheard, as after EOF
    a slice that lasts too long          the lane goes to others; the host gets no turns until it answers

Where lanes have a part of their cores only (`LiveSettings.lane_part`), slices use more of a lane's time than goes by: the
lane then `rests` until it has, and the core hears of the slice's end after that.

Guarantees:
1. A grant is sent in the same pass that reads the Ended before it: nothing is queued between.
2. No host can hold up the loop: nothing waits for a peer, each gets one message read at a time.
3. A class is granted only to the host that named it last, and never while that host owes an answer to an overdue slice.
4. A lane that rests is never ahead of what its slices say they have used by more than a round and one slice.
5. What the core was told and what it answered goes to `record` in the order of its decisions.
"""

from __future__ import annotations

import math
import select
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from actors.dispatcher.turn_lane import ConnectedHost, GrantedSlice, LaneStatus, TurnLane
from actors.messages.turn_messages import (
    Ended,
    Granted,
    Hello,
    Left,
    Message,
    NotUnderstood,
    Ready,
    RefusedHost,
    decode,
    encode,
)
from actors.runtime.cpu_pinning import Cores, pin_this_thread
from actors.runtime.eventfd import WakeUp
from actors.runtime.unix_channel import Listener
from loadshed.responses import ResponseStatistics
from scheduler.turns.round_robin import (
    ClassLeft,
    ClassReady,
    Grant,
    HostsSet,
    SharesSet,
    SliceEnded,
    TurnEvent,
    TurnRoundRobin,
)

# A slice is not cut short inside a train, and the processor may be lent to others for a while: an overrun of some times the
# quota is ordinary. Quotas may be microseconds, so a second goes on top: longer than any train, load cycle or snapshot.
OVERDUE_QUOTAS, OVERDUE_S = 50.0, 1.0
# Far above the hosts of one node; each costs a descriptor.
HOSTS_MAX = 1000

Record = Callable[[str, TurnEvent, float, tuple[Grant, ...]], None]


@dataclass(frozen=True, slots=True)
class TurnStatus:
    """What the loop knew at one moment."""

    rounds: int
    lanes: tuple[LaneStatus, ...]
    hosts: Mapping[str, tuple[str, ...]]
    """Classes by host."""
    overdue: tuple[str, ...]
    """Classes whose host still owes the answer to a slice that lasted too long."""
    overdue_count: int
    refused_count: int
    stray_count: int
    """Messages about classes or slices that were not their sender's (any more)."""
    decided_ms: Mapping[str, float]
    """From the arrival of an Ended to the send of the next Granted."""
    handed_over_ms: Mapping[str, float]
    """What a turn takes beside its slice: from the news that led to the grant to its Ended, without the slice."""
    handed_over_s: float
    """All of these together."""
    not_pinned: str
    """Why the loop's thread is on no lane's core; empty if it is."""


class TurnLoop:
    """Listens from its making on; `run` serves until `stop`."""

    def __init__(
        self,
        path: Path,
        round_s: float,
        lanes: int = 1,
        record: Record | None = None,
        cores: Cores | None = None,
        rests: bool = False,
    ) -> None:
        self._core, self._round_s, self._rests = TurnRoundRobin({}, round_s, lanes), round_s, rests
        self._record = record
        self._cores = cores or Cores(why_not="not asked for")
        self._listener = Listener(path)
        self._wake_up = WakeUp()
        self._asked: deque[Callable[[], None]] = deque()
        self._poll = select.epoll()
        self._poll.register(self._listener, select.EPOLLIN)
        self._poll.register(self._wake_up, select.EPOLLIN)
        self._hosts: dict[int, ConnectedHost] = {}
        self._holder: dict[str, ConnectedHost] = {}
        self._waiting: set[str] = set()  # have input and no turn, as their hosts say
        self._shared: set[str] = set()  # known to the core
        began = time.monotonic()
        self._lanes = [TurnLane(began) for _ in range(lanes)]
        self._decided, self._handed_over = ResponseStatistics(), ResponseStatistics()
        self._overdue_count = self._refused_count = self._stray_count = 0
        self._stopping = False

    # -- for other threads ------------------------------------------------------------------------

    def set_shares(self, shares: Mapping[str, float], hosts: Mapping[str, str]) -> None:
        """Shares of the lanes by class, and the host of each class: of one host, one class runs at a time."""
        self._ask(lambda: self._set_shares(dict(shares), dict(hosts)))

    def status(self, wait_s: float = 1.0) -> TurnStatus:
        """TimeoutError if the loop does not answer in time."""
        answer: Future[TurnStatus] = Future()
        self._ask(lambda: answer.set_result(self._status()))
        return answer.result(wait_s)

    def slices(self) -> int:
        """How many there were so far, on all lanes."""
        return sum(lane.slices for lane in self._lanes)

    def stop(self) -> None:
        """`run` returns; hosts read EOF. Idempotent."""
        self._ask(self._stop)

    def _ask(self, work: Callable[[], None]) -> None:
        self._asked.append(work)
        self._wake_up.set()

    # -- the loop -----------------------------------------------------------------------------------

    def run(self) -> None:
        self._cores = pin_this_thread(self._cores, lane=0)
        poll, hosts, woken = self._poll.poll, self._hosts, self._wake_up.fileno()
        try:
            while not self._stopping:
                for number, _ in poll(self._wait_s()):
                    host = hosts.get(number)
                    if host is not None:
                        self._hear(host)
                    elif number == woken:
                        self._work()
                    else:
                        self._accept()
                self._watch()
        finally:
            self._close()

    def _wait_s(self) -> float | None:
        """Until the next slice is overdue or a lane has rested; for ever if there is neither."""
        due = min(lane.due for lane in self._lanes)
        return None if due == math.inf else max(due - time.monotonic(), 0.0)

    def _hear(self, host: ConnectedHost) -> None:
        try:
            packet = host.channel.receive()
        except BlockingIOError:
            return
        now = time.monotonic()
        if packet is None:
            self._lose(host, now)
        elif not host.gone:
            self._hear_packet(host, packet, now)

    def _hear_packet(self, host: ConnectedHost, packet: bytes, now: float) -> None:
        try:
            message = decode(packet)
        except NotUnderstood as problem:
            self._refuse(host, str(problem), now)
        else:
            self._handle(host, message, now)

    def _handle(self, host: ConnectedHost, message: Message, now: float) -> None:
        match message:
            case Ended():
                self._ended(host, message, now)
            case Ready(name):
                if self._is_held(name, host):
                    self._ready(name, now)
            case Hello(name, classes):
                self._hello(host, name, classes, now)
            case Left(name):
                if self._is_held(name, host):
                    self._leave(name, now)
            case Granted() | RefusedHost():
                self._refuse(host, "only a dispatcher says that", now)

    def _is_held(self, name: str, host: ConnectedHost) -> bool:
        held = self._holder.get(name) is host
        self._stray_count += not held
        return held

    def _accept(self) -> None:
        channel = self._listener.accept()
        if channel is None:
            return
        if len(self._hosts) == HOSTS_MAX:
            self._refused_count += 1
            channel.close()
            return
        self._hosts[channel.fileno()] = ConnectedHost(channel)
        self._poll.register(channel, select.EPOLLIN)

    def _work(self) -> None:
        self._wake_up.clear()
        while self._asked:
            self._asked.popleft()()

    # -- what hosts say -----------------------------------------------------------------------------

    def _hello(self, host: ConnectedHost, name: str, classes: tuple[str, ...], now: float) -> None:
        host.name = name
        for class_ in classes:
            if self._holder.get(class_) is not host:
                self._leave(class_, now)
                self._holder[class_] = host
                host.classes.add(class_)

    def _ready(self, name: str, now: float) -> None:
        self._waiting.add(name)
        if name in self._shared:
            self._tell(ClassReady(name), now)

    def _ended(self, host: ConnectedHost, message: Ended, now: float) -> None:
        name = message.name
        lane = self._lanes[message.lane] if message.lane < len(self._lanes) else None
        if lane is None or lane.slice is None or lane.slice.name != name or lane.slice.host is not host:
            self._ended_late(host, message, now)
            return
        if message.backlog and self._holder.get(name) is host:
            self._waiting.add(name)
        since = lane.slice.since
        self._handed_over.add([now - since - message.ran_s], 0.0)
        # A timer that comes late is made up for, and so is a round of idleness.
        lane.rests_until = max(lane.rests_until, since - self._round_s) + message.used_s
        lane.free(now)
        lane.in_slices_s += message.ran_s
        lane.used_s += message.used_s
        if self._rests and lane.rests_until > now:
            lane.ended, lane.ended_used_s = name, message.used_s
            return
        # It may wait without backlog: another host has taken it over and has said Ready meanwhile.
        granted = self._tell(SliceEnded(name, message.lane, message.used_s, name in self._waiting), now)
        if granted:
            self._decided.add([granted - now], 0.0)

    def _ended_late(self, host: ConnectedHost, message: Ended, now: float) -> None:
        """The answer to an overdue slice, or to one that was another host's business meanwhile."""
        if message.name not in host.overdue:
            self._stray_count += 1
            return
        host.overdue.remove(message.name)
        if message.backlog and self._holder.get(message.name) is host:
            self._waiting.add(message.name)
        for name in sorted(host.classes & self._waiting & self._shared):
            self._tell(ClassReady(name), now)

    def _leave(self, name: str, now: float) -> None:
        """The class is nobody's. Its slice goes on if its host is still there, and will end as others do."""
        host = self._holder.pop(name, None)
        if host is None:
            return
        host.classes.discard(name)
        if name in self._waiting:
            self._waiting.remove(name)
            if all(lane.slice is None or lane.slice.name != name for lane in self._lanes):
                self._tell(ClassLeft(name), now)

    def _lose(self, host: ConnectedHost, now: float) -> None:
        """The peer is gone."""
        self._poll.unregister(host.channel)
        del self._hosts[host.channel.fileno()]
        host.channel.close()
        self._forget(host, now)

    def _refuse(self, host: ConnectedHost, reason: str, now: float) -> None:
        """What else it says goes unheard. The channel stays until the peer closes it: closing it with packets unread
        would take the reason back."""
        self._refused_count += 1
        self._say(host, RefusedHost(reason))
        self._forget(host, now)

    def _forget(self, host: ConnectedHost, now: float) -> None:
        """The host's classes leave, its slices end."""
        host.gone = True
        for name in sorted(host.classes):
            self._leave(name, now)
        for lane in self._lanes:
            if lane.slice is not None and lane.slice.host is host:
                name = lane.slice.name
                lane.free(now)
                self._tell(ClassLeft(name), now)
                # Another host that has taken the class over may have said Ready meanwhile.
                if name in self._waiting:
                    self._tell(ClassReady(name), now)

    # -- turns --------------------------------------------------------------------------------------

    def _tell(self, event: TurnEvent, now: float) -> float:
        """Tell the core, enact what follows; when the last grant was sent, 0 if there was none."""
        sent, events = 0.0, [event]
        while events:
            event = events.pop()
            grants = self._core.handle(event, now)
            for grant in grants:
                if self._grant(grant, now):
                    sent = time.monotonic()
                else:
                    events.append(SliceEnded(grant.name, grant.lane, 0.0, backlog=False))
            if self._record is not None:
                self._record("turns", event, now, grants)
        return sent

    def _grant(self, grant: Grant, now: float) -> bool:
        """False if the class's host cannot take it: the core then goes on to the next."""
        name = grant.name
        host = self._holder.get(name)
        if host is None or host.overdue or not self._say(host, Granted(name, grant.lane, grant.quota_s)):
            return False
        self._waiting.discard(name)
        self._lanes[grant.lane].begin(
            GrantedSlice(name, host, now, now + OVERDUE_QUOTAS * grant.quota_s + OVERDUE_S)
        )
        return True

    def _say(self, host: ConnectedHost, message: Message) -> bool:
        if host.gone:
            return False
        try:
            host.channel.send(encode(message))
        except OSError:
            # It reads nothing or is gone. Its EOF comes to the poll like any other.
            host.gone = True
            host.channel.end()
            return False
        return True

    def _watch(self) -> None:
        """Lanes that have rested go on; from hosts that hang they are taken. Such a host runs on, so none of its classes gets
        a turn until it answers."""
        now = time.monotonic()
        for number, lane in enumerate(self._lanes):
            slice_ = lane.slice
            if slice_ is not None and slice_.due <= now:
                self._overdue_count += 1
                slice_.host.overdue.add(slice_.name)
                lane.free(now)
                # What it used is not known; what it has cost the others is the time it held the lane.
                self._tell(SliceEnded(slice_.name, number, now - slice_.since, backlog=False), now)
            elif lane.ended and lane.rests_until <= now:
                name, lane.ended = lane.ended, ""
                self._tell(SliceEnded(name, number, lane.ended_used_s, name in self._waiting), now)

    def _set_shares(self, shares: dict[str, float], hosts: dict[str, str]) -> None:
        now = time.monotonic()
        unknown = shares.keys() - self._shared
        self._shared = set(shares)
        self._tell(HostsSet(hosts), now)
        self._tell(SharesSet(shares), now)
        for name in shares:
            if name in unknown and name in self._waiting:
                self._tell(ClassReady(name), now)

    def _status(self) -> TurnStatus:
        now = time.monotonic()
        return TurnStatus(
            rounds=self._core.rounds,
            lanes=tuple(lane.status(now) for lane in self._lanes),
            hosts={
                host.name: tuple(sorted(host.classes))
                for host in self._hosts.values()
                if host.name and not host.gone
            },
            overdue=tuple(sorted(name for host in self._hosts.values() for name in host.overdue)),
            overdue_count=self._overdue_count,
            refused_count=self._refused_count,
            stray_count=self._stray_count,
            decided_ms=self._decided.response_ms(),
            handed_over_ms=self._handed_over.response_ms(),
            handed_over_s=self._handed_over.sum_s,
            not_pinned=self._cores.why_not,
        )

    def _stop(self) -> None:
        self._stopping = True

    def _close(self) -> None:
        for host in self._hosts.values():
            host.channel.close()
        self._listener.close()
        self._poll.close()
