"""FAS(β): freshness-aware scheduling, which minimises the staleness of outputs (Sharaf §4.2–4.3, eqs. 4.11, 4.12 and 4.15).

An output is stale while an input that will lead to an answer is waiting. Of N tuples waiting at operator x, at least one leads to
an answer with probability P = 1 − (1−S)^N. Making the output fresh takes the time N·C̄, in which all other outputs wait. Hence

    priority = Σ_r α_r · (1 − (1−S_r)^(N^β)) / (N^β · C̄)

β = 1 considers only freshness; β = 0 ranks by answers per processor time, like HR. α_r is the weight of output r. The sum
includes all outputs that the operator contributes to; an output that other operators read, too, counts in addition to the outputs
below it. S_r is the probability of at least one answer. For an operator with selectivity s it is s·S if s ≤ 1, otherwise
1 − (1 − S)^s, where S is the value below the operator.

1. The policy picks the ready operator with the highest priority. N is the number reported last, or 1.
2. More waiting tuples never raise the priority of an operator. So a heap entry made for fewer tuples is an upper bound, and is
   updated only when it reaches the top; reports of arriving tuples cost nothing.
3. A decision is O(log n) amortised, and the heap has fewer than twice as many entries as there are operators.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from heapq import heapify, heappop, heappush, heapreplace

from scheduler.operators.network import NetworkEstimates
from scheduler.operators.policies.protocol import NONE
from scheduler.operators.policies.static import ratio

# Probability that a tuple which enters an operator leads to an answer of an output, by number of the output's operator.
Chances = Mapping[int, float]


class FreshnessPolicy:
    """Policy FAS: runs the operator that makes outputs fresh at the least cost, as the formula of this module defines."""

    def __init__(self, beta: float, believed: NetworkEstimates) -> None:
        self._beta = beta
        size = len(believed.estimates)
        self._is_ready = [False] * size
        self._pending = [1] * size
        self.rank(believed)

    def rank(self, believed: NetworkEstimates) -> None:
        size = len(believed.estimates)
        self._chances: list[Chances] = [{}] * size
        # For each operator: pairs (weight of an output, probability of an answer) of the outputs to which the operator contributes.
        self._outputs: list[list[tuple[float, float]]] = [[]] * size
        self._cost_s = [0.0] * size
        # `_place` has the valid heap entry of each operator; all other entries are invalid.
        # `_placed_at` has the number of waiting tuples from which the entry's priority was computed.
        self._place: list[tuple[float, int]] = [(0.0, NONE)] * size
        self._placed_at = [0] * size
        self._heap: list[tuple[float, int]] = []
        self._believe(believed, range(size))

    def extend(self, believed: NetworkEstimates, changed: Collection[int]) -> None:
        more = len(believed.estimates) - len(self._is_ready)
        self._is_ready += [False] * more
        self._pending += [1] * more
        self._chances += [{}] * more
        self._outputs += [[]] * more
        self._cost_s += [0.0] * more
        self._place += [(0.0, NONE)] * more
        self._placed_at += [0] * more
        self._believe(believed, changed)

    def _believe(self, believed: NetworkEstimates, operators: Collection[int]) -> None:
        boxes = believed.network.operators
        for operator in sorted(operators, reverse=True):
            self._chances[operator] = chances_of(believed, operator, self._chances)
            self._outputs[operator] = [
                (boxes[output].weight, chance) for output, chance in self._chances[operator].items()
            ]
            self._cost_s[operator] = believed.segments[operator].cost_s
            if self._is_ready[operator]:
                self._put(operator)
        self._tidy()

    def pending(self, operator: int, tuples: int) -> None:
        """Record the number of tuples that wait at an operator."""
        self._pending[operator] = tuples
        if tuples < self._placed_at[operator] and self._is_ready[operator]:
            self._put(operator)
            self._tidy()

    def ready(self, operator: int, head: float) -> None:
        if not self._is_ready[operator]:
            self._is_ready[operator] = True
            self._put(operator)
            self._tidy()

    def idle(self, operator: int) -> None:
        if self._is_ready[operator]:
            self._is_ready[operator] = False
            self._place[operator] = (0.0, NONE)
            self._pending[operator] = 1

    def pick(self, now: float) -> int:
        heap, places = self._heap, self._place
        while heap:
            place = heap[0]
            operator = place[1]
            if places[operator] is not place:
                heappop(heap)
            elif self._pending[operator] == self._placed_at[operator]:
                return operator
            else:
                heapreplace(heap, self._placed(operator))
        return NONE

    def _put(self, operator: int) -> None:
        heappush(self._heap, self._placed(operator))

    def _placed(self, operator: int) -> tuple[float, int]:
        tuples = self._placed_at[operator] = self._pending[operator]
        place = self._place[operator] = (-self._priority(operator, tuples), operator)
        return place

    def _priority(self, operator: int, tuples: int) -> float:
        effective = max(tuples, 1) ** self._beta
        gain = sum(
            [weight * (1.0 - (1.0 - chance) ** effective) for weight, chance in self._outputs[operator]]
        )
        return ratio(gain, effective * self._cost_s[operator])

    def _tidy(self) -> None:
        if len(self._heap) > 2 * len(self._place):
            self._heap = [place for place in self._heap if self._place[place[1]] is place]
            heapify(self._heap)


def chances_of(believed: NetworkEstimates, operator: int, known: list[Chances]) -> Chances:
    """Return, by output, the probability that a tuple which enters the operator leads to an answer of this output.

    `known` has the probabilities for all downstream operators.
    """
    kept = believed.estimates[operator].selectivity
    own = believed.network.operators[operator]
    if not own.downstream:
        return {operator: min(kept, 1.0)}
    reached: dict[int, float] = {operator: 1.0} if own.answers else {}
    for number in own.downstream:
        for output, chance in known[number].items():
            # If a tuple can reach an output in several ways, the probabilities of all ways are combined.
            others = reached.get(output, 0.0)
            reached[output] = 1.0 - (1.0 - others) * (1.0 - chance) if others else chance
    if kept <= 1.0:
        return {output: kept * chance for output, chance in reached.items()}
    return {output: 1.0 - (1.0 - chance) ** kept for output, chance in reached.items()}
