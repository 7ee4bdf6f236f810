"""Properties of the partitions of mirrored objects in Carney's thesis. `bench.papers.partitions` numbers the properties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.papers.partitions import (
    SORTED_BY,
    Mirrored,
    clustered,
    frequencies_by_partition,
    partitioned,
)
from scheduler.mirrors.freshening import perceived_freshness, refreshes

positive = st.floats(0.01, 100)
mirrored = st.lists(st.tuples(positive, positive, positive), min_size=1, max_size=20).map(
    lambda rows: Mirrored(*(np.array(column) for column in zip(*rows, strict=True)))
)
techniques = st.sampled_from(list(SORTED_BY))


@given(mirrored, techniques, st.integers(1, 5), st.integers(0, 3), st.booleans(), st.floats(0.01, 1000))
def test_objects_refreshed_by_partition_use_all_bandwidth_and_are_no_fresher_than_the_optimum(
    objects: Mirrored, by: str, count: int, rounds: int, by_size: bool, bandwidth: float
) -> None:
    labels = clustered(objects, partitioned(objects, by, count), rounds, by_size)
    found = frequencies_by_partition(objects, labels, bandwidth, by_size)
    assert float(found @ objects.sizes) == pytest.approx(bandwidth)
    for label in set(labels.tolist()):
        members = found[labels == label] * (objects.sizes[labels == label] if by_size else 1)
        assert members == pytest.approx(members[0])
    best = refreshes(objects.interests, objects.changes, bandwidth, objects.sizes).frequencies
    theirs, ours = (perceived_freshness(objects.interests, objects.changes, f) for f in (found, best))
    assert theirs <= ours + 1e-9


@given(mirrored, techniques, st.floats(0.1, 100))
def test_with_one_partition_per_object_refresh_frequencies_equal_the_exact_optimum(
    objects: Mirrored, by: str, bandwidth: float
) -> None:
    found = frequencies_by_partition(objects, partitioned(objects, by, len(objects)), bandwidth)
    best = refreshes(objects.interests, objects.changes, bandwidth, objects.sizes).frequencies
    assert found == pytest.approx(best, rel=1e-6, abs=1e-6)
