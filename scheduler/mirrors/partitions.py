"""The thesis's short cuts to refresh frequencies for many objects (Carney §2.3–2.5): baselines beside the exact ones.

Objects are sorted by one figure and cut into partitions of equal number; one representative of each, the mean of its
members, stands for all of them in a problem that is as small as there are partitions. Its frequency, or its bandwidth, is
each member's. Some rounds of k-means move members to the partition whose mean is nearest, which is much better and costs
little more: objects × partitions comparisons a round.

`scheduler.mirrors.freshening` needs none of it: it is exact, and on a million objects quicker than sorting them into clusters.

1. Members of a partition are refreshed equally often (`by_size` false) or with equal bandwidth; the bandwidth is used up.
2. With as many partitions as objects the result is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scheduler.mirrors.freshening import Floats, freshness, refreshes

Labels = npt.NDArray[np.int64]
# Objects whose distances to all means are held at a time.
CHUNK = 1 << 14


@dataclass(frozen=True, slots=True)
class Mirrored:
    """The objects: interest, rate of change and size of each."""

    interests: Floats
    changes: Floats
    sizes: Floats

    def __len__(self) -> int:
        return len(self.interests)


SORTED_BY: Mapping[str, Callable[[Mirrored], Floats]] = {
    "p": lambda one: one.interests,
    "λ": lambda one: one.changes,
    "p/λ": lambda one: one.interests / one.changes,
    "PF": lambda one: one.interests * freshness(1.0, one.changes),
    "size": lambda one: one.sizes,
    # A constant bandwidth instead of a constant frequency: large objects are refreshed less often.
    "PFS": lambda one: one.interests * freshness(1.0 / one.sizes, one.changes),
}


def partitioned(objects: Mirrored, by: str, count: int) -> Labels:
    """The partition of each object; none is larger than another by more than one object."""
    order = np.argsort(SORTED_BY[by](objects), kind="stable")
    labels = np.empty(len(objects), np.int64)
    labels[order] = np.arange(len(objects)) * count // len(objects)
    return labels


def clustered(objects: Mirrored, labels: Labels, rounds: int, by_size: bool = False) -> Labels:
    """After so many rounds of k-means; the columns are normed to a sum of 1, as in the thesis (2.3)."""
    columns = [objects.interests, objects.changes, *([objects.sizes] if by_size else [])]
    points = np.stack([column / column.sum() for column in columns])
    for _ in range(rounds):
        means = members_mean(points, labels)
        labels = nearest(points, means[:, np.isfinite(means[0])])
    return labels


def members_mean(columns: Floats, labels: Labels) -> Floats:
    """Of each column, by partition; NaN of one that has lost all members."""
    counts = np.bincount(labels)
    with np.errstate(invalid="ignore"):
        return np.stack([np.bincount(labels, column) / counts for column in columns])


def nearest(points: Floats, means: Floats) -> Labels:
    """The number of the mean that each point is nearest to: least |m|² − 2·m·x, as |x|² is the same for all."""
    nearest, norms = np.empty(points.shape[1], np.int64), np.sum(means * means, axis=0)
    for start in range(0, len(nearest), CHUNK):
        some = points[:, start : start + CHUNK]
        nearest[start : start + CHUNK] = np.argmin(norms - 2 * (some.T @ means), axis=1)
    return nearest


def frequencies_by_partition(
    objects: Mirrored, labels: Labels, bandwidth: float, by_size: bool = False
) -> Floats:
    """Solved for representatives and handed on to members: equal frequencies, or equal bandwidth of each."""
    labels = np.unique(labels, return_inverse=True)[1]
    counts = np.bincount(labels).astype(np.float64)
    p, rate, size = members_mean(np.stack([objects.interests, objects.changes, objects.sizes]), labels)
    best = refreshes(p * counts, rate, bandwidth, size * counts).frequencies
    return (best * size)[labels] / objects.sizes if by_size else best[labels]
