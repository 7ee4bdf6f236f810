"""The dispatcher's loop: hosts report which classes have input, one `TurnRoundRobin` decides, and grants are sent at once.

One thread owns all state of the loop. Other threads queue work for this thread (`set_shares`, `status`, `stop`) and wake it.
It sleeps until a message or other work arrives, or until a slice is overdue, so an idle node has no wake-ups.

    event                                effect
    Hello(host, classes)                 the classes belong to this host now, even if another host held them
    Ready(name)                          ClassReady is passed to the core, at once or when the class gets a share
    Ended(name, lane, …)                 SliceEnded is passed to the core, and the next Granted is sent
    Left(name), EOF of the host          ClassLeft is passed to the core; a current slice continues after Left and ends with EOF
    a packet that cannot be decoded      RefusedHost(reason) is sent; further packets of the host are ignored, as after EOF
    an overdue slice                     the lane is granted to other classes; the host gets no turns until it answers

If queries may use only a part of each processor's time (`LiveSettings.lane_part`), a slice can use more of a lane's time than has
passed by the clock. The lane then rests until the clock has caught up; only then the core receives SliceEnded.

Guarantees:
1. A grant is sent in the same pass that reads the Ended before it: nothing is queued in between.
2. No host can block the loop: no send waits for a host, and one message of each host is read at a time.
3. A class is granted only to the host that named it last, and never while that host has an unanswered overdue slice.
4. If lanes rest, the slices of a lane use at most the time that passes by the clock, plus one round and one slice.
5. Each event and the decisions of the core about it are passed to `record`, in order.
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

# A slice is overdue after OVERDUE_QUOTAS quotas plus OVERDUE_S seconds.
# Slices often overrun several quotas: a train is always finished, and other processes may take the processor for a while.
# Even a quota of microseconds lets a slice finish a train, a load cycle or a snapshot, and OVERDUE_S is longer than each of these.
OVERDUE_QUOTAS, OVERDUE_S = 50.0, 1.0
# Maximum number of connections: far more than hosts on one node. Each connection takes a file descriptor.
HOSTS_MAX = 1000

Record = Callable[[TurnEvent, float, tuple[Grant, ...]], None]


@dataclass(frozen=True, slots=True)
class TurnStatus:
    """State and statistics of the dispatcher's loop at one moment."""

    rounds: int
    lanes: tuple[LaneStatus, ...]
    hosts: Mapping[str, tuple[str, ...]]
    """Names of the classes that each host holds."""
    overdue: tuple[str, ...]
    """Classes with an overdue slice that has not been answered yet."""
    overdue_count: int
    refused_count: int
    stray_count: int
    """Number of messages about classes or slices that do not belong to the sender, or no longer do."""
    decided_ms: Mapping[str, float]
    """Milliseconds from the arrival of an Ended to the sending of the next Granted: mean and percentiles."""
    handed_over_s: float
    """Total overhead of all turns, in seconds: time from the cause of a grant to its Ended, minus the slice."""
    not_pinned: str
    """Reason why the loop's thread is not pinned to a lane's processor; empty if it is pinned."""


