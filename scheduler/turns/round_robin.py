"""Level 1: weighted round robin over classes (CQC, DILoS §III-A; ALGORITHMS §2).

In each round of length k a class with share p has the quota k·p·lanes. It is granted as a slice on one lane at a
time; a class with nothing queued is passed over, and a class whose queues run empty hands over at once
(work-conserving). A slice is not cut short inside a train, so it may overrun: the excess is a negative credit,
deducted from later quotas, and a class whose credit is still ≤ 0 sits the round out. Unused quota is not saved.

    state of a class     event                      becomes
    idle                 ClassReady                 waiting
    waiting              its turn, credit > 0       running, Grant
    running              SliceEnded(backlog)        waiting
    running              SliceEnded(no backlog)     idle
    any                  ClassLeft                  idle; a slice under way ends, its quota counts as used

Several lanes take turns from the same round. A class runs in one lane at a time, so one that is entitled to more
than a whole lane leaves the rest to the others; one still running when a round begins has its turn in it afterwards.
So it is with the classes of one host, a process that runs in one lane at a time: a class whose turn comes while
another of its host runs has it as soon as the host is free, before classes whose turns came later. The quotas of
rounds that have begun meanwhile (two at most) it gets with it: it was not for want of input that it did not use them.

Properties (`tests/property/test_wrr.py`):
1. A lane is free only when no class is waiting whose host is free.
2. With every class backlogged on one lane, after any number of rounds n a class has had n·k·p plus less than one
   train.
3. What a class used above its quota it gives back before it runs again.
4. A turn costs O(log classes), however many classes are idle, in debt, or kept waiting by their hosts.
5. No two classes of a host run at a time, nor one class on two lanes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

# A share never counts as less than this, so that a class that was given almost nothing still gets a turn.
LEAST_SHARE = 1e-6
# Of the rounds that pass while its host keeps a class waiting so many are made up for. Without any, classes that
# share a host lose half of their turns; more than two are not needed unless the host owns more than a lane.
HELD_ROUNDS = 2


@dataclass(frozen=True, slots=True)
class ClassReady:
    """The class has input."""

    name: str


@dataclass(frozen=True, slots=True)
class SliceEnded:
    """The class gives the lane back after `used_s` of processor time."""

    name: str
    lane: int
    used_s: float
    backlog: bool


@dataclass(frozen=True, slots=True)
class SharesSet:
    """Shares of the lanes, by class; classes that are not named leave."""

    shares: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class HostsSet:
    """Which host each class runs in, from its next turn on; a class that is not named has one of its own name."""

    hosts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ClassLeft:
    """The class's host has died: its slice is over, and it waits no more. Its share stays."""

    name: str


@dataclass(frozen=True, slots=True)
class Grant:
    """The class may run on the lane for `quota_s` of processor time."""

    name: str
    lane: int
    quota_s: float


TurnEvent = ClassReady | SliceEnded | SharesSet | HostsSet | ClassLeft

# When a turn is due, and the class's place in the round: what is least comes first.
_Due = tuple[int, int]


@dataclass(slots=True)
class _Turn:
    """What the round robin knows of one class."""

    place: int  # order in the round
    quota_s: float
    host: str
    credit_s: float = 0.0
    settled_round: int = 0  # the round up to which credit has been made good
    waiting: bool = False
    due_round: int = 0  # waiting: the round in which its turn comes, debts aside
    lane: int | None = None  # running: where, and in which host
    runs_in: str = ""

    @property
    def due(self) -> _Due:
        """The first round from its turn on in which its credit is above 0."""
        if self.credit_s > 0:
            return self.due_round, self.place
        recovered = self.settled_round + math.floor(-self.credit_s / self.quota_s) + 1
        return max(self.due_round, recovered), self.place

    def settle(self, round_number: int) -> None:
        """Credit for the rounds since the last visit: debts are paid off, unused quota is not saved."""
        missed = round_number - self.settled_round
        if missed > 0:
            earlier = min(self.credit_s + (missed - 1) * self.quota_s, 0.0) if missed > 1 else self.credit_s
            self.credit_s = min(earlier, 0.0) + self.quota_s
            self.settled_round = round_number


