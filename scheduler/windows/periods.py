"""At which period each sub-group of a group runs: own, the shortest, or what is cheapest for all (Golab §4.2–4.3).

A sub-group that runs every p updates, and together with whatever else of its group is due, costs nothing more when a
longer window is scanned anyway. With sub-groups by falling cost of a scan, c₁ ≥ c₂ ≥ …, a group costs per update

    Σ_j (c_j − c_{j+1})·U(p_1 … p_j) + Σ_j a_j/p_j,    U: share of all updates that are a multiple of some p_i, a: cost of answering

`cheapest_periods` finds the periods of least cost among all assignments of a sub-group's own period or a shorter one of its
group: dynamic programming over j and the set of periods in use. Sets that cover the same periods are one state; states are
visited best first (A*), by their cost and a bound of what is still to come: U never shrinks, and is at least the reciprocal of the
shortest slide. The paper calls its own dynamic programming polynomial but, since U depends on which periods coincide, says not how.

In an overload runs are late by different times, and sub-groups that counted on meeting do not meet. Meetings may therefore be left
out of the choice (`meetings=False`): periods that differ then share nothing, U is the sum of 1/p over those in use, and more
sub-groups are given one period.

1. The cost is that of running the schedule over its hyperperiod.
2. Counted with meetings, it is at most the cost of the conservative and of the aggressive schedule.
3. No period is longer than the slide; exact sub-groups keep theirs.
4. It is the least of all assignments, unless `exact` is False: after `states_max` states the search ends with the best one known,
   which was found by following the most promising states alone.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import pairwise
from math import inf, lcm
from typing import Protocol

from scheduler.windows.scan_model import ScanCosts, SubGroup

# Visited before the search ends with the best one it knows; some 50 µs each.
STATES_MAX = 1000
NARROW = 16
# States of as many sub-groups with which another one is compared.
COMPARED_MAX = 128
# Meetings rarer than one in so many updates are not counted.
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
    periods = tuple(group.slide for group in sub_groups)
    return Periods(periods, cost_rate(sub_groups, periods, costs))


def shortest_periods(sub_groups: Sequence[SubGroup], costs: ScanCosts) -> Periods:
    """Aggressive: all of them at the shortest one, except who may not run early."""
    shortest = min((group.slide for group in sub_groups), default=1)
    periods = tuple(shortest if group.at_most else group.slide for group in sub_groups)
    return Periods(periods, cost_rate(sub_groups, periods, costs))


def cost_rate(
    sub_groups: Sequence[SubGroup], periods: Sequence[int], costs: ScanCosts, meetings: bool = True
) -> float:
    """What these periods cost per update, sub-groups that are due together sharing a scan.

    Without meetings only those that have the same period.
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


def unshared_rate(sub_groups: Sequence[SubGroup], costs: ScanCosts) -> float:
    """What the sub-groups cost per update when nothing is shared between them."""
    return sum((costs.scan(group.longest) + answering(group, costs)) / group.slide for group in sub_groups)


def cheapest_periods(
    sub_groups: Sequence[SubGroup], costs: ScanCosts, meetings: bool = True, states_max: int = STATES_MAX
) -> Periods:
    """Hybrid: the assignment of least cost."""
    simple = (own_periods(sub_groups, costs), shortest_periods(sub_groups, costs))
    cheapest = min(
        (counted(sub_groups, periods.periods, costs, meetings) for periods in simple),
        key=lambda one: one.cost,
    )
    best = Search(sub_groups, costs, meetings).run(cheapest, states_max)
    return Periods(best.periods, cost_rate(sub_groups, best.periods, costs), best.exact)


