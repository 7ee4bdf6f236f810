"""The operator network of a class for the scheduler, and the quantities from which policies compute priorities.

Operators are numbered in topological order. An operator without downstream operators is a root; its outputs are answers.
The measured cost c and selectivity s of every operator determine these quantities of the segment x … root (Sharaf §3.1):

    S_x   answers per tuple that enters x          (summed over the roots below x)
    C̄_x   expected processor time per tuple that enters x
    T_r   ideal processor time of one answer of root r, summed over all operators that have to run for it

A window join consists of two operators, one for each input, which share their windows. Each has its own cost and
selectivity, which depends on the other side's tuples, and hence its own priority (Sharaf §3.4.2, segments E_LL and E_RR).
They refer to each other as partners, so that T of an answer is Sharaf's C_L + C_R + 2·c_J + C_C.

An operator shared by several queries has one S and C̄ but a T for each root. Policies that divide by T therefore use
the sums Σ S/T and Σ S/T² over the roots; for a simple chain these are the thesis's S/T and S/T².
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, TypeVar

from configs.classes.utility import UtilityGraph
from scheduler.operators.segment_trees import NO_TREE, Tree, tree_above


@dataclass(frozen=True, slots=True)
class ScheduledOperator:
    """Operator of the network. `source` marks operators that take tuples from a stream's queue."""

    name: str
    downstream: tuple[int, ...] = ()
    source: bool = False
    size_out: float = 1.0  # Mean size of an output tuple, in a unit common to all operators, for policies that minimise memory
    partner: int | None = None  # For a side of a join: number of the operator that is the other side
    utility: UtilityGraph | None = None  # For a root: utility of an answer, by the answer's latency
    # For a root with windows: seconds from the due time of a result to its deadline.
    slack_s: float | None = None
    weight: float = 1.0  # Sum of the freshness weights of all queries that use the operator's output
    answers: bool = False  # True if the operator answers a query although other operators read its output; roots always answer


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimates for an operator: processor-seconds per input tuple, and output tuples per input tuple."""

    cost_s: float
    selectivity: float


@dataclass(frozen=True, slots=True)
class PathSegment:
    """Quantities of the segment from an operator down to its roots."""

    selectivity: float  # S: answers per tuple that enters the segment
    cost_s: float  # C̄: expected processor time per tuple that enters the segment
    ideal_s: float  # T: ideal processor time of an answer, the smallest among all roots of the segment
    answers_per_ideal: float  # Sum of (answers / ideal processor time of an answer) over all roots
    answers_per_ideal_sq: float  # Sum of (answers / square of ideal processor time) over all roots


Found = TypeVar("Found")
# Name of the PathSegment field that is the numerator of a policy's priority.
Gain = Literal["selectivity", "answers_per_ideal", "answers_per_ideal_sq"]

NOTHING = PathSegment(0.0, 0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Network:
    """Operators in topological order: every edge goes from a lower number to a higher one."""

    operators: tuple[ScheduledOperator, ...]
    roots: tuple[int, ...] = field(init=False)
    sources: tuple[int, ...] = field(init=False)
    upstream: list[list[int]] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        self._look_at(0, (), (), [[] for _ in self.operators])

    def extended(self, more: Sequence[ScheduledOperator], edges: Iterable[tuple[int, int]]) -> Network:
        """Return the network with new operators at the end, and edges from existing to new operators.

        The topological order of existing operators is not checked again.
        """
        operators, start = [*self.operators, *more], len(self.operators)
        upstream = [*self.upstream, *([] for _ in more)]
        for above, below in edges:
            assert above < start <= below, f"edge {above} → {below} is not to a new operator"
            own = operators[above]
            operators[above] = replace(own, downstream=(*own.downstream, below))
            upstream[below].append(above)
        network = object.__new__(Network)
        object.__setattr__(network, "operators", tuple(operators))
        roots = [number for number in self.roots if not operators[number].downstream]
        network._look_at(start, roots, self.sources, upstream)
        return network

    def _look_at(
        self, start: int, roots: Sequence[int], sources: Sequence[int], upstream: list[list[int]]
    ) -> None:
        """Check the operators with numbers from `start` on, and add these operators to the roots, sources and upstream lists."""
        fresh = range(start, len(self.operators))
        for number in fresh:
            for below in self.operators[number].downstream:
                assert number < below < len(self.operators), f"edge {number} → {below} is not topological"
                upstream[below].append(number)
        more_roots = [number for number in fresh if not self.operators[number].downstream]
        more_sources = [number for number in fresh if self.operators[number].source]
        object.__setattr__(self, "roots", (*roots, *more_roots))
        object.__setattr__(self, "sources", (*sources, *more_sources))
        object.__setattr__(self, "upstream", upstream)

    def segments(self, estimates: Sequence[Estimate]) -> tuple[PathSegment, ...]:
        """Return the segment of every operator, computed in one pass from the roots upwards."""
        size = len(self.operators)
        return self.segments_with((NOTHING,) * size, range(size), estimates)

    def segments_with(
        self, known: Sequence[PathSegment], others: Iterable[int], estimates: Sequence[Estimate]
    ) -> tuple[PathSegment, ...]:
        """Return all segments: segments of the operators in `others` are computed again, all other segments are taken from `known`.

        The segment of an operator is computed from the segments of its downstream operators, so each is computed once.
        """
        segments = list(known)
        for number in sorted(others, reverse=True):
            own, below = estimates[number], [segments[other] for other in self.operators[number].downstream]
            kept = own.selectivity
            if below:
                segments[number] = PathSegment(
                    kept * sum([segment.selectivity for segment in below]),
                    own.cost_s + kept * sum([segment.cost_s for segment in below]),
                    min([segment.ideal_s for segment in below]),
                    kept * sum([segment.answers_per_ideal for segment in below]),
                    kept * sum([segment.answers_per_ideal_sq for segment in below]),
                )
            else:
                whole = self.ideal_cost(number, estimates)
                per_ideal, per_ideal_sq = (kept / whole, kept / whole**2) if whole > 0 else (0.0, 0.0)
                segments[number] = PathSegment(kept, own.cost_s, whole, per_ideal, per_ideal_sq)
        return tuple(segments)

    def ideal_costs(self, estimates: Sequence[Estimate]) -> dict[int, float]:
        """Return T of every root: the processor time of one answer without any waiting."""
        return {root: self.ideal_cost(root, estimates) for root in self.roots}

    def ideal_cost(self, root: int, estimates: Sequence[Estimate]) -> float:
        needed = self.feeding([root], with_partners=True)
        return sum([estimates[number].cost_s for number in sorted(needed)])

    def feeding(self, numbers: Iterable[int], with_partners: bool = False) -> set[int]:
        """Return the operators `numbers` and all operators upstream of these operators.

        With `with_partners`, both sides of a join and all operators upstream of either side are included.
        """
        reached = set(numbers)
        stack = list(reached)
        while stack:
            number = stack.pop()
            partner = self.operators[number].partner if with_partners else None
            for other in self.upstream[number] if partner is None else [*self.upstream[number], partner]:
                if other not in reached:
                    reached.add(other)
                    stack.append(other)
        return reached

    def fed_by(self, number: int) -> set[int]:
        """Return the operator and all operators downstream of it."""
        reached, stack = {number}, [number]
        while stack:
            below = set(self.operators[stack.pop()].downstream) - reached
            reached |= below
            stack.extend(below)
        return reached

    def depth_first_paths(self) -> list[tuple[int, ...]]:
        """Return all paths from a source to a root, for policies that are defined on paths."""
        paths: list[tuple[int, ...]] = []
        stack: list[tuple[int, ...]] = [(source,) for source in reversed(self.sources)]
        while stack:
            path = stack.pop()
            below = self.operators[path[-1]].downstream
            if not below:
                paths.append(path)
            stack.extend((*path, number) for number in reversed(below))
        return paths


@dataclass(frozen=True)
class NetworkEstimates:
    """Network with its estimates at one moment, from which policies compute priorities."""

    network: Network
    estimates: tuple[Estimate, ...]
    known: tuple[PathSegment, ...] | None = field(default=None, compare=False, repr=False)
    _trees: dict[Gain, list[Tree]] = field(default_factory=dict, compare=False, repr=False)
    _worked_out: dict[Hashable, Any] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def segments(self) -> tuple[PathSegment, ...]:
        return self.network.segments(self.estimates) if self.known is None else self.known

    def once(self, what: Hashable, work_out: Callable[[NetworkEstimates], Found]) -> Found:
        """Return the result of the function `work_out`. It is computed once and cached under the name `what`."""
        if what not in self._worked_out:
            self._worked_out[what] = work_out(self)
        result: Found = self._worked_out[what]
        return result

    def trees(self, gain: Gain) -> list[Tree]:
        """Return for each operator its priority-defining tree: the part of its segment that determines its priority."""
        if gain not in self._trees:
            size = len(self.estimates)
            self._trees[gain] = self._trees_with([NO_TREE] * size, range(size), gain)
        return self._trees[gain]

    def _trees_with(self, known: Sequence[Tree], others: Iterable[int], gain: Gain) -> list[Tree]:
        """Compute the priority-defining trees of the operators in `others`; take all other trees from `known`."""
        trees, segments = list(known), self.segments
        for number in sorted(others, reverse=True):
            own, below = self.estimates[number], self.network.operators[number].downstream
            if below:
                trees[number] = tree_above(own.cost_s, own.selectivity, below, trees)
            else:
                trees[number] = Tree(getattr(segments[number], gain), own.cost_s)
        return trees

    def extended(self, network: Network, more: Sequence[Estimate]) -> tuple[NetworkEstimates, set[int]]:
        """Return the estimates of an extended network, and the operators with changed segments."""
        estimates = (*self.estimates, *more)
        changed = network.feeding(range(len(self.estimates), len(estimates)))
        if "segments" not in vars(self):  # There are no computed segments that could be reused.
            return NetworkEstimates(network, estimates), changed
        segments = (*self.segments, *(NOTHING for _ in more))
        after = NetworkEstimates(network, estimates, network.segments_with(segments, changed, estimates))
        for gain, trees in self._trees.items():
            after._trees[gain] = after._trees_with([*trees, *(NO_TREE for _ in more)], changed, gain)
        return after, changed
