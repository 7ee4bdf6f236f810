"""Priority-defining trees: the segments behind a shared operator that determine its priority (Sharaf §3.6).

A tuple that an operator x has processed enters N segments. The operator's cost c_x is spent only once for all segments, so they
cost Σ C̄^i − (N−1)·c_x together. Segments with little gain should not lower the priority of segments with much gain. So the
priority of x is the priority of its priority-defining tree: the set of segments with the highest Σ gain / cost, counting c_x once. x runs
together with its tree; a segment outside the tree is scheduled separately, from the operator after x.

The thesis adds segments in the order of their priority *including x* and stops at the first segment that does not raise the joint
priority. This does not always find the maximum, because an expensive segment with a medium gain may come before a cheap segment
and end the search. Example: c_x = 1, and three segments behind x with gain/cost 10/10, 3/4 and 0.3/0.1. The thesis's order ends
with the first segment alone at 10/11; the best set is the first and third segments. Adding segments in the order of their
priority *without x* does find the maximum, because a segment raises a ratio exactly if its own ratio is higher. The same holds
bottom-up for trees that share operators further down (Horn 1972, for jobs under a tree of precedence). A segment that an operator
below left out may still be worth adding at the operator above, which has a lower ratio.

1. The ratio of a tree is the highest of all connected parts of the network that begin with its operator.
2. Each operator in the tree has, from itself on, at least the ratio of the tree, and each operator outside at most that ratio. So
   when x has run as the highest of all, a policy that uses only these ratios runs its tree before all other operators.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush


@dataclass(frozen=True, slots=True)
class Tree:
    """Priority-defining tree of an operator, with gain and cost per tuple that enters the operator."""

    gain: float
    cost_s: float
    taken: tuple[int, ...] = ()
    """Operators with trees that are parts of this tree."""
    left: tuple[tuple[int, float], ...] = ()
    """First operator of each segment outside the tree, with the number of tuples that reach it."""

    @property
    def ratio(self) -> float:
        return self.gain / self.cost_s if self.cost_s > 0 else float("inf")


NO_TREE = Tree(0.0, 0.0)


def tree_above(cost_s: float, selectivity: float, below: Sequence[int], trees: Sequence[Tree]) -> Tree:
    """Return the tree of an operator from the trees of the operators that it feeds."""
    # If an operator feeds only one segment, this segment is its tree.
    if len(below) == 1 and not trees[below[0]].left:
        only = trees[below[0]]
        return Tree(selectivity * only.gain, cost_s + selectivity * only.cost_s, tuple(below))
    gain, spent = 0.0, cost_s
    # Heap of operators by falling ratio (gain / cost) of their trees, then by number, then in the order in which they were added.
    waiting = [(-trees[operator].ratio, operator, place, selectivity) for place, operator in enumerate(below)]
    heapify(waiting)
    entered = len(waiting)
    taken: list[int] = []
    while waiting:
        minus_ratio, operator, _, tuples = waiting[0]
        # The first segment is always taken, since there is no priority without a segment.
        if taken and -minus_ratio * spent <= gain:
            break
        heappop(waiting)
        tree = trees[operator]
        gain, spent = gain + tuples * tree.gain, spent + tuples * tree.cost_s
        taken.append(operator)
        for further, part in tree.left:
            heappush(waiting, (-trees[further].ratio, further, entered, tuples * part))
            entered += 1
    left = [(operator, tuples) for _, operator, _, tuples in sorted(waiting)]
    return Tree(gain, spent, tuple(taken), tuple(left))


def whole_tree(root: int, trees: Sequence[Tree]) -> list[int]:
    """Return all operators of a tree in topological order."""
    operators, stack = set[int](), [root]
    while stack:
        operators.add(number := stack.pop())
        stack.extend(trees[number].taken)
    return sorted(operators)
