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

Properties (`tests/property/test_wrr.py`):
1. A lane is free only when no class is waiting.
2. With every class backlogged on one lane, after any number of rounds n a class has had n·k·p plus less than one
   train.
3. What a class used above its quota it gives back before it runs again.
4. A turn costs O(log classes), however many classes are idle.

Several lanes take turns from the same round. A class runs in one lane at a time, so one that is entitled to more
than a whole lane leaves the rest to the others; one still running when a round begins has its turn in it afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush

# A share never counts as less than this, so that a class that was given almost nothing still gets a turn.
LEAST_SHARE = 1e-6


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
class Grant:
    """The class may run on the lane for `quota_s` of processor time."""

    name: str
    lane: int
    quota_s: float


TurnEvent = ClassReady | SliceEnded | SharesSet


@dataclass(slots=True)
class _Turn:
    """What the round robin knows of one class."""

    place: int  # order in the round
    quota_s: float
    credit_s: float = 0.0
    settled_round: int = 0  # the round up to which credit has been made good
    waiting: bool = False
    running: bool = False
    queued: bool = False  # sits in one of the two heaps


@dataclass
class RoundRobin:
    """The turns of one node's lanes. `handle(event, now)` returns the grants that follow."""

    shares: Mapping[str, float]
    round_s: float
    lanes: int = 1
    _turns: dict[str, _Turn] = field(init=False, default_factory=dict)
    _left: dict[str, _Turn] = field(init=False, default_factory=dict)  # left, but still on a lane
    _names: list[str] = field(init=False, default_factory=list)
    _round: int = field(init=False, default=0)
    _place: int = field(init=False, default=-1)
    _this_round: list[int] = field(init=False, default_factory=list)
    _next_round: list[int] = field(init=False, default_factory=list)
    _free: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self._free = list(range(self.lanes))
        self._set_shares(self.shares)

    def handle(self, event: TurnEvent, now: float) -> tuple[Grant, ...]:
        match event:
            case ClassReady(name):
                self._ready(name)
            case SliceEnded(name, lane, used_s, backlog):
                self._ended(name, lane, used_s, backlog)
            case SharesSet(shares):
                self._set_shares(shares)
        return self._grants() if self._free else ()

    @property
    def rounds(self) -> int:
        """Rounds begun so far."""
        return self._round

    def _ready(self, name: str) -> None:
        turn = self._turns.get(name)
        if turn is not None and not turn.waiting and not turn.running:
            turn.waiting = True
            # A class whose place the round has passed was passed over.
            passed = turn.settled_round == self._round or turn.place <= self._place
            self._enqueue(turn, in_this_round=not passed)

    def _ended(self, name: str, lane: int, used_s: float, backlog: bool) -> None:
        heappush(self._free, lane)
        turn = self._turns.get(name)
        if turn is None:  # the class left while it ran
            self._left.pop(name, None)
            return
        turn.running = False
        turn.credit_s -= used_s
        if backlog:
            turn.waiting = True
            # A round that began during the slice still owes the class its turn.
            self._enqueue(turn, in_this_round=turn.settled_round < self._round)
        else:
            turn.credit_s = min(turn.credit_s, 0.0)

    def _enqueue(self, turn: _Turn, in_this_round: bool) -> None:
        if not turn.queued:
            turn.queued = True
            heappush(self._this_round if in_this_round else self._next_round, turn.place)

    def _grants(self) -> tuple[Grant, ...]:
        grants = []
        while self._free:
            turn_name = self._next_turn()
            if turn_name is None:
                break
            turn = self._turns[turn_name]
            turn.waiting, turn.running = False, True
            grants.append(Grant(turn_name, heappop(self._free), turn.credit_s))
        return tuple(grants)

    def _next_turn(self) -> str | None:
        """The next waiting class with credit, beginning rounds as needed; None if no class is waiting."""
        while self._this_round or self._next_round:
            if not self._this_round:
                self._begin_round()
            place = heappop(self._this_round)
            # A turn made up for lies behind the round's place; the classes between have had theirs.
            self._place = max(self._place, place)
            name = self._names[place]
            turn = self._turns[name]
            turn.queued = False
            if not turn.waiting:
                continue
            self._settle(turn, self._round)
            if turn.credit_s > 0:
                return name
            self._enqueue(turn, in_this_round=False)
        return None

    def _begin_round(self) -> None:
        """Start a round; when every waiting class is in debt, start as many as the first to recover needs."""
        waiting = [self._turns[self._names[place]] for place in self._next_round]
        self._round += 1
        if waiting:
            self._round += min(self._rounds_in_debt(turn) for turn in waiting)
        self._place = -1
        self._this_round, self._next_round = self._next_round, self._this_round

    def _rounds_in_debt(self, turn: _Turn) -> int:
        """How many whole rounds the class would sit out if it were visited in the round just begun."""
        missed = self._round - turn.settled_round
        debt = turn.credit_s + missed * turn.quota_s
        return 0 if debt > 0 else math.floor(-debt / turn.quota_s) + 1

    def _settle(self, turn: _Turn, round_number: int) -> None:
        """Credit for the rounds since the last visit: debts are paid off, unused quota is not saved."""
        missed = round_number - turn.settled_round
        if missed > 0:
            earlier = min(turn.credit_s + (missed - 1) * turn.quota_s, 0.0) if missed > 1 else turn.credit_s
            turn.credit_s = min(earlier, 0.0) + turn.quota_s
            turn.settled_round = round_number

    def _set_shares(self, shares: Mapping[str, float]) -> None:
        """New shares, from the next turn on: debts stay, places follow the given order, nobody loses a turn."""
        due = {self._names[place] for place in self._this_round}
        old, current = self._turns | self._left, None
        if 0 <= self._place < len(self._names):
            current = self._names[self._place]
        self._left = {name: turn for name, turn in old.items() if turn.running and name not in shares}
        self._turns, self._names = {}, list(shares)
        self._this_round, self._next_round = [], []
        for place, (name, share) in enumerate(shares.items()):
            quota_s = max(share, LEAST_SHARE) * self.round_s * self.lanes
            turn = old.get(name) or _Turn(place, quota_s, settled_round=self._round)
            # What a slice under way uses, and so what earlier rounds still have to pay, is not known yet.
            if not turn.running:
                self._settle(turn, self._round - 1)
            turn.place, turn.quota_s, turn.queued = place, quota_s, False
            self._turns[name] = turn
            if turn.waiting:
                self._enqueue(turn, in_this_round=name in due)
        self._place = self._turns[current].place if current in self._turns else -1
