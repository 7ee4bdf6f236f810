"""Operator calls of a simulated class: the one under way, and what all of them took, returned and cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scheduler.operators.network import Estimate
from scheduler.operators.policies import NONE
from sim.run.networks import BoxPlan
from sim.run.operator_models import Effect


@dataclass(slots=True)
class OperatorCall:
    """The operator call under way, or cut short by the host's death."""

    operator: int
    train: list[float]
    out: list[float]
    cost_s: float
    runs: bool = True


class OperatorCalls:
    """At most one call at a time. A train counts as taken from the beginning of its call."""

    def __init__(self, plan: BoxPlan, effects: Sequence[Effect]) -> None:
        size = len(plan.boxes)
        self.under_way: OperatorCall | None = None
        self.last_train: tuple[int, int] = (NONE, 0)
        """Source operator that let the last train in, and the number of its tuples."""
        self._sources = frozenset(number for numbers in plan.entries.values() for number in numbers)
        self._effects = effects
        self._call_s = [box.call_s for box in plan.boxes]
        self._tuple_s = [box.tuple_s for box in plan.boxes]
        self._calls = [0] * size
        self._taken = [0] * size
        self._returned = [0] * size
        self._spent_s = [0.0] * size
        self._rebuild_s = 0.0

    def begin(self, operator: int, train: list[float]) -> OperatorCall:
        out, extra_s = self._effects[operator](train)
        tuples = len(train)
        self._taken[operator] += tuples
        self._calls[operator] += 1
        self._returned[operator] += len(out)
        cost_s = self._call_s[operator] + tuples * self._tuple_s[operator] + extra_s
        self._spent_s[operator] += cost_s
        self.under_way = call = OperatorCall(operator, train, out, cost_s)
        return call

    def cost_s(self, call: OperatorCall) -> float:
        """Processor-seconds of the call, with the rebuilding of windows if that is still to be done."""
        if self._rebuild_s:
            call.cost_s, self._rebuild_s = call.cost_s + self._rebuild_s, 0.0
        return call.cost_s

    def end(self) -> OperatorCall | None:
        """End the call under way and return it; None if the host died under it."""
        call = self.under_way
        if call is None or not call.runs:
            return None
        self.under_way = None
        if call.operator in self._sources:
            self.last_train = (call.operator, len(call.train))
        return call

    def interrupt(self) -> None:
        """Cut the call under way short: it runs again, with the results it would have had."""
        if self.under_way is not None:
            self.under_way.runs = False

    def rebuild(self, seconds: float) -> None:
        """Charge the next call with rebuilding the windows."""
        self._rebuild_s = seconds

    # --- accounts ------------------------------------------------------------------------------------

    def tuples_under_way(self, operator: int) -> int:
        call = self.under_way
        return len(call.train) if call is not None and call.operator == operator else 0

    def is_inside(self) -> bool:
        """Return True if the call under way is not a source's."""
        return self.under_way is not None and self.under_way.operator not in self._sources

    def taken(self, operator: int) -> int:
        return self._taken[operator]

    def delivered(self, operators: Iterable[int]) -> int:
        """Return how many tuples of a stream all of its source operators have finished taking in."""
        return min(self._taken[number] - self.tuples_under_way(number) for number in operators)

    def reset_taken(self, operators: Iterable[int], tuples: int) -> None:
        """Level a stream's source operators after all that was inside has failed."""
        for number in operators:
            self._taken[number] = tuples

    def mean_train(self, operator: int) -> float:
        """Tuples per call; 1 before there was one."""
        return max(1.0, self._taken[operator] / max(self._calls[operator], 1))

    def mean_estimate(self, operator: int) -> Estimate | None:
        """Cost and selectivity over all that it has taken; None before it has taken anything."""
        taken = self._taken[operator]
        return Estimate(self._spent_s[operator] / taken, self._returned[operator] / taken) if taken else None
