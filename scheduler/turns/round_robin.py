"""Level 1: weighted round robin over classes (CQC, DILoS §III-A).

In each round of length k a class with share p has the quota k·p·lanes. The quota is granted as a slice on one lane at a
time. A class with nothing queued is skipped, and a class that has emptied its queues returns the lane at once
(work-conserving). A slice is not cut short inside a train, so it may overrun. The excess is a negative credit,
deducted from later quotas; a class with a credit ≤ 0 is skipped in the round. Unused quota is not saved.

    state of a class     event                      becomes
    idle                 ClassReady                 waiting
    waiting              its turn, credit > 0       running, Grant
    running              SliceEnded(backlog)        waiting
    running              SliceEnded(no backlog)     idle
    any                  ClassLeft                  idle; a slice under way ends, its quota counts as used

Several lanes take turns from the same round. A class runs in one lane at a time, so a class that is entitled to more
than a whole lane leaves the rest to other classes. A class that is still running when a round begins has its turn in that
round afterwards. The classes of one host share a process that runs in one lane at a time. If the turn of a class comes while
another class of its host runs, the class runs as soon as the host is free, before classes with later turns. Its slice then
includes the quotas of rounds that have begun meanwhile (two at most), since only the busy host kept it from using them.

Properties (`tests/property/test_wrr.py`):
1. A lane is free only when no class with a free host is waiting.
2. If every class is backlogged on one lane, after any number of rounds n a class has used n·k·p plus less than one
   train.
3. A class that used more than its quota loses the excess before it runs again.
4. A turn costs O(log classes), independently of the number of classes that are idle, in debt, or waiting for their hosts.
5. No two classes of a host run at a time, nor does one class run on two lanes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

# Minimum share, so that a class with almost no share still gets turns.
LEAST_SHARE = 1e-6
# Maximum number of rounds for which a class gets its quota later, because its host was busy.
# If quotas were lost while a host is busy, classes that share a host would lose half of their turns.
# The value 2 suffices unless the classes of one host are together entitled to more than one lane.
HELD_ROUNDS = 2


@dataclass(frozen=True, slots=True)
class ClassReady:
    """Message that a class has input."""

    name: str


@dataclass(frozen=True, slots=True)
class SliceEnded:
    """Message that a class returns its lane after `used_s` seconds of processor time."""

    name: str
    lane: int
    used_s: float
    backlog: bool


@dataclass(frozen=True, slots=True)
class SharesSet:
    """Message with new shares of the lanes, by class; classes that are not named leave the round robin."""

    shares: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class HostsSet:
    """Message with the host of each class, which applies from the class's next turn on. A class without an entry has a host of its own."""

    hosts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ClassLeft:
    """Message that the host of a class has ended. The class then neither runs nor waits for a turn, but keeps its share."""

    name: str


@dataclass(frozen=True, slots=True)
class Grant:
    """Permission for a class to run on a lane for `quota_s` seconds of processor time."""

    name: str
    lane: int
    quota_s: float


TurnEvent = ClassReady | SliceEnded | SharesSet | HostsSet | ClassLeft

# Round in which a class's turn is due, and the class's position in the round. Turns are taken in the order of these pairs.
_Due = tuple[int, int]


@dataclass(slots=True)
class _Turn:
    """State of one class in the round robin."""

    place: int  # Position of the class in the order of a round
    quota_s: float
    host: str
    credit_s: float = 0.0
    settled_round: int = 0  # Last round for which the quota has been added to the credit
    waiting: bool = False
    due_round: int = 0  # Round in which the turn of a waiting class comes, unless the class is in debt
    lane: int | None = None  # Lane on which the class has its turn now; None if the class does not run
    runs_in: str = ""

    @property
    def due(self) -> _Due:
        """First round from `due_round` on at which the class's credit is above 0, and the class's position in the order of a round."""
        if self.credit_s > 0:
            return self.due_round, self.place
        recovered = self.settled_round + math.floor(-self.credit_s / self.quota_s) + 1
        return max(self.due_round, recovered), self.place

    def settle(self, round_number: int) -> None:
        """Add the quotas of the rounds since the last call: debts are reduced, unused quota is not saved."""
        missed = round_number - self.settled_round
        if missed > 0:
            earlier = min(self.credit_s + (missed - 1) * self.quota_s, 0.0) if missed > 1 else self.credit_s
            self.credit_s = min(earlier, 0.0) + self.quota_s
            self.settled_round = round_number


