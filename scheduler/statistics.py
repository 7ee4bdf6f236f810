"""Measured cost and selectivity of operators, kept current (Sharaf §3.3.3; ALGORITHMS §1 and §4.1).

The runner measures around a step and reports (tuples in, tuples out, processor-seconds). Observations are
gathered until a window of input tuples is full, then averaged in with weight α:

    s ← (1−α)·s + α·N_out/N_in        c ← (1−α)·c + α·cost/N_in

Of an operator that takes no tuples, but is told of event time, each call counts as one, and as a window: a hundred of them
would take a window's result a hundred slides.

A cost sample far above the average (a page fault, a neighbour's cache) is set aside, unless it persists: the
third in a row is believed. The thesis's own text prefers α = 0.125; 0.175 and windows of 100 tuples are the
values its evaluation uses, and 0.1–0.25 with 50–150 work alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from scheduler.network import Estimate

ALPHA = 0.175
WINDOW_TUPLES = 100
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
        self._tuples_in: list[int] = []
        self._tuples_out: list[float] = []
        self._cost_s: list[float] = []
        self._variance: list[float] = []
        self._outliers: list[int] = []
        self._is_called: list[bool] = []  # told of event time at least once
        self.changed = False
        self.extend(initial)

    def extend(self, initial: Sequence[Estimate]) -> None:
        """More operators, numbered on."""
        size = len(initial)
        self._estimates += initial
        self._tuples_in += [0] * size
        self._tuples_out += [0] * size
        self._cost_s += [0.0] * size
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
        count = self._tuples_in[operator] = self._tuples_in[operator] + tuples_in
        self._tuples_out[operator] += tuples_out
        self._cost_s[operator] += cost_s
        if count >= WINDOW_TUPLES:
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
        self._tuples_in[operator], self._tuples_out[operator] = 1, answers
        self._cost_s[operator] = cost_s
        self._fold(operator)

    def _fold(self, operator: int) -> None:
        count = self._tuples_in[operator]
        selectivity, cost = self._tuples_out[operator] / count, self._cost_s[operator] / count
        self._tuples_in[operator] = self._tuples_out[operator] = 0
        self._cost_s[operator] = 0.0
        old = self._estimates[operator]
        new_cost = old.cost_s + ALPHA * self._believed(operator, cost - old.cost_s, old.cost_s)
        new_selectivity = old.selectivity + ALPHA * (selectivity - old.selectivity)
        if new_cost != old.cost_s or new_selectivity != old.selectivity:
            self._estimates[operator] = Estimate(new_cost, new_selectivity)
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
