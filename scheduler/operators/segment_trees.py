"""Operators that several queries share: which of the segments behind one make its priority (Sharaf §3.6).

A tuple that operator x has worked on goes on into several segments, and its cost c_x is spent once for all of them:
SC̄_x = Σ C̄^i − (N−1)·c_x. Segments with little to gain must not pull down those with much. So the priority of x is that
of its priority-defining tree: those segments for which Σ gain / cost, with c_x counted once, is highest. x runs together
with its tree; a segment outside is scheduled on its own, from the operator after x.

The thesis visits segments by their own priority *from x on* and stops at the first that does not raise the joint one.
That is not always the highest: a dear segment with a fair gain may end the visit before a cheap one is seen (c_x = 1,
segments behind it with gain and cost 10 and 10, 3 and 4, 0.3 and 0.1: the thesis's order ends with the first at 10/11,
the best is the first with the third). Visiting by what they have *behind* x is: a segment raises a ratio exactly if its own
ratio is above it. The same holds for trees that share further down, bottom-up (Horn 1972, for jobs under a tree
of precedence): a segment that an operator below did not take in may still be one that pays at the operator above, whose
ratio is lower.

1. A tree's ratio is the highest of all parts of the network that begin with its operator and have, with each operator, a way
   to it from there.
2. Whatever is in the tree has from itself on at least the ratio of the tree, whatever is not at most that. So when x, the
   highest of all, has run, a policy that goes by these ratios alone runs its tree before all others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush


@dataclass(frozen=True, slots=True)
class Tree:
    """The priority-defining tree of an operator; per tuple that enters there."""

    gain: float
    cost_s: float
    taken: tuple[int, ...] = ()
    """Operators whose own trees belong to it."""
    left: tuple[tuple[int, float], ...] = ()
    """Where segments outside begin, and how many tuples come there."""

    @property
    def ratio(self) -> float:
        return self.gain / self.cost_s if self.cost_s > 0 else float("inf")


NO_TREE = Tree(0.0, 0.0)


def tree_above(cost_s: float, selectivity: float, below: Sequence[int], trees: Sequence[Tree]) -> Tree:
    """The tree of an operator that feeds others; theirs are known."""
    if len(below) == 1 and not trees[below[0]].left:  # a chain: its end is worth more than its beginning
        only = trees[below[0]]
        return Tree(selectivity * only.gain, cost_s + selectivity * only.cost_s, tuple(below))
    gain, spent = 0.0, cost_s
    # By falling ratio, then by number, then the first to be found.
    waiting = [(-trees[operator].ratio, operator, place, selectivity) for place, operator in enumerate(below)]
    heapify(waiting)
    entered = len(waiting)
    taken: list[int] = []
    while waiting:
        minus_ratio, operator, _, tuples = waiting[0]
        # Without any segment there is no priority.
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
    """All operators of a tree, those that feed others first."""
    return sorted(set(walk(root, trees)))


def walk(root: int, trees: Sequence[Tree]) -> Iterator[int]:
    stack = [root]
    while stack:
        number = stack.pop()
        yield number
        stack.extend(trees[number].taken)
