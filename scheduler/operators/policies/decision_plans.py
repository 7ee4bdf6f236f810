"""What runs after a decision without another one: push-through, superboxes (Carney §3.3, §4.5), paths and segments (MavStream).

    path, segment  the path or segment that the policy has gone by, from its beginning
    push-through   the operator that was picked, then all that follows it, down to the roots
    superbox       all of the query of the operator that was picked, in the order of a traversal:
      min-cost       each operator once, after all that feed it: fewest calls
      min-latency    operators by rising output cost, each followed by all below it: answers soonest
      min-memory     operators by falling memory release, size·(1 − s)/c, each followed by those below it that release more
                     than the one before: memory soonest (by the thesis's pseudo-code; its printed sequence differs)

A plan is a sequence of operators; those without input are left out when their turn comes. An operator of the plan runs until
it has no input, so that a capped train does not leave half of it behind; a source, to which tuples may come as fast as it
takes them, is called once.

A query's superbox is made of the operators that feed it and no other query. One that several queries share runs alone: what
it gives to each of them is the query's own superbox. Where sources run last, they are in no plan but as the one that was
picked, with which the plan begins: nothing is queued inside whenever a source runs, and a plan that drains what it lets in
keeps it so. Push-through is then what sources last comes to anyway, without the decisions in between.
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
    """The plan of every operator that may be picked, made when it is first asked for."""

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
        self._believed = believed  # plans depend on the network alone

    def extend(self, believed: NetworkEstimates, changed: Collection[int]) -> None:
        self._believed = believed
        for operator in changed:
            self._plans.pop(operator, None)

    def _made(self, operator: int) -> Plan:
        return (operator, *below(self._believed, operator))


class StretchPlans(Plans):
    """`best` says of every operator which path it is on, or which segment it is in."""

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
            self._believed = believed  # depends on the network alone
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
    """Of every operator the only root below it, NONE if there are several."""
    owner = [NONE] * len(believed.estimates)
    for number in range(len(owner) - 1, -1, -1):
        roots = {owner[below] for below in believed.network.operators[number].downstream}
        owner[number] = roots.pop() if len(roots) == 1 else NONE if roots else number
    return owner


def below(believed: NetworkEstimates, operator: int) -> list[int]:
    """All that follows an operator, in topological order."""
    operators = believed.network.operators
    followers, stack = set[int](), list(operators[operator].downstream)
    while stack:
        number = stack.pop()
        if number not in followers:
            followers.add(number)
            stack.extend(operators[number].downstream)
    return sorted(followers)


def traversal(kind: str, believed: NetworkEstimates, boxes: list[int]) -> Plan:
    """The order in which these operators, which all lead to one root, are run."""
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
    """Each operator after all those of the boxes that feed it; of a tree, subtree by subtree."""
    inside, done = set(boxes), set[int]()
    # Those that nothing of the boxes follows: the root, last.
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
    """The box, and on the way down each that releases more than the last of them."""
    yield box
    rate = release_rate(believed, box)
    for number in below(believed, box):
        if release_rate(believed, number) > rate:
            rate = release_rate(believed, number)
            yield number


def release_rate(believed: NetworkEstimates, operator: int) -> float:
    """Expected size that a second of the operator takes out of memory."""
    feeders = believed.network.upstream[operator]
    size_in = believed.network.operators[feeders[0]].size_out if feeders else 1.0
    own = believed.estimates[operator]
    released = size_in * (1.0 - own.selectivity)
    if released <= 0:
        return released / own.cost_s if own.cost_s > 0 else released and -float("inf")
    return ratio(released, own.cost_s)
