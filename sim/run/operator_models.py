"""What each kind of operator does to a train of arrival times: which come out, and what that costs extra.

A tuple is its arrival time; a result carries the arrival of the tuple that caused it (for a window result the one
that closed the window, for a pair the later of the two).
"""

from __future__ import annotations

import math
import random
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Sequence

from configs.scenario.scenario import AggregateBox, JoinBox, LookupBox, ProjectBox, SelectBox
from scheduler.operators.network import Estimate, Network
from sim.run.networks import Box, BoxPlan, Drift
from sim.run.rng import generator

# A train of arrival times in; the results' arrival times and their extra processor-seconds out.
Effect = Callable[[list[float]], tuple[list[float], float]]

EXPIRE_AT = 1024


def build_effect(box: Box, rng: random.Random, evenly: bool) -> Effect:
    """The effect of any operator with one input."""
    match box.model:
        case None | ProjectBox():
            return pass_all
        case SelectBox(selectivity=selectivity) | LookupBox(selectivity=selectivity) if box.drift is not None:
            return drifting_select(selectivity, box.drift, rng)
        case SelectBox(selectivity=selectivity) | LookupBox(selectivity=selectivity):
            if evenly:
                return Even(selectivity)
            return coin_select(selectivity, rng) if selectivity <= 1 else Multiply(selectivity, rng)
        case AggregateBox():
            return PaneModel(box.model)
        case JoinBox():
            raise AssertionError("the two sides of a join share their windows: see join_sides")


def pass_all(train: list[float]) -> tuple[list[float], float]:
    return train, 0.0


def coin_select(selectivity: float, rng: random.Random) -> Effect:
    coin = rng.random
    return lambda train: ([arrival for arrival in train if coin() < selectivity], 0.0)


def drifting_select(selectivity: float, drift: Drift, rng: random.Random) -> Effect:
    coin, chance = rng.random, drift.chance
    return lambda train: ([arrival for arrival in train if coin() < chance(selectivity, arrival)], 0.0)


class Even:
    """Every k-th: after n tuples, round(n·selectivity) have come out."""

    def __init__(self, selectivity: float) -> None:
        self._selectivity = selectivity
        self._owed = 0.5

    def __call__(self, train: list[float]) -> tuple[list[float], float]:
        out = []
        for arrival in train:
            self._owed += self._selectivity
            whole = int(self._owed)
            self._owed -= whole
            out.extend([arrival] * whole)
        return out, 0.0


class Multiply:
    """More than one result a tuple: the whole part always, the rest by a coin."""

    def __init__(self, selectivity: float, rng: random.Random) -> None:
        self._whole, self._rest = int(selectivity), selectivity % 1
        self._coin = rng.random

    def __call__(self, train: list[float]) -> tuple[list[float], float]:
        out = []
        for arrival in train:
            out.extend([arrival] * (self._whole + (self._coin() < self._rest)))
        return out, 0.0


class PaneModel:
    """A sliding window aggregate: `groups` results whenever a tuple passes the end of a slide."""

    def __init__(self, model: AggregateBox) -> None:
        self._slide = model.slide_s
        self._groups = model.groups
        self._result_s = model.result_us * 1e-6
        self._end: float | None = None

    def __call__(self, train: list[float]) -> tuple[list[float], float]:
        if self._end is None:
            self._end = self._next_end(train[0])
        if max(train) < self._end:
            return [], 0.0
        out: list[float] = []
        for arrival in train:
            if arrival >= self._end:
                out.extend([arrival] * self._groups)
                self._end = self._next_end(arrival)
        return out, len(out) * self._result_s

    def _next_end(self, arrival: float) -> float:
        return (math.floor(arrival / self._slide) + 1) * self._slide


class Pair(float):
    """A joined tuple: the arrival of the later of the two, and from when on its slowdown counts.

    Without anybody else in the system the earlier one would have been through its side before, or would just be in it, when
    the later one came; what the pair had to wait beyond that is queueing, and only that is slowdown (Sharaf §3.4.1.2):
    H = 1 + (D_actual − D_ideal)/T = (D_actual − since)/T with since = D_ideal − T.
    """

    __slots__ = ("since",)
    since: float

    def __new__(cls, arrival: float, since: float) -> Pair:
        pair = super().__new__(cls, arrival)
        pair.since = since
        return pair


