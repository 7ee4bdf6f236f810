"""Policies that are defined on paths from a source to a root (MavStream ch. 4): path capacity, segment, simplified segment.

    path                1 / Σ s_1…s_{i−1}·c_i over the path: tuples per second that it can process       least latency
    segment             (in − out·Πs) / Σ s_1…s_{i−1}·c_i over the segment: size released per second     least memory
    simplified-segment  like segment, with at most two segments per path                                 little memory

A path is divided into segments: a new segment begins where the next operator alone releases no more memory per second than the
current operator. In the simplified version, the first segment continues while the next operator releases more than γ times as
much as the current operator. The second segment is the rest. A segment that is part of another segment is dropped.

All operators of a path (or segment) have its value as priority; an operator on several has the highest value. When one of
them is picked, the whole path (or segment) runs from its beginning (`scheduler.operators.policies.decision_plans`). As in Chain,
the output of a root leaves the system's memory. The thesis counts it as output that stays. A root that drops nothing would then
have the lowest priority and a growing queue.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise

from scheduler.operators.network import NetworkEstimates
from scheduler.operators.policies.static import Priorities, ratio

Path = tuple[int, ...]
Stretch = tuple[float, Path]  # Size of the tuples that enter a part of a path, and the operators of this part


def highest_path_capacity(believed: NetworkEstimates, operators: Collection[int]) -> list[float]:
    """Return, for each operator, the tuples per second that the fastest path through the operator can process."""
    best = best_paths(believed)
    return [best[operator][0] for operator in operators]


def fastest_release(gamma: float | None = None) -> Priorities:
    """Return priorities: the most memory that a segment with the operator releases per second. With `gamma`, segments are simplified."""

    def priorities(believed: NetworkEstimates, operators: Collection[int]) -> list[float]:
        best = best_segments(believed, gamma)
        return [best[operator][0] for operator in operators]

    return priorities


def best_paths(believed: NetworkEstimates) -> Mapping[int, tuple[float, Path]]:
    """Return, for every operator, the path through the operator that can process the most tuples per second."""
    return believed.once("paths", found_paths)


def best_segments(believed: NetworkEstimates, gamma: float | None) -> Mapping[int, tuple[float, Path]]:
    """Return, for every operator, the segment with the operator that releases the most memory per second."""
    return believed.once(("segments", gamma), partial(found_segments, gamma=gamma))


def found_paths(believed: NetworkEstimates) -> Mapping[int, tuple[float, Path]]:
    paths = believed.network.depth_first_paths()
    return best_of((ratio(1.0, service_s(believed, path)), path) for path in paths)


def found_segments(believed: NetworkEstimates, gamma: float | None) -> Mapping[int, tuple[float, Path]]:
    segments = {
        segment
        for path in believed.network.depth_first_paths()
        for segment in (cut(believed, path) if gamma is None else cut_once(believed, path, gamma))
    }
    return best_of((release_capacity(believed, segment), segment[1]) for segment in whole_segments(segments))


def best_of(values: Iterable[tuple[float, Path]]) -> Mapping[int, tuple[float, Path]]:
    best: dict[int, tuple[float, Path]] = {}
    for value, path in values:
        for operator in path:
            if operator not in best or value > best[operator][0]:
                best[operator] = (value, path)
    return best


def service_s(believed: NetworkEstimates, path: Path) -> float:
    """Return the expected processor time of one tuple that enters the path, in all operators of the path."""
    spent, kept = 0.0, 1.0
    for operator in path:
        spent += kept * believed.estimates[operator].cost_s
        kept *= believed.estimates[operator].selectivity
    return spent


def release_capacity(believed: NetworkEstimates, stretch: Stretch) -> float:
    """Return the size that leaves memory per second of processor time spent on the segment."""
    size_in, path = stretch
    kept = 1.0
    for operator in path:
        kept *= believed.estimates[operator].selectivity
    return a_second(size_in - kept * size_after(believed, path[-1]), service_s(believed, path))


def a_second(released: float, spent_s: float) -> float:
    # If the cost is 0, the result is 0 or ±∞, with the sign of `released`. An operator that adds memory thus has the lowest priority.
    return math.copysign(ratio(abs(released), spent_s), released) if released else 0.0


def size_after(believed: NetworkEstimates, operator: int) -> float:
    own = believed.network.operators[operator]
    return own.size_out if own.downstream else 0.0


def sizes_before(believed: NetworkEstimates, path: Path) -> list[float]:
    """Return the size of the input tuples of each operator of the path."""
    return [1.0, *(size_after(believed, operator) for operator in path[:-1])]


def releases(believed: NetworkEstimates, path: Path, sizes: Sequence[float]) -> list[float]:
    """Return, for each operator of the path, how much memory of queued tuples this operator frees per second of its processor time."""
    releases = []
    for size, operator in zip(sizes, path, strict=True):
        own = believed.estimates[operator]
        releases.append(a_second(size - own.selectivity * size_after(believed, operator), own.cost_s))
    return releases


def cut(believed: NetworkEstimates, path: Path) -> list[Stretch]:
    sizes = sizes_before(believed, path)
    falls = [after <= before for before, after in pairwise(releases(believed, path, sizes))]
    starts = [0, *(place for place, falls_here in enumerate(falls, start=1) if falls_here), len(path)]
    return [(sizes[start], path[start:end]) for start, end in pairwise(starts)]


def cut_once(believed: NetworkEstimates, path: Path, gamma: float) -> list[Stretch]:
    sizes = sizes_before(believed, path)
    capacities = releases(believed, path, sizes)
    end = 1
    # Two operators are compared by a difference, not by a ratio: an operator that enlarges its input releases a negative size.
    while end < len(path) and capacities[end] > capacities[end - 1] - (1 - gamma) * abs(capacities[end - 1]):
        end += 1
    return [(sizes[start], path[start:stop]) for start, stop in ((0, end), (end, len(path))) if start < stop]


def whole_segments(segments: Iterable[Stretch]) -> list[Stretch]:
    """Return the segments that are not part of another segment."""
    every = sorted(segments)
    parts = {
        path[start:end]
        for _, path in every
        for start in range(len(path))
        for end in range(start + 1, len(path) + 1)
        if end - start < len(path)
    }
    return [candidate for candidate in every if candidate[1] not in parts]
