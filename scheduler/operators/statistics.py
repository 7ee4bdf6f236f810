"""Running estimates of the cost and selectivity of operators (Sharaf §3.3.3).

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
from dataclasses import dataclass

from scheduler.operators.network import Estimate

ALPHA = 0.175
WINDOW_TUPLES = 100
# Minimum number of expected outputs in a selectivity window. Windows are longer only for selectivities below 0.01.
EXPECTED_LEAST = 1.0
# A measured selectivity replaces the estimate if an operator emits although its estimate says that it almost never does.
# The estimate is replaced after SURPRISES calls with output, if fewer than SURPRISED_BELOW outputs were expected.
# A correct estimate of the selectivity is replaced by chance only about once in 200,000 cases.
SURPRISES, SURPRISED_BELOW = 3, 0.03
OUTLIER_SIGMAS = 1.5
OUTLIERS_BELIEVED_AFTER = 3
# Relative deviation below which a sample is never an outlier.
# Without OUTLIER_MIN_SPREAD, all samples of an operator with a nearly constant cost would be ignored as outliers.
OUTLIER_MIN_SPREAD = 0.1


@dataclass(slots=True)
class Observed:
    """Estimate of one operator, and the measurements since the estimate was last averaged."""

    estimate: Estimate
    tuples: int = 0
    cost_s: float = 0.0
    # Input tuples, outputs, and calls with outputs since the last update of the estimated selectivity.
    inputs: int = 0
    outputs: float = 0.0
    emitting: int = 0
    variance: float = 0.0
    outliers: int = 0
    is_called: bool = False  # True if the operator has been called at least once because event time advanced


class OperatorStatistics:
    """Running estimates of all operators of one class, by operator number."""

    def __init__(self, initial: Sequence[Estimate], adaptive: bool = True) -> None:
        self.adaptive = adaptive
        self._observed: list[Observed] = []
        self.changed = False
        self.extend(initial)

    def extend(self, initial: Sequence[Estimate]) -> None:
        """Add operators with initial estimates of cost and selectivity. Each operator gets the next free number."""
        self._observed += map(Observed, initial)

    @property
    def estimates(self) -> Sequence[Estimate]:
        return [operator.estimate for operator in self._observed]

    def observe(self, operator: int, tuples_in: int, tuples_out: float, cost_s: float) -> None:
        """Add the measurements of one operator call on a train of tuples."""
        if not self.adaptive:
            return
        own = self._observed[operator]
        own.tuples += tuples_in
        own.cost_s += cost_s
        own.inputs += tuples_in
        own.outputs += tuples_out
        own.emitting += tuples_out > 0
        if own.tuples >= WINDOW_TUPLES:
            # The window of input tuples is full, so its mean cost is averaged into the estimate.
            cost = believed_cost(own, own.cost_s / own.tuples)
            own.tuples, own.cost_s = 0, 0.0
            self._believe(own, Estimate(cost, believed_selectivity(own)))

    def observe_call(self, operator: int, answers: float, cost_s: float) -> None:
        """Add the measurements of a call that was made because event time advanced. Such a call has no input tuples."""
        if not self.adaptive:
            return
        own = self._observed[operator]
        selectivity = own.estimate.selectivity + ALPHA * (answers - own.estimate.selectivity)
        if own.is_called:
            self._believe(own, Estimate(believed_cost(own, cost_s), selectivity))
        else:
            # The first measured cost replaces the initial cost. The selectivity is averaged, because one call may have no answers by chance.
            own.is_called = self.changed = True
            own.estimate = Estimate(cost_s, selectivity)

    def _believe(self, own: Observed, found: Estimate) -> None:
        if found != own.estimate:
            own.estimate = found
            self.changed = True


def believed_cost(own: Observed, measured_s: float) -> float:
    """Return the new estimate of a cost after a measurement. An outlier is ignored unless several outliers follow each other."""
    average = own.estimate.cost_s
    deviation = measured_s - average
    limit = max(OUTLIER_SIGMAS * math.sqrt(own.variance), OUTLIER_MIN_SPREAD * average)
    if deviation > limit:
        own.outliers += 1
        if own.outliers < OUTLIERS_BELIEVED_AFTER:
            return average
    else:
        own.outliers = 0
    own.variance += ALPHA * (deviation * deviation - own.variance)
    return average + ALPHA * deviation


def believed_selectivity(own: Observed) -> float:
    """Return the new estimate of a selectivity. The estimate changes only when enough inputs and outputs have been collected."""
    old, count = own.estimate.selectivity, own.inputs
    expected = old * count
    if expected >= EXPECTED_LEAST:
        selectivity = old + ALPHA * (own.outputs / count - old)
    elif expected < SURPRISED_BELOW and own.emitting >= SURPRISES:
        selectivity = own.outputs / count
    else:
        return old
    own.inputs = own.emitting = 0
    own.outputs = 0.0
    return selectivity
