"""At which period each sub-group of a group runs: own, the shortest, or what is cheapest for all (Golab §4.2–4.3).

A sub-group that runs every p updates, and together with whatever else of its group is due, costs nothing more when a
longer window is scanned anyway. With sub-groups by falling cost of a scan, c₁ ≥ c₂ ≥ …, a group costs per update

    Σ_j (c_j − c_{j+1})·U(p_1 … p_j) + Σ_j answers_j/p_j,    U: share of all updates that are a multiple of some p_i

`cheapest_periods` finds the periods of least cost among all assignments of a sub-group's own period or a shorter one of its
group: dynamic programming over j and the set of periods in use. Sets that cover the same periods are one state; states are
visited best first (A*), by their cost and a bound of what is still to come: U never shrinks, and is at least the reciprocal of the
shortest slide. The paper calls its own dynamic programming polynomial but, since U depends on which periods coincide, says not how.

1. The cost is that of running the schedule over its hyperperiod.
2. It is at most the cost of the conservative and of the aggressive schedule.
3. No period is longer than the slide; exact sub-groups keep theirs.
4. It is the least of all assignments, unless `exact` is False: after `states_max` states the better one of those two is taken.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import pairwise
from math import inf, lcm

from scheduler.periodic.model import ScanCosts, SubGroup

# Visited before the search ends with the best one it knows; some 20 µs each.
STATES_MAX = 4000
# Coincidences rarer than one in so many updates are not counted.
RAREST = 10**7
# Costs closer than this part of them are the same.
ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Periods:
    """Of the sub-groups, in their order."""

    periods: tuple[int, ...]
    cost: float
    """Per update of the synopsis."""
    exact: bool = True
    """Whether nothing is cheaper."""


def own_periods(sub_groups: Sequence[SubGroup], costs: ScanCosts) -> Periods:
    """Conservative: all of them at their own periods."""
    periods = tuple(one.slide for one in sub_groups)
    return Periods(periods, cost_rate(sub_groups, periods, costs))


def shortest_periods(sub_groups: Sequence[SubGroup], costs: ScanCosts) -> Periods:
    """Aggressive: all of them at the shortest one, except who may not run early."""
    shortest = min((one.slide for one in sub_groups), default=1)
    periods = tuple(shortest if one.at_most else one.slide for one in sub_groups)
    return Periods(periods, cost_rate(sub_groups, periods, costs))


def cost_rate(sub_groups: Sequence[SubGroup], periods: Sequence[int], costs: ScanCosts) -> float:
    """What these periods cost per update, sub-groups that are due together sharing a scan."""
    coverage = Coverage()
    order = by_falling_scan(sub_groups)
    scans = [costs.scan(sub_groups[one].longest) for one in order]
    covered: dict[int, int] = {}
    total = 0.0
    for place, one in enumerate(order):
        covered = coverage.with_period(covered, periods[one])
        after = scans[place + 1] if place + 1 < len(scans) else 0.0
        total += (scans[place] - after) * coverage.share(covered)
        total += costs.answer * sub_groups[one].answers / periods[one]
    return total


def unshared_rate(sub_groups: Sequence[SubGroup], costs: ScanCosts) -> float:
    """What the sub-groups cost per update when nothing is shared between them."""
    return sum(costs.run(one.longest, one.answers) / one.slide for one in sub_groups)


def cheapest_periods(
    sub_groups: Sequence[SubGroup], costs: ScanCosts, states_max: int = STATES_MAX
) -> Periods:
    """Hybrid: the assignment of least cost."""
    known = min(own_periods(sub_groups, costs), shortest_periods(sub_groups, costs), key=lambda one: one.cost)
    return Search(sub_groups, costs).run(known, states_max)


def by_falling_scan(sub_groups: Sequence[SubGroup]) -> list[int]:
    return sorted(range(len(sub_groups)), key=lambda one: (-sub_groups[one].longest, -sub_groups[one].slide))


class Coverage:
    """The share of numbers that are multiples of some of a set, by inclusion and exclusion over least common multiples.

    A set is kept as its terms: how often (with sign) each least common multiple counts.
    """

    @staticmethod
    def with_period(terms: dict[int, int], period: int) -> dict[int, int]:
        if any(period % one == 0 for one, count in terms.items() if count > 0):
            return terms
        joined = dict(terms)
        joined[period] = joined.get(period, 0) + 1
        for multiple, count in terms.items():
            both = lcm(multiple, period)
            if both > RAREST:
                continue
            left = joined.get(both, 0) - count
            if left:
                joined[both] = left
            else:
                joined.pop(both, None)
        return joined

    @staticmethod
    def share(terms: dict[int, int]) -> float:
        return sum(count / multiple for multiple, count in terms.items())


@dataclass(slots=True)
class State:
    """The first `place` sub-groups (by falling scan) have their periods."""

    place: int
    covered: int
    """Bits of the group's slides that the periods in use cover."""
    terms: dict[int, int]
    share: float
    cost: float
    period: int = 0
    before: State | None = None


