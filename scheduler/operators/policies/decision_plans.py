"""Decision plans: operators that run after a picked operator without another decision. Push-through and superboxes are from Carney
(§3.3, §4.5), paths and segments from MavStream.

    path, segment  the path or segment that determined the priority, from its beginning
    push-through   the picked operator, then all operators below it, down to the roots
    superbox       all operators of the picked operator's query, in the order of a traversal:
      min-cost       each operator once, after all operators that feed it: fewest calls
      min-latency    operators by rising output cost, each followed by all operators below it: earliest answers
      min-memory     operators by falling memory release, size·(1 − s)/c, each followed by operators below it that release more
                     than the one before: least memory (by the thesis's pseudo-code; its printed sequence differs)

A plan is a sequence of operators; an operator without input is skipped. An operator of the plan runs until it has no input, because
one train may not take all waiting tuples. A source is called only once, since tuples may arrive as fast as it takes them.

The superbox of a query contains the operators that feed this query and no other. An operator shared by several queries runs alone;
its outputs are then processed by the superbox of each query. If sources run last, a source is in a plan only as the picked
operator, at the beginning. Nothing is queued inside when a source runs, and the plan processes everything the source lets in.
Push-through then has the same effect as running sources last, but without the decisions in between.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping

from scheduler.operators.network import NetworkEstimates
from scheduler.operators.policies.outlook import outlooks_of
from scheduler.operators.policies.protocol import NONE
from scheduler.operators.policies.static import ratio

Plan = tuple[int, ...]


class Plans(ABC):
    """Decision plans for each operator that a policy may pick. A plan is built when it is first needed."""

    def __init__(self, believed: NetworkEstimates) -> None:
        self._plans: dict[int, Plan] = {}
        self._believed = believed

    def rank(self, believed: NetworkEstimates) -> None:
        self._plans.clear()
        self._believed = believed

    def extend(self, believed: NetworkEstimates, changed: Collection[int]) -> None:
        self.rank(believed)

    def plan_of(self, operator: int) -> Plan:
        plan = self._plans.get(operator)
        if plan is None:
            plan = self._plans[operator] = self._made(operator)
        return plan

    @abstractmethod
    def _made(self, operator: int) -> Plan: ...


class PushThroughPlans(Plans):
    def rank(self, believed: NetworkEstimates) -> None:
        self._believed = believed  # Push-through plans do not depend on estimates, so all plans stay valid.

    def extend(self, believed: NetworkEstimates, changed: Collection[int]) -> None:
        self._believed = believed
        for operator in changed:
            self._plans.pop(operator, None)

    def _made(self, operator: int) -> Plan:
        return (operator, *below(self._believed, operator))


class StretchPlans(Plans):
    """Decision plans that run a whole path or segment; `best` returns the best path or segment of each operator."""

    def __init__(
        self,
        best: Callable[[NetworkEstimates], Mapping[int, tuple[float, Plan]]],
        believed: NetworkEstimates,
        sources_last: bool,
    ) -> None:
        self._best_of = best
        self._sources_last = sources_last
        super().__init__(believed)
        self._best = best(believed)

    def rank(self, believed: NetworkEstimates) -> None:
        super().rank(believed)
        self._best = self._best_of(believed)

    def _made(self, operator: int) -> Plan:
        operators = self._believed.network.operators
        _, plan = self._best[operator]
        return tuple(
            number
            for number in plan
            if number == operator or not (self._sources_last and operators[number].source)
        )


class SuperboxPlans(Plans):
    def __init__(self, traversal: str, believed: NetworkEstimates, sources_last: bool) -> None:
        self._traversal = traversal
        self._sources_last = sources_last
        super().__init__(believed)
        self._owner = owners(believed)

    def rank(self, believed: NetworkEstimates) -> None:
        if self._traversal == "min-cost":
            self._believed = believed  # Plans for min-cost do not depend on estimates.
        else:
            super().rank(believed)

    def extend(self, believed: NetworkEstimates, changed: Collection[int]) -> None:
        super().rank(believed)
        self._owner = owners(believed)

    def _made(self, operator: int) -> Plan:
        root = self._owner[operator]
        if root == NONE:
            return (operator,)
        operators = self._believed.network.operators
        boxes = [
            number
            for number in sorted(self._believed.network.feeding([root]))
            if self._owner[number] == root and not (self._sources_last and operators[number].source)
        ]
        plan = traversal(self._traversal, self._believed, boxes)
        return plan if operator in boxes else (operator, *plan)


def owners(believed: NetworkEstimates) -> list[int]:
    """Return for each operator the root that its tuples reach; NONE for an operator that feeds several roots."""
    owner = [NONE] * len(believed.estimates)
    for number in range(len(owner) - 1, -1, -1):
        roots = {owner[below] for below in believed.network.operators[number].downstream}
        owner[number] = roots.pop() if len(roots) == 1 else NONE if roots else number
    return owner


def below(believed: NetworkEstimates, operator: int) -> list[int]:
    """Return all operators downstream of an operator, in topological order."""
    return sorted(believed.network.fed_by(operator) - {operator})


def traversal(kind: str, believed: NetworkEstimates, boxes: list[int]) -> Plan:
    """Return the order in which to run operators that all lead to the same root."""
    match kind:
        case "min-cost":
            return tuple(post_order(believed, boxes))
        case "min-latency":
            costs = outlooks_of(believed, boxes)
            rising = sorted(boxes, key=lambda one: (costs[one].output_cost_s, one))
            return tuple(number for box in rising for number in (box, *below(believed, box)))
    falling = sorted(boxes, key=lambda one: (-release_rate(believed, one), one))
    return tuple(number for box in falling for number in releasing(believed, box))


def post_order(believed: NetworkEstimates, boxes: list[int]) -> Iterator[int]:
    """Yield the operators `boxes`, each after all operators that feed it. A tree is traversed subtree by subtree."""
    inside, done = set(boxes), set[int]()
    # The traversal starts from operators that feed no other operator of `boxes`, such as the root. The root is yielded last.
    stack = [(box, False) for box in reversed(boxes) if not inside & set(below(believed, box))]
    while stack:
        number, is_last = stack.pop()
        if is_last:
            yield number
        elif number not in done:
            done.add(number)
            stack.append((number, True))
            feeders = believed.network.upstream[number]
            stack.extend((feeder, False) for feeder in sorted(feeders, reverse=True) if feeder in inside)


def releasing(believed: NetworkEstimates, box: int) -> Iterator[int]:
    """Yield an operator, then each downstream operator that releases more memory per second than the operator yielded before."""
    yield box
    rate = release_rate(believed, box)
    for number in below(believed, box):
        if release_rate(believed, number) > rate:
            rate = release_rate(believed, number)
            yield number


def release_rate(believed: NetworkEstimates, operator: int) -> float:
    """Return the expected size that the operator removes from memory per second of its processor time."""
    feeders = believed.network.upstream[operator]
    size_in = believed.network.operators[feeders[0]].size_out if feeders else 1.0
    own = believed.estimates[operator]
    released = size_in * (1.0 - own.selectivity)
    if released <= 0:
        return released / own.cost_s if own.cost_s > 0 else released and -float("inf")
    return ratio(released, own.cost_s)