def since(arrival: float) -> float:
    """From when on the slowdown of an answer counts."""
    return arrival.since if isinstance(arrival, Pair) else arrival


class JoinSide:
    """One input of a symmetric window join: each tuple probes the other side's recent tuples and joins its own.

    A pair is found once, by whichever of the two is processed later.
    """

    def __init__(
        self,
        box: Box,
        rng: random.Random,
        evenly: bool,
        own: list[float],
        other: list[float],
        way_s: float = 0.0,
        other_way_s: float = 0.0,
    ) -> None:
        assert isinstance(box.model, JoinBox)
        self._window = box.model.window_s
        self._selectivity = box.model.selectivity
        self._match_s = box.model.match_us * 1e-6
        self._rng, self._evenly = rng, evenly
        self._owed = 0.5
        self._own, self._other = own, other
        self._way_s, self._other_way_s = way_s, other_way_s

    def __call__(self, train: list[float]) -> tuple[list[float], float]:
        out: list[float] = []
        other = self._other
        for arrival in train:
            low = bisect_left(other, arrival - self._window)
            high = bisect_right(other, arrival + self._window)
            matches = self._matches(high - low)
            if matches:
                partners = self._rng.sample(range(low, high), matches)
                out.extend(self._pair(arrival, other[place]) for place in partners)
        self._remember(train)
        self._expire(train[-1])
        return out, len(out) * self._match_s

    def _pair(self, own: float, other: float) -> Pair:
        own_s, other_s = self._way_s, self._other_way_s
        if own >= other:
            return Pair(own, max(own, other + other_s) - other_s)
        return Pair(other, max(other, own + own_s) - own_s)

    def _matches(self, candidates: int) -> int:
        mean = candidates * self._selectivity
        if self._evenly:
            self._owed += mean
            whole = int(self._owed)
            self._owed -= whole
            return whole
        return int(mean) + (self._rng.random() < mean % 1)

    def _remember(self, train: list[float]) -> None:
        own = self._own
        for arrival in train:
            if own and arrival < own[-1]:  # the clock has jumped back
                insort(own, arrival)
            else:
                own.append(arrival)

    def _expire(self, newest: float) -> None:
        """Forget the other side's tuples that this side's later tuples cannot meet any more."""
        gone = bisect_left(self._other, newest - self._window)
        # Deleting from the front of a list moves the rest: not for a few.
        if gone > EXPIRE_AT:
            del self._other[:gone]


def join_sides(
    left: Box, right: Box, rng: random.Random, evenly: bool, ways_s: tuple[float, float] = (0.0, 0.0)
) -> tuple[Effect, Effect]:
    """The effects of both sides of a join; a tuple alone would be through each in so many seconds."""
    recent_left: list[float] = []
    recent_right: list[float] = []
    return (
        JoinSide(left, rng, evenly, recent_left, recent_right, *ways_s),
        JoinSide(right, rng, evenly, recent_right, recent_left, *reversed(ways_s)),
    )


def build_effects(
    plan: BoxPlan, network: Network, alone: Sequence[Estimate], name: str, seed: int, evenly: bool
) -> list[Effect]:
    """Return the model of each operator with a generator of its own; the two sides of a join share one."""
    effects: list[Effect] = []
    for number, box in enumerate(plan.boxes):
        rng = generator(seed, name, box.name)
        if box.partner is None or not isinstance(box.model, JoinBox):
            effects.append(build_effect(box, rng, evenly))
        elif box.partner > number:
            left_s, right_s = (
                sum(alone[operator].cost_s for operator in network.feeding([side]))
                for side in (number, box.partner)
            )
            effects.extend(join_sides(box, plan.boxes[box.partner], rng, evenly, (left_s, right_s)))
    return effects