@dataclass
class Search:
    """The cheapest assignment."""

    sub_groups: Sequence[SubGroup]
    costs: ScanCosts
    _best: dict[int, list[tuple[int, float]]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._order = by_falling_scan(self.sub_groups)
        ordered = [self.sub_groups[one] for one in self._order]
        scans = [*(self.costs.scan(one.longest) for one in ordered), 0.0]
        self._layer = [scan - after for scan, after in pairwise(scans)]
        self._answer = [self.costs.answer * one.answers for one in ordered]
        slides = sorted({one.slide for one in ordered})
        self._covers = {
            one: sum(1 << place for place, other in enumerate(slides) if other % one == 0) for one in slides
        }
        self._bit = {one: 1 << place for place, one in enumerate(slides)}
        # Longest first: the first one that is covered already is the only covered one worth a look.
        self._options = [
            [slide for slide in reversed(slides) if slide <= one.slide] if one.at_most else [one.slide]
            for one in ordered
        ]
        self._bound_terms(ordered)

    def _bound_terms(self, ordered: Sequence[SubGroup]) -> None:
        """Sums from a place to the end: layers, layers by the least share they can have, answers at own periods."""
        size, shortest = len(ordered), inf
        self._least: list[float] = []
        for one in ordered:
            shortest = min(shortest, one.slide)
            self._least.append(1 / shortest)
        self._layers_from, self._least_from, self._answers_from = ([0.0] * (size + 1) for _ in range(3))
        for place in reversed(range(size)):
            self._layers_from[place] = self._layers_from[place + 1] + self._layer[place]
            self._least_from[place] = self._least_from[place + 1] + self._layer[place] * self._least[place]
            own = self._answer[place] / ordered[place].slide
            self._answers_from[place] = self._answers_from[place + 1] + own

    def _bound(self, place: int, share: float) -> float:
        """The least that the sub-groups from `place` on can cost."""
        turn = max(place, bisect_right(self._least, share))
        layers = share * (self._layers_from[place] - self._layers_from[turn])
        return layers + self._least_from[turn] + self._answers_from[place]

    def run(self, known: Periods, states_max: int) -> Periods:
        size = len(self._order)
        start = State(0, 0, {}, 0.0, 0.0)
        queue = [(self._bound(0, 0.0), 0, 0, start)]
        best, visited, pushed = known, 0, 0
        while queue:
            bound, _, _, state = heappop(queue)
            if bound >= best.cost - ROUNDING * best.cost:
                return best
            if state.place == size:
                return Periods(self._periods_of(state), state.cost)
            if visited == states_max:
                return Periods(best.periods, best.cost, exact=False)
            visited += 1
            for after in self._next(state):
                estimate = after.cost + self._bound(after.place, after.share)
                if estimate < best.cost and not self._dominated(after):
                    pushed += 1
                    heappush(queue, (estimate, -after.place, pushed, after))
        return best

    def _next(self, state: State) -> Iterator[State]:
        place = state.place
        for period in self._options[place]:
            free = bool(state.covered & self._bit[period])
            terms = state.terms if free else Coverage.with_period(state.terms, period)
            share = state.share if free else Coverage.share(terms)
            cost = state.cost + self._layer[place] * share + self._answer[place] / period
            yield State(place + 1, state.covered | self._covers[period], terms, share, cost, period, state)
            if free:
                return

    def _dominated(self, state: State) -> bool:
        """Another one with as many sub-groups costs no more and covers nothing that this one does not."""
        others = self._best.setdefault(state.place, [])
        if any(cost <= state.cost and not covered & ~state.covered for covered, cost in others):
            return True
        others.append((state.covered, state.cost))
        return False

    def _periods_of(self, state: State) -> tuple[int, ...]:
        periods = [0] * len(self._order)
        at: State | None = state
        while at is not None and at.place:
            periods[self._order[at.place - 1]] = at.period
            at = at.before
        return tuple(periods)
