"""Approximate refresh frequencies for many objects by partitioning (Carney §2.3–2.5), as baselines for the exact method.

Objects are sorted by a figure and divided into partitions of equal size. A representative with the mean values of its members
stands for each partition, so the optimisation has only as many variables as partitions. Each member gets the frequency, or the
bandwidth, of its representative. Some rounds of k-means then move members to the partition with the nearest mean. This improves
the result much, at a cost of objects × partitions comparisons per round.

`scheduler.mirrors.freshening` is exact, and for a million objects it is faster than clustering.

1. Members of a partition are refreshed equally often (`by_size` false) or with equal bandwidth; the bandwidth is used up.
2. With as many partitions as objects the result is exact.

`marginals` shows how near a solution is to the optimum, at which all refreshed objects have the same marginal value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scheduler.mirrors.freshening import Floats, freshness, refreshes

Labels = npt.NDArray[np.int64]
# Number of objects for which the distances to all means are computed at a time, to limit memory.
CHUNK = 1 << 14


@dataclass(frozen=True, slots=True)
class Mirrored:
    """Interest, change rate and size of each object."""

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
    # Perceived freshness if all objects get equal bandwidth. Large objects are then refreshed less often than small objects.
    "PFS": lambda one: one.interests * freshness(1.0 / one.sizes, one.changes),
}


def partitioned(objects: Mirrored, by: str, count: int) -> Labels:
    """Return the partition of each object. The sizes of partitions differ by at most one object."""
    order = np.argsort(SORTED_BY[by](objects), kind="stable")
    labels = np.empty(len(objects), np.int64)
    labels[order] = np.arange(len(objects)) * count // len(objects)
    return labels


def clustered(objects: Mirrored, labels: Labels, rounds: int, by_size: bool = False) -> Labels:
    """Return the partitions after some rounds of k-means, with columns scaled to a sum of 1, as in equation 2.3 of the thesis."""
    columns = [objects.interests, objects.changes, *([objects.sizes] if by_size else [])]
    points = np.stack([column / column.sum() for column in columns])
    for _ in range(rounds):
        means = members_mean(points, labels)
        labels = nearest(points, means[:, np.isfinite(means[0])])
    return labels


def members_mean(columns: Floats, labels: Labels) -> Floats:
    """Return the mean of each column over the members of each partition; NaN for a partition without members."""
    counts = np.bincount(labels)
    with np.errstate(invalid="ignore"):
        return np.stack([np.bincount(labels, column) / counts for column in columns])


def nearest(points: Floats, means: Floats) -> Labels:
    """Return for each point x the index of the nearest mean m. The nearest mean has the smallest |m|² − 2·m·x."""
    nearest, norms = np.empty(points.shape[1], np.int64), np.sum(means * means, axis=0)
    for start in range(0, len(nearest), CHUNK):
        some = points[:, start : start + CHUNK]
        nearest[start : start + CHUNK] = np.argmin(norms - 2 * (some.T @ means), axis=1)
    return nearest


def frequencies_by_partition(
    objects: Mirrored, labels: Labels, bandwidth: float, by_size: bool = False
) -> Floats:
    """Return the frequency of each object. The optimum is computed for partitions instead of single objects.

    All members of a partition get the frequency of the partition or, with `by_size`, the bandwidth of the partition.
    """
    labels = np.unique(labels, return_inverse=True)[1]
    counts = np.bincount(labels).astype(np.float64)
    p, rate, size = members_mean(np.stack([objects.interests, objects.changes, objects.sizes]), labels)
    best = refreshes(p * counts, rate, bandwidth, size * counts).frequencies
    return (best * size)[labels] / objects.sizes if by_size else best[labels]


def marginals(
    interests: npt.ArrayLike, changes: npt.ArrayLike, frequencies: npt.ArrayLike, sizes: npt.ArrayLike = 1.0
) -> Floats:
    """Return the marginal value of bandwidth for each object (see `scheduler.mirrors.freshening`); 0 for an object that never changes."""
    p, rate, f, size = (
        np.asarray(array, np.float64) for array in np.broadcast_arrays(interests, changes, frequencies, sizes)
    )
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        x = rate / f
        # For small x, a series is used, because the formula 1 − e^(−x)·(1 + x) would lose all digits.
        gained = np.where(x < 1e-3, x * x * (0.5 - x * (1 / 3 - x / 8)), -np.expm1(np.log1p(x) - x))
        gained = np.where(np.isinf(x), 1.0, gained)
        return np.where((rate > 0) & (p > 0), p / (size * rate) * gained, 0.0)