def neighbours(sub_groups: Sequence[SubGroup], costs: ScanCosts) -> Periods:
    """The best parts of the sub-groups by slide, each at its shortest one: a good beginning for the search.

    Without meetings it is the end, too, as long as answering costs nothing: it never pays to leave out a neighbour.
    """
    order = sorted(
        (number for number in range(len(sub_groups)) if sub_groups[number].at_most),
        key=lambda one: sub_groups[one].slide,
    )
    least, begins = [0.0], [0]
    for end in range(1, len(order) + 1):
        scan = answers = 0.0
        best, first = inf, end - 1
        for begin in reversed(range(end)):
            sub_group = sub_groups[order[begin]]
            scan, answers = max(scan, costs.scan(sub_group.longest)), answers + answering(sub_group, costs)
            cost = least[begin] + (scan + answers) / sub_group.slide
            if cost < best:
                best, first = cost, begin
        least.append(best)
        begins.append(first)
    periods, end = [group.slide for group in sub_groups], len(order)
    while end:
        for place in range(begins[end], end):
            periods[order[place]] = sub_groups[order[begins[end]]].slide
        end = begins[end]
    return Periods(tuple(periods), cost_rate(sub_groups, periods, costs))


def counted(
    sub_groups: Sequence[SubGroup], periods: tuple[int, ...], costs: ScanCosts, meetings: bool
) -> Periods:
    return Periods(periods, cost_rate(sub_groups, periods, costs, meetings))


def answering(sub_group: SubGroup, costs: ScanCosts) -> float:
    return costs.answering(sub_group.answers, sub_group.windows)


def by_falling_scan(sub_groups: Sequence[SubGroup]) -> list[int]:
    return sorted(range(len(sub_groups)), key=lambda one: (-sub_groups[one].longest, -sub_groups[one].slide))


class Coverage(Protocol):
    """How often some of a set of periods is due, as terms: how often (with sign) each number of updates counts."""

    def covers(self, period: int, slide: int) -> bool:
        """Whether who runs at `slide` never runs alone beside `period`."""

    def with_period(self, terms: dict[int, int], period: int) -> dict[int, int]: ...


class Multiples:
    """With meetings: the multiples of the periods, by inclusion and exclusion over least common multiples."""

    def covers(self, period: int, slide: int) -> bool:
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
    """Without: each period for itself."""

    def covers(self, period: int, slide: int) -> bool:
        return slide == period

    def with_period(self, terms: dict[int, int], period: int) -> dict[int, int]:
        return terms | {period: 1}


def share(terms: dict[int, int]) -> float:
    """Runs per update."""
    return sum(count / multiple for multiple, count in terms.items())


@dataclass(slots=True)
class PeriodState:
    """The first `place` sub-groups (by falling scan) have their periods."""

    place: int
    covered: int
    """Bits of the group's slides that the periods in use cover."""
    terms: dict[int, int]
    runs: float
    cost: float
    period: int = 0
    before: PeriodState | None = None


@dataclass
class Search:
    """The cheapest assignment."""

    sub_groups: Sequence[SubGroup]
    costs: ScanCosts
    meetings: bool = True
    narrow: int = NARROW
    _best: dict[int, list[tuple[int, float]]] = field(init=False, default_factory=dict)
    _terms: dict[int, tuple[dict[int, int], float]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._order = by_falling_scan(self.sub_groups)
        self._coverage: Coverage = Multiples() if self.meetings else Periodic()
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
        # Longest first: the first one that is covered already is the only covered one worth a look.
        self._options = [
            [slide for slide in reversed(slides) if slide <= sub_group.slide]
            if sub_group.at_most
            else [sub_group.slide]
            for sub_group in ordered
        ]
        self._bound_terms(ordered)

    def _bound_terms(self, ordered: Sequence[SubGroup]) -> None:
        """Sums from a place to the end: layers, layers by the least share they can have, answers at own periods."""
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
        """The least that the sub-groups from `place` on can cost."""
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
        """Of all states of as many sub-groups, the most promising ones alone: what the search ends with if it must."""
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
        """Terms depend on what is covered alone, whichever way it came to that."""
        entry = self._terms.get(covered)
        if entry is None:
            terms = self._coverage.with_period(state.terms, period)
            entry = self._terms[covered] = terms, share(terms)
        return entry

    def _dominated(self, state: PeriodState) -> bool:
        """Another one with as many sub-groups costs no more and covers nothing that this one does not."""
        others = self._best.setdefault(state.place, [])
        if any(cost <= state.cost and not covered & ~state.covered for covered, cost in others):
            return True
        # The first ones are the most promising; all of them would be compared with all.
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