@dataclass
class TurnRoundRobin:
    """Turns of the lanes of one node. `handle(event, now)` returns the turns that are now granted."""

    shares: Mapping[str, float]
    round_s: float
    lanes: int = 1
    _hosts: Mapping[str, str] = field(init=False, default_factory=dict)
    _turns: dict[str, _Turn] = field(init=False, default_factory=dict)
    # Classes that have left the round robin but still run on a lane.
    _left: dict[str, _Turn] = field(init=False, default_factory=dict)
    _names: list[str] = field(init=False, default_factory=list)
    _round: int = field(init=False, default=0)
    _place: int = field(init=False, default=-1)
    # Heap of due turns. Each waiting class is either in `_queue` or in `_held`. The first waiting class of a free host is in `_queue`.
    _queue: list[_Due] = field(init=False, default_factory=list)
    # Due turns of classes with busy hosts, by host.
    _held: dict[str, list[_Due]] = field(init=False, default_factory=dict)
    _busy: set[str] = field(init=False, default_factory=set)  # Hosts that run a class
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
        """Number of rounds that have begun."""
        return self._round

    def _ready(self, name: str) -> None:
        turn = self._turns.get(name)
        if turn is not None and not turn.waiting and turn.lane is None:
            # If later classes in the order have already had their turns in this round, this class has its turn in the next round.
            passed = turn.settled_round == self._round or turn.place <= self._place
            self._wait(turn, self._round + passed)

    def _ended(self, name: str, lane: int, used_s: float, backlog: bool) -> None:
        turn = self._turns.get(name) or self._left.get(name)
        if turn is None or turn.lane != lane:  # The slice has already ended.
            return
        self._give_back(turn)
        turn.credit_s -= used_s
        if self._left.pop(name, None) is not None:
            return
        if backlog:
            # If a round has begun during the slice, the class still has its turn in that round.
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
        """Queue the turn of the first class that waits for the host, because the host is free now."""
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
        """Return the next waiting class with credit and a free host, or None if no class can run; begin new rounds as needed."""
        while self._queue:
            due = heappop(self._queue)
            due_round, place = due
            turn = self._turns[self._names[place]]
            if turn.host in self._busy:
                heappush(self._held.setdefault(turn.host, []), due)
                continue
            if due_round > self._round:
                self._round, self._place = due_round, -1
            # The position in the round must not go back to a class that had to wait for its host: later classes have had their turns.
            self._place = max(self._place, place)
            turn.settle(due_round)
            if turn.credit_s > 0:
                turn.credit_s += turn.quota_s * min(self._round - due_round, HELD_ROUNDS)
                turn.settled_round = self._round
                return turn
            # Because of rounding, the credit is still not above 0, so the class gets its turn one round later.
            self._wait(turn, self._round + 1)
            self._let_go(turn.host)
        return None

    def _arrange(self, shares: Mapping[str, float]) -> None:
        """Set new shares or hosts from the next turn on. Debts stay, turns follow the order of `shares`, and no class loses a turn."""
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
            # The class could not run in its round because its host is busy.
            if turn.waiting and turn.due[0] < self._round:
                turn.due_round = turn.due[0]
                turn.settle(turn.due_round)
            # A running class gets its quotas when its slice ends, because only then the used time and the debt of the class are known.
            elif turn.lane is None:
                turn.settle(self._round - 1)
            turn.place, turn.quota_s, turn.host = place, quota_s, host
            self._turns[name] = turn
        self._place = self._turns[current].place if current in self._turns else -1
        self._held = {}
        self._queue = [turn.due for turn in self._turns.values() if turn.waiting]
        heapify(self._queue)
