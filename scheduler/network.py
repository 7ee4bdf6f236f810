"""The operator network of a class as the scheduler sees it, and the quantities every policy is made of.

Operators are numbered in topological order; an operator without downstream is a root, its outputs are answers.
From the measured cost c and selectivity s of every operator follow, for the segment x … root (Sharaf §3.1):

    S_x   answers per tuple that enters x          (summed over the roots below x)
    C̄_x   expected processor time per tuple that enters x
    T_r   ideal processor time of one answer of root r: every operator that had to run for it

A window join is two operators, one an input, that share their windows: each side has its own cost and
selectivity (what a tuple meets on the other side), hence its own priority (Sharaf §3.4.2, segments E_LL and E_RR).
They name each other as partners, so that T of an answer is Sharaf's C_L + C_R + 2·c_J + C_C.

An operator shared by several queries has one S and C̄ but a T per root; policies that divide by T therefore use
the sums Σ S/T and Σ S/T² over the roots, which for a plain chain are the thesis's own S/T and S/T².
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf


@dataclass(frozen=True, slots=True)
class Operator:
    """One box of the network. `source` marks the operators that take tuples from a stream's queue."""

    name: str
    downstream: tuple[int, ...] = ()
    source: bool = False
    size_out: float = 1.0  # mean size of an output tuple, any unit; only Chain looks at it
    partner: int | None = None  # the other side of a join


@dataclass(frozen=True, slots=True)
class Estimate:
    """What is believed of an operator: processor-seconds per input tuple, output tuples per input tuple."""

    cost_s: float
    selectivity: float


@dataclass(frozen=True, slots=True)
class Segment:
    """Operator x down to its roots, summed up."""

    selectivity: float  # S
    cost_s: float  # C̄
    ideal_s: float  # T; the smallest among the roots below
    answers_per_ideal: float  # Σ S/T
    answers_per_ideal_sq: float  # Σ S/T²


@dataclass(frozen=True)
class Network:
    """Operators in topological order: every edge goes from a lower number to a higher one."""

    operators: tuple[Operator, ...]
    roots: tuple[int, ...] = field(init=False)
    sources: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        for number, operator in enumerate(self.operators):
            for below in operator.downstream:
                assert number < below < len(self.operators), f"edge {number} → {below} is not topological"
        object.__setattr__(self, "roots", tuple(i for i, o in enumerate(self.operators) if not o.downstream))
        object.__setattr__(self, "sources", tuple(i for i, o in enumerate(self.operators) if o.source))

    def segments(self, estimates: Sequence[Estimate]) -> tuple[Segment, ...]:
        """Every operator's segment under the estimates, in one walk from the roots up.

        All sums over the roots below are linear in what the downstream operators have, so none is listed twice.
        """
        ideal_of = self.ideal_costs(estimates)
        size = len(self.operators)
        answers, cost, ideal = [0.0] * size, [0.0] * size, [inf] * size
        per_ideal, per_ideal_sq = [0.0] * size, [0.0] * size
        for number in range(size - 1, -1, -1):
            below, own = self.operators[number].downstream, estimates[number]
            kept = own.selectivity
            if below:
                answers[number] = kept * sum([answers[one] for one in below])
                cost[number] = own.cost_s + kept * sum([cost[one] for one in below])
                per_ideal[number] = kept * sum([per_ideal[one] for one in below])
                per_ideal_sq[number] = kept * sum([per_ideal_sq[one] for one in below])
                ideal[number] = min([ideal[one] for one in below])
            else:
                whole = ideal_of[number]
                answers[number], cost[number], ideal[number] = kept, own.cost_s, whole
                if whole > 0:
                    per_ideal[number], per_ideal_sq[number] = kept / whole, kept / whole**2
        return tuple(map(Segment, answers, cost, ideal, per_ideal, per_ideal_sq))

    def ideal_costs(self, estimates: Sequence[Estimate]) -> dict[int, float]:
        """T of every root: the processor time of one answer if it were alone in the system."""
        upstream: list[list[int]] = [[] for _ in self.operators]
        for number, operator in enumerate(self.operators):
            for below in operator.downstream:
                upstream[below].append(number)
        ideal = {}
        for root in self.roots:
            needed, stack = {root}, [root]
            while stack:
                number = stack.pop()
                partner = self.operators[number].partner
                for other in upstream[number] if partner is None else [*upstream[number], partner]:
                    if other not in needed:
                        needed.add(other)
                        stack.append(other)
            ideal[root] = sum(estimates[number].cost_s for number in sorted(needed))
        return ideal

    def depth_first_paths(self) -> list[tuple[int, ...]]:
        """Every source-to-root path, for policies that are defined on paths."""
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
    """A network with what is believed of it at one moment: all that a policy may look at."""

    network: Network
    estimates: tuple[Estimate, ...]

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        return self.network.segments(self.estimates)