class TurnLoop:
    """Loop that grants the turns of a node. Hosts can connect once the object exists; `run` serves hosts until `stop` is called."""

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
        self._cores = cores or Cores(why_not="pinning is not requested")
        self._listener = Listener(path)
        self._wake_up = WakeUp()
        self._asked: deque[Callable[[], None]] = deque()
        self._poll = select.epoll()
        self._poll.register(self._listener, select.EPOLLIN)
        self._poll.register(self._wake_up, select.EPOLLIN)
        self._hosts: dict[int, ConnectedHost] = {}
        self._holder: dict[str, ConnectedHost] = {}
        self._waiting: set[str] = set()  # Classes that have input and no turn, as reported by their hosts
        self._shared: set[str] = set()  # Classes that have a share and are therefore known to the core
        began = time.monotonic()
        self._lanes = [TurnLane(began) for _ in range(lanes)]
        self._decided, self._handed_over_s = ResponseStatistics(), 0.0
        self._overdue_count = self._refused_count = self._stray_count = 0
        self._stopping = False

    # Other threads call the following methods, which queue work for the loop.

    def set_shares(self, shares: Mapping[str, float], hosts: Mapping[str, str]) -> None:
        """Set the share of the lanes for each class, and the host of each class. A host runs one class at a time."""
        self._ask(lambda: self._set_shares(dict(shares), dict(hosts)))

    def status(self, wait_s: float = 1.0) -> TurnStatus:
        """Return the state of the loop; raise TimeoutError if the loop does not answer within `wait_s` seconds."""
        answer: Future[TurnStatus] = Future()
        self._ask(lambda: answer.set_result(self._status()))
        return answer.result(wait_s)

    def slices(self) -> int:
        """Return the number of slices that have ended on all lanes."""
        return sum(lane.ended_slices.slices for lane in self._lanes)

    def stop(self) -> None:
        """Make `run` return and close the connections to all hosts. May be repeated."""
        self._ask(self._stop)

    def _ask(self, work: Callable[[], None]) -> None:
        self._asked.append(work)
        self._wake_up.set()

    # Only the thread of `run` calls the following methods.

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
                        self._wake_up.clear()
                        while self._asked:
                            self._asked.popleft()()
                    else:
                        self._accept()
                self._watch()
        finally:
            self._close()

    def _wait_s(self) -> float | None:
        """Return the seconds until a slice becomes overdue or a resting lane may be used again. Return None if all lanes are free."""
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
                self._refuse(
                    host, f"a host sent {type(message).__name__}, which only a dispatcher sends", now
                )

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
        self._handed_over_s += now - since - message.ran_s
        # Time in which the lane was free before the slice counts as rest, up to one round. So the lane rests less after the slice.
        lane.rests_until = max(lane.rests_until, since - self._round_s) + message.used_s
        lane.free(now)
        lane.ended_slices.in_slices_s += message.ran_s
        lane.ended_slices.used_s += message.used_s
        if self._rests and lane.rests_until > now:
            lane.ended, lane.ended_used_s = name, message.used_s
            return
        # The class may wait for a turn although this host has no backlog: another host may have taken the class over and sent Ready.
        granted = self._tell(SliceEnded(name, message.lane, message.used_s, name in self._waiting), now)
        if granted:
            self._decided.add([granted - now], 0.0)

    def _ended_late(self, host: ConnectedHost, message: Ended, now: float) -> None:
        """Handle the end message of a slice that was overdue, or that this dispatcher does not know."""
        if message.name not in host.overdue:
            self._stray_count += 1
            return
        host.overdue.remove(message.name)
        if message.backlog and self._holder.get(message.name) is host:
            self._waiting.add(message.name)
        for name in sorted(host.classes & self._waiting & self._shared):
            self._tell(ClassReady(name), now)

    def _leave(self, name: str, now: float) -> None:
        """Take the class away from its host. If the host is still connected, a current slice continues and ends as usual."""
        host = self._holder.pop(name, None)
        if host is None:
            return
        host.classes.discard(name)
        if name in self._waiting:
            self._waiting.remove(name)
            if all(lane.slice is None or lane.slice.name != name for lane in self._lanes):
                self._tell(ClassLeft(name), now)

    def _lose(self, host: ConnectedHost, now: float) -> None:
        """Close the connection of a host that has ended, and remove the host and its classes."""
        self._poll.unregister(host.channel)
        del self._hosts[host.channel.fileno()]
        host.channel.close()
        self._forget(host, now)

    def _refuse(self, host: ConnectedHost, reason: str, now: float) -> None:
        """Send the host the reason of its refusal, and ignore its further packets.

        The host must close the channel. If the dispatcher closed a channel with unread packets, the reason would be lost.
        """
        self._refused_count += 1
        self._say(host, RefusedHost(reason))
        self._forget(host, now)

    def _forget(self, host: ConnectedHost, now: float) -> None:
        """Remove the host's classes from the round robin, and end the slices of the host."""
        host.gone = True
        for name in sorted(host.classes):
            self._leave(name, now)
        for lane in self._lanes:
            if lane.slice is not None and lane.slice.host is host:
                name = lane.slice.name
                lane.free(now)
                self._tell(ClassLeft(name), now)
                # Another host may have taken the class over during the slice and sent Ready. Then the class waits for a turn again.
                if name in self._waiting:
                    self._tell(ClassReady(name), now)

    def _tell(self, event: TurnEvent, now: float) -> float:
        """Pass an event to the core and send the grants that the core returns. Return the time of the last sent grant, or 0 without one."""
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
                self._record(event, now, grants)
        return sent

    def _grant(self, grant: Grant, now: float) -> bool:
        """Send a grant; return False if the class's host cannot receive the grant, so that the core can grant the lane to another class."""
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
            # The host is gone or reads no messages, so the channel is shut down. The loop then reads EOF and forgets the host.
            host.gone = True
            host.channel.end()
            return False
        return True

    def _watch(self) -> None:
        """Free the lanes of overdue slices. Let lanes be used again after they have rested long enough.

        A host with an overdue slice still runs the slice, so no class of this host gets a turn until the host answers.
        """
        now = time.monotonic()
        for number, lane in enumerate(self._lanes):
            slice_ = lane.slice
            if slice_ is not None and slice_.due <= now:
                self._overdue_count += 1
                slice_.host.overdue.add(slice_.name)
                lane.free(now)
                # The processor time of the slice is unknown, so the class pays for the time in which it held the lane.
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
            handed_over_s=self._handed_over_s,
            not_pinned=self._cores.why_not,
        )

    def _stop(self) -> None:
        self._stopping = True

    def _close(self) -> None:
        for host in self._hosts.values():
            host.channel.close()
        self._listener.close()
        self._poll.close()
