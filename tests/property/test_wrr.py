"""The numbered properties of `scheduler.turns.round_robin`. Its grants, which skip rounds in which every
class is in debt, are compared with an oracle that walks round by round.

All times are multiples of 1/64 and all shares of 1/16, so that sums are exact and no tolerance is needed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from scheduler.turns.round_robin import (
    HELD_ROUNDS,
    ClassLeft,
    ClassReady,
    Grant,
    HostsSet,
    SharesSet,
    SliceEnded,
    TurnEvent,
    TurnRoundRobin,
)

NAMES = ("a", "b", "c", "d")

HOSTS = ("h", "i", "a")

hosts = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(HOSTS))
weights = st.dictionaries(st.sampled_from(NAMES), st.integers(1, 16), min_size=1)
processor_times = st.one_of(st.integers(0, 64), st.integers(0, 4000)).map(lambda ticks: ticks / 64)


def shares_of(drawn: Mapping[str, int]) -> dict[str, float]:
    return {name: weight / 16 for name, weight in drawn.items()}


@dataclass
class Node:
    """Lanes and classes around a round robin. Each grant is checked, and after each event, no lane may be idle while a class could run."""

    turns: TurnRoundRobin
    hosts: Mapping[str, str] = field(default_factory=dict)
    waiting: set[str] = field(default_factory=set)
    running: dict[str, Grant] = field(default_factory=dict)
    busy: dict[str, str] = field(default_factory=dict)  # Host of each running class

    def __post_init__(self) -> None:
        self.turns.handle(HostsSet(self.hosts), 0.0)

    def host_of(self, name: str) -> str:
        return self.hosts.get(name, name)

    def send(self, event: TurnEvent, now: float = 0.0) -> tuple[Grant, ...]:
        granted = self.turns.handle(event, now)
        match event:
            case ClassReady(name) if name in self.turns.shares and name not in self.running:
                self.waiting.add(name)
            case SliceEnded(name, backlog=backlog):
                del self.running[name], self.busy[name]
                if backlog and name in self.turns.shares:
                    self.waiting.add(name)
            case SharesSet(shares):
                self.waiting &= set(shares)
            case HostsSet(hosts):
                self.hosts = hosts
            case ClassLeft(name):
                self.waiting.discard(name)
                self.running.pop(name, None)
                self.busy.pop(name, None)
        for grant in granted:
            assert grant.name in self.waiting, f"{grant} went to a class that does not wait"
            assert grant.lane not in {one.lane for one in self.running.values()}, (
                f"{grant}: another class runs on this lane"
            )
            assert 0 <= grant.lane < self.turns.lanes
            assert self.host_of(grant.name) not in self.busy.values(), (
                f"{grant}: another class of its host runs already"
            )
            self.waiting.remove(grant.name)
            self.running[grant.name] = grant
            self.busy[grant.name] = self.host_of(grant.name)
        could_run = [name for name in self.waiting if self.host_of(name) not in self.busy.values()]
        assert not could_run or len(self.running) == self.turns.lanes, "a lane is free while a class waits"
        return granted


def draw_event(draw: st.DrawFn, node: Node, names: tuple[str, ...], shares_move: bool) -> TurnEvent:
    kinds = ["ready"] * 2 + ["ended"] * 4 * bool(node.running) + ["shares", "hosts", "left"] * shares_move
    match draw(st.sampled_from(kinds)):
        case "ready":
            return ClassReady(draw(st.sampled_from(names)))
        case "shares":
            return SharesSet(shares_of(draw(weights)))
        case "hosts":
            return HostsSet(draw(hosts))
        case "left":
            return ClassLeft(draw(st.sampled_from(names)))
    name = draw(st.sampled_from(sorted(node.running)))
    return SliceEnded(name, node.running[name].lane, draw(processor_times), draw(st.booleans()))


class RoundByRound:
    """Oracle of the grants: visits every class in every round, one round at a time."""

    def __init__(self, shares: Mapping[str, float], hosts: Mapping[str, str], lanes: int) -> None:
        self.lanes, self.free, self.round = lanes, set(range(lanes)), 0
        self.hosts = hosts
        self.order: list[str] = []
        self.place = -1  # Position of the last class that had its turn in this round
        self.quota: dict[str, float] = {}
        self.credit: dict[str, float] = {}
        self.waiting: set[str] = set()
        self.running: dict[str, tuple[Grant, str]] = {}  # Grant and host of each running class
        self.passed: dict[str, int] = {}  # Number of rounds begun during the slice of each running class
        self.due: set[str] = set()  # Classes that have not had their turn in this round
        self.unpaid: set[str] = set()  # Classes that have not been credited the quota of this round
        # First round in which the oracle visits each waiting class
        self.not_before: dict[str, int] = {}
        self.since: dict[str, int] = {}  # First round in which the credit of a waiting class lets it run
        self.held: dict[str, int] = {}  # Number of rounds begun while a class waits only for its host
        self.set_shares(shares)

    def handle(self, event: TurnEvent) -> tuple[Grant, ...]:
        match event:
            case ClassReady(name) if name in self.order and name not in self.waiting | set(self.passed):
                self.waiting.add(name)
                self.not_before[name] = self.round + (self.order.index(name) <= self.place)
            case SliceEnded(name, _, used_s, backlog):
                self.end(name, used_s, backlog)
            case SharesSet(shares):
                self.set_shares(shares)
            case HostsSet(hosts):
                self.hosts = hosts
            case ClassLeft(name) if name in self.running:
                self.end(name, self.running[name][0].quota_s, backlog=False)
            case ClassLeft(name):
                self.waiting.discard(name)
                self.since.pop(name, None)
                self.held.pop(name, None)
        return tuple(self.grants())

    def end(self, name: str, used_s: float, backlog: bool) -> None:
        self.free.add(self.running.pop(name)[0].lane)
        passed = self.passed.pop(name)
        self.credit[name] -= used_s
        if not backlog:
            self.credit[name] = min(self.credit[name], 0.0)
        if name in self.order:
            for _ in range(passed - 1):
                self.pay(name)
            if backlog:
                self.waiting.add(name)
                self.not_before[name] = self.round
        else:
            self.due.discard(name)
            self.unpaid.discard(name)

    def pay(self, name: str) -> None:
        self.credit[name] = min(self.credit[name], 0.0) + self.quota[name]

    def can_pay(self, name: str) -> bool:
        due = name in self.waiting & self.due and self.round >= self.not_before[name]
        return due and min(self.credit[name], 0.0) + self.quota[name] > 0

    def has_free_host(self, name: str) -> bool:
        return self.hosts.get(name, name) not in {host for _, host in self.running.values()}

    def grants(self) -> list[Grant]:
        granted: list[Grant] = []
        while self.free and any(self.has_free_host(name) for name in self.waiting):
            for name in self.order:
                if self.can_pay(name):
                    self.since.setdefault(name, self.round)
            candidates = [name for name in self.order if name in self.since and self.has_free_host(name)]
            if candidates:
                granted.append(self.grant(min(candidates, key=self.since.__getitem__)))
            else:
                self.begin_round()
        return granted

    def grant(self, name: str) -> Grant:
        self.waiting.remove(name)
        self.due.remove(name)
        self.unpaid.remove(name)
        del self.since[name]
        if held := self.held.pop(name, 0):
            self.credit[name] += min(held, HELD_ROUNDS) * self.quota[name]
        else:
            self.pay(name)
        self.place = max(self.place, self.order.index(name))
        self.passed[name] = 0
        lane = min(self.free)
        self.free.remove(lane)
        grant = Grant(name, lane, self.credit[name])
        self.running[name] = grant, self.hosts.get(name, name)
        return grant

    def begin_round(self) -> None:
        self.round += 1
        self.place = -1
        for name in self.unpaid - set(self.passed) - set(self.held):
            self.pay(name)
        self.held = {name: self.held.get(name, 0) + 1 for name in self.since}
        self.passed = {name: rounds + 1 for name, rounds in self.passed.items()}
        self.due, self.unpaid = set(self.order) | set(self.passed), set(self.order) | set(self.passed)

    def set_shares(self, shares: Mapping[str, float]) -> None:
        known = set(self.order) | set(self.passed)
        at = self.order[self.place] if self.place >= 0 else None
        self.order = list(shares)
        self.place = self.order.index(at) if at in self.order else -1
        self.quota |= {name: share * self.lanes for name, share in shares.items()}
        self.waiting &= set(shares)
        # A class that was removed during its slice is remembered until the slice ends.
        self.due &= set(shares) | set(self.passed)
        self.unpaid &= set(shares) | set(self.passed)
        for name in shares:
            if name not in known:
                self.credit[name] = 0.0
        # A class with a reduced quota may need more rounds to pay its debt.
        self.since = {
            name: number
            for name, number in self.since.items()
            if name in shares and (name in self.held or self.can_pay(name))
        }
        self.held = {name: rounds for name, rounds in self.held.items() if name in self.since}


events = st.composite(draw_event)


@pytest.mark.slow
@settings(max_examples=300)
@given(st.data(), weights, hosts, st.integers(1, 4))
def test_grants_of_turns_equal_those_of_a_slow_oracle_that_walks_round_by_round(
    data: st.DataObject, drawn: dict[str, int], shared: dict[str, str], lanes: int
) -> None:
    node = Node(TurnRoundRobin(shares_of(drawn), round_s=1.0, lanes=lanes), shared)
    oracle = RoundByRound(shares_of(drawn), shared, lanes)
    for _ in range(data.draw(st.integers(1, 40))):
        event = data.draw(events(node, NAMES, shares_move=True))
        assert node.send(event) == oracle.handle(event)
        assert node.turns.rounds == oracle.round


@given(st.data(), weights, hosts, st.integers(1, 4))
def test_no_class_gets_more_than_its_quota_in_each_round_that_has_begun(
    data: st.DataObject, drawn: dict[str, int], shared: dict[str, str], lanes: int
) -> None:
    node = Node(TurnRoundRobin(shares_of(drawn), round_s=1.0, lanes=lanes), shared)
    used = dict.fromkeys(drawn, 0.0)
    for _ in range(data.draw(st.integers(1, 40))):
        event = data.draw(events(node, tuple(drawn), shares_move=False))
        if isinstance(event, SliceEnded):
            used[event.name] += event.used_s
        for grant in node.send(event):
            quota_s = drawn[grant.name] / 16 * lanes
            assert 0 < grant.quota_s <= quota_s * (1 + HELD_ROUNDS * bool(shared))
            # A class pays back each overrun before it runs again.
            assert used[grant.name] + grant.quota_s <= node.turns.rounds * quota_s


@st.composite
def backlogs(draw: st.DrawFn) -> tuple[dict[str, int], dict[str, float]]:
    """Draw weights of classes, in sixteenths of a lane, and the length of their trains."""
    drawn = draw(weights)
    return drawn, {name: draw(st.integers(1, 200)) / 64 for name in drawn}


def slice_of(grant: Grant, train_s: float) -> float:
    """Return the processor time that a class with much input uses in a slice: whole trains until the quota is used up."""
    return train_s * -(-grant.quota_s // train_s)


@given(backlogs())
def test_backlogged_classes_exceed_their_quotas_by_less_than_one_train(
    backlog: tuple[dict[str, int], dict[str, float]],
) -> None:
    drawn, train_s = backlog
    node = Node(TurnRoundRobin(shares_of(drawn), round_s=1.0))
    used = dict.fromkeys(drawn, 0.0)
    granted = [grant for name in drawn for grant in node.send(ClassReady(name))]
    for _ in range(100):
        begun, grant = node.turns.rounds, granted.pop()
        used_s = slice_of(grant, train_s[grant.name])
        used[grant.name] += used_s
        granted.extend(node.send(SliceEnded(grant.name, 0, used_s, backlog=True)))
        if node.turns.rounds > begun:
            ahead = {name: used[name] - (node.turns.rounds - 1) * drawn[name] / 16 for name in drawn}
            assert all(0 <= ahead[name] < train_s[name] for name in drawn), ahead


def used_by_backlogged(
    shares: Mapping[str, float], hosts: Mapping[str, str], lanes: int, train_s: float, until: float
) -> dict[str, float]:
    """Return the processor time that each class has used by the time `until`, if all classes always have input."""
    node = Node(TurnRoundRobin(shares, round_s=1.0, lanes=lanes), hosts)
    used, ends, started = dict.fromkeys(shares, 0.0), list[tuple[float, int, Grant, float]](), count()
    granted, now = [grant for name in shares for grant in node.send(ClassReady(name))], 0.0
    while now < until:
        for grant in granted:
            used_s = slice_of(grant, train_s)
            heappush(ends, (now + used_s, next(started), grant, used_s))
        now, _, grant, used_s = heappop(ends)
        used[grant.name] += used_s
        granted = list(node.send(SliceEnded(grant.name, grant.lane, used_s, backlog=True), now))
    return used


def shares_kept(shares: Mapping[str, float], hosts: Mapping[str, str], lanes: int, train: int) -> None:
    """Assert that classes with waiting input deviate from their shares by at most two rounds."""
    used = used_by_backlogged(shares, hosts, lanes, train / 64, until=50.0)
    fair = {name: share * sum(used.values()) for name, share in shares.items()}
    assert all(abs(used[name] - fair[name]) <= 2.0 for name in shares), (used, fair)


@st.composite
def lanes_and_shares(draw: st.DrawFn) -> tuple[int, dict[str, float]]:
    """Draw two to four lanes, and shares that sum to 1, none above three quarters of a lane."""
    lanes = draw(st.integers(2, 4))
    parts = draw(st.lists(st.integers(1, 16), min_size=lanes + 1, max_size=8))
    assume(max(parts) * lanes <= 0.75 * sum(parts))
    return lanes, {f"class{number}": part / sum(parts) for number, part in enumerate(parts)}


@given(lanes_and_shares(), st.integers(1, 8))
def test_on_several_lanes_backlogged_classes_stay_within_two_rounds_of_their_shares(
    drawn: tuple[int, dict[str, float]], train: int
) -> None:
    lanes, shares = drawn
    shares_kept(shares, {}, lanes, train)


@st.composite
def lanes_and_hosts(draw: st.DrawFn) -> tuple[int, dict[str, float], dict[str, str]]:
    """Draw two to four lanes, and classes in hosts. No host is entitled to more than half a lane."""
    lanes = draw(st.integers(2, 4))
    host_parts = st.lists(st.integers(2, 4), min_size=1, max_size=3)
    drawn = draw(st.lists(host_parts, min_size=3 * lanes, max_size=12))
    total = sum(map(sum, drawn))
    assume(max(map(sum, drawn)) * lanes <= 0.5 * total)
    shares = {f"h{h}c{c}": part / total for h, parts in enumerate(drawn) for c, part in enumerate(parts)}
    return lanes, shares, {name: name.split("c")[0] for name in shares}


@given(lanes_and_hosts(), st.integers(1, 8))
def test_backlogged_classes_that_share_hosts_stay_within_two_rounds_of_their_shares(
    drawn: tuple[int, dict[str, float], dict[str, str]], train: int
) -> None:
    lanes, shares, hosts = drawn
    shares_kept(shares, hosts, lanes, train)