@dataclass
class TurnRoundRobin:
    """The turns of one node's lanes. `handle(event, now)` returns the grants that follow."""

    shares: Mapping[str, float]
    round_s: float
    lanes: int = 1
    _hosts: Mapping[str, str] = field(init=False, default_factory=dict)
    _turns: dict[str, _Turn] = field(init=False, default_factory=dict)
    _left: dict[str, _Turn] = field(init=False, default_factory=dict)  # left, but still on a lane
    _names: list[str] = field(init=False, default_factory=list)
    _round: int = field(init=False, default=0)
    _place: int = field(init=False, default=-1)
    # Every waiting class is in one of these heaps once; of a host that is free, the first one is in the first.
    _queue: list[_Due] = field(init=False, default_factory=list)
    _held: dict[str, list[_Due]] = field(init=False, default_factory=dict)  # by their hosts
    _busy: set[str] = field(init=False, default_factory=set)  # hosts
    _free: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self._free = list(range(self.lanes))
        self._arrange(self.shares)

    def handle(self, event: TurnEvent, now: float) -> tuple[Grant, ...]:
        match event:
            case ClassReady(name):
                self._ready(name)
            case SliceEnded(name, lane, used_s, backlog):
                self._ended(name, lane, used_s, backlog)
            case SharesSet(shares):
                self._arrange(shares)
            case HostsSet(hosts):
                self._hosts = hosts
                self._arrange(self.shares)
            case ClassLeft(name):
                self._class_left(name)
        return self._grants() if self._free else ()

    @property
    def rounds(self) -> int:
        """Rounds begun so far."""
        return self._round

    def _ready(self, name: str) -> None:
        turn = self._turns.get(name)
        if turn is not None and not turn.waiting and turn.lane is None:
            # A class whose place the round has passed was passed over.
            passed = turn.settled_round == self._round or turn.place <= self._place
            self._wait(turn, self._round + passed)

    def _ended(self, name: str, lane: int, used_s: float, backlog: bool) -> None:
        turn = self._turns.get(name) or self._left.get(name)
        if turn is None or turn.lane != lane:  # its slice is over already
            return
        self._give_back(turn)
        turn.credit_s -= used_s
        if self._left.pop(name, None) is not None:
            return
        if backlog:
            # A round that began during the slice still owes the class its turn.
            self._wait(turn, self._round + (turn.settled_round == self._round))
        else:
            turn.credit_s = min(turn.credit_s, 0.0)

    def _class_left(self, name: str) -> None:
        turn = self._turns.get(name) or self._left.get(name)
        if turn is None:
            return
        if turn.lane is not None:
            self._ended(name, turn.lane, turn.credit_s, backlog=False)
        elif turn.waiting:
            self._wait_no_more(turn)

    def _give_back(self, turn: _Turn) -> None:
        """The class's lane and host are free again."""
        assert turn.lane is not None
        heappush(self._free, turn.lane)
        turn.lane = None
        self._busy.discard(turn.runs_in)
        self._let_go(turn.runs_in)

    def _wait(self, turn: _Turn, due_round: int) -> None:
        turn.waiting, turn.due_round = True, due_round
        heappush(self._queue, turn.due)

    def _wait_no_more(self, turn: _Turn) -> None:
        turn.waiting = False
        for heap in (self._queue, self._held.get(turn.host, [])):
            if turn.due in heap:
                heap.remove(turn.due)
                heapify(heap)
        if turn.host not in self._busy:
            self._let_go(turn.host)

    def _let_go(self, host: str) -> None:
        """The first of the classes that the host has kept waiting may have its turn."""
        if held := self._held.get(host):
            heappush(self._queue, heappop(held))
        if not held:
            self._held.pop(host, None)

    def _grants(self) -> tuple[Grant, ...]:
        grants = []
        while self._free:
            turn = self._next_turn()
            if turn is None:
                break
            turn.waiting, turn.lane, turn.runs_in = False, heappop(self._free), turn.host
            self._busy.add(turn.host)
            grants.append(Grant(self._names[turn.place], turn.lane, turn.credit_s))
        return tuple(grants)

    def _next_turn(self) -> _Turn | None:
        """The next waiting class with credit and a free host, beginning rounds as needed; None if there is none."""
        while self._queue:
            due = heappop(self._queue)
            due_round, place = due
            turn = self._turns[self._names[place]]
            if turn.host in self._busy:
                heappush(self._held.setdefault(turn.host, []), due)
                continue
            if due_round > self._round:
                self._round, self._place = due_round, -1
            # A turn made up for lies behind the round's place; the classes between have had theirs.
            self._place = max(self._place, place)
            turn.settle(due_round)
            if turn.credit_s > 0:
                turn.credit_s += turn.quota_s * min(self._round - due_round, HELD_ROUNDS)
                turn.settled_round = self._round
                return turn
            # Rounding had it recover a round too early.
            self._wait(turn, self._round + 1)
            self._let_go(turn.host)
        return None

    def _arrange(self, shares: Mapping[str, float]) -> None:
        """New shares or hosts, from the next turn on: debts stay, places follow the given order, nobody loses a turn."""
        old, current = self._turns | self._left, None
        if 0 <= self._place < len(self._names):
            current = self._names[self._place]
        self.shares, self._turns, self._names = shares, {}, list(shares)
        self._left = {
            name: turn for name, turn in old.items() if turn.lane is not None and name not in shares
        }
        for place, (name, share) in enumerate(shares.items()):
            quota_s = max(share, LEAST_SHARE) * self.round_s * self.lanes
            host = self._hosts.get(name, name)
            turn = old.get(name) or _Turn(place, quota_s, host, settled_round=self._round)
            if turn.waiting and turn.due[0] < self._round:  # its host keeps it waiting
                turn.due_round = turn.due[0]
                turn.settle(turn.due_round)
            # What a slice under way uses, and so what earlier rounds still have to pay, is not known yet.
            elif turn.lane is None:
                turn.settle(self._round - 1)
            turn.place, turn.quota_s, turn.host = place, quota_s, host
            self._turns[name] = turn
        self._place = self._turns[current].place if current in self._turns else -1
        self._held = {}
        self._queue = [turn.due for turn in self._turns.values() if turn.waiting]
        heapify(self._queue)
