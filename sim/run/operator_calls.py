"""Operator calls of a simulated class: the call in progress, and the tuples and processor time of all calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scheduler.operators.network import Estimate
from scheduler.operators.policies import NONE
from sim.run.networks import BoxPlan
from sim.run.operator_models import Effect, cost_factor


@dataclass(slots=True)
class OperatorCall:
    """Operator call that is in progress, or that was interrupted because the host died."""

    operator: int
    train: list[float]
    out: list[float]
    cost_s: float
    runs: bool = True


class OperatorCalls:
    """Operator calls of a class, one at a time. A train counts as taken when its call begins."""

    def __init__(self, plan: BoxPlan, effects: Sequence[Effect]) -> None:
        size = len(plan.boxes)
        self.under_way: OperatorCall | None = None
        self.last_train: tuple[int, int] = (NONE, 0)
        """Source operator that took the last train from a stream, and the number of tuples in the train."""
        self._sources = frozenset(number for numbers in plan.entries.values() for number in numbers)
        self._effects = effects
        self._call_s = [box.call_s for box in plan.boxes]
        self._tuple_s = [box.tuple_s for box in plan.boxes]
        self._drifts = [box.cost_drifts for box in plan.boxes]
        self._calls = [0] * size
        self._taken = [0] * size
        self._returned = [0] * size
        self._spent_s = [0.0] * size
        self._rebuild_s = 0.0

    def begin(self, operator: int, train: list[float], now: float) -> OperatorCall:
        """Begin a call at time `now`; costs that drift are those of this time."""
        out, extra_s = self._effects[operator](train)
        tuples = len(train)
        self._taken[operator] += tuples
        self._calls[operator] += 1
        self._returned[operator] += len(out)
        cost_s = self._call_s[operator] + tuples * self._tuple_s[operator] + extra_s
        for drift in self._drifts[operator]:
            cost_s *= cost_factor(drift, now)
        self._spent_s[operator] += cost_s
        self.under_way = call = OperatorCall(operator, train, out, cost_s)
        return call

    def cost_s(self, call: OperatorCall) -> float:
        """Return the processor-seconds of the call, including the rebuilding of windows after a restart."""
        if self._rebuild_s:
            call.cost_s, self._rebuild_s = call.cost_s + self._rebuild_s, 0.0
        return call.cost_s

    def end(self) -> OperatorCall | None:
        """End the call in progress and return the call; return None if the host died during the call."""
        call = self.under_way
        if call is None or not call.runs:
            return None
        self.under_way = None
        if call.operator in self._sources:
            self.last_train = (call.operator, len(call.train))
        return call

    def interrupt(self) -> None:
        """Interrupt the call in progress; the call will run again with the same results."""
        if self.under_way is not None:
            self.under_way.runs = False

    def rebuild(self, seconds: float) -> None:
        """Add the time for rebuilding windows to the cost of the next call."""
        self._rebuild_s = seconds

    # --- counts and mean costs ------------------------------------------------------------------------------------

    def tuples_under_way(self, operator: int) -> int:
        call = self.under_way
        return len(call.train) if call is not None and call.operator == operator else 0

    def is_inside(self) -> bool:
        """Return True if a call of an operator other than a source is in progress."""
        return self.under_way is not None and self.under_way.operator not in self._sources

    def taken(self, operator: int) -> int:
        return self._taken[operator]

    def delivered(self, operators: Iterable[int]) -> int:
        """Return how many tuples of a stream have been processed by all of its source operators."""
        return min(self._taken[number] - self.tuples_under_way(number) for number in operators)

    def reset_taken(self, operators: Iterable[int], tuples: int) -> None:
        """Set the number of tuples that each of the stream's source operators has taken, after all tuples in the class have failed."""
        for number in operators:
            self._taken[number] = tuples

    def mean_train(self, operator: int) -> float:
        """Return the operator's mean number of tuples per call; 1 before its first call."""
        return max(1.0, self._taken[operator] / max(self._calls[operator], 1))

    def mean_estimate(self, operator: int) -> Estimate | None:
        """Return the operator's mean cost and selectivity over all its tuples; None before its first tuple."""
        taken = self._taken[operator]
        return Estimate(self._spent_s[operator] / taken, self._returned[operator] / taken) if taken else None
