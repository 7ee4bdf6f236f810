"""Choice of the period of each sub-group of a group: its own, the shortest, or the cheapest for all (Golab §4.2–4.3).

A sub-group runs every p updates, together with all sub-groups of its group that are due at the same update. Its scan costs
nothing if a longer window is scanned anyway. With sub-groups by falling cost of a scan, c₁ ≥ c₂ ≥ …, a group costs per update

    Σ_j (c_j − c_{j+1})·U(p_1 … p_j) + Σ_j a_j/p_j,    U: share of all updates that are a multiple of some p_i, a: cost of answering

`cheapest_periods` finds the cheapest periods among all assignments in which each sub-group has its own period or a shorter one of
its group. It uses dynamic programming over j and the set of periods in use. Sets that cover the same periods are one state. States
are visited best first (A*), by their cost plus a lower bound of the remaining cost: U never shrinks, and is at least the
reciprocal of the shortest slide. The paper says that its own dynamic programming is polynomial, but not how it handles that U
depends on the periods that coincide.

Two periods *meet* at an update at which sub-groups of both are due. Under overload, runs are delayed by different times, so
sub-groups with different periods do not meet as planned. With `meetings=False` the choice assumes that different periods never
share a scan: U is the sum of 1/p over the periods in use, and more sub-groups get the same period.

1. The cost is the cost of running the schedule over its hyperperiod.
2. With meetings, the cost is at most the cost of the conservative and of the aggressive schedule.
3. No period is longer than the slide; sub-groups that may not run early keep their slides.
4. The cost is the minimum over all assignments unless `exact` is False. In that case the search ended after `states_max` states
   and returns the best assignment known, found by following only the most promising states.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import pairwise
from math import inf, lcm

from scheduler.windows.scan_model import ScanCosts, SubGroup

# Maximum number of states that the exact search visits; each takes about 50 µs.
STATES_MAX = 1000
NARROW = 16
# Maximum number of known states with which the search compares a new state that has the same number of sub-groups.
COMPARED_MAX = 128
# Maximum common multiple of two periods, in updates, that is counted: rarer coincidences hardly save a scan.
RAREST = 10**7
# Relative difference up to which costs count as equal.
ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Periods:
    """Periods of the sub-groups, in their order."""

    periods: tuple[int, ...]
    cost: float
    """Cost per update of the synopsis."""
    exact: bool = True
    """True if no assignment is cheaper."""


def own_periods(sub_groups: Sequence[SubGroup], costs: ScanCosts) -> Periods:
    """Return the conservative schedule: each sub-group runs at its own slide."""
    periods = tuple(group.slide for group in sub_groups)
    return Periods(periods, cost_rate(sub_groups, periods, costs))


def shortest_periods(sub_groups: Sequence[SubGroup], costs: ScanCosts) -> Periods:
    """Return the aggressive schedule: all sub-groups run at the shortest slide, except those that may not run early."""
    shortest = min((group.slide for group in sub_groups), default=1)
    periods = tuple(shortest if group.at_most else group.slide for group in sub_groups)
    return Periods(periods, cost_rate(sub_groups, periods, costs))


def cost_rate(
    sub_groups: Sequence[SubGroup], periods: Sequence[int], costs: ScanCosts, meetings: bool = True
) -> float:
    """Return the cost per update of the synopsis if sub-groups have these periods. Sub-groups that are due together share a scan.

    If `meetings` is False, only sub-groups with the same period share a scan.
    """
    coverage = Multiples() if meetings else Periodic()
    order = by_falling_scan(sub_groups)
    scans = [costs.scan(sub_groups[number].longest) for number in order]
    covered: dict[int, int] = {}
    total = 0.0
    for place, number in enumerate(order):
        covered = coverage.with_period(covered, periods[number])
        after = scans[place + 1] if place + 1 < len(scans) else 0.0
        total += (scans[place] - after) * share(covered)
        total += answering(sub_groups[number], costs) / periods[number]
    return total


def cheapest_periods(
    sub_groups: Sequence[SubGroup], costs: ScanCosts, meetings: bool = True, states_max: int = STATES_MAX
) -> Periods:
    """Return the hybrid schedule: the cheapest assignment of periods."""
    simple = (own_periods(sub_groups, costs), shortest_periods(sub_groups, costs))
    cheapest = min(
        (replace(choice, cost=cost_rate(sub_groups, choice.periods, costs, meetings)) for choice in simple),
        key=lambda one: one.cost,
    )
    best = Search(sub_groups, costs, meetings).run(cheapest, states_max)
    return Periods(best.periods, cost_rate(sub_groups, best.periods, costs), best.exact)


def answering(sub_group: SubGroup, costs: ScanCosts) -> float:
    return costs.answering(sub_group.answers, sub_group.windows)


def by_falling_scan(sub_groups: Sequence[SubGroup]) -> list[int]:
    return sorted(range(len(sub_groups)), key=lambda one: (-sub_groups[one].longest, -sub_groups[one].slide))


class Multiples:
    """Fraction of updates at which at least one period is due, by the rule of inclusion and exclusion.

    The fraction is a sum of terms. Each term is a count divided by a number of updates.
    """

    def covers(self, period: int, slide: int) -> bool:
        """Return True if `period` is due at every update at which a period of length `slide` is due."""
        return slide % period == 0

    def with_period(self, terms: dict[int, int], period: int) -> dict[int, int]:
        if any(period % term == 0 for term, count in terms.items() if count > 0):
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


class Periodic:
    """Sum of the fractions of updates at which each period is due, as if no two periods were due at the same update."""

    def covers(self, period: int, slide: int) -> bool:
        return slide == period

    def with_period(self, terms: dict[int, int], period: int) -> dict[int, int]:
        return terms | {period: 1}


def share(terms: dict[int, int]) -> float:
    """Return the number of scans per update of the synopsis: the sum of the terms, each a count divided by a number of updates."""
    return sum(count / multiple for multiple, count in terms.items())


@dataclass(slots=True)
class PeriodState:
    """State of the search, in which the first `place` sub-groups in the order of falling scan cost have periods."""

    place: int
    covered: int
    """One bit for each slide of the group, set if the periods in use cover the slide (`Multiples.covers`)."""
    terms: dict[int, int]
    runs: float
    cost: float
    period: int = 0
    before: PeriodState | None = None


@dataclass
class Search:
    """Search for the cheapest assignment of periods."""

    sub_groups: Sequence[SubGroup]
    costs: ScanCosts
    meetings: bool = True
    narrow: int = NARROW
    _best: dict[int, list[tuple[int, float]]] = field(init=False, default_factory=dict)
    _terms: dict[int, tuple[dict[int, int], float]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._order = by_falling_scan(self.sub_groups)
        self._coverage: Multiples | Periodic = Multiples() if self.meetings else Periodic()
        ordered = [self.sub_groups[number] for number in self._order]
        scans = [*(self.costs.scan(sub_group.longest) for sub_group in ordered), 0.0]
        self._layer = [scan - after for scan, after in pairwise(scans)]
        self._answer = [answering(sub_group, self.costs) for sub_group in ordered]
        slides = sorted({sub_group.slide for sub_group in ordered})
        self._covers = {
            slide: sum(
                1 << place for place, other in enumerate(slides) if self._coverage.covers(slide, other)
            )
            for slide in slides
        }
        self._bit = {slide: 1 << place for place, slide in enumerate(slides)}
        # The slides that a sub-group may use as period, with the longest first.
        # `_next` stops at the first slide that periods in use already cover, because shorter slides would cost more.
        self._options = [
            [slide for slide in reversed(slides) if slide <= sub_group.slide]
            if sub_group.at_most
            else [sub_group.slide]
            for sub_group in ordered
        ]
        self._bound_terms(ordered)

    def _bound_terms(self, ordered: Sequence[SubGroup]) -> None:
        """Compute sums of costs from which `_bound` computes lower bounds. Each sum covers a sub-group and all later sub-groups."""
        size, shortest = len(ordered), inf
        self._least: list[float] = []
        for sub_group in ordered:
            shortest = min(shortest, sub_group.slide)
            self._least.append(1 / shortest)
        self._layers_from, self._least_from, self._answers_from = ([0.0] * (size + 1) for _ in range(3))
        for place in reversed(range(size)):
            self._layers_from[place] = self._layers_from[place + 1] + self._layer[place]
            self._least_from[place] = self._least_from[place + 1] + self._layer[place] * self._least[place]
            own = self._answer[place] / ordered[place].slide
            self._answers_from[place] = self._answers_from[place + 1] + own

    def _bound(self, place: int, runs: float) -> float:
        """Return a lower bound of the cost per update of the sub-groups from number `place` on."""
        turn = max(place, bisect_right(self._least, runs))
        layers = runs * (self._layers_from[place] - self._layers_from[turn])
        return layers + self._least_from[turn] + self._answers_from[place]

    def run(self, known: Periods, states_max: int) -> Periods:
        size = len(self._order)
        start = PeriodState(0, 0, {}, 0.0, 0.0)
        queue = [(self._bound(0, 0.0), 0, 0, start)]
        best, visited, pushed = self._narrow(known), 0, 0
        while queue:
            bound, _, _, state = heappop(queue)
            if bound >= best.cost - ROUNDING * best.cost:
                return best
            if state.place == size:
                return Periods(self._periods_of(state), state.cost)
            if visited >= states_max:
                return replace(best, exact=False)
            visited += 1
            for after in self._next(state):
                estimate = self._estimate(after)
                if estimate < best.cost and not self._dominated(after):
                    pushed += 1
                    heappush(queue, (estimate, -after.place, pushed, after))
        return best

    def _narrow(self, known: Periods) -> Periods:
        """Return the best assignment found by a beam search.

        The search gives one sub-group after another a period, and each time continues with the most promising states only.
        """
        states = [PeriodState(0, 0, {}, 0.0, 0.0)]
        for _ in self._order:
            first: dict[int, PeriodState] = {}
            for after in sorted(
                (following for state in states for following in self._next(state)), key=self._estimate
            ):
                first.setdefault(after.covered, after)
            states = list(first.values())[: self.narrow]
        best = min(states, key=self._estimate)
        return Periods(self._periods_of(best), best.cost) if best.cost < known.cost else known

    def _estimate(self, state: PeriodState) -> float:
        return state.cost + self._bound(state.place, state.runs)

    def _next(self, state: PeriodState) -> Iterator[PeriodState]:
        place = state.place
        for period in self._options[place]:
            free = bool(state.covered & self._bit[period])
            covered = state.covered | self._covers[period]
            terms, runs = (state.terms, state.runs) if free else self._joined(state, period, covered)
            cost = state.cost + self._layer[place] * runs + self._answer[place] / period
            yield PeriodState(
                place=place + 1,
                covered=covered,
                terms=terms,
                runs=runs,
                cost=cost,
                period=period,
                before=state,
            )
            if free:
                return

    def _joined(self, state: PeriodState, period: int, covered: int) -> tuple[dict[int, int], float]:
        """Return the terms and the runs per update after a period is added. Results are cached by the set of covered slides."""
        entry = self._terms.get(covered)
        if entry is None:
            terms = self._coverage.with_period(state.terms, period)
            entry = self._terms[covered] = terms, share(terms)
        return entry

    def _dominated(self, state: PeriodState) -> bool:
        """Return True if the search can ignore this state, because a known state with the same number of sub-groups is as good.

        The known state costs no more and covers no other slides. If no known state is as good, the new state is stored.
        """
        others = self._best.setdefault(state.place, [])
        if any(cost <= state.cost and not covered & ~state.covered for covered, cost in others):
            return True
        # Only the first states, which are the most promising, are stored. Otherwise the number of comparisons would be quadratic.
        if len(others) < COMPARED_MAX:
            others.append((state.covered, state.cost))
        return False

    def _periods_of(self, state: PeriodState) -> tuple[int, ...]:
        periods = [0] * len(self._order)
        at: PeriodState | None = state
        while at is not None and at.place:
            periods[self._order[at.place - 1]] = at.period
            at = at.before
        return tuple(periods)
