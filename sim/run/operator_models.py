"""Models of each kind of simulated operator: the tuples that a call emits for a train, and the extra cost of these tuples.

A tuple is represented by its arrival time. A result has the arrival time of the tuple that caused the result: for a window,
the tuple that closed the window; for a joined pair, the later tuple.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Sequence

from configs.scenario.cost_drift import CostStep
from configs.scenario.scenario import AggregateBox, JoinBox, LookupBox, ProjectBox, SelectBox
from scheduler.operators.network import Estimate, Network
from sim.run.networks import Box, BoxPlan, Drift
from sim.run.rng import generator

# Function that takes a train of arrival times, and returns the arrival times of the results and the extra processor-seconds.
Effect = Callable[[list[float]], tuple[list[float], float]]

EXPIRE_AT = 1024


def cost_factor(drift: Sequence[CostStep], at_s: float) -> float:
    """Return the factor that multiplies a declared cost at the time `at_s`."""
    factor = 1.0
    for step in drift:
        if at_s < step.at_s:
            break
        passed_s = at_s - step.at_s
        factor = (
            step.factor
            if passed_s >= step.ramp_s
            else factor + (step.factor - factor) * passed_s / step.ramp_s
        )
    return factor


def build_effect(box: Box, rng: random.Random, evenly: bool) -> Effect:
    """Return the model of an operator that has one input."""
    match box.model:
        case None | ProjectBox():
            return lambda train: (train, 0.0)
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


def coin_select(selectivity: float, rng: random.Random) -> Effect:
    coin = rng.random
    return lambda train: ([arrival for arrival in train if coin() < selectivity], 0.0)


def drifting_select(selectivity: float, drift: Drift, rng: random.Random) -> Effect:
    coin, chance = rng.random, drift.chance
    return lambda train: ([arrival for arrival in train if coin() < chance(selectivity, arrival)], 0.0)


class Even:
    """Selection without randomness: after n input tuples, round(n·selectivity) tuples have been emitted."""

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
    """Operator that may emit several results per tuple: the integer part of its selectivity, and at random one more result."""

    def __init__(self, selectivity: float, rng: random.Random) -> None:
        self._whole, self._rest = int(selectivity), selectivity % 1
        self._coin = rng.random

    def __call__(self, train: list[float]) -> tuple[list[float], float]:
        out = []
        for arrival in train:
            out.extend([arrival] * (self._whole + (self._coin() < self._rest)))
        return out, 0.0


class PaneModel:
    """Sliding window aggregate, which emits `groups` results whenever a tuple passes the end of a slide."""

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
    """Joined pair: the arrival time of the later tuple, and the time `since` from which the slowdown of the pair is counted.

    In an idle system, the join would have finished the earlier tuple, or be processing the earlier tuple, when the later
    tuple arrives. Only further waiting is slowdown (Sharaf §3.4.1.2): H = 1 + (D_actual − D_ideal)/T = (D_actual −
    since)/T, with since = D_ideal − T.
    """

    __slots__ = ("since",)
    since: float

    def __new__(cls, arrival: float, since: float) -> Pair:
        pair = super().__new__(cls, arrival)
        pair.since = since
        return pair


def since(arrival: float) -> float:
    """Return the time since which the waiting of an answer counts as slowdown."""
    return arrival.since if isinstance(arrival, Pair) else arrival


class JoinSide:
    """Side of a symmetric window join: each tuple is matched with recent tuples of the other side, and then stored.

    A pair is found once, when the second tuple of the pair is processed.
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
            if own and arrival < own[-1]:  # The clock has jumped back.
                insort(own, arrival)
            else:
                own.append(arrival)

    def _expire(self, newest: float) -> None:
        """Delete tuples of the other side that are too old to match later tuples of this side."""
        gone = bisect_left(self._other, newest - self._window)
        # Deleting from the front of a list moves all other items, so expired tuples are deleted in larger groups.
        if gone > EXPIRE_AT:
            del self._other[:gone]


def join_sides(
    left: Box, right: Box, rng: random.Random, evenly: bool, ways_s: tuple[float, float] = (0.0, 0.0)
) -> tuple[Effect, Effect]:
    """Return the models of both sides of a join. `ways_s` has, for each side, the processing time of a tuple from its source through this side."""
    recent_left: list[float] = []
    recent_right: list[float] = []
    return (
        JoinSide(left, rng, evenly, recent_left, recent_right, *ways_s),
        JoinSide(right, rng, evenly, recent_right, recent_left, *reversed(ways_s)),
    )


def build_effects(
    plan: BoxPlan, network: Network, alone: Sequence[Estimate], name: str, seed: int, evenly: bool
) -> list[Effect]:
    """Return the model of each operator. Each operator has its own random generator; the two sides of a join share one generator."""
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
