"""Running estimates of the cost and selectivity of operators (Sharaf §3.3.3; ALGORITHMS §1 and §4.1).

The runner measures each operator call and reports (tuples in, tuples out, processor-seconds). Observations are
collected until a window of input tuples is full, and then averaged in with weight α:

    s ← (1−α)·s + α·N_out/N_in        c ← (1−α)·c + α·cost/N_in

Selectivity windows are longer for operators that rarely emit: each is long enough that one output is expected. Examples are
filters for rare conditions, and panes, which emit when a window ends. With short windows the estimate would fall towards 0 between
outputs and be far too high after each. If an operator emitted three times although almost no output was expected, the measured
selectivity is used at once.

An operator without input tuples is called when event time advances. Each call counts as one tuple and as a full window, since a
window of a hundred calls would last a hundred slides.

A cost sample far above the average (a page fault, another process in the cache) is ignored unless it persists: the
third in a row is used. The thesis's text prefers α = 0.125, but its evaluation uses 0.175 and windows of 100 tuples. Values of
0.1–0.25 and 50–150 tuples work equally well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from scheduler.operators.network import Estimate

ALPHA = 0.175
WINDOW_TUPLES = 100
# Minimum number of expected outputs in a selectivity window; with selectivities of 0.01 or more, every window reaches it.
EXPECTED_LEAST = 1.0
# A measured selectivity is used at once after SURPRISES calls with output, if fewer than SURPRISED_BELOW outputs were expected.
# By chance alone, a correct estimate is replaced by a measured selectivity about once in 200,000 cases.
SURPRISES, SURPRISED_BELOW = 3, 0.03
OUTLIER_SIGMAS = 1.5
OUTLIERS_BELIEVED_AFTER = 3
# Relative deviation below which a sample is never an outlier.
# With a nearly constant cost, σ is so small that ordinary jitter would be ignored for ever.
OUTLIER_MIN_SPREAD = 0.1


class OperatorStatistics:
    """Running estimates of all operators of one class, by operator number."""

    def __init__(self, initial: Sequence[Estimate], adaptive: bool = True) -> None:
        self.adaptive = adaptive
        self._estimates: list[Estimate] = []
        self._tuples: list[int] = []
        self._cost_s: list[float] = []
        # Input tuples, outputs, and calls with outputs since the selectivity was last averaged in.
        self._taken: list[int] = []
        self._given: list[float] = []
        self._giving: list[int] = []
        self._variance: list[float] = []
        self._outliers: list[int] = []
        self._is_called: list[bool] = []  # True if the operator was called for event time at least once
        self.changed = False
        self.extend(initial)

    def extend(self, initial: Sequence[Estimate]) -> None:
        """Add operators with initial estimates of cost and selectivity; each gets the next operator number."""
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
        """Add the measurements of one operator call on a train of tuples."""
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
        """Add the measurements of one call of an operator for event time, without input tuples."""
        if not self.adaptive:
            return
        if not self._is_called[operator]:
            # The initial cost was not measured and is replaced. The selectivity is averaged, as one call without answers says little.
            self._is_called[operator] = self.changed = True
            before = self._estimates[operator].selectivity
            self._estimates[operator] = Estimate(cost_s, before + ALPHA * (answers - before))
            return
        old = self._estimates[operator]
        cost = old.cost_s + ALPHA * self._believed(operator, cost_s - old.cost_s, old.cost_s)
        self._believe(operator, Estimate(cost, old.selectivity + ALPHA * (answers - old.selectivity)))

    def _fold(self, operator: int) -> None:
        """Average the costs of a full window of input tuples into the estimate."""
        count, old = self._tuples[operator], self._estimates[operator]
        cost = self._cost_s[operator] / count
        self._tuples[operator], self._cost_s[operator] = 0, 0.0
        new_cost = old.cost_s + ALPHA * self._believed(operator, cost - old.cost_s, old.cost_s)
        self._believe(operator, Estimate(new_cost, self._selectivity(operator, old.selectivity)))

    def _selectivity(self, operator: int, old: float) -> float:
        """Return the selectivity with the collected outputs averaged in, if their window is full."""
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
        """Return how much a cost sample deviates from the estimate; 0 for an outlier that has not persisted, so that it is ignored."""
        limit = max(OUTLIER_SIGMAS * math.sqrt(self._variance[operator]), OUTLIER_MIN_SPREAD * average)
        if deviation > limit:
            self._outliers[operator] += 1
            if self._outliers[operator] < OUTLIERS_BELIEVED_AFTER:
                return 0.0
        else:
            self._outliers[operator] = 0
        self._variance[operator] += ALPHA * (deviation * deviation - self._variance[operator])
        return deviation
