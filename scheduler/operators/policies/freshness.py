"""FAS(β): freshness-aware scheduling, least staleness of the outputs (Sharaf §4.2–4.3, eqs. 4.11, 4.12 and 4.15).

An output is stale while an input waits that will lead to an answer. Of N tuples that wait at operator x at least one
does so with probability P = 1 − (1−S)^N; making the output fresh takes N·C̄, for which all others wait. Hence

    priority = Σ_r α_r · (1 − (1−S_r)^(N^β)) / (N^β · C̄)

β = 1 is for freshness alone, β = 0 for answers by processor time as HR has it. α_r is the weight of output r; an
operator that several outputs share works for all of them; an output may be read on, and then counts beside those below it.
Where an operator makes more than one tuple of one, S_r is the probability of at least one answer and not their number: s·S
below it if s ≤ 1, else 1 − (1 − S)^s.

1. It picks the highest priority of all ready operators; N is what it has been told last, 1 if nothing.
2. More tuples at an operator never raise its priority. So a place in the heap that was taken when fewer waited bounds
   it from above: it is looked at again when it comes to the top, and news of tuples that arrive cost nothing.
3. A decision is O(log n) amortised, and the heap has less than twice as many places as there are operators.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from heapq import heapify, heappop, heappush, heapreplace

from scheduler.operators.network import NetworkEstimates
from scheduler.operators.policies.protocol import NONE
from scheduler.operators.policies.static import ratio

# Of each output from an operator on: the probability that a tuple which enters there leads to an answer.
Chances = Mapping[int, float]


class FreshnessPolicy:
    """Highest priority of FAS(β) first."""

    def __init__(self, beta: float, believed: NetworkEstimates) -> None:
        self._beta = beta
        size = len(believed.estimates)
        self._is_ready = [False] * size
        self._pending = [1] * size
        self.rank(believed)

    def rank(self, believed: NetworkEstimates) -> None:
        size = len(believed.estimates)
        self._chances: list[Chances] = [{}] * size
        self._outputs: list[list[tuple[float, float]]] = [[]] * size  # (weight, chance) of each
        self._cost_s = [0.0] * size
        # An operator's place in the heap; one with another tuple than this no longer counts. With how many waited.
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
        """Take in what is believed of these; of all others nothing has changed."""
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
        """So many tuples wait there."""
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
    """Of a tuple that enters the operator; those of the operators below are known."""
    kept = believed.estimates[operator].selectivity
    own = believed.network.operators[operator]
    if not own.downstream:
        return {operator: min(kept, 1.0)}
    reached: dict[int, float] = {operator: 1.0} if own.answers else {}
    for number in own.downstream:
        for output, chance in known[number].items():
            # By another way than one that was looked at already.
            others = reached.get(output, 0.0)
            reached[output] = 1.0 - (1.0 - others) * (1.0 - chance) if others else chance
    if kept <= 1.0:
        return {output: kept * chance for output, chance in reached.items()}
    return {output: 1.0 - (1.0 - chance) ** kept for output, chance in reached.items()}
