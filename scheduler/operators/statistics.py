"""Measured cost and selectivity of operators, kept current (Sharaf §3.3.3; ALGORITHMS §1 and §4.1).

The runner measures around a step and reports (tuples in, tuples out, processor-seconds). Observations are
gathered until a window of input tuples is full, then averaged in with weight α:

    s ← (1−α)·s + α·N_out/N_in        c ← (1−α)·c + α·cost/N_in

Of who gives something less than once in a window, the windows of s are so long that one output is expected. With short ones, what is
believed of it would vanish from one output to the next, and be far too much after it: of a filter for what is rare, and of panes,
which give something when a window ends. Where something came three times and next to nothing was expected, that is believed at once.

Of an operator that takes no tuples, but is told of event time, each call counts as one, and as a window: a hundred of them
would take a window's result a hundred slides.

A cost sample far above the average (a page fault, a neighbour's cache) is set aside, unless it persists: the
third in a row is believed. The thesis's own text prefers α = 0.125; 0.175 and windows of 100 tuples are the
values its evaluation uses, and 0.1–0.25 with 50–150 work alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from scheduler.operators.network import Estimate

ALPHA = 0.175
WINDOW_TUPLES = 100
# Outputs that are to be expected of a window by what is believed; at selectivities of 0.01 and more any window has as many.
EXPECTED_LEAST = 1.0
# So often something has to come where less than that was expected: by chance once in some 200,000 times.
SURPRISES, SURPRISED_BELOW = 3, 0.03
OUTLIER_SIGMAS = 1.5
OUTLIERS_BELIEVED_AFTER = 3
# Below this relative spread a sample is never an outlier: with a nearly constant cost, σ is so small that
# ordinary jitter would be set aside for ever.
OUTLIER_MIN_SPREAD = 0.1


class OperatorStatistics:
    """Running estimates of all operators of one class; index = operator number."""

    def __init__(self, initial: Sequence[Estimate], adaptive: bool = True) -> None:
        self.adaptive = adaptive
        self._estimates: list[Estimate] = []
        self._tuples: list[int] = []
        self._cost_s: list[float] = []
        # The same and what was given, in how many calls, since what is given was averaged in.
        self._taken: list[int] = []
        self._given: list[float] = []
        self._giving: list[int] = []
        self._variance: list[float] = []
        self._outliers: list[int] = []
        self._is_called: list[bool] = []  # told of event time at least once
        self.changed = False
        self.extend(initial)

    def extend(self, initial: Sequence[Estimate]) -> None:
        """More operators, numbered on."""
        size = len(initial)
        self._estimates += initial
        self._tuples += [0] * size
        self._cost_s += [0.0] * size
        self._taken += [0] * size
        self._given += [0.0] * size
        self._giving += [0] * size
        self._variance += [0.0] * size
        self._outliers += [0] * size
        self._is_called += [False] * size

    @property
    def estimates(self) -> Sequence[Estimate]:
        return self._estimates

    def observe(self, operator: int, tuples_in: int, tuples_out: float, cost_s: float) -> None:
        """One step of one operator, as measured around it."""
        if not self.adaptive:
            return
        self._tuples[operator] += tuples_in
        self._cost_s[operator] += cost_s
        self._taken[operator] += tuples_in
        self._given[operator] += tuples_out
        self._giving[operator] += tuples_out > 0
        if self._tuples[operator] >= WINDOW_TUPLES:
            self._fold(operator)

    def observe_call(self, operator: int, answers: float, cost_s: float) -> None:
        """One step of an operator that is told of event time and takes no tuples."""
        if not self.adaptive:
            return
        if not self._is_called[operator]:
            # The cost believed before was not measured. That the first call gives nothing says little of the others.
            self._is_called[operator] = self.changed = True
            before = self._estimates[operator].selectivity
            self._estimates[operator] = Estimate(cost_s, before + ALPHA * (answers - before))
            return
        old = self._estimates[operator]
        cost = old.cost_s + ALPHA * self._believed(operator, cost_s - old.cost_s, old.cost_s)
        self._believe(operator, Estimate(cost, old.selectivity + ALPHA * (answers - old.selectivity)))

    def _fold(self, operator: int) -> None:
        """A window of costs is full."""
        count, old = self._tuples[operator], self._estimates[operator]
        cost = self._cost_s[operator] / count
        self._tuples[operator], self._cost_s[operator] = 0, 0.0
        new_cost = old.cost_s + ALPHA * self._believed(operator, cost - old.cost_s, old.cost_s)
        self._believe(operator, Estimate(new_cost, self._selectivity(operator, old.selectivity)))

    def _selectivity(self, operator: int, old: float) -> float:
        """With what was given, if that is a window."""
        count = self._taken[operator]
        expected = old * count
        if expected >= EXPECTED_LEAST:
            selectivity = old + ALPHA * (self._given[operator] / count - old)
        elif expected < SURPRISED_BELOW and self._giving[operator] >= SURPRISES:
            selectivity = self._given[operator] / count
        else:
            return old
        self._taken[operator] = self._giving[operator] = 0
        self._given[operator] = 0.0
        return selectivity

    def _believe(self, operator: int, found: Estimate) -> None:
        if found != self._estimates[operator]:
            self._estimates[operator] = found
            self.changed = True

    def _believed(self, operator: int, deviation: float, average: float) -> float:
        """The deviation to average in; 0 for an outlier that has not persisted."""
        limit = max(OUTLIER_SIGMAS * math.sqrt(self._variance[operator]), OUTLIER_MIN_SPREAD * average)
        if deviation > limit:
            self._outliers[operator] += 1
            if self._outliers[operator] < OUTLIERS_BELIEVED_AFTER:
                return 0.0
        else:
            self._outliers[operator] = 0
        self._variance[operator] += ALPHA * (deviation * deviation - self._variance[operator])
        return deviation
